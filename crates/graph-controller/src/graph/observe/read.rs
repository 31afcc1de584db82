//! Reads what no cache holds.

use api_types::grove::PodCliqueSet;
use controller_kit::{
    apply::{Applier, Error, ObjectId},
    claims::claimed_gpus,
    failure::Class,
    store::{ServedApi, ServedApis},
};
use kube::core::ApiResource;
use rendering::LeaderWorkerSet;
use serde_json::Value;

use super::grove::{kai_queues, topology_bindings, volcano_groups};
use crate::graph::{
    model::{Cached, GroveNeeds, Needs, Reads, TopologyNeed},
    settings::Settings,
};

/// APIs that a graph may need and of which no object is cached.
#[derive(Clone)]
pub struct Apis {
    /// LeaderWorkerSets; none if the configuration switches them off.
    pub leader_worker_sets: Option<ServedApi>,
    /// PodCliqueSets; none if the configuration switches Grove off.
    pub pod_clique_sets: Option<ServedApi>,
    /// Queues of the KAI scheduler; none if the configuration decides whether it is used.
    pub kai_queues: Option<ServedApi>,
    /// Pod groups of the Volcano scheduler; none unless the configuration asks for it.
    pub volcano_groups: Option<ServedApi>,
}

impl Apis {
    /// Those that the settings use; nothing is asked yet.
    pub fn new(apis: &ServedApis, settings: &Settings) -> Self {
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
/// What the API server answered.
pub async fn read(
    applier: &Applier,
    apis: &Apis,
    settings: &Settings,
    cached: &Cached,
    needs: &Needs,
) -> Result<Reads, Error> {
    let leader_worker_sets = needs.leader_worker_sets && is_served(apis.leader_worker_sets.as_ref()).await?;
    let reads = Reads { leader_worker_sets, ..Reads::default() };
    match &needs.grove {
        Some(grove) => read_grove(applier, apis, settings, cached, grove, reads).await,
        None => Ok(reads),
    }
}

async fn read_grove(
    applier: &Applier,
    apis: &Apis,
    settings: &Settings,
    cached: &Cached,
    needs: &GroveNeeds,
    mut reads: Reads,
) -> Result<Reads, Error> {
    let served = cached.served.grove;
    reads.kai = match needs.live_kai {
        Some(kai) => kai,
        None => served && is_served(apis.kai_queues.as_ref()).await?,
    };
    reads.volcano = served && is_served(apis.volcano_groups.as_ref()).await?;
    let scheduler = settings.grove.rendering(reads.kai).scheduler;
    if let Some(queue) = scheduler.kai_queue(cached.graph.metadata.annotations.as_ref().unwrap_or(&Default::default()))
        && served
        && !cached.grove.waits_in(queue)
        && !exists(applier, queue).await?
    {
        reads.missing_queue = Some(queue.to_owned());
    }
    if let Some(topology) = &needs.topology {
        (reads.topology_domains, reads.topology_hidden) = domains(applier, topology).await?;
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
/// What the API server answered.
pub async fn is_served(api: Option<&ServedApi>) -> Result<bool, Error> {
    match api {
        Some(api) => api.is_served().await,
        None => Ok(false),
    }
}

/// Whether a queue exists. An install for one namespace has no right to read it; then it counts as existing, and pods
/// that stay pending show that it does not.
async fn exists(applier: &Applier, queue: &str) -> Result<bool, Error> {
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
async fn domains(applier: &Applier, topology: &TopologyNeed) -> Result<(Option<Vec<String>>, bool), Error> {
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
/// What the API server answered.
pub async fn get(applier: &Applier, resource: &ApiResource, name: &str) -> Result<Option<Value>, Error> {
    applier.get(resource, &ObjectId::new(resource, "", name)).await
}

/// The domains of a cluster topology, the widest first.
fn levels(binding: &Value) -> Vec<String> {
    let levels = binding.pointer("/spec/levels").and_then(Value::as_array).into_iter().flatten();
    levels.filter_map(|level| level["domain"].as_str()).map(str::to_owned).collect()
}
