//! The author's spec as the decision may rely on it: every mistake becomes one refusal here, or does not exist.

use std::collections::BTreeMap;

use api_types::v1beta1::{
    BackendFramework, ComponentSpec, ComponentType, DynamoComponentDeployment, DynamoGraphDeployment,
    DynamoGraphDeploymentSpec,
};
use api_types::{annotations, conditions, labels, names};
use kube::ResourceExt;
use workload::Invalid;

use super::decide::component::{Placement, component_deployment};

pub use workload::DiscoveryBackend;

/// A graph whose spec can be carried out.
#[derive(Debug)]
pub struct ValidGraph<'a> {
    /// Kubernetes namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Annotations of the graph itself.
    pub annotations: &'a BTreeMap<String, String>,
    /// The spec.
    pub spec: &'a DynamoGraphDeploymentSpec,
    /// Engine family: the author's, else the one that the workers' command lines agree on.
    pub framework: Option<BackendFramework>,
    /// How the graph's pods find each other; Kubernetes if any component does so.
    pub discovery: DiscoveryBackend,
}

impl ValidGraph<'_> {
    /// The components that belong to worker generations.
    pub fn workers(&self) -> impl Iterator<Item = &ComponentSpec> {
        self.spec.components.iter().filter(|c| c.is_worker())
    }

    /// Whether a worker component of that name is wanted.
    pub fn has_worker(&self, name: &str) -> bool {
        self.workers().any(|c| c.name == name)
    }

    /// Whether a gateway's endpoint picker belongs to the graph.
    pub fn has_endpoint_picker(&self) -> bool {
        self.spec.components.iter().any(|c| c.type_ == Some(ComponentType::Epp))
    }
}

/// Why a graph cannot be carried out until its author changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason of the `Ready` condition.
    pub ready_reason: &'static str,
    /// Reason of the `Stalled` condition.
    pub stalled_reason: &'static str,
    /// Every problem: field path, what is wrong, what to do.
    pub message: String,
}

/// Checks a graph. `default_discovery` holds unless the graph's annotation says otherwise.
///
/// # Errors
/// All problems at once, each with its field path.
pub fn validate(graph: &DynamoGraphDeployment, default_discovery: DiscoveryBackend) -> Result<ValidGraph<'_>, Refusal> {
    check_provider(graph)?;
    check_multinode(&graph.spec)?;
    let mut problems = Vec::new();
    if graph.spec.components.is_empty() {
        problems.push(invalid("spec.components", "", "is empty", "add at least one component"));
    }
    check_names(graph, &mut problems);
    check_kv_transfer(&graph.spec, &mut problems);
    // Framework and discovery follow from the components, once the graph's settings are merged into them.
    let mut valid = ValidGraph {
        namespace: graph.namespace().unwrap_or_default(),
        name: graph.name_any(),
        annotations: graph.annotations(),
        spec: &graph.spec,
        framework: graph.spec.backend_framework,
        discovery: DiscoveryBackend::Etcd,
    };
    let merged: Vec<_> = graph.spec.components.iter().map(|c| candidate(&valid, graph, c)).collect();
    valid.framework = check_components(graph, &merged, &mut problems);
    if merged.iter().any(|d| backend_of(d, default_discovery) == DiscoveryBackend::Kubernetes) {
        valid.discovery = DiscoveryBackend::Kubernetes;
    }
    if !problems.is_empty() {
        let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        return Err(Refusal {
            ready_reason: conditions::graph::FAILED,
            stalled_reason: conditions::graph::INVALID_SPEC,
            message,
        });
    }
    Ok(valid)
}

/// The program that runs the graph; only Deployments are served.
fn check_provider(graph: &DynamoGraphDeployment) -> Result<(), Refusal> {
    let key = annotations::WORKLOAD_PROVIDER;
    let (reason, problem) = match graph.annotations().get(key).map(String::as_str) {
        None | Some("component") => return Ok(()),
        Some("grove") => (
            conditions::graph::PROVIDER_UNAVAILABLE,
            format!("metadata.annotations[{key}]: the graph is pinned to Grove, which this operator does not serve"),
        ),
        Some(other) => (
            conditions::graph::PROVIDER_UNSUPPORTED,
            format!("metadata.annotations[{key}]: {other:?} is no workload provider; use \"component\" or \"grove\""),
        ),
    };
    Err(Refusal { ready_reason: reason, stalled_reason: conditions::graph::INVALID_SPEC, message: problem })
}

fn check_multinode(spec: &DynamoGraphDeploymentSpec) -> Result<(), Refusal> {
    let names: Vec<_> = spec.components.iter().filter(|c| c.is_multinode()).map(|c| c.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Refusal {
        ready_reason: conditions::graph::NO_MULTINODE_ORCHESTRATOR,
        stalled_reason: conditions::graph::INVALID_SPEC,
        message: format!(
            "spec.components[{}].multinode: replicas that span nodes need the API leaderworkerset.x-k8s.io or grove.io, \
             and neither is served here; remove multinode or install one of them",
            names.join(", ")
        ),
    })
}

fn invalid(field: impl Into<String>, value: &str, problem: impl Into<String>, remedy: &str) -> Invalid {
    Invalid { field: field.into(), value: value.to_owned(), problem: problem.into(), remedy: remedy.to_owned() }
}

/// Domains of a cluster topology are Grove's; without it, a node label says where a worker is.
fn check_kv_transfer(spec: &DynamoGraphDeploymentSpec, problems: &mut Vec<Invalid>) {
    let policy = spec.experimental.as_ref().and_then(|experimental| experimental.kv_transfer_policy.as_ref());
    if let Some(topology) = policy.and_then(|policy| policy.cluster_topology_name.as_deref()) {
        let field = "spec.experimental.kvTransferPolicy.clusterTopologyName";
        let remedy = "name a node label in labelKey instead, or run the graph on Grove";
        problems.push(invalid(field, topology, "needs Grove, and the graph runs as components", remedy));
    }
}

/// Names that become values of labels must fit into them.
fn check_names(graph: &DynamoGraphDeployment, problems: &mut Vec<Invalid>) {
    let name = graph.name_any();
    let dynamo_namespace = names::dynamo_namespace(&graph.namespace().unwrap_or_default(), &name, false);
    if dynamo_namespace.len() > names::LABEL_MAX {
        let problem = format!(
            "gives the label {} the value {dynamo_namespace:?}, which has more than {} characters",
            labels::DYNAMO_NAMESPACE,
            names::LABEL_MAX
        );
        problems.push(invalid("metadata.name", &name, problem, "shorten the name of the graph or of its namespace"));
    }
}

/// Checks every component as the component controller will, but before anything is written, and returns the engine family
/// of the whole graph. Workers that start different ones without the author deciding are a mistake.
fn check_components(
    graph: &DynamoGraphDeployment,
    merged: &[DynamoComponentDeployment],
    problems: &mut Vec<Invalid>,
) -> Option<BackendFramework> {
    let explicit = graph.spec.backend_framework;
    let mut found: Vec<BackendFramework> = Vec::new();
    for candidate in merged {
        match workload::validate(candidate) {
            Ok(valid) => found.extend(valid.framework()),
            Err(mistakes) => problems.extend(mistakes.into_iter().map(|m| below(m, &candidate.spec.component.name))),
        }
    }
    found.sort_unstable();
    found.dedup();
    if let (None, [first, second, ..]) = (explicit, &found[..]) {
        let problem = format!("is not set, and the workers start {first} and {second}");
        problems.push(invalid("spec.backendFramework", "", problem, "set it, or run one framework in a graph"));
    }
    explicit.or(found.first().copied())
}

/// The component as the component controller would see it, the graph's own settings merged in.
fn candidate(
    valid: &ValidGraph<'_>,
    graph: &DynamoGraphDeployment,
    component: &ComponentSpec,
) -> DynamoComponentDeployment {
    let placement = Placement { generation: None, fingerprint: None, replicas: 0, origin_version: "" };
    let mut candidate = component_deployment(valid, component, placement);
    candidate.metadata.uid = graph.uid();
    candidate
}

/// How a component's pods discover each other. Values that mean nothing are mistakes of their own.
fn backend_of(merged: &DynamoComponentDeployment, default: DiscoveryBackend) -> DiscoveryBackend {
    let template = merged.spec.component.pod_template.as_ref();
    let annotations = template.and_then(|t| t.metadata.as_ref()).and_then(|m| m.annotations.as_ref());
    let named = annotations.and_then(|a| a.get(annotations::DISCOVERY_BACKEND));
    named.and_then(|name| DiscoveryBackend::from_name(name)).unwrap_or(default)
}

/// A mistake of a component as a mistake of its graph.
fn below(mistake: Invalid, component: &str) -> Invalid {
    let field = match mistake.field.strip_prefix("spec.") {
        Some("backendFramework") | None => mistake.field,
        Some(rest) => format!("spec.components[{component}].{rest}"),
    };
    Invalid { field, ..mistake }
}
