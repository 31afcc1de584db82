//! I/O in: one snapshot of everything that a decision on a request needs.

pub mod gpus;
mod pods;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use api_types::{
    labels, names,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentRequest, DynamoGraphDeploymentRequestStatus},
};
use controller_kit::{
    apply::{Applier, Error, ObjectId, timed},
    failure::Class,
    pods::{JobWaits, PodWatcher},
    read::Interruption,
    store::{Key, Packed, Store, controller_owner},
};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{ConfigMap, PersistentVolumeClaim, ServiceAccount},
        rbac::v1::RoleBinding,
    },
    jiff::Timestamp,
};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::Value;
use workload::{Diagnosis, JobEnd};

use self::gpus::Gpus;
use super::{
    cost::Trials,
    decide,
    hardware::Found,
    settings::Settings,
    standing::{Standing, graph_name, standing},
    validate,
};

/// Whether the claim with the model's weights exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Claim {
    /// It does, or there is none to look for.
    #[default]
    Fine,
    /// It does not.
    Missing(String),
}

/// What the cluster says about its GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Search {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// There are some.
    Found(Box<Found>),
    /// There are none, as far as can be seen, and why.
    Nothing(String),
    /// There may be some, but who knows did not answer, and why.
    Unanswered(String),
}

/// Everything that a decision needs.
#[derive(Debug)]
pub struct Observed {
    /// The request.
    pub request: DynamoGraphDeploymentRequest,
    /// Its spec as it is stored.
    pub spec: Value,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: the mark of what is ours.
    pub uid: String,
    /// The Job of the name of ours, whoever made it.
    pub job: Option<Job>,
    /// The ConfigMap of the name of the profiler's output, whoever made it.
    pub output: Option<ConfigMap>,
    /// ConfigMaps that were made for the request.
    pub config_maps: Vec<ConfigMap>,
    /// The graph of the wanted name, whoever made it.
    pub graph: Option<DynamoGraphDeployment>,
    /// Whether the claim with the model's weights exists; looked for before the Job is made.
    pub cache_claim: Claim,
    /// What the cluster says about its GPUs; asked before the Job is made.
    pub hardware: Search,
    /// What the Job waits for while its pod does not run.
    pub waits: JobWaits,
    /// Since when, by our clock, the profiler's Job has been complete without its output.
    pub output_missing_for: Duration,
    /// How the containers of a failed Job ended.
    pub pod_failures: Vec<String>,
    /// Graphs that the profiler has started to measure them; none where nobody looked.
    pub trials: Option<Trials>,
    /// What flags and configuration say.
    pub settings: Arc<Settings>,
}

impl Observed {
    /// A request, and nothing else yet. `spec` is as it is stored.
    pub fn of(request: DynamoGraphDeploymentRequest, spec: Value, settings: Arc<Settings>) -> Self {
        Self {
            spec,
            namespace: request.namespace().unwrap_or_default(),
            name: request.name_any(),
            uid: request.uid().unwrap_or_default(),
            request,
            settings,
            job: None,
            output: None,
            config_maps: Vec::new(),
            graph: None,
            cache_claim: Claim::default(),
            hardware: Search::default(),
            waits: JobWaits::default(),
            output_missing_for: Duration::ZERO,
            pod_failures: Vec::new(),
            trials: None,
        }
    }

    /// Whether an object is the request's.
    pub fn is_ours<K: Resource>(&self, object: &K) -> bool {
        controller_owner(object).is_some_and(|owner| owner.uid == self.uid)
    }

    /// The status as it was.
    pub fn status(&self) -> DynamoGraphDeploymentRequestStatus {
        self.request.status.clone().unwrap_or_default()
    }

    /// The graph that the profiler proposed.
    pub fn selected(&self) -> Option<&Value> {
        self.request.status.as_ref()?.profiling_results.as_ref()?.selected_config.as_ref()
    }
}

/// The caches that decisions rest on.
#[derive(Clone)]
pub struct Caches {
    /// Requests.
    pub requests: Store<Packed<DynamoGraphDeploymentRequest>>,
    /// Graphs.
    pub graphs: Store<Packed<DynamoGraphDeployment>>,
    /// Jobs that profile.
    pub jobs: Store<Packed<Job>>,
    /// ConfigMaps that were made for requests.
    pub config_maps: Store<Packed<ConfigMap>>,
    /// Accounts that the operator made.
    pub accounts: Store<Packed<ServiceAccount>>,
    /// What they may do.
    pub bindings: Store<Packed<RoleBinding>>,
}

/// The caches, and a client for what no cache holds.
#[derive(Clone)]
pub struct Observer {
    client: Client,
    applier: Applier,
    /// The caches.
    pub caches: Caches,
    gpus: Gpus,
    pods: Arc<PodWatcher<Diagnosis>>,
    settings: Arc<Settings>,
    /// Since when outputs are missing, by the uid of the request.
    missing: Arc<Mutex<HashMap<String, Instant>>>,
}

impl Observer {
    /// Looks into these caches.
    pub fn new(client: Client, applier: Applier, caches: Caches, settings: Arc<Settings>) -> Self {
        let gpus = Gpus::new(client.clone(), &settings);
        let pods = Arc::new(PodWatcher::new(client.clone()));
        Self { client, applier, caches, gpus, pods, settings, missing: Arc::default() }
    }

    /// The snapshot for one request.
    ///
    /// # Errors
    /// An API server that does not answer, or a child whose form nobody knows.
    pub async fn observe(&self, packed: &Packed<DynamoGraphDeploymentRequest>) -> Result<Observed, Interruption> {
        let request = packed.unpack()?;
        let spec = packed.value().get_mut("spec").map(Value::take).unwrap_or_default();
        let Key { namespace, name } = Key::of(packed);
        let at = |name: String| Key::new(&namespace, &name);
        let job = self.caches.jobs.get(&at(names::profiling_job(&name))).map(|job| job.unpack());
        let output = self.caches.config_maps.get(&at(names::profiling_output(&name))).map(|map| map.unpack());
        let graph = self.caches.graphs.get(&at(graph_name(&request))).map(|graph| graph.unpack());
        let mut observed = Observed {
            output: output.transpose()?,
            config_maps: self.config_maps_of(&namespace, &name),
            graph: graph.transpose()?,
            job: job.transpose()?,
            ..Observed::of(request, spec, self.settings.clone())
        };
        if decide::begins(&observed) {
            self.look_before_profiling(&mut observed).await?;
        }
        if standing(&observed.request) == Standing::Profiling {
            self.look_at_profiler(&mut observed).await?;
            self.look_for_output(&mut observed).await?;
            pods::look_at_trials(&self.client, &self.caches.graphs, &mut observed).await?;
        }
        Ok(observed)
    }

    /// Why the profiler's pod does not start, or how it failed.
    async fn look_at_profiler(&self, observed: &mut Observed) -> Result<(), Error> {
        let Some(job) = observed.job.as_ref().filter(|job| observed.is_ours(*job)) else { return Ok(()) };
        observed.waits = self.pods.waits_of_job(job, Timestamp::now()).await;
        if JobEnd::Failed.of(job).is_some() {
            observed.pod_failures = pods::failures(&self.client, observed).await?;
        }
        Ok(())
    }

    /// Reads the output past the cache before it counts as lost: a watch may lag behind that of the Job, or hang.
    async fn look_for_output(&self, observed: &mut Observed) -> Result<(), Error> {
        if !decide::awaits_output(observed) {
            self.missing().remove(&observed.uid);
            return Ok(());
        }
        observed.output_missing_for = {
            let live: HashSet<_> = self.caches.requests.all().iter().filter_map(|request| request.uid()).collect();
            let mut missing = self.missing();
            missing.retain(|uid, _| live.contains(uid));
            missing.entry(observed.uid.clone()).or_insert_with(Instant::now).elapsed()
        };
        if decide::is_overdue(observed) {
            let name = names::profiling_output(&observed.name);
            let live = self.applier.find::<ConfigMap>(&observed.namespace, &name).await?;
            observed.output = live.and_then(|map| serde_json::from_value(map).ok());
        }
        Ok(())
    }

    fn missing(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ConfigMap of the name of the profiler's output that no cache shows, because it has not the labels of ours:
    /// what counts is whose it is.
    async fn hidden_output(&self, observed: &Observed) -> Result<Option<ConfigMap>, Error> {
        let id = ObjectId::named::<ConfigMap>(&observed.namespace, &names::profiling_output(&observed.name));
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &observed.namespace);
        match timed("read", &id, api.get_metadata_opt(&id.name)).await {
            Ok(found) => Ok(found.map(|found| ConfigMap { metadata: found.metadata, ..ConfigMap::default() })),
            // The relay finds out.
            Err(error) if error.class() == Class::Forbidden => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn config_maps_of(&self, namespace: &str, request: &str) -> Vec<ConfigMap> {
        let label = names::label_value(request);
        let all = self.caches.config_maps.all();
        let ours = all.iter().filter(|map| {
            map.namespace().as_deref() == Some(namespace)
                && map.labels().get(labels::REQUEST_NAME) == Some(&label)
                && map.labels().get(labels::REQUEST_NAMESPACE).map(String::as_str) == Some(namespace)
        });
        ours.filter_map(|map| map.unpack().ok()).collect()
    }

    async fn look_before_profiling(&self, observed: &mut Observed) -> Result<(), Interruption> {
        if observed.job.is_none() && observed.output.is_none() {
            observed.output = self.hidden_output(observed).await?;
        }
        let spec = &observed.request.spec;
        let claim = spec.model_cache.as_ref().and_then(|cache| cache.pvc_name.clone()).filter(|name| !name.is_empty());
        if let Some(claim) = claim {
            match self.applier.find::<PersistentVolumeClaim>(&observed.namespace, &claim).await {
                Ok(Some(_)) => {}
                Ok(None) => observed.cache_claim = Claim::Missing(claim),
                // Not allowed to look: the pod will wait for it, and say so.
                Err(error) if error.class() == Class::Forbidden => {}
                Err(error) => return Err(error.into()),
            }
        }
        let hardware = observed.request.spec.hardware.as_ref();
        if self.settings.gpu_discovery && validate::wants_search(hardware) {
            let wanted = validate::wanted_gpu(hardware);
            observed.hardware = match self.gpus.search(wanted).await {
                // What is nice to know holds nobody up.
                Err(_) if !validate::needs_search(hardware) => Search::NotAsked,
                other => other?,
            };
        }
        Ok(())
    }
}
