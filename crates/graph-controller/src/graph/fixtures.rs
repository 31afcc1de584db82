//! Graphs and components for tests.

use std::sync::LazyLock;

use api_types::v1beta1::{
    ComponentKind, ComponentReplicaStatus, DynamoComponentDeployment, DynamoComponentDeploymentStatus,
    DynamoGraphDeployment,
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference, Time},
    jiff::Timestamp,
};
use kube::ResourceExt;
use rendering::WorkloadProvider;
use serde_json::{Value, json};

use crate::graph::{
    model::{ClusterApis, GraphObserved, ValidGraph},
    settings::GraphSettings,
    validate::validate,
};

/// The moment of plans that no deadline changes.
pub const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A frontend and a decode worker; named so that swapped names would show.
pub fn graph() -> DynamoGraphDeployment {
    graph_with(|_| {})
}

/// The graph after an edit of its JSON.
pub fn graph_with(edit: impl FnOnce(&mut Value)) -> DynamoGraphDeployment {
    let mut value = json!({
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": { "name": "chat", "namespace": "team-a", "uid": "graph-uid", "generation": 1, "resourceVersion": "1" },
        "spec": { "components": [
            { "name": "Frontend", "type": "frontend", "replicas": 1, "podTemplate": { "spec": { "containers": [
                { "name": "main", "image": "registry.example/frontend:1.5.0" } ] } } },
            { "name": "Decode", "type": "decode", "replicas": 4, "podTemplate": { "spec": { "containers": [
                { "name": "main", "image": "registry.example/vllm:1.5.0", "command": ["python3", "-m", "dynamo.vllm"],
                  "args": ["--model", "m"] } ] } } }
        ] }
    });
    edit(&mut value);
    serde_json::from_value(value).unwrap()
}

/// Changes the worker's image.
pub fn set_image(graph: &mut Value, tag: &str) {
    graph["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["image"] =
        json!(format!("registry.example/vllm:{tag}"));
}

/// The operator's configuration: Kubernetes discovery, and roles `p` and `e` of planners and endpoint pickers.
pub fn settings() -> &'static GraphSettings {
    static SETTINGS: LazyLock<GraphSettings> = LazyLock::new(|| {
        let roles = json!({ "plannerClusterRoleName": "p", "eppClusterRoleName": "e" });
        GraphSettings { roles: serde_json::from_value(roles).unwrap(), ..GraphSettings::default() }
    });
    &SETTINGS
}

/// A graph without violations.
pub fn valid(graph: &DynamoGraphDeployment) -> ValidGraph<'static> {
    valid_with(graph, settings())
}

/// The valid graph under another configuration.
pub fn valid_with<'a>(graph: &DynamoGraphDeployment, settings: &'a GraphSettings) -> ValidGraph<'a> {
    validate(Box::leak(Box::new(observed(graph, vec![]))), settings).unwrap()
}

/// Returns the live objects of a graph: only these components.
pub fn observed(graph: &DynamoGraphDeployment, components: Vec<DynamoComponentDeployment>) -> GraphObserved {
    GraphObserved { components, ..GraphObserved::new(graph.clone()) }
}

/// A component as it would come back from the API server, owned by [`graph`], with `available` workers.
pub fn live(desired: &DynamoComponentDeployment, available: i32) -> DynamoComponentDeployment {
    let mut live = desired.clone();
    live.metadata.uid = Some(format!("uid-of-{}", desired.name_any()));
    live.metadata.resource_version = Some("1".into());
    live.metadata.generation = Some(1);
    live.metadata.creation_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    live.metadata.owner_references = Some(vec![owner()]);
    set_available(&mut live, available);
    live
}

/// The owner reference to [`graph`].
pub fn owner() -> OwnerReference {
    api_types::owner::controller::<DynamoGraphDeployment>("chat", "graph-uid")
}

/// Writes the status that the component controller would write for `available` workers.
pub fn set_available(live: &mut DynamoComponentDeployment, available: i32) {
    let replicas = live.spec.component.desired_replicas();
    let ready = available >= replicas;
    live.status = Some(DynamoComponentDeploymentStatus {
        observed_generation: live.metadata.generation,
        conditions: vec![Condition {
            type_: "Available".into(),
            status: if ready { "True" } else { "False" }.into(),
            reason: "DeploymentReady".into(),
            message: format!("{available} of {replicas} available"),
            observed_generation: live.metadata.generation,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        }],
        component: Some(ComponentReplicaStatus {
            component_kind: ComponentKind::Deployment,
            component_names: vec![live.name_any()],
            runtime_namespace: Some(format!("ns-{}", live.name_any())),
            replicas: available.max(replicas),
            updated_replicas: available,
            ready_replicas: Some(available),
            available_replicas: Some(available),
            scheduled_replicas: None,
        }),
    });
}

/// Graphs on Grove.
pub mod grove {
    use api_types::grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet};

    use super::*;
    use crate::graph::{model::GraphPlan, plan::plan, settings};

    /// The operator's configuration with Grove in use.
    pub fn settings() -> &'static GraphSettings {
        static SETTINGS: LazyLock<GraphSettings> = LazyLock::new(|| GraphSettings {
            grove: settings::Grove { enabled: true, termination_delay: Some("15m0s".into()), ..Default::default() },
            ..super::settings().clone()
        });
        &SETTINGS
    }

    /// A graph that Grove runs, of which nothing is live.
    pub fn observed(graph: &DynamoGraphDeployment) -> GraphObserved {
        let served = ClusterApis { grove: true, ..ClusterApis::default() };
        GraphObserved { provider: WorkloadProvider::Grove, served, ..super::observed(graph, vec![]) }
    }

    /// An observed graph with a PodCliqueSet.
    pub fn observed_with(graph: &DynamoGraphDeployment, set: PodCliqueSet) -> GraphObserved {
        let mut observed = observed(graph);
        observed.grove.sets = vec![set];
        observed
    }

    /// Returns the plan.
    pub fn planned(observed: &GraphObserved) -> GraphPlan {
        plan(&validate(observed, settings()).unwrap(), observed, NOW)
    }

    /// The PodCliqueSet that is planned on for a new graph, as it comes back from the API server.
    pub fn live_set(graph: &DynamoGraphDeployment) -> PodCliqueSet {
        as_live(planned(&observed(graph)).grove.unwrap().set)
    }

    /// A PodCliqueSet as it comes back from the API server, not looked at by Grove.
    pub fn as_live(mut set: PodCliqueSet) -> PodCliqueSet {
        set.metadata.uid = Some("set-uid".into());
        set.metadata.generation = Some(1);
        set.metadata.owner_references = Some(vec![owner()]);
        set
    }

    /// The clique of a component, as Grove reports it with everything in order.
    pub fn clique(component: &str, replicas: i32) -> PodClique {
        serde_json::from_value(json!({
            "metadata": { "name": format!("chat-0-{}", component.to_lowercase()), "uid": "clique-uid", "generation": 1 },
            "spec": { "replicas": replicas },
            "status": { "observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas,
                "readyReplicas": replicas, "scheduledReplicas": replicas, "currentPodCliqueSetGenerationHash": "hash" },
        }))
        .unwrap()
    }

    /// The scaling group of a component.
    pub fn group(component: &str, replicas: i32) -> PodCliqueScalingGroup {
        let mut value = json!(clique(component, replicas));
        value["kind"] = json!("PodCliqueScalingGroup");
        value["status"]["availableReplicas"] = json!(replicas);
        serde_json::from_value(value).unwrap()
    }
}
