//! The author's spec as the decision may rely on it: every mistake becomes one refusal here, or does not exist.

use std::collections::BTreeMap;

use api_types::v1beta1::{
    BackendFramework, ComponentSpec, ComponentType, DynamoComponentDeployment, DynamoComponentDeploymentSpec,
    DynamoGraphDeployment, DynamoGraphDeploymentSpec,
};
use api_types::{annotations, conditions};
use kube::ResourceExt;
use workload::Invalid;

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
    /// How the graph's pods find each other.
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
    let framework = check_components(graph, &mut problems);
    let discovery = discovery(graph, default_discovery, &mut problems);
    if !problems.is_empty() {
        let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        return Err(Refusal {
            ready_reason: conditions::graph::FAILED,
            stalled_reason: conditions::graph::INVALID_SPEC,
            message,
        });
    }
    Ok(ValidGraph {
        namespace: graph.namespace().unwrap_or_default(),
        name: graph.name_any(),
        annotations: graph.annotations(),
        spec: &graph.spec,
        framework,
        discovery,
    })
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

/// Checks every component as the component controller will, but before anything is written, and returns the engine family
/// of the whole graph. Workers that start different ones without the author deciding are a mistake.
fn check_components(graph: &DynamoGraphDeployment, problems: &mut Vec<Invalid>) -> Option<BackendFramework> {
    let explicit = graph.spec.backend_framework;
    let mut found: Vec<BackendFramework> = Vec::new();
    for component in &graph.spec.components {
        let candidate = candidate(graph, component);
        match workload::validate(&candidate) {
            Ok(valid) => found.extend(valid.framework()),
            Err(mistakes) => problems.extend(mistakes.into_iter().map(|m| below(m, &component.name))),
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

/// The component as the component controller would see it.
fn candidate(graph: &DynamoGraphDeployment, component: &ComponentSpec) -> DynamoComponentDeployment {
    let backend_framework = graph.spec.backend_framework;
    let spec = DynamoComponentDeploymentSpec { backend_framework, component: component.clone() };
    let mut candidate = DynamoComponentDeployment::new(&component.name, spec);
    candidate.metadata.namespace = graph.namespace();
    candidate.metadata.uid = graph.uid();
    candidate
}

/// A mistake of a component as a mistake of its graph.
fn below(mistake: Invalid, component: &str) -> Invalid {
    let field = match mistake.field.strip_prefix("spec.") {
        Some("backendFramework") | None => mistake.field,
        Some(rest) => format!("spec.components[{component}].{rest}"),
    };
    Invalid { field, ..mistake }
}

fn discovery(
    graph: &DynamoGraphDeployment,
    default: DiscoveryBackend,
    problems: &mut Vec<Invalid>,
) -> DiscoveryBackend {
    let key = annotations::DISCOVERY_BACKEND;
    match graph.annotations().get(key).map(String::as_str) {
        None => default,
        Some(name) => DiscoveryBackend::from_name(name).unwrap_or_else(|| {
            let field = format!("metadata.annotations[{key}]");
            problems.push(invalid(field, name, "is no discovery backend", "write kubernetes or etcd, or remove it"));
            default
        }),
    }
}
