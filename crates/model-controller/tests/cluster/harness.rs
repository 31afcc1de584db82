//! A namespace with a controller of its own in it, and engines that it finds through EndpointSlices.

use std::{
    collections::HashMap,
    fmt::Debug,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use api_types::{labels, names, v1alpha1::DynamoModel};
use controller_kit::{
    access::role,
    context::{Context, Readiness, Shutdown},
    metrics::Metrics,
    scope::Fence,
    settings::OperatorConfiguration,
    store::Scope,
};
use k8s_openapi::api::{core::v1::Pod, discovery::v1::EndpointSlice, events::v1::Event};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use model_controller::{
    NAME, Options,
    access::ACCESS,
    engine::{EngineLimits, apply::Dial},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use test_cluster::{Access, TestNamespace, account, shared, wait};
use tokio::task::JoinHandle;

use crate::engine::Engine;

/// Time limit of every operation; generous, because the load of the machine may be high.
pub const LIMIT: Duration = Duration::from_secs(90);

/// The base model in every test.
pub const BASE: &str = "org/base";

/// A namespace with a controller of its own in it.
pub struct Harness {
    pub namespace: String,
    pub client: Client,
    pub context: Context,
    pub options: Options,
    /// Engines by their address in Kubernetes.
    sockets: Arc<Mutex<HashMap<SocketAddr, SocketAddr>>>,
    endpoints: Vec<Endpoint>,
    controller: Option<JoinHandle<()>>,
    // Dropped last: the namespace goes when the controller is being stopped.
    _guard: TestNamespace,
}

/// Data of Kubernetes about an engine.
#[derive(Clone, Debug)]
struct Endpoint {
    pod: String,
    /// That of the pod; none while there is no pod of that address.
    uid: Option<String>,
    address: IpAddr,
    ready: bool,
}

impl Harness {
    /// A namespace with a running controller.
    pub async fn new(prefix: &str) -> Self {
        let mut harness = Self::without_controller(prefix).await;
        harness.start();
        harness
    }

    /// A namespace whose controller is still to be started.
    pub async fn without_controller(prefix: &str) -> Self {
        Self::on(shared(&[crd()]).await.unwrap(), prefix).await
    }

    /// The same in a cluster of one's own.
    pub async fn on(access: &Access, prefix: &str) -> Self {
        let guard = TestNamespace::new(access, prefix).await.unwrap();
        let client = guard.client();
        let namespace = guard.name().to_owned();
        access.apply(&account(NAME, &namespace, role(NAME, Some(&namespace), ACCESS))).await.unwrap();
        let token = access.token(&namespace, NAME).await.unwrap();
        let context = Context {
            name: NAME,
            client: access.client_for_token(&token).unwrap(),
            settings: Arc::new(OperatorConfiguration::default()),
            scope: Scope::Namespace(namespace.clone()),
            fence: Fence::unfenced(),
            readiness: Readiness::default(),
            metrics: Metrics::new(),
            shutdown: Shutdown::manual(),
            notifier: None,
            concurrency: 8,
        };
        let sockets: Arc<Mutex<HashMap<SocketAddr, SocketAddr>>> = Arc::default();
        let table = Arc::clone(&sockets);
        let dial = Dial::through(move |socket| table.lock().unwrap().get(&socket).copied().unwrap_or(socket));
        let pace = EngineLimits {
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(1),
            unload_timeout: Duration::from_secs(3),
            ..EngineLimits::default()
        };
        let options = Options { pace, dial };
        Self { namespace, client, context, options, sockets, endpoints: Vec::new(), controller: None, _guard: guard }
    }

    /// Starts the controller.
    pub fn start(&mut self) {
        self.context.shutdown = Shutdown::manual();
        let (context, options) = (self.context.clone(), self.options.clone());
        self.controller = Some(tokio::spawn(async move {
            model_controller::run_with(context, options).await.unwrap();
        }));
    }

    /// Stops the controller and waits until it has.
    pub async fn stop(&mut self) {
        self.context.shutdown.request();
        if let Some(controller) = self.controller.take() {
            tokio::time::timeout(LIMIT, controller).await.unwrap().unwrap();
        }
        self.context.metrics = Metrics::new();
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies an object as a user does.
    pub async fn apply<K>(&self, object: &Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let name = object["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("user").force();
        self.api::<K>().patch(name, &params, &Patch::Apply(object)).await.unwrap()
    }

    /// Starts engines and says so in the EndpointSlice.
    pub async fn engines(&mut self, count: usize) -> Vec<Engine> {
        let mut engines = Vec::new();
        for _ in 0..count {
            let engine = Engine::start("127.0.0.1").await;
            self.add(&engine, None);
            engines.push(engine);
        }
        self.publish().await;
        engines
    }

    /// Adds an engine that the next [`Harness::publish`] shows; `pod` is the name of its pod, which is made if none is
    /// given.
    pub fn add(&mut self, engine: &Engine, pod: Option<&str>) {
        let index = self.endpoints.len();
        let address: IpAddr = if engine.socket.is_ipv6() {
            format!("fd00::{index:x}").parse().unwrap()
        } else {
            format!("10.{}.{}.{}", 200 + index / 65_025, index / 255 % 255, 1 + index % 255).parse().unwrap()
        };
        self.sockets.lock().unwrap().insert((address, 9090).into(), engine.socket);
        let pod = pod.map_or_else(|| format!("w-{index:03}"), str::to_owned);
        self.endpoints.push(Endpoint { pod, uid: None, address, ready: true });
    }

    /// Kubernetes sees a pod become ready, or stop being so.
    pub async fn set_ready(&mut self, index: usize, ready: bool) {
        self.endpoints[index].ready = ready;
        self.publish().await;
    }

    /// Another pod has the name and the address of an old one.
    pub async fn replace_pod(&mut self, index: usize) {
        let pods = self.api::<Pod>();
        pods.delete(&self.endpoints[index].pod, &DeleteParams::default().grace_period(0)).await.unwrap();
        self.endpoints[index].uid = None;
        self.publish().await;
    }

    /// The last pod goes.
    pub async fn remove_last(&mut self) {
        self.endpoints.pop();
        self.publish().await;
    }

    /// Writes the EndpointSlices: 100 endpoints each, as Kubernetes does.
    pub async fn publish(&mut self) {
        for index in 0..self.endpoints.len() {
            if self.endpoints[index].uid.is_none() {
                self.endpoints[index].uid = Some(self.pod_of(&self.endpoints[index]).await);
            }
        }
        for family in ["IPv4", "IPv6"] {
            let of_family = |endpoint: &&Endpoint| endpoint.address.is_ipv6() == (family == "IPv6");
            let endpoints: Vec<Value> =
                self.endpoints.iter().filter(of_family).map(|endpoint| self.json(endpoint)).collect();
            for (number, chunk) in endpoints.chunks(100).enumerate() {
                self.apply::<EndpointSlice>(&self.slice(family, number, chunk)).await;
            }
            if endpoints.is_empty() && family == "IPv4" {
                self.apply::<EndpointSlice>(&self.slice(family, 0, &[])).await;
            }
        }
    }

    /// Gives the pod of an endpoint its address, and makes it if it is missing. No scheduler places it, so its status
    /// stays.
    async fn pod_of(&self, endpoint: &Endpoint) -> String {
        let pods = self.api::<Pod>();
        if pods.get_opt(&endpoint.pod).await.unwrap().is_none() {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": { "name": endpoint.pod,
                    "labels": { labels::BASE_MODEL_HASH: names::base_model_hash(BASE) } },
                "spec": { "schedulerName": "no-scheduler", "automountServiceAccountToken": false,
                    "containers": [{ "name": "main", "image": "registry.example.com/engine:1" }] },
            }))
            .unwrap();
            // The namespace's account is not made by the controller.
            let make = async || pods.create(&PostParams::default(), &pod).await.map_err(|error| error.to_string());
            wait::until("the pod to be taken", LIMIT, make).await.unwrap();
        }
        let status = json!({ "status": { "podIP": endpoint.address, "podIPs": [{ "ip": endpoint.address }] } });
        let patch = Patch::Strategic(status);
        let pod = pods.patch_status(&endpoint.pod, &PatchParams::default(), &patch).await.unwrap();
        pod.metadata.uid.unwrap()
    }

    fn json(&self, endpoint: &Endpoint) -> Value {
        json!({
            "addresses": [endpoint.address], "conditions": { "ready": endpoint.ready },
            "targetRef": {
                "kind": "Pod", "namespace": self.namespace, "name": endpoint.pod, "uid": endpoint.uid,
            },
        })
    }

    fn slice(&self, family: &str, number: usize, endpoints: &[Value]) -> Value {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("workers-{}-{number}", family.to_lowercase()), "namespace": self.namespace,
                "labels": {
                    labels::BASE_MODEL_HASH: names::base_model_hash(BASE), "kubernetes.io/service-name": "workers",
                },
            },
            "addressType": family,
            "endpoints": endpoints,
            "ports": [{ "name": "system", "port": 9090 }],
        })
    }

    /// Applies an adapter.
    pub async fn adapter(&self, name: &str, adapter: &str, uri: &str) -> DynamoModel {
        self.apply(&adapter_model(name, adapter, uri)).await
    }

    pub async fn model(&self, name: &str) -> DynamoModel {
        self.api().get(name).await.unwrap()
    }

    /// Waits until a model is as expected, at its present generation.
    pub async fn until(&self, name: &str, what: &str, fits: impl Fn(&DynamoModel) -> bool) -> DynamoModel {
        let api = self.api::<DynamoModel>();
        let look = async || match api.get(name).await {
            Ok(model) if is_current(&model) && fits(&model) => Ok(model),
            Ok(model) => Err(serde_json::to_string(&model.status).unwrap()),
            Err(error) => Err(error.to_string()),
        };
        wait::until(format!("{name} to be {what}"), LIMIT, look).await.unwrap()
    }

    /// Waits until a model has a condition, for its present generation.
    pub async fn until_condition(&self, name: &str, type_: &str, status: &str, reason: &str) -> DynamoModel {
        self.until(name, &format!("{type_}={status}/{reason}"), |model| {
            condition(model, type_).is_some_and(|found| found.0 == status && found.1 == reason)
        })
        .await
    }

    /// Waits until so many endpoints serve a model, and it is ready.
    pub async fn until_served(&self, name: &str, endpoints: i32) -> DynamoModel {
        self.until(name, &format!("served by {endpoints}"), |model| {
            let status = model.status.as_ref().unwrap();
            status.ready_endpoints == endpoints
                && status.total_endpoints == endpoints
                && condition(model, "Ready").is_some_and(|found| found.0 == "True")
        })
        .await
    }

    /// Waits until the controller has reconciled a model after now, by changing an annotation without meaning.
    pub async fn until_reconciled(&self, name: &str) {
        let before = self.counter("reconcile_total", &[]);
        let patch = json!({ "metadata": { "annotations": { "example.com/poked": before.to_string() } } });
        self.api::<DynamoModel>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        let look = async || Some(()).filter(|()| self.counter("reconcile_total", &[]) > before);
        wait::until("a reconcile", LIMIT, look).await.unwrap();
    }

    /// Deletes a model, as a user does.
    pub async fn delete(&self, name: &str) {
        self.api::<DynamoModel>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until a model is gone.
    pub async fn gone(&self, name: &str) {
        let api = self.api::<DynamoModel>();
        let look = async || match api.get_opt(name).await {
            Ok(None) => Ok(()),
            Ok(Some(model)) => Err(format!("{:?}", model.metadata.finalizers)),
            Err(error) => Err(error.to_string()),
        };
        wait::until(format!("{name} to be gone"), LIMIT, look).await.unwrap();
    }

    /// Waits until an event of this reason has been recorded, and returns its note.
    pub async fn until_reported(&self, reason: &str) -> String {
        let api: Api<Event> = self.api();
        let look = async || {
            let all = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
            let found = all.iter().find(|event| event.reason.as_deref() == Some(reason));
            let reasons = || all.iter().filter_map(|event| event.reason.clone()).collect::<Vec<_>>().join(" ");
            found.map(|event| event.note.clone().unwrap_or_default()).ok_or_else(reasons)
        };
        wait::until(format!("event {reason}"), LIMIT, look).await.unwrap()
    }

    /// Waits until the metrics count one model that is ready, which they learn from a watch of their own.
    pub async fn until_counted_ready(&self) {
        let ready = || self.counter("resources_total", &["resource_type=\"DynamoModel\"", "status=\"ready\""]);
        let check = async || if ready() == 1 { Ok(()) } else { Err(format!("{} are", ready())) };
        wait::until("one model to be counted as ready", LIMIT, check).await.unwrap();
    }

    /// Sum of a counter of the controller over all label sets that contain `labels`.
    pub fn counter(&self, name: &str, labels: &[&str]) -> u64 {
        let text = self.context.metrics.text();
        let prefix = format!("dynamo_operator_{name}");
        let lines = text.lines().filter(|line| line.starts_with(&prefix) && labels.iter().all(|l| line.contains(l)));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    pub fn status_writes(&self) -> u64 {
        self.counter("api_writes_total", &["verb=\"status\""])
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.context.shutdown.request();
    }
}

/// A LoRA adapter.
pub fn adapter_model(name: &str, adapter: &str, uri: &str) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel", "metadata": { "name": name },
        "spec": { "modelName": adapter, "baseModelName": BASE, "modelType": "lora", "source": { "uri": uri } },
    })
}

/// `status`, `reason` and message of a condition.
pub fn condition(model: &DynamoModel, type_: &str) -> Option<(String, String, String)> {
    let found = model.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}

/// Whether the status is about the present spec.
fn is_current(model: &DynamoModel) -> bool {
    let conditions = model.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    ready.any(|condition| condition.observed_generation == model.metadata.generation)
}

/// Waits until an engine is as expected.
pub async fn until_engine(engine: &Engine, what: &str, fits: impl Fn(&Engine) -> bool) {
    let look = async || if fits(engine) { Ok(()) } else { Err(format!("{:?}", engine.requests())) };
    wait::until(format!("an engine to {what}"), LIMIT, look).await.unwrap();
}

/// The definition of models.
pub fn crd() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds/nvidia.com_dynamomodels.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}
