//! What the rules about a graph depend on, and the paths of its components.

use api_types::v1beta1::ComponentSpec;

use super::Features;

/// Kind of graphs.
pub(super) const GRAPH: &str = "DynamoGraphDeployment";

/// What the rules about a graph depend on.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// What the cluster offers.
    pub features: &'a Features,
    /// Whether the graph is being created.
    pub is_new: bool,
    /// Finds a topology of the cluster; none: graphs are not compared with it.
    pub topology: Option<&'a dyn Fn(&str) -> Topology>,
}

/// What the cluster has under the name of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Its domains, from the widest to the narrowest.
    Domains(Vec<String>),
    /// There is none.
    Missing,
    /// It could not be read; the text states why.
    Unreadable(String),
}

/// The path of a component, by its name if it has one.
pub(super) fn component_path(index: usize, component: &ComponentSpec) -> String {
    match component.name.as_str() {
        "" => format!("spec.components[{index}]"),
        name => format!("spec.components[{name}]"),
    }
}
