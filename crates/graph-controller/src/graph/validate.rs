//! Validates a graph's spec. Returns all violations at once.

use std::collections::BTreeMap;

use api_types::{
    annotations,
    annotations::GRAPH_SAVED,
    conditions,
    conversion::preserved::{MOST_CLAIMS, too_many_claims},
    rollout_control::{RolloutControl, rollout_control},
    v1beta1::{
        BackendFramework, ComponentType, DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentSpec,
        MAIN_CONTAINER,
    },
    violations::{self, Reason, Violation},
};
use kube::ResourceExt;
use rendering::{
    DiscoveryBackend, RolloutStrategy, ValidatedComponent, WorkloadProvider, component_annotations, rules, validate_on,
};
use serde_json::Value;

use crate::graph::{
    merge::{PlannedFields, checkpoint_engine, component_deployment},
    model::{GraphObserved, GraphObstacle, ObstacleProgress, ValidGraph},
    provider::lacks_grove,
    settings::GraphSettings,
};

/// Validates a graph.
///
/// # Errors
/// All violations, each with its field path.
pub fn validate<'a>(observed: &'a GraphObserved, settings: &'a GraphSettings) -> Result<ValidGraph<'a>, GraphObstacle> {
    let (graph, provider) = (&observed.graph, observed.provider);
    let mut problems = Vec::new();
    // The manifest in an archive may name them.
    problems.extend(rules::graph::no_components(graph).filter(|_| observed.legacy.awaited.is_none()));
    problems.extend(rules::graph::name(graph));
    check_claims(graph, &mut problems);
    match provider {
        WorkloadProvider::Component => check_kv_transfer(&graph.spec, &mut problems),
        WorkloadProvider::Grove => problems.extend(rendering::grove::check(graph)),
    }
    // Framework and discovery follow from the components, once the graph's settings are merged into them.
    let mut valid = ValidGraph {
        namespace: graph.namespace().unwrap_or_default(),
        name: graph.name_any(),
        annotations: graph.annotations(),
        spec: &graph.spec,
        framework: graph.spec.backend_framework,
        discovery: DiscoveryBackend::Etcd,
        control: RolloutControl::default(),
        claim_templates: Vec::new(),
        settings,
        provider,
        topology_domains: observed.grove.topology_domains.as_deref().unwrap_or_default(),
        obstacle: match provider {
            WorkloadProvider::Component => lacks_orchestrator(observed),
            WorkloadProvider::Grove => lacks_grove(observed, settings).or_else(|| lacks_topology(observed)),
        },
        gpu_claims: BTreeMap::new(),
        claimed_gpus: BTreeMap::new(),
    };
    // As the component controller sees them.
    let merge = |component| component_deployment(&valid, component, PlannedFields::default());
    let mut merged: Vec<_> = graph.spec.components.iter().map(merge).collect();
    merged.iter_mut().for_each(|candidate| candidate.metadata.uid = graph.uid());
    if valid.obstacle.is_some() && provider == WorkloadProvider::Component {
        // The obstacle says it once, with what to install, and not for each component.
        merged.iter_mut().for_each(|d| d.spec.component.multinode = None);
    }
    check_components(&mut valid, &merged, &mut problems);
    if merged.iter().any(|d| backend_of(d, settings.discovery) == DiscoveryBackend::Kubernetes) {
        valid.discovery = DiscoveryBackend::Kubernetes;
    }
    valid.control = check_control(graph, provider, &merged, &mut problems);
    if !problems.is_empty() {
        return Err(GraphObstacle::of_violations(&problems));
    }
    let known = |component: &str| valid.gpu_claims.get_key_value(component).map(|(name, _)| *name);
    let counted = |(component, gpus): (&String, &Result<u32, _>)| Some((known(component)?, *gpus.as_ref().ok()?));
    valid.claimed_gpus = observed.claimed_gpus.iter().filter_map(counted).collect();
    valid.obstacle = valid.obstacle.or_else(|| observed.legacy.awaited.clone()).or_else(|| uncountable_gpus(observed));
    Ok(valid)
}

/// Replicas that span nodes need an API that starts their pods together.
fn lacks_orchestrator(observed: &GraphObserved) -> Option<GraphObstacle> {
    let components = observed.graph.spec.components.iter();
    let names: Vec<_> = components.filter(|c| c.is_multinode()).map(|c| c.name.as_str()).collect();
    if names.is_empty() || observed.served.leader_worker_sets {
        return None;
    }
    let message = format!(
        "spec.components[{}].multinode: replicas that span nodes need the API leaderworkerset.x-k8s.io or grove.io, \
         and neither is served here; remove multinode or install one of them",
        names.join(", ")
    );
    Some(GraphObstacle::stalled(conditions::graph::NO_MULTINODE_ORCHESTRATOR, conditions::graph::API_MISSING, message))
}

/// Users can write the annotation that keeps v1alpha1 fields by hand, past the schema of v1alpha1.
fn check_claims(graph: &DynamoGraphDeployment, problems: &mut Vec<Violation>) {
    if let Some(count) = too_many_claims(graph.annotations()) {
        let field = format!("metadata.annotations[{}].spec.pvcs", GRAPH_SAVED[0]);
        let remedy = format!("name at most {MOST_CLAIMS}, or mount claims in the pod templates");
        problems.push(Violation::forbidden(field, format!("has {count} claims"), remedy));
    }
}

/// The annotations by which the user controls the rollout of workers.
fn check_control(
    graph: &DynamoGraphDeployment,
    provider: WorkloadProvider,
    merged: &[DynamoComponentDeployment],
    problems: &mut Vec<Violation>,
) -> RolloutControl {
    let is_recreated = |d: &&DynamoComponentDeployment| {
        let strategy = RolloutStrategy::from_annotations(Some(&component_annotations(d)));
        d.spec.component.is_worker() && strategy.is_ok_and(|strategy| strategy == RolloutStrategy::Recreate)
    };
    let recreated: Vec<_> = merged.iter().filter(is_recreated).map(|d| d.spec.component.name.as_str()).collect();
    let read = rollout_control(graph.annotations(), provider == WorkloadProvider::Grove, &recreated);
    read.unwrap_or_else(|violations| {
        let at = |key: &&str| format!("metadata.annotations[{key}]");
        problems.extend(violations.into_iter().map(|violation| violation.at(at)));
        RolloutControl::default()
    })
}

/// Cluster topologies need Grove; without it, the policy names a node label.
fn check_kv_transfer(spec: &DynamoGraphDeploymentSpec, problems: &mut Vec<Violation>) {
    if let Some(topology) = spec.kv_transfer_policy().and_then(|policy| policy.cluster_topology_name.as_deref()) {
        let field = "spec.experimental.kvTransferPolicy.clusterTopologyName";
        let remedy = "name a node label in labelKey instead, or run the graph on Grove";
        problems.push(Violation::invalid(field, topology, "needs Grove, and the graph runs as components", remedy));
    }
}

/// The cluster topology of the policy must exist and have its domain. Both may be created after the graph.
fn lacks_topology(observed: &GraphObserved) -> Option<GraphObstacle> {
    let policy = observed.graph.spec.kv_transfer_policy()?;
    let topology = policy.cluster_topology_name.as_deref()?;
    let at = "spec.experimental.kvTransferPolicy";
    let (reason, message) = match &observed.grove.topology_domains {
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
    Some(GraphObstacle::stalled(conditions::graph::FAILED, reason, message))
}

/// Without the count, nodes would not be given the flags that join them, and each would start alone.
fn uncountable_gpus(observed: &GraphObserved) -> Option<GraphObstacle> {
    let uncountable = observed.claimed_gpus.iter().filter_map(|(component, gpus)| {
        let why = gpus.as_ref().err()?;
        Some(format!("spec.components[{component}]: the GPUs of container {MAIN_CONTAINER} cannot be counted: {why}"))
    });
    let uncountable: Vec<_> = uncountable.collect();
    (!uncountable.is_empty()).then(|| GraphObstacle {
        ready_reason: conditions::graph::SOME_NOT_READY,
        progress: ObstacleProgress::Reconciling(conditions::graph::GPUS_UNKNOWN),
        message: uncountable.join("; "),
    })
}

/// Validates every component as the component controller does, before anything is written, and completes the graph by
/// what follows from them. Workers of different engines are a violation unless the user chose an engine.
fn check_components(graph: &mut ValidGraph<'_>, merged: &[DynamoComponentDeployment], problems: &mut Vec<Violation>) {
    let mut found: Vec<BackendFramework> = Vec::new();
    for (declared, candidate) in graph.spec.components.iter().zip(merged) {
        let component = &candidate.spec.component;
        match validate_on(graph.provider, candidate) {
            Ok(valid) => {
                found.extend(valid.framework);
                problems.extend(lacks_engine(&valid, &component.name, graph));
                if !valid.gpu_claims.is_empty() {
                    graph.gpu_claims.insert(&declared.name, valid.gpu_claims.clone());
                }
                let claim_of =
                    |gpus| rendering::render_claim_template(&graph.namespace, &graph.name, &component.name, gpus);
                graph.claim_templates.extend(valid.shared_gpus.map(claim_of));
            }
            Err(violations) => problems.extend(violations.into_iter().map(|found| below(found, &component.name))),
        }
        if component.type_ == Some(ComponentType::Epp) && component.epp_config.is_none() {
            let path = format!("spec.components[{}].eppConfig", component.name);
            problems.push(Violation::of_text(path, Reason::Required, Value::Null, violations::PICKER_CONFIG));
        }
    }
    found.sort_unstable();
    found.dedup();
    if let (None, [first, second, ..]) = (graph.framework, &found[..]) {
        let problem = format!("is not set, and the workers start {first} and {second}");
        problems.push(Violation::required("spec.backendFramework", problem, "set it, or run one framework in a graph"));
    }
    graph.framework = graph.framework.or(found.first().copied());
}

/// The checkpoint that a graph makes names its engine.
fn lacks_engine(component: &ValidatedComponent<'_>, name: &str, graph: &ValidGraph<'_>) -> Option<Violation> {
    component.checkpoint.filter(|usage| usage.reference.is_none())?;
    let known = checkpoint_engine(component, graph.spec.backend_framework).is_some();
    let field = format!("spec.components[{name}].experimental.checkpoint");
    let problem = "is of an engine that cannot be found in the component's command";
    let remedy = "set spec.backendFramework, or name a DynamoCheckpoint in checkpointRef";
    (!known && graph.settings.checkpoints.is_some()).then(|| Violation::forbidden(field, problem, remedy))
}

/// Discovery backend of a component. Unknown values are violations of their own.
fn backend_of(merged: &DynamoComponentDeployment, default: DiscoveryBackend) -> DiscoveryBackend {
    let named = merged.spec.component.pod_annotation(annotations::DISCOVERY_BACKEND);
    named.and_then(DiscoveryBackend::from_name).unwrap_or(default)
}

/// A violation of a component as one of its graph.
fn below(violation: Violation, component: &str) -> Violation {
    violation.at(|path| match path.strip_prefix("spec.") {
        Some("backendFramework") | None => path.clone(),
        Some(rest) => format!("spec.components[{component}].{rest}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::fixtures::{graph_with, observed, settings};

    /// Found defect: thousands of claims were requested at once, again and again.
    #[test]
    fn more_claims_in_the_saved_spec_than_v1alpha1_takes_are_refused() {
        for (count, fits) in [(100, true), (101, false), (9_000, false)] {
            let claims: Vec<_> = (0..count).map(|n| json!({ "name": format!("p{n}") })).collect();
            let saved = json!({ "spec": { "pvcs": claims } }).to_string();
            let graph = graph_with(|graph| graph["metadata"]["annotations"] = json!({ "nvidia.com/dgd-spec": saved }));
            match validate(&observed(&graph, vec![]), settings()) {
                Ok(valid) => {
                    assert!(fits, "{count}");
                    assert_eq!(super::super::plan::volumes::volumes(&valid, &[]).len(), 100);
                }
                Err(obstacle) => {
                    assert!(!fits, "{count}: {}", obstacle.message);
                    let field = "metadata.annotations[nvidia.com/dgd-spec].spec.pvcs";
                    let expected = format!("{field}: has {count} claims; name at most 100");
                    assert!(obstacle.message.contains(&expected), "{}", obstacle.message);
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
            let refused = validate(&observed(&graph, vec![]), settings()).err().map(|obstacle| obstacle.message);
            assert_eq!(refused.is_none(), fits, "{length} {global:?}: {refused:?}");
            assert!(refused.is_none_or(|message| message.starts_with("metadata.name ")), "{length} {global:?}");
        }
    }
}
