//! Rules about users' objects, typed and pure. Admission and the controllers call the same functions, so that a rule
//! and its text exist once.
//!
//! Paths name components and containers, such as `spec.components[decode].replicas`; admission replaces names by
//! positions. Rules about one component that rendering depends on are in `validate`.
//!
//! This file has the violations and warnings that rules find, and the data that they depend on: the cluster's features,
//! and the paths of a graph's components.
//!
//! | file | rules about |
//! |---|---|
//! | `graph` | a graph as it is, and its changes |
//! | `component` | a component in a graph or on its own |
//! | `fragment` | fragments of Grove's objects, and placement in the topology of the cluster |
//! | `power_limit` | power limits of GPUs |
//! | `request` | DynamoGraphDeploymentRequests |
//! | `checkpoint` | DynamoCheckpoints |
//! | `provider` | the choice of the workload provider |
//! | `fitting` | values that do not fit into their types |

pub mod checkpoint;
pub mod component;
mod fitting;
pub mod fragment;
pub mod graph;
mod power_limit;
mod provider;
pub mod request;

use std::fmt::Display;

use api_types::{
    v1beta1::ComponentSpec,
    violations::{Reason, Violation, immutable, supported},
};
use serde_json::Value;

pub use self::{
    fitting::fit,
    fragment::topologies,
    provider::{
        ProviderChoice, annotation, discovery_backend, grove_update_strategy, lacks_grove, provider_of_new,
        vllm_executor,
    },
};
pub use crate::version::Version;

/// The violations of an object and the warnings about it, in the order of its fields. Paths are as in [`Violation`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings<P = String> {
    /// The violations.
    pub violations: Vec<Violation<P>>,
    /// The warnings.
    pub warnings: Vec<Warning<P>>,
}

/// A warning about a field of an object that is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning<P = String> {
    /// The field.
    pub path: P,
    /// The consequence, and what to do.
    pub text: String,
}

impl<P> Findings<P> {
    /// Adds a warning.
    pub fn warn(&mut self, path: impl Into<P>, text: impl Into<String>) {
        self.warnings.push(Warning { path: path.into(), text: text.into() });
    }

    /// Adds violations that another rule has found.
    pub fn extend(&mut self, violations: impl IntoIterator<Item = Violation<P>>) {
        self.violations.extend(violations);
    }

    /// The field must be set.
    pub fn required(&mut self, path: impl Into<P>, text: impl AsRef<str>) {
        self.push(path, Reason::Required, Value::Null, text);
    }

    /// The value of the field is not possible.
    pub fn invalid(&mut self, path: impl Into<P>, value: impl Into<Value>, text: impl AsRef<str>) {
        self.push(path, Reason::Invalid, value, text);
    }

    /// The field keeps the value that it was created with.
    fn immutable(&mut self, path: impl Into<P>, value: impl Into<Value>, remedy: impl Display) {
        self.invalid(path, value, immutable(remedy));
    }

    /// The field must not be set, or not by this user.
    pub fn forbidden(&mut self, path: impl Into<P>, text: impl AsRef<str>) {
        self.push(path, Reason::Forbidden, Value::Null, text);
    }

    /// Adds a violation.
    pub fn push(&mut self, path: impl Into<P>, reason: Reason, value: impl Into<Value>, text: impl AsRef<str>) {
        self.violations.push(Violation::of_text(path, reason, value, text.as_ref()));
    }
}

/// The violation of a value that is not among the supported ones; `remedy` may be empty.
fn not_supported(path: impl Into<String>, value: &str, values: &[&str], remedy: &str) -> Violation {
    let separator = if remedy.is_empty() { "" } else { "; " };
    Violation::of_text(path, Reason::NotSupported, value, &format!("{}{separator}{remedy}", supported(values)))
}

/// The violation of a rule about a component, whose paths begin with `spec.`, at the component's place `at`.
pub(crate) fn below(violation: Violation, at: &str) -> Violation {
    violation.at(|path| path.strip_prefix("spec.").map_or_else(|| path.clone(), |rest| format!("{at}.{rest}")))
}

/// Kind of graphs.
const GRAPH: &str = "DynamoGraphDeployment";

/// Context on which the rules about a graph depend.
#[derive(Clone, Copy)]
pub struct GraphRuleContext<'a> {
    /// Features of the cluster.
    pub features: &'a Features,
    /// Whether the graph is being created.
    pub is_new: bool,
    /// Finds a topology of the cluster; none: graphs are not compared with it.
    pub topology: Option<&'a dyn Fn(&str) -> Topology>,
}

/// Result of the search for a topology of the cluster by its name.
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
fn component_path(index: usize, component: &ComponentSpec) -> String {
    match component.name.as_str() {
        "" => format!("spec.components[{index}]"),
        name => format!("spec.components[{name}]"),
    }
}

/// Features of the cluster, unless the configuration specifies otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent switches, each with its own name in the configuration")]
pub struct Features {
    /// Grove (`grove.io`).
    pub grove: bool,
    /// LeaderWorkerSet with Volcano.
    pub lws: bool,
    /// The KAI scheduler.
    pub kai_scheduler: bool,
    /// The Volcano scheduler.
    pub volcano_scheduler: bool,
    /// Dynamic resource allocation (`resource.k8s.io/v1`).
    pub dra: bool,
    /// Istio as service mesh.
    pub istio: bool,
    /// The Gateway API's InferencePool (`inference.networking.k8s.io`).
    pub inference_pool: bool,
    /// Checkpoints: switched on in the configuration, and PodSnapshots are served.
    pub checkpoint: bool,
    /// GPUs of nodes may be looked up.
    pub gpu_discovery: bool,
}

impl Features {
    /// All of them.
    pub const ALL: Self = Self {
        grove: true,
        lws: true,
        kai_scheduler: true,
        volcano_scheduler: true,
        dra: true,
        istio: true,
        inference_pool: true,
        checkpoint: true,
        gpu_discovery: true,
    };
}
