//! The author's spec as the decision may rely on it: every mistake becomes one refusal here, or does not exist.

use std::collections::BTreeMap;

use api_types::{
    annotations,
    annotations::GRAPH_SAVED,
    conditions,
    conversion::preserved::{MOST_CLAIMS, too_many_claims},
    refusals,
    v1beta1::{
        BackendFramework, ComponentSpec, ComponentType, DynamoComponentDeployment, DynamoGraphDeployment,
        DynamoGraphDeploymentSpec,
    },
};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::ResourceExt;
pub use workload::DiscoveryBackend;
use workload::{ValidatedComponent, Violation, device_claims::Claim, validate_on};

use super::{
    decide::{
        checkpoints,
        component::{Placement, component_deployment},
    },
    observe::Served,
    program::{Program, lacks_grove},
    settings::Settings,
};

/// A graph whose spec can be carried out.
#[derive(Clone, Debug)]
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
    /// Claims of GPUs that the processes of one pod share, without owner.
    pub claim_templates: Vec<ResourceClaimTemplate>,
    /// The program that runs the graph.
    pub program: Program,
    /// Domains of the cluster topology that the policy for key-value caches names.
    pub topology_domains: &'a [String],
    /// What the operator's configuration says.
    pub settings: &'a Settings,
    /// Why none of the components can be started, although the spec has no mistake.
    pub obstacle: Option<Refusal>,
    /// Claims whose GPUs have to be counted before a component can be rendered, by component.
    pub gpu_claims: BTreeMap<&'a str, Vec<Claim>>,
    /// The GPUs behind them, once they are counted; of graphs on Grove only, because components are rendered elsewhere.
    pub claimed_gpus: BTreeMap<&'a str, u32>,
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

    /// The gateway's endpoint picker, if one belongs to the graph.
    pub fn endpoint_picker(&self) -> Option<&ComponentSpec> {
        self.spec.components.iter().find(|c| c.type_ == Some(ComponentType::Epp))
    }
}

/// What a graph is checked against beside itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The program that runs it.
    pub program: Program,
    /// What the cluster serves.
    pub served: Served,
    /// The queue of the KAI scheduler that it shall wait in, if that does not exist.
    pub missing_queue: Option<&'a str>,
    /// Domains of the cluster topology that its policy for key-value caches names, if that exists.
    pub topology_domains: Option<&'a [String]>,
    /// Why the image that it runs is not there yet.
    pub awaited_image: Option<&'a Refusal>,
}

/// The condition of kstatus that is true of an object which is not as wanted, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kstatus {
    /// Nothing goes on before somebody changes something.
    Stalled(&'static str),
    /// It goes on by itself as soon as something comes.
    Reconciling(&'static str),
}

/// Why a graph cannot be carried out as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason of the `Ready` condition.
    pub ready_reason: &'static str,
    /// Whether somebody's help is waited for.
    pub kstatus: Kstatus,
    /// Every problem: field path, what is wrong, what to do.
    pub message: String,
}

/// Checks a graph against what the cluster serves.
///
/// # Errors
/// All problems at once, each with its field path.
pub fn validate<'a>(
    graph: &'a DynamoGraphDeployment,
    settings: &'a Settings,
    facts: Facts<'a>,
) -> Result<ValidGraph<'a>, Refusal> {
    let program = facts.program;
    let mut problems = Vec::new();
    if graph.spec.components.is_empty() {
        problems.push(Violation::new("spec.components", "", "is empty", "add at least one component"));
    }
    check_names(graph, &mut problems);
    check_claims(graph, &mut problems);
    match program {
        Program::Component => check_kv_transfer(&graph.spec, &mut problems),
        Program::Grove => problems.extend(workload::grove::check(graph)),
    }
    // Framework and discovery follow from the components, once the graph's settings are merged into them.
    let mut valid = ValidGraph {
        namespace: graph.namespace().unwrap_or_default(),
        name: graph.name_any(),
        annotations: graph.annotations(),
        spec: &graph.spec,
        framework: graph.spec.backend_framework,
        discovery: DiscoveryBackend::Etcd,
        claim_templates: Vec::new(),
        settings,
        program,
        topology_domains: facts.topology_domains.unwrap_or_default(),
        obstacle: match program {
            Program::Component => lacks_orchestrator(&graph.spec, facts.served),
            Program::Grove => lacks_grove(facts, settings).or_else(|| lacks_topology(&graph.spec, facts)),
        },
        gpu_claims: BTreeMap::new(),
        claimed_gpus: BTreeMap::new(),
    };
    let mut merged: Vec<_> = graph.spec.components.iter().map(|c| candidate(&valid, graph, c)).collect();
    if valid.obstacle.is_some() && program == Program::Component {
        // Told once, with what to install, and not for each component again.
        merged.iter_mut().for_each(|d| d.spec.component.multinode = None);
    }
    let checked = check_components(graph, &valid, &merged, &mut problems);
    (valid.framework, valid.claim_templates) = (checked.framework, checked.claim_templates);
    let names = graph.spec.components.iter().map(|component| component.name.as_str());
    valid.gpu_claims =
        names.filter_map(|name| checked.gpu_claims.get(name).map(|claims| (name, claims.clone()))).collect();
    if merged.iter().any(|d| backend_of(d, settings.discovery) == DiscoveryBackend::Kubernetes) {
        valid.discovery = DiscoveryBackend::Kubernetes;
    }
    if !problems.is_empty() {
        return Err(refusal(&problems));
    }
    valid.obstacle = valid.obstacle.or_else(|| facts.awaited_image.cloned());
    Ok(valid)
}

/// What has mistakes is refused, with all of them.
pub(super) fn refusal(problems: &[Violation]) -> Refusal {
    let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Refusal {
        ready_reason: conditions::graph::FAILED,
        kstatus: Kstatus::Stalled(conditions::graph::INVALID_SPEC),
        message,
    }
}

/// Replicas that span nodes need somebody who starts their pods together.
fn lacks_orchestrator(spec: &DynamoGraphDeploymentSpec, served: Served) -> Option<Refusal> {
    let names: Vec<_> = spec.components.iter().filter(|c| c.is_multinode()).map(|c| c.name.as_str()).collect();
    if names.is_empty() || served.leader_worker_sets {
        return None;
    }
    Some(Refusal {
        ready_reason: conditions::graph::NO_MULTINODE_ORCHESTRATOR,
        kstatus: Kstatus::Stalled(conditions::graph::API_MISSING),
        message: format!(
            "spec.components[{}].multinode: replicas that span nodes need the API leaderworkerset.x-k8s.io or grove.io, \
             and neither is served here; remove multinode or install one of them",
            names.join(", ")
        ),
    })
}

/// The annotation that keeps what v1alpha1 has beyond v1beta1 can be written by hand, past the schema of v1alpha1.
fn check_claims(graph: &DynamoGraphDeployment, problems: &mut Vec<Violation>) {
    if let Some(count) = too_many_claims(graph.annotations()) {
        let field = format!("metadata.annotations[{}].spec.pvcs", GRAPH_SAVED[0]);
        let remedy = format!("name at most {MOST_CLAIMS}, or mount claims in the pod templates");
        problems.push(Violation::new(field, "", format!("has {count} claims"), remedy));
    }
}

/// Domains of a cluster topology are Grove's; without it, a node label says where a worker is.
fn check_kv_transfer(spec: &DynamoGraphDeploymentSpec, problems: &mut Vec<Violation>) {
    let policy = spec.experimental.as_ref().and_then(|experimental| experimental.kv_transfer_policy.as_ref());
    if let Some(topology) = policy.and_then(|policy| policy.cluster_topology_name.as_deref()) {
        let field = "spec.experimental.kvTransferPolicy.clusterTopologyName";
        let remedy = "name a node label in labelKey instead, or run the graph on Grove";
        problems.push(Violation::new(field, topology, "needs Grove, and the graph runs as components", remedy));
    }
}

/// A cluster topology that the policy names must exist, with the domain in which caches are exchanged. It may be made, or get the
/// domain, after the graph.
fn lacks_topology(spec: &DynamoGraphDeploymentSpec, facts: Facts<'_>) -> Option<Refusal> {
    let policy = spec.experimental.as_ref()?.kv_transfer_policy.as_ref()?;
    let topology = policy.cluster_topology_name.as_deref()?;
    let at = "spec.experimental.kvTransferPolicy";
    let (reason, message) = match facts.topology_domains {
        None => {
            let problem = format!("there is no ClusterTopologyBinding {topology}; create it, or name another");
            (conditions::graph::TOPOLOGY_NOT_FOUND, format!("{at}.clusterTopologyName: {problem}"))
        }
        Some(domains) if !domains.contains(&policy.domain) => {
            let remedy = format!("add it, or name one of its domains: {}", domains.join(", "));
            let problem = format!("{:?} is no domain of ClusterTopologyBinding {topology}; {remedy}", policy.domain);
            (conditions::graph::TOPOLOGY_LEVELS_UNAVAILABLE, format!("{at}.domain: {problem}"))
        }
        Some(_) => return None,
    };
    Some(Refusal { ready_reason: conditions::graph::FAILED, kstatus: Kstatus::Stalled(reason), message })
}

/// Names that become values of labels must fit into them.
fn check_names(graph: &DynamoGraphDeployment, problems: &mut Vec<Violation>) {
    let name = graph.name_any();
    let global = graph.spec.components.iter().all(|c| c.global_dynamo_namespace);
    let refused = refusals::graph_name(&graph.namespace().unwrap_or_default(), &name, global);
    problems.extend(refused.map(|(problem, remedy)| Violation::new("metadata.name", name, problem, remedy)));
}

/// What the components say about the graph.
struct Checked {
    /// Engine family of the whole graph.
    framework: Option<BackendFramework>,
    claim_templates: Vec<ResourceClaimTemplate>,
    gpu_claims: BTreeMap<String, Vec<Claim>>,
}

/// Checks every component as the component controller will, but before anything is written. Workers that start different
/// engines without the author deciding are a mistake.
fn check_components(
    graph: &DynamoGraphDeployment,
    graph_wide: &ValidGraph<'_>,
    merged: &[DynamoComponentDeployment],
    problems: &mut Vec<Violation>,
) -> Checked {
    let (explicit, program) = (graph.spec.backend_framework, graph_wide.program);
    let (name, namespace) = (graph.name_any(), graph.namespace().unwrap_or_default());
    let mut found: Vec<BackendFramework> = Vec::new();
    let (mut claim_templates, mut gpu_claims) = (Vec::new(), BTreeMap::new());
    for candidate in merged {
        let component = &candidate.spec.component;
        match validate_on(program.runs_on(), candidate) {
            Ok(valid) => {
                found.extend(valid.framework());
                problems.extend(lacks_engine(&valid, &component.name, graph_wide));
                if !valid.gpu_claims().is_empty() {
                    gpu_claims.insert(component.name.clone(), valid.gpu_claims().to_vec());
                }
                let shared = valid.shared_gpus().into_iter();
                claim_templates.extend(
                    shared.map(|gpus| workload::render_claim_template(&namespace, &name, &component.name, gpus)),
                );
            }
            Err(mistakes) => problems.extend(mistakes.into_iter().map(|m| below(m, &component.name))),
        }
        if component.type_ == Some(ComponentType::Epp) && component.epp_config.is_none() {
            let field = format!("spec.components[{}].eppConfig", component.name);
            let remedy = "give config, or configMapRef with a ConfigMap that holds it";
            problems.push(Violation::new(
                field,
                "",
                "is missing; an endpoint picker does not start without one",
                remedy,
            ));
        }
    }
    found.sort_unstable();
    found.dedup();
    if let (None, [first, second, ..]) = (explicit, &found[..]) {
        let problem = format!("is not set, and the workers start {first} and {second}");
        problems.push(Violation::new("spec.backendFramework", "", problem, "set it, or run one framework in a graph"));
    }
    Checked { framework: explicit.or(found.first().copied()), claim_templates, gpu_claims }
}

/// A checkpoint that the graph makes names the engine that it is of.
fn lacks_engine(component: &ValidatedComponent<'_>, name: &str, graph: &ValidGraph<'_>) -> Option<Violation> {
    let usage = component.checkpoint().filter(|usage| usage.reference.is_none())?;
    let known = checkpoints::engine(component.framework(), graph.spec.backend_framework, usage).is_some();
    let field = format!("spec.components[{name}].experimental.checkpoint");
    let problem = "is of an engine that cannot be told from the component's command";
    let remedy = "set spec.backendFramework, or name a DynamoCheckpoint in checkpointRef";
    (!known && graph.settings.snapshots.is_some()).then(|| Violation::new(field, "", problem, remedy))
}

/// The component as the component controller would see it, the graph's own settings merged in.
fn candidate(
    valid: &ValidGraph<'_>,
    graph: &DynamoGraphDeployment,
    component: &ComponentSpec,
) -> DynamoComponentDeployment {
    let mut candidate = component_deployment(valid, component, Placement::default());
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
fn below(mistake: Violation, component: &str) -> Violation {
    let field = match mistake.field.strip_prefix("spec.") {
        Some("backendFramework") | None => mistake.field,
        Some(rest) => format!("spec.components[{component}].{rest}"),
    };
    Violation { field, ..mistake }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::fixtures::{graph_with, settings};

    /// Found defect: thousands of claims were asked for at once, again and again.
    #[test]
    fn more_claims_in_the_saved_spec_than_v1alpha1_takes_are_refused() {
        for (count, fits) in [(100, true), (101, false), (9_000, false)] {
            let claims: Vec<_> = (0..count).map(|n| json!({ "name": format!("p{n}") })).collect();
            let saved = json!({ "spec": { "pvcs": claims } }).to_string();
            let graph = graph_with(|graph| graph["metadata"]["annotations"] = json!({ "nvidia.com/dgd-spec": saved }));
            match validate(&graph, settings(), Facts::default()) {
                Ok(valid) => {
                    assert!(fits, "{count}");
                    assert_eq!(crate::graph::decide::claims::storage_claims(&valid, &[]).len(), 100);
                }
                Err(refusal) => {
                    assert!(!fits, "{count}: {}", refusal.message);
                    let field = "metadata.annotations[nvidia.com/dgd-spec].spec.pvcs";
                    let expected = format!("{field}: has {count} claims; name at most 100");
                    assert!(refusal.message.contains(&expected), "{}", refusal.message);
                }
            }
        }
    }

    /// The label of the Dynamo namespace is `dynamo` where all components are global, however long the graph's name is.
    #[test]
    fn names_fit_into_the_labels_that_they_become() {
        for (length, global, fits) in [
            (56, [false, false], true),
            (57, [false, false], false),
            (57, [true, false], false),
            (63, [true, true], true),
            (64, [true, true], false),
        ] {
            let graph = graph_with(|graph| {
                graph["metadata"]["name"] = json!("x".repeat(length));
                for (component, global) in global.into_iter().enumerate() {
                    graph["spec"]["components"][component]["globalDynamoNamespace"] = json!(global);
                }
            });
            let refused = validate(&graph, settings(), Facts::default()).err().map(|refusal| refusal.message);
            assert_eq!(refused.is_none(), fits, "{length} {global:?}: {refused:?}");
            assert!(refused.is_none_or(|message| message.starts_with("metadata.name ")), "{length} {global:?}");
        }
    }
}
