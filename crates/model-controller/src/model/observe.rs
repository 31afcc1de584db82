//! The read phase: caches, and the pods that no cache holds.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::IpAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use api_types::{labels, v1alpha1::DynamoModel};
use controller_kit::{
    request::{Interruption, is_object_name, read},
    store::{Key, Packed, Store},
    sync::locked,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api, Client, Resource,
    api::{ListParams, ObjectMeta},
};

use super::{
    endpoints::{PodFacts, PodsByUid, is_verified},
    fallback,
    fallback::WorkerGroup,
    model::{EnginePod, FoundEndpoints, ModelClaim, ModelObserved, Requested},
    ownership::{Ownership, resolve_ownership},
};
use crate::engine::{
    AdapterName, DesiredAdapter, DesiredAdapters, Endpoint, PoolId, apply::SharedFleet, state::AdapterStates,
};

/// Caches, engines, and a client for objects that are in no cache.
pub struct ModelObserver {
    client: Client,
    models: Store<Packed<DynamoModel>>,
    slices: Store<Packed<EndpointSlice>>,
    fleet: SharedFleet,
    read: Mutex<ReadModels>,
}

/// Parsed objects of the caches, by their version: a status of hundreds of endpoints is not parsed for every change of
/// another model.
#[derive(Debug, Default)]
struct ReadModels {
    claims: ByVersion<Option<Arc<ModelClaim>>>,
    slices: ByVersion<Arc<FoundEndpoints>>,
    /// Pods of endpoints.
    pods: PodsByUid,
    /// Time of the last read of the pod of an endpoint that could not be verified.
    refused: HashMap<(Arc<str>, IpAddr), Instant>,
}

/// Contents of objects, and the version that each is of.
type ByVersion<T> = HashMap<Key, (Option<String>, T)>;

/// Minimum time between two reads of the pod of an endpoint that cannot be verified.
const READ_AGAIN: Duration = Duration::from_secs(30);

/// Maximum pods that are read one by one.
const ONE_BY_ONE: usize = 5;

impl ModelObserver {
    /// An observer of these caches.
    pub fn new(
        client: Client,
        models: Store<Packed<DynamoModel>>,
        slices: Store<Packed<EndpointSlice>>,
        fleet: SharedFleet,
    ) -> Self {
        Self { client, models, slices, fleet, read: Mutex::default() }
    }

    /// Observes one model, and syncs the engines of its base model.
    ///
    /// # Errors
    /// An API server that does not answer.
    pub async fn observe(&self, model: DynamoModel) -> Result<ModelObserved, Interruption> {
        let claim = Arc::new(ModelClaim::of(&model));
        self.verify(&claim.pool).await?;
        let (found, ownership) = self.sync(&claim.pool);
        let adapter_states = self.adapter_states(&claim);
        let groups = self.groups(&found);
        Ok(ModelObserved {
            violations: super::validate::validate(&model.spec).err(),
            model,
            taken_by: ownership.taken.get(&claim.key).cloned(),
            covered: fallback::covered(&found.endpoints, &adapter_states, &groups),
            lingering: self.lingering(&claim, &ownership.desired).into_keys().collect(),
            adapter_states,
            found,
            claim,
        })
    }

    /// Pods that may still hold an adapter that this model loaded and no model requests.
    ///
    /// # Errors
    /// An API server that does not answer.
    pub async fn holders(&self, model: &DynamoModel) -> Result<BTreeSet<String>, Interruption> {
        let claim = ModelClaim::of(model);
        self.verify(&claim.pool).await?;
        let (_, ownership) = self.sync(&claim.pool);
        Ok(self.lingering(&claim, &ownership.desired).into_values().flatten().collect())
    }

    /// Syncs the engines of a pool with the caches. Returns its endpoints and claims.
    pub fn sync(&self, pool: &PoolId) -> (FoundEndpoints, Ownership) {
        // Held to the end: of two concurrent syncs, the one that reads later also writes later.
        let mut read = locked(&self.read);
        let slices: Vec<Arc<FoundEndpoints>> = self.slices_of(&mut read, pool);
        let found = FoundEndpoints::of(slices.iter().map(AsRef::as_ref), &read.pods);
        let claims = self.claims(&mut read, &pool.namespace);
        let ownership = resolve_ownership(claims.iter().filter(|claim| claim.pool == *pool).map(AsRef::as_ref));
        self.fleet.sync(pool, &found.endpoints, ownership.desired.clone());
        (found, ownership)
    }

    /// Syncs all pools, and drops those without models. For objects whose deletion was missed.
    pub fn sweep(&self) {
        {
            let mut read = locked(&self.read);
            let live: HashSet<Key> = self.models.keys().into_iter().collect();
            read.claims.retain(|key, _| live.contains(key));
            let live: HashSet<Key> = self.slices.keys().into_iter().collect();
            read.slices.retain(|key, _| live.contains(key));
            let endpoints = read.slices.values().flat_map(|(_, slice)| &slice.endpoints);
            let pods: HashSet<Arc<str>> = endpoints.map(|endpoint| Arc::clone(&endpoint.pod)).collect();
            read.pods.retain(|pod, _| pods.contains(pod));
            read.refused.retain(|_, read_at| read_at.elapsed() < READ_AGAIN);
        }
        let pools = self.fleet.lock().pools();
        for pool in pools {
            self.sync(&pool);
        }
    }

    /// The models that a slice concerns.
    pub fn models_of(&self, slice: &ObjectMeta) -> Vec<Key> {
        let Some(hash) = slice.labels.as_ref().and_then(|labels| labels.get(labels::BASE_MODEL_HASH)) else {
            return Vec::new();
        };
        let namespace = slice.namespace.as_deref().unwrap_or_default();
        let mut read = locked(&self.read);
        let concerned =
            self.claims(&mut read, namespace).into_iter().filter(|claim| *claim.pool.base_model_hash == **hash);
        concerned.map(|claim| claim.key.clone()).collect()
    }

    fn adapter_states(&self, claim: &ModelClaim) -> AdapterStates {
        let Requested::Adapter { name, source } = &claim.requested else { return AdapterStates::new() };
        let desired = DesiredAdapter { source: source.clone(), models: BTreeSet::new(), trust: claim.trust.clone() };
        self.fleet.lock().adapter_states(&claim.pool, name, &desired)
    }

    /// Adapters that no model requests and some engine may still hold, with the pods.
    fn lingering(&self, claim: &ModelClaim, desired: &DesiredAdapters) -> HashMap<AdapterName, Vec<String>> {
        let fleet = self.fleet.lock();
        let obsolete = claim.leftovers().into_iter().filter(|name| desired.unload.contains_key(name));
        let holders = obsolete.map(|name| (name.clone(), fleet.may_hold(&claim.pool, &name)));
        holders.filter(|(_, pods)| !pods.is_empty()).collect()
    }

    fn claims(&self, read: &mut ReadModels, namespace: &str) -> Vec<Arc<ModelClaim>> {
        let claim = |model: Arc<Packed<DynamoModel>>| {
            // The reconcile of a model that cannot be read reports it.
            let claim = || model.unpack().ok().map(|model| Arc::new(ModelClaim::of(&model)));
            content_of(model.as_ref(), &mut read.claims, claim)
        };
        self.models.in_namespace(namespace).into_iter().filter_map(claim).collect()
    }

    fn slices_of(&self, read: &mut ReadModels, pool: &PoolId) -> Vec<Arc<FoundEndpoints>> {
        let of_pool = |slice: &Arc<Packed<EndpointSlice>>| {
            let hash = slice.metadata.labels.as_ref().and_then(|labels| labels.get(labels::BASE_MODEL_HASH));
            hash.map(String::as_str) == Some(&pool.base_model_hash)
        };
        let slice = |slice: Arc<Packed<EndpointSlice>>| {
            let content = || Arc::new(slice.unpack().map(|slice| FoundEndpoints::of_slice(&slice)).unwrap_or_default());
            content_of(slice.as_ref(), &mut read.slices, content)
        };
        self.slices.in_namespace(&pool.namespace).into_iter().filter(of_pool).map(slice).collect()
    }

    /// Returns the prefill workers that can be covered.
    fn groups(&self, found: &FoundEndpoints) -> HashMap<Arc<str>, WorkerGroup> {
        let read = locked(&self.read);
        let known = found.endpoints.iter().filter_map(|endpoint| {
            let group = read.pods.get(&endpoint.pod)?.group.clone()?;
            Some((Arc::clone(&endpoint.pod), group))
        });
        known.collect()
    }

    /// Reads the pods of endpoints that are not verified yet. A pod has its address before a slice has it.
    async fn verify(&self, pool: &PoolId) -> Result<(), Interruption> {
        let unverified: Vec<Endpoint> = {
            let mut read = locked(&self.read);
            let slices = self.slices_of(&mut read, pool);
            let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
            let unverified = endpoints.filter(|endpoint| {
                let refused = read.refused.get(&(Arc::clone(&endpoint.pod), endpoint.address));
                // Names in slices are written by others.
                is_object_name(&endpoint.pod_name)
                    && !is_verified(endpoint, &read.pods)
                    && refused.is_none_or(|read_at| read_at.elapsed() >= READ_AGAIN)
            });
            unverified.cloned().collect()
        };
        let mut pods = Vec::new();
        if unverified.len() > ONE_BY_ONE {
            pods = self.pods(pool, None).await?;
        } else {
            for endpoint in &unverified {
                pods.extend(self.pods(pool, Some(&endpoint.pod_name)).await?);
            }
        }
        let mut read = locked(&self.read);
        for pod in &pods {
            if let Some(uid) = pod.metadata.uid.as_deref() {
                read.pods.insert(uid.into(), PodFacts::of(pod));
            }
        }
        for endpoint in unverified {
            if !is_verified(&endpoint, &read.pods) {
                read.refused.insert((endpoint.pod, endpoint.address), Instant::now());
            }
        }
        Ok(())
    }

    /// The pods of a base model: all, or the one of this name.
    async fn pods(&self, pool: &PoolId, name: Option<&str>) -> Result<Vec<EnginePod>, Interruption> {
        let api: Api<EnginePod> = Api::namespaced(self.client.clone(), &pool.namespace);
        let selector = format!("{}={}", labels::BASE_MODEL_HASH, pool.base_model_hash);
        let mut params = ListParams::default().labels(&selector);
        if let Some(name) = name {
            params = params.fields(&format!("metadata.name={name}"));
        }
        let what = || format!("list pods of {} with {selector}", pool.namespace);
        Ok(read(what, api.list(&params)).await?.items)
    }
}

/// The content of an object: the known one if it is of the same version, else what `parse` returns.
fn content_of<K: Resource, T: Clone>(object: &Packed<K>, known: &mut ByVersion<T>, parse: impl FnOnce() -> T) -> T {
    let (key, version) = (Key::of(object), &object.metadata.resource_version);
    if let Some((_, content)) = known.get(&key).filter(|(of, _)| of == version) {
        return content.clone();
    }
    let content = parse();
    known.insert(key, (version.clone(), content.clone()));
    content
}
