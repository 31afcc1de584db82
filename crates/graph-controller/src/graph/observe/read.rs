//! Reads what no cache holds, and diagnoses pods of a graph on Grove that do not become ready.

use std::collections::BTreeMap;

use api_types::{grove::PodCliqueSet, labels, v1beta1::DynamoGraphDeployment};
use controller_kit::{
    apply::{Applier, ObjectId, RequestError},
    claims::claimed_gpus,
    failure::Class,
    pods::{PodDiagnostics, PodsOf},
    store::{ServedApi, ServedApis},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, core::ApiResource};
use rendering::LeaderWorkerSet;
use serde_json::Value;

use super::grove::{kai_queues, topology_bindings, volcano_groups};
use crate::graph::{
    model::{ClusterApis, GraphNeeds, GraphObserved, GroveNeeds, Reads, TopologyNeed, Troubles},
    settings::GraphSettings,
};

/// APIs that a graph may need and of which no object is cached.
#[derive(Clone)]
pub struct Apis {
    /// LeaderWorkerSets; none if the configuration switches them off.
    pub leader_worker_sets: Option<ServedApi>,
    /// PodCliqueSets; none if the configuration switches Grove off.
    pub pod_clique_sets: Option<ServedApi>,
    /// Queues of the KAI scheduler; none if the configuration says whether it is used.
    pub kai_queues: Option<ServedApi>,
    /// Pod groups of the Volcano scheduler; none unless the configuration asks for it.
    pub volcano_groups: Option<ServedApi>,
}

impl Apis {
    /// Those that the settings use; nothing is asked yet.
    pub fn new(apis: &ServedApis, settings: &GraphSettings) -> Self {
        let served = |resource| ServedApi::new(apis, resource);
        let leader_worker_sets = ApiResource::erase::<LeaderWorkerSet>(&());
        Self {
            leader_worker_sets: settings.leader_worker_sets.then(|| served(leader_worker_sets)),
            pod_clique_sets: settings.grove.enabled.then(|| served(ApiResource::erase::<PodCliqueSet>(&()))),
            kai_queues: (settings.grove.enabled && settings.grove.kai.is_none()).then(|| served(kai_queues())),
            volcano_groups: (settings.grove.enabled && settings.grove.volcano).then(|| served(volcano_groups())),
        }
    }
}

/// Reads what a graph needs past the caches.
///
/// # Errors
/// The API server rejects the request, or does not answer.
pub async fn read(
    applier: &Applier,
    apis: &Apis,
    settings: &GraphSettings,
    cached: &GraphObserved,
    needs: &GraphNeeds,
) -> Result<Reads, RequestError> {
    let leader_worker_sets = needs.leader_worker_sets && is_served(apis.leader_worker_sets.as_ref()).await?;
    let reads = Reads { served: ClusterApis { leader_worker_sets, ..cached.served }, ..Reads::default() };
    match &needs.grove {
        Some(grove) => read_grove(applier, apis, settings, cached, grove, reads).await,
        None => Ok(reads),
    }
}

async fn read_grove(
    applier: &Applier,
    apis: &Apis,
    settings: &GraphSettings,
    cached: &GraphObserved,
    needs: &GroveNeeds,
    mut reads: Reads,
) -> Result<Reads, RequestError> {
    let served = cached.served.grove;
    reads.served.kai = match needs.live_kai {
        Some(kai) => kai,
        None => served && is_served(apis.kai_queues.as_ref()).await?,
    };
    reads.served.volcano = served && is_served(apis.volcano_groups.as_ref()).await?;
    let scheduler = settings.grove.rendering(reads.served.kai).scheduler;
    if let Some(queue) = scheduler.kai_queue(cached.graph.metadata.annotations.as_ref().unwrap_or(&Default::default()))
        && served
        && !cached.grove.waits_in(queue)
        && !exists(applier, queue).await?
    {
        reads.missing_queue = Some(queue.to_owned());
    }
    if let Some(topology) = &needs.topology {
        (reads.topology_domains, reads.served.topology_hidden) = domains(applier, topology).await?;
    }
    let namespace = cached.graph.metadata.namespace.as_deref().unwrap_or_default();
    for (component, claims) in &needs.gpu_claims {
        let gpus = claimed_gpus(applier, namespace, claims).await?;
        reads.claimed_gpus.insert(component.clone(), gpus.map_err(|why| why.to_string()));
    }
    Ok(reads)
}

/// Whether an API is served; no if the configuration switches it off.
///
/// # Errors
/// The API server rejects the request, or does not answer.
pub async fn is_served(api: Option<&ServedApi>) -> Result<bool, RequestError> {
    match api {
        Some(api) => api.is_served().await,
        None => Ok(false),
    }
}

/// Whether a queue exists. An install for one namespace has no right to read it; then it counts as existing, and pods
/// that stay pending show that it does not.
async fn exists(applier: &Applier, queue: &str) -> Result<bool, RequestError> {
    match get(applier, &kai_queues(), queue).await {
        Ok(found) => Ok(found.is_some()),
        Err(error) if error.class() == Class::Forbidden => Ok(true),
        Err(error) => Err(error),
    }
}

/// The domains of a cluster topology, and whether reading it is forbidden.
///
/// An install for one namespace has no right to read it. Live pods keep the domains that they were rendered with; a new
/// graph gets the domain that it names. The status names the missing right.
async fn domains(applier: &Applier, topology: &TopologyNeed) -> Result<(Option<Vec<String>>, bool), RequestError> {
    match get(applier, &topology_bindings(), &topology.name).await {
        Ok(found) => Ok((found.as_ref().map(levels), false)),
        Err(error) if error.class() == Class::Forbidden => {
            let live = topology.live_domains.clone().filter(|live| live.contains(&topology.domain));
            Ok((Some(live.unwrap_or_else(|| vec![topology.domain.clone()])), true))
        }
        Err(error) => Err(error),
    }
}

/// A cluster-scoped object.
///
/// # Errors
/// The API server rejects the request, or does not answer.
pub async fn get(applier: &Applier, resource: &ApiResource, name: &str) -> Result<Option<Value>, RequestError> {
    applier.get(resource, &ObjectId::new(resource, "", name)).await
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
    use kube::{Client, Config};
    use rendering::PodCause;
    use serde_json::{Value, json};

    use super::*;

    /// No server listens there, and no request is sent.
    fn diagnostics() -> PodDiagnostics<Troubles> {
        PodDiagnostics::new(Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap())
    }

    #[tokio::test]
    async fn every_component_has_the_pod_that_tells_why() {
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
