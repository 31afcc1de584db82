//! The component of a graph, which is also the spec of a `DynamoComponentDeployment`.

mod alpha;
mod alpha_items;
mod alpha_saved;
mod beta;
mod beta_mounts;
mod beta_saved;
mod main_container;
mod resources;
mod to_template;

use serde_json::Value;

use super::value::{Object, name_of};

/// Name of the container that the operator fills in.
const MAIN: &str = "main";
/// Name of the container that a v1alpha1 `frontendSidecar` becomes.
const SIDECAR: &str = "sidecar-frontend";

/// Fields that are the same in both versions.
const SAME: [&str; 8] = [
    "runtimeVersionOverride",
    "globalDynamoNamespace",
    "replicas",
    "minAvailable",
    "multinode",
    "modelRef",
    "topologyConstraint",
    "eppConfig",
];

/// Where a component takes its name from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Name<'a> {
    /// In a graph, v1alpha1 has it as the key of a map.
    Key(&'a str),
    /// On its own, it has a name, or that of its object.
    Object(Option<&'a str>),
}

/// A component in v1alpha1.
pub(super) struct Alpha<'a>(pub Name<'a>);

/// A component in v1beta1.
pub(super) struct Beta<'a>(pub Name<'a>);

/// The containers of a component in v1beta1.
fn live_containers(beta: &mut Object) -> Option<&mut Vec<Value>> {
    beta.get_mut("podTemplate")?.get_mut("spec")?.get_mut("containers")?.as_array_mut()
}

/// The container of that name of a component in v1beta1.
fn live_container<'a>(beta: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    let containers = live_containers(beta)?.iter_mut();
    containers.into_iter().find(|container| name_of(container) == Some(name))?.as_object_mut()
}
