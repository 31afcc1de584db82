//! Reads the snapshot that everything about a request is planned on.

pub mod gpus;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Instant,
};

use api_types::{
    labels, names,
    typed::typed,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentRequest as Request},
};
use controller_kit::{
    apply::{Applier, ObjectId, RequestError, timed},
    pods::PodDiagnostics,
    request::Interruption,
    store::{Key, Packed, Store},
    sync::locked,
    uid_map::UidMap,
};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{ConfigMap, ContainerStatus, PersistentVolumeClaim, Pod, ServiceAccount},
        rbac::v1::RoleBinding,
    },
    jiff::Timestamp,
};
use kube::{
    Client, ResourceExt,
    api::{Api, ListParams},
};
use rendering::{JobEnd, PodDiagnosis};
use serde_json::Value;

use self::gpus::Gpus;
use super::{
    hardware::{needs_search, uses_search},
    model::{RequestObserved, Search},
    output::{awaits_output, is_overdue},
    phase::{RequestLifecycle, begins, graph_name, phase_of},
    settings::RequestSettings,
};
use crate::{
    graph::observe::read::unless_forbidden,
    request::{cost, cost::Trials},
};

/// The caches of requests and of what belongs to them.
#[derive(Clone)]
pub struct RequestCaches {
    /// Requests.
    pub requests: Store<Packed<Request>>,
    /// Graphs.
    pub graphs: Store<Packed<DynamoGraphDeployment>>,
    /// Jobs that profile.
    pub jobs: Store<Packed<Job>>,
    /// ConfigMaps that were made for requests.
    pub config_maps: Store<Packed<ConfigMap>>,
    /// Accounts that the operator made.
    pub accounts: Store<Packed<ServiceAccount>>,
    /// RoleBindings of these accounts.
    pub bindings: Store<Packed<RoleBinding>>,
}

/// The caches, and a client for what no cache holds.
#[derive(Clone)]
pub struct RequestObserver {
    client: Client,
    applier: Applier,
    /// The caches.
    pub caches: RequestCaches,
    gpus: Gpus,
    pods: Arc<PodDiagnostics<PodDiagnosis>>,
    settings: Arc<RequestSettings>,
    /// Since when outputs are missing, by the uid of the request.
    missing: Arc<Mutex<UidMap<Instant>>>,
}

impl RequestObserver {
    /// Reads from these caches.
    pub fn new(client: Client, applier: Applier, caches: RequestCaches, settings: Arc<RequestSettings>) -> Self {
        let gpus = Gpus::new(client.clone(), &settings);
        let pods = Arc::new(PodDiagnostics::new(client.clone()));
        Self { client, applier, caches, gpus, pods, settings, missing: Arc::default() }
    }

    /// The snapshot for one request.
    ///
    /// # Errors
    /// The API server does not answer, or a child has a form that this version cannot read.
    pub async fn observe(&self, packed: &Packed<Request>, request: Request) -> Result<RequestObserved, Interruption> {
        let spec = packed.value().get_mut("spec").map(Value::take).unwrap_or_default();
        let Key { namespace, name } = Key::of(packed);
        let at = |name: String| Key::new(&namespace, &name);
        let job = self.caches.jobs.get(&at(names::profiling_job(&name))).map(|job| job.unpack());
        let output = self.caches.config_maps.get(&at(names::profiling_output(&name))).map(|map| map.unpack());
        let graph = self.caches.graphs.get(&at(graph_name(&request))).map(|graph| graph.unpack());
        let mut observed = RequestObserved {
            output: output.transpose()?,
            config_maps: self.config_maps_of(&namespace, &name),
            graph: graph.transpose()?,
            job: job.transpose()?,
            ..RequestObserved::of(request, spec, self.settings.clone())
        };
        if begins(&observed) {
            self.read_for_profiling(&mut observed).await?;
        }
        if phase_of(&observed.request) == RequestLifecycle::Profiling {
            self.read_profiler(&mut observed).await?;
            self.read_output(&mut observed).await?;
            self.read_trials(&mut observed).await?;
        }
        Ok(observed)
    }

    /// Reads why the profiler's pod does not start, or how it failed.
    async fn read_profiler(&self, observed: &mut RequestObserved) -> Result<(), RequestError> {
        let Some(job) = observed.job.as_ref().filter(|job| observed.is_ours(*job)) else { return Ok(()) };
        observed.waits = self.pods.waits_of_job(job, Timestamp::now()).await;
        if JobEnd::Failed.of(job).is_some() {
            observed.pod_failures = self.failures(observed).await?;
        }
        Ok(())
    }

    /// Reads the output past the cache before it counts as lost: a watch may lag behind that of the Job, or hang.
    async fn read_output(&self, observed: &mut RequestObserved) -> Result<(), RequestError> {
        if !awaits_output(observed) {
            locked(&self.missing).remove(&observed.uid);
            return Ok(());
        }
        observed.output_missing_for = {
            let mut missing = locked(&self.missing);
            missing.get_or_insert_with(&observed.uid, Instant::now, || self.caches.requests.uids()).elapsed()
        };
        if is_overdue(observed) {
            let name = names::profiling_output(&observed.name);
            let live = self.applier.find::<ConfigMap>(&observed.namespace, &name).await?;
            observed.output = live.and_then(|map| typed(map).ok());
        }
        Ok(())
    }

    fn config_maps_of(&self, namespace: &str, request: &str) -> Vec<ConfigMap> {
        let label = names::label_value(request);
        let here = self.caches.config_maps.in_namespace(namespace);
        let ours = here.iter().filter(|map| {
            map.labels().get(labels::REQUEST_NAME) == Some(&label)
                && map.labels().get(labels::REQUEST_NAMESPACE).map(String::as_str) == Some(namespace)
        });
        ours.filter_map(|map| map.unpack().ok()).collect()
    }

    async fn read_for_profiling(&self, observed: &mut RequestObserved) -> Result<(), Interruption> {
        if observed.job.is_none() && observed.output.is_none() {
            // No cache shows a ConfigMap of that name without the labels of ours: what counts is whose it is. If
            // reading it is forbidden, the relay finds out.
            let id = ObjectId::named::<ConfigMap>(&observed.namespace, &names::profiling_output(&observed.name));
            let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &observed.namespace);
            let found = unless_forbidden(timed("read", &id, api.get_metadata_opt(&id.name)).await)?.flatten();
            observed.output = found.map(|found| ConfigMap { metadata: found.metadata, ..ConfigMap::default() });
        }
        let spec = &observed.request.spec;
        let claim = spec.model_cache.as_ref().and_then(|cache| cache.pvc_name.clone()).filter(|name| !name.is_empty());
        if let Some(claim) = claim {
            let found = self.applier.find::<PersistentVolumeClaim>(&observed.namespace, &claim).await;
            // If reading it is forbidden, the pod will wait for it and show that it is missing.
            if unless_forbidden(found)?.is_some_and(|found| found.is_none()) {
                observed.missing_claim = Some(claim);
            }
        }
        let hardware = observed.request.spec.hardware.as_ref();
        if self.settings.gpu_discovery && uses_search(hardware) {
            let desired = hardware.and_then(|hardware| hardware.gpu_sku);
            observed.hardware = match self.gpus.search(desired).await {
                // Optional: the error is ignored.
                Err(_) if !needs_search(hardware) => Search::NotAsked,
                other => other?,
            };
        }
        Ok(())
    }

    /// Describes the ends of the containers of a failed Job.
    async fn failures(&self, observed: &RequestObserved) -> Result<Vec<String>, RequestError> {
        let selector = format!("{}={}", labels::JOB_NAME, names::profiling_job(&observed.name));
        let pods = self.list(observed, &selector).await?;
        let statuses = pods.iter().filter_map(|pod| pod.status.as_ref());
        let containers = statuses.flat_map(|s| s.init_container_statuses.iter().chain(&s.container_statuses).flatten());
        Ok(containers.filter_map(failure).collect())
    }

    /// Graphs that the profiler has started to measure them, which are the request's without being controlled by it,
    /// and their pods.
    async fn read_trials(&self, observed: &mut RequestObserved) -> Result<(), RequestError> {
        let here = self.caches.graphs.in_namespace(&observed.namespace);
        let of_request = here.iter().filter(|graph| graph.owner_references().iter().any(|o| o.uid == observed.uid));
        let running: BTreeSet<String> = of_request.map(|graph| graph.name_any()).collect();
        let remembered = observed.status().trial_graphs;
        let names = running.iter().chain(cost::known(remembered.as_ref()));
        let names: BTreeSet<String> = names.map(|name| names::label_value(name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let selector = format!("{} in ({})", labels::GRAPH, names.into_iter().collect::<Vec<_>>().join(","));
        let pods = self.list(observed, &selector).await?;
        observed.trials = Some(Trials::of(running, remembered.as_ref(), &pods));
        Ok(())
    }

    async fn list(&self, observed: &RequestObserved, selector: &str) -> Result<Vec<Pod>, RequestError> {
        let api: Api<Packed<Pod>> = Api::namespaced(self.client.clone(), &observed.namespace);
        let object = ObjectId::named::<Pod>(&observed.namespace, selector);
        let pods = timed("list", &object, api.list(&ListParams::default().labels(selector))).await?;
        Ok(Packed::readable(pods.items))
    }
}

fn failure(container: &ContainerStatus) -> Option<String> {
    let ended = container.state.as_ref()?.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
    let reason = ended.reason.as_deref().unwrap_or("Error");
    let words = ended.message.as_deref().map(|words| format!(": {}", words.trim())).unwrap_or_default();
    Some(format!("container {} ended with {} ({reason}){words}", container.name, ended.exit_code))
}
