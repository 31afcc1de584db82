//! The read phase: caches, and the pods that no cache holds.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use api_types::{labels, v1alpha1::DynamoModel};
use controller_kit::{
    read::{Interruption, read},
    store::{Key, Packed, Store},
};
use k8s_openapi::api::{core::v1::Pod, discovery::v1::EndpointSlice};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta},
};

use super::{
    claim::{Asks, Claim, Settlement, settle},
    endpoints::{Found, PodFacts, Pods, Slice, is_verified},
    fallback::{self, Group},
    model::Observed,
};
use crate::engine::{
    AdapterName, Endpoint, PoolId,
    apply::SharedFleet,
    view::Stand,
    wishes::{Wanted, Wishes},
};

/// The caches that decisions rest on, the engines, and a client for what no cache holds.
pub struct Observer {
    client: Client,
    models: Store<Packed<DynamoModel>>,
    slices: Store<Packed<EndpointSlice>>,
    fleet: SharedFleet,
    read: Mutex<Read>,
}

/// What was read from cached objects, by their version: a status of hundreds of endpoints is not read again for every
/// change of another model.
#[derive(Debug, Default)]
struct Read {
    claims: HashMap<Key, (Option<String>, Option<Arc<Claim>>)>,
    slices: HashMap<Key, (Option<String>, Arc<Slice>)>,
    /// Pods of endpoints.
    pods: Pods,
    /// When the API server was last asked for the pod of an endpoint that could not be verified then.
    refused: HashMap<(Arc<str>, IpAddr), Instant>,
}

/// Least time between two questions for the pod of an endpoint that cannot be verified.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Most pods that are asked for one by one.
const ONE_BY_ONE: usize = 5;

impl Observer {
    /// Looks into these caches.
    pub fn new(
        client: Client,
        models: Store<Packed<DynamoModel>>,
        slices: Store<Packed<EndpointSlice>>,
        fleet: SharedFleet,
    ) -> Self {
        Self { client, models, slices, fleet, read: Mutex::default() }
    }

    /// The snapshot for one model. The engines of its base model learn what is wished of them on the way.
    ///
    /// # Errors
    /// An API server that does not answer.
    pub async fn observe(&self, model: DynamoModel) -> Result<Observed, Interruption> {
        let claim = Arc::new(Claim::of(&model));
        self.verify(&claim.pool).await?;
        let (found, settlement) = self.sync(&claim.pool);
        let stands = self.stands(&claim);
        let groups = self.groups(&found);
        Ok(Observed {
            violations: super::validate::validate(&model.spec).err(),
            model,
            taken_by: settlement.taken.get(&claim.key).cloned(),
            covered: fallback::covered(&found.endpoints, &stands, &groups),
            lingering: self.lingering(&claim, &settlement.wishes).into_keys().collect(),
            stands,
            found,
            claim,
        })
    }

    /// Pods that may still hold an adapter which this model loaded and nobody wants any more.
    ///
    /// # Errors
    /// An API server that does not answer.
    pub async fn holders(&self, model: &DynamoModel) -> Result<BTreeSet<String>, Interruption> {
        let claim = Claim::of(model);
        self.verify(&claim.pool).await?;
        let (_, settlement) = self.sync(&claim.pool);
        Ok(self.lingering(&claim, &settlement.wishes).into_values().flatten().collect())
    }

    /// Tells the engines of a pool what is wished of them, as the caches are at this moment. Returns both.
    pub fn sync(&self, pool: &PoolId) -> (Found, Settlement) {
        // Held to the end: of two that do this at the same time, the one that read later also writes later.
        let mut read = self.read();
        let slices: Vec<Arc<Slice>> = self.slices_of(&mut read, pool);
        let found = Found::of(slices.iter().map(AsRef::as_ref), &read.pods);
        let claims = self.claims(&mut read);
        let settlement = settle(claims.iter().filter(|claim| claim.pool == *pool).map(AsRef::as_ref));
        self.fleet.sync(pool, &found.endpoints, settlement.wishes.clone());
        (found, settlement)
    }

    /// Looks at all pools again, and forgets what is gone. Objects that vanish without a last word are noticed here.
    pub fn sweep(&self) {
        {
            let mut read = self.read();
            let live: HashSet<Key> = self.models.keys().into_iter().collect();
            read.claims.retain(|key, _| live.contains(key));
            let live: HashSet<Key> = self.slices.keys().into_iter().collect();
            read.slices.retain(|key, _| live.contains(key));
            let pods: HashSet<Arc<str>> = read
                .slices
                .values()
                .flat_map(|(_, slice)| slice.endpoints.iter().map(|endpoint| Arc::clone(&endpoint.pod)))
                .collect();
            read.pods.retain(|pod, _| pods.contains(pod));
            read.refused.retain(|_, asked| asked.elapsed() < ASK_AGAIN);
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
        let mut read = self.read();
        let concerned = self
            .claims(&mut read)
            .into_iter()
            .filter(|claim| *claim.pool.base_model_hash == **hash && *claim.pool.namespace == *namespace);
        concerned.map(|claim| claim.key.clone()).collect()
    }

    fn stands(&self, claim: &Claim) -> HashMap<Arc<str>, Stand> {
        let Asks::Adapter { name, source } = &claim.asks else { return HashMap::new() };
        let wanted = Wanted { source: source.clone(), models: BTreeSet::new(), trust: claim.trust.clone() };
        self.fleet.lock().stands(&claim.pool, name, &wanted)
    }

    /// Adapters that nobody wants any more and some engine may still hold, with the pods.
    fn lingering(&self, claim: &Claim, wishes: &Wishes) -> HashMap<AdapterName, Vec<String>> {
        let fleet = self.fleet.lock();
        let unwanted = claim.leftovers().into_iter().filter(|name| wishes.unload.contains_key(name));
        let holders = unwanted.map(|name| (name.clone(), fleet.may_hold(&claim.pool, &name)));
        holders.filter(|(_, pods)| !pods.is_empty()).collect()
    }

    fn claims(&self, read: &mut Read) -> Vec<Arc<Claim>> {
        let claim = |model: Arc<Packed<DynamoModel>>| {
            let (key, version) = (Key::of(model.as_ref()), &model.metadata.resource_version);
            if let Some((known, claim)) = read.claims.get(&key)
                && known == version
            {
                return claim.clone();
            }
            // One that cannot be read says so in its own reconcile.
            let claim = model.unpack().ok().map(|model| Arc::new(Claim::of(&model)));
            read.claims.insert(key, (version.clone(), claim.clone()));
            claim
        };
        self.models.all().into_iter().filter_map(claim).collect()
    }

    fn slices_of(&self, read: &mut Read, pool: &PoolId) -> Vec<Arc<Slice>> {
        let of_pool = |slice: &Arc<Packed<EndpointSlice>>| {
            let hash = slice.metadata.labels.as_ref().and_then(|labels| labels.get(labels::BASE_MODEL_HASH));
            slice.metadata.namespace.as_deref() == Some(&pool.namespace)
                && hash.map(String::as_str) == Some(&pool.base_model_hash)
        };
        let slice = |slice: Arc<Packed<EndpointSlice>>| {
            let (key, version) = (Key::of(slice.as_ref()), &slice.metadata.resource_version);
            if let Some((known, slice)) = read.slices.get(&key)
                && known == version
            {
                return Arc::clone(slice);
            }
            let content = Arc::new(slice.unpack().map(|slice| Slice::of(&slice)).unwrap_or_default());
            read.slices.insert(key, (version.clone(), Arc::clone(&content)));
            content
        };
        self.slices.all().into_iter().filter(of_pool).map(slice).collect()
    }

    /// Which prefill workers can be covered.
    fn groups(&self, found: &Found) -> HashMap<Arc<str>, Group> {
        let read = self.read();
        let known = found.endpoints.iter().filter_map(|endpoint| {
            let group = read.pods.get(&endpoint.pod)?.group.clone()?;
            Some((Arc::clone(&endpoint.pod), group))
        });
        known.collect()
    }

    /// Asks the API server for the pods of endpoints that are not known to be theirs. A pod has its address before a slice has it.
    async fn verify(&self, pool: &PoolId) -> Result<(), Interruption> {
        let unverified: Vec<Endpoint> = {
            let mut read = self.read();
            let slices = self.slices_of(&mut read, pool);
            let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
            let unverified = endpoints.filter(|endpoint| {
                let refused = read.refused.get(&(Arc::clone(&endpoint.pod), endpoint.address));
                is_name(&endpoint.pod_name)
                    && !is_verified(endpoint, &read.pods)
                    && refused.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN)
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
        let mut read = self.read();
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
    async fn pods(&self, pool: &PoolId, name: Option<&str>) -> Result<Vec<Pod>, Interruption> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pool.namespace);
        let selector = format!("{}={}", labels::BASE_MODEL_HASH, pool.base_model_hash);
        let mut params = ListParams::default().labels(&selector);
        if let Some(name) = name {
            params = params.fields(&format!("metadata.name={name}"));
        }
        let what = || format!("list pods of {} with {selector}", pool.namespace);
        Ok(read(what, api.list(&params)).await?.items)
    }

    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a field selector can hold a name. Slices are written by others.
fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}
