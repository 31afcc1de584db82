//! Reads what no cache holds, and diagnoses pods of a graph on Grove that do not become ready.

use std::collections::BTreeMap;

use api_types::{
    labels,
    v1beta1::{ComponentSpec, DynamoGraphDeployment},
};
use controller_kit::{
    apply::{Applier, ObjectId, RequestError},
    device_claims::claimed_gpus,
    failure::Class,
    pods::{PodDiagnostics, PodsOf},
    store::{ServedApi, ServedApis},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, core::ApiResource};
use rendering::{LeaderWorkerSet, WorkloadProvider};
use serde_json::Value;

use super::grove::{kai_queues, topology_bindings, volcano_groups};
use crate::graph::{
    model::{GraphObserved, Troubles},
    resolve::gpu_claims,
    settings::GraphSettings,
};

/// Reads what a graph needs past the caches, and adds it.
///
/// # Errors
/// The API server rejects the request, or does not answer. Nothing is added then.
pub async fn read(
    applier: &Applier,
    apis: &ServedApis,
    settings: &GraphSettings,
    observed: &mut GraphObserved,
) -> Result<(), RequestError> {
    if observed.provider == WorkloadProvider::Component {
        if settings.leader_worker_sets && observed.graph.spec.components.iter().any(ComponentSpec::is_multinode) {
            let leader_worker_sets = ServedApi::new(apis, ApiResource::erase::<LeaderWorkerSet>(&()));
            observed.served.leader_worker_sets = leader_worker_sets.is_served().await?;
        }
        return Ok(());
    }
    let (graph, grove, mut served) = (&observed.graph, &observed.grove, observed.served);
    let is_used = served.grove && settings.grove.enabled;
    // Pods are not replaced because a scheduler was installed or removed.
    served.kai = match grove.uses_kai().filter(|_| settings.grove.kai.is_none()) {
        Some(kai) => kai,
        None => is_used && settings.grove.kai.is_none() && ServedApi::new(apis, kai_queues()).is_served().await?,
    };
    served.volcano = is_used && settings.grove.volcano && ServedApi::new(apis, volcano_groups()).is_served().await?;
    let (mut missing_queue, mut topology_domains, mut gpus) = (None, None, BTreeMap::new());
    // An install for one namespace has no right to read a queue; then it counts as existing, and pods that stay pending
    // show that it does not.
    if let Some(queue) = settings.grove.rendering(served.kai).scheduler.kai_queue(graph.annotations())
        && served.grove
        && !grove.waits_in(queue)
        && let Some(None) = unless_forbidden(get(applier, &kai_queues(), queue).await)?
    {
        missing_queue = Some(queue.to_owned());
    }
    if let Some(policy) = graph.spec.kv_transfer_policy()
        && let Some(topology) = &policy.cluster_topology_name
    {
        let binding = unless_forbidden(get(applier, &topology_bindings(), topology).await)?;
        served.topology_hidden = binding.is_none();
        topology_domains = match binding {
            Some(binding) => binding.as_ref().map(levels),
            // An install for one namespace has no right to read it. Live pods keep the domains that they were rendered
            // with; a new graph gets the domain that it names. The status names the missing right.
            None => {
                let live = grove.rendered_domains().filter(|live| live.contains(&policy.domain));
                Some(live.unwrap_or_else(|| vec![policy.domain.clone()]))
            }
        };
    }
    let namespace = graph.metadata.namespace.as_deref().unwrap_or_default();
    for (component, claims) in gpu_claims(observed, settings) {
        gpus.insert(component, claimed_gpus(applier, namespace, &claims).await?);
    }
    (observed.served, observed.claimed_gpus) = (served, gpus);
    (observed.grove.missing_queue, observed.grove.topology_domains) = (missing_queue, topology_domains);
    Ok(())
}

/// The result of a read; `None` if it is forbidden.
///
/// # Errors
/// Any other error.
pub fn unless_forbidden<T>(read: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.class() == Class::Forbidden => Ok(None),
        Err(error) => Err(error),
    }
}

/// A cluster-scoped object.
///
/// # Errors
/// The API server rejects the request, or does not answer.
pub async fn get(applier: &Applier, resource: &ApiResource, name: &str) -> Result<Option<Value>, RequestError> {
    applier.read(resource, &ObjectId::new(resource, "", name)).await
}

/// The domains of a cluster topology, the widest first.
fn levels(binding: &Value) -> Vec<String> {
    let levels = binding.pointer("/spec/levels").and_then(Value::as_array).into_iter().flatten();
    levels.filter_map(|level| level["domain"].as_str()).map(str::to_owned).collect()
}

/// All pods of a graph.
pub fn pods_of(graph: &DynamoGraphDeployment) -> PodsOf<'_> {
    let metadata = &graph.metadata;
    PodsOf {
        uid: metadata.uid.as_deref().unwrap_or_default(),
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        selector: format!("{}={}", labels::GRAPH, graph.name_any()),
    }
}

/// The most urgent trouble of each component; `None` if all pods serve.
pub async fn troubles(diagnostics: &PodDiagnostics<Troubles>, pods: Vec<Pod>) -> Option<Troubles> {
    let mut by_component: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
    for pod in pods {
        let Some(component) = pod.labels().get(labels::COMPONENT).cloned() else { continue };
        by_component.entry(component).or_default().push(pod);
    }
    let mut all = Troubles::new();
    for (component, pods) in by_component {
        all.extend(diagnostics.diagnose(&pods).await.map(|trouble| (component, trouble)));
    }
    Some(all).filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use controller_kit::metrics::Metrics;
    use kube::{Client, Config};
    use rendering::PodCause;
    use serde_json::{Value, json};

    use super::*;
    use crate::graph::fixtures::{graph_with, grove, observed};

    /// No server listens there.
    fn client() -> Client {
        Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap()
    }

    /// No request is sent.
    fn diagnostics() -> PodDiagnostics<Troubles> {
        PodDiagnostics::new(client())
    }

    #[tokio::test]
    async fn only_what_the_provider_of_a_graph_needs_is_read() {
        use WorkloadProvider::{Component, Grove};
        let multinode = |g: &mut Value| g["spec"]["components"][1]["multinode"] = json!({ "nodeCount": 2 });
        let policy = |g: &mut Value| {
            let policy = json!({ "clusterTopologyName": "t", "domain": "rack" });
            g["spec"]["experimental"] = json!({ "kvTransferPolicy": policy });
        };
        let settings = GraphSettings { leader_worker_sets: true, ..grove::settings().clone() };
        let applier = Applier::new(client(), "test", Metrics::new(), Vec::new());
        let apis = ServedApis::new(client());
        for (what, graph, provider, is_read) in [
            ("components on one node each", graph_with(|_| {}), Component, false),
            ("a component on several nodes", graph_with(multinode), Component, true),
            ("Grove spans nodes by itself", graph_with(multinode), Grove, false),
            ("a cluster topology", graph_with(policy), Grove, true),
        ] {
            let mut observed = observed(&graph, vec![]);
            observed.provider = provider;
            assert_eq!(read(&applier, &apis, &settings, &mut observed).await.is_err(), is_read, "{what}");
        }
    }

    #[tokio::test]
    async fn every_component_has_the_pod_that_shows_the_cause() {
        let pod = |name: &str, component: Value, reason: &str| -> Pod {
            let condition =
                json!({ "type": "PodScheduled", "status": "False", "reason": reason, "message": "no node" });
            let labels = json!({ labels::COMPONENT: component });
            let status = json!({ "phase": "Pending", "conditions": [condition] });
            serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels }, "status": status })).unwrap()
        };
        let serving: Pod =
            serde_json::from_value(json!({ "metadata": { "labels": { labels::COMPONENT: "C" } } })).unwrap();
        assert_eq!(troubles(&diagnostics(), vec![serving.clone()]).await, None);
        let (gated, unplaced) = ("SchedulingGated", "Unschedulable");
        let pods =
            vec![pod("a-1", json!("A"), gated), pod("a-2", json!("A"), unplaced), pod("b", json!("B"), gated), serving];
        let found = troubles(&diagnostics(), pods).await.unwrap();
        let causes: Vec<_> = found.iter().map(|(name, trouble)| (name.as_str(), trouble.cause)).collect();
        assert_eq!(causes, [("A", PodCause::Unschedulable), ("B", PodCause::Gated)]);
        assert_eq!(found["A"].message, "pod a-2: no node");
    }
}
