//! A namespace with a controller of its own in it.

use std::{fmt::Debug, path::Path, sync::Arc, time::Duration};

use api_types::v1beta1::DynamoComponentDeployment;
use component_controller::{NAME, access::ACCESS, image_build::settings::BuildSettings};
use controller_kit::{
    access::{Access as Rights, role},
    context::{Context, Readiness, Shutdown},
    metrics::Metrics,
    settings::OperatorConfiguration,
    store::Scope,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service, events::v1::Event};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use test_cluster::{
    TestNamespace, account,
    assets::{Assets, ForeignApi},
    open_definition, shared, wait,
};
use tokio::task::JoinHandle;

/// Time limit of every wait; generous, because the machine may be under load.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Name of the component in every test.
pub const NAME_OF_COMPONENT: &str = "chat-worker";

/// A namespace with a controller of its own in it.
pub struct Harness {
    pub namespace: String,
    pub client: Client,
    /// The API store that the controller uses, from its next start on.
    pub api_store: Option<String>,
    context: Context,
    controller: Option<JoinHandle<()>>,
    // Dropped last: the namespace goes when the controller is being stopped.
    _guard: TestNamespace,
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
        Self::with_rights(prefix, ACCESS).await
    }

    /// A namespace whose controller is still to be started, and then has only these rights.
    pub async fn with_rights(prefix: &str, rights: &[Rights]) -> Self {
        let access = shared(&crds()).await.unwrap();
        let guard = TestNamespace::new(access, prefix).await.unwrap();
        let client = guard.client();
        let namespace = guard.name().to_owned();
        access.apply(&account(NAME, &namespace, role(NAME, Some(&namespace), rights))).await.unwrap();
        let token = access.token(&namespace, NAME).await.unwrap();
        let context = Context {
            name: NAME,
            client: access.client_for_token(&token).unwrap(),
            settings: Arc::new(OperatorConfiguration::default()),
            scope: Scope::Namespace(namespace.clone()),
            fence: controller_kit::scope::Fence::unfenced(),
            readiness: Readiness::default(),
            metrics: Metrics::new(),
            shutdown: Shutdown::manual(),
            notifier: None,
            concurrency: 4,
        };
        Self { namespace, client, api_store: None, context, controller: None, _guard: guard }
    }

    /// The settings of the controller, as long as it is not started.
    pub fn settings(&mut self) -> &mut OperatorConfiguration {
        Arc::make_mut(&mut self.context.settings)
    }

    /// Lets the controller reconcile so many objects at a time, as long as it is not started.
    pub fn concurrency(&mut self, most: usize) {
        self.context.concurrency = most;
    }

    /// Gives the controller, as long as it is not started, rights and an account that do not go with its namespace.
    pub fn with_rights_from_outside(&mut self) {
        self.context.client = self.client.clone();
    }

    /// Starts the controller.
    pub fn start(&mut self) {
        self.context.shutdown = Shutdown::manual();
        let (context, namespace, store) = (self.context.clone(), self.namespace.clone(), self.api_store.clone());
        self.controller = Some(tokio::spawn(async move {
            // The registries of the tests listen inside this machine, without TLS.
            let set = |name: &str| match name {
                "DOCKER_REGISTRY_INSECURE_HOSTS" => Some("127.0.0.1".to_owned()),
                "API_STORE_ENDPOINT" => store.clone(),
                "DYNAMO_IMAGE_BUILDER_NAMESPACE" => Some(namespace.clone()),
                _ => None,
            };
            component_controller::run_with(context, BuildSettings::read(set)).await.unwrap();
        }));
    }

    /// Stops the controller and waits until it has.
    pub async fn stop(&mut self) {
        self.context.shutdown.request();
        if let Some(controller) = self.controller.take() {
            tokio::time::timeout(LIMIT, controller).await.unwrap().unwrap();
        }
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

    /// Merges a patch into an object of the component's name, as another field manager.
    pub async fn edit<K>(&self, patch: &Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let params = PatchParams { field_manager: Some("another-manager".to_owned()), ..PatchParams::default() };
        self.api::<K>().patch(NAME_OF_COMPONENT, &params, &Patch::Merge(patch)).await.unwrap()
    }

    pub async fn deployment(&self) -> Deployment {
        self.api().get(NAME_OF_COMPONENT).await.unwrap()
    }

    pub async fn service(&self) -> Service {
        self.api().get(NAME_OF_COMPONENT).await.unwrap()
    }

    /// Deletes the component and waits until it is gone.
    pub async fn delete(&self, policy: PropagationPolicy) {
        let components = self.api::<DynamoComponentDeployment>();
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        components.delete(NAME_OF_COMPONENT, &params).await.unwrap();
        self.gone::<DynamoComponentDeployment>().await;
    }

    /// Waits until no object of the component's name is there.
    pub async fn gone<K>(&self)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let what = format!("{} {NAME_OF_COMPONENT} to be gone", K::kind(&()));
        let api = self.api::<K>();
        let look = async || match api.get_opt(NAME_OF_COMPONENT).await {
            Ok(None) => Ok(()),
            Ok(Some(object)) => Err(format!("finalizers {:?}", object.finalizers())),
            Err(error) => Err(error.to_string()),
        };
        wait::until(what, LIMIT, look).await.unwrap();
    }

    /// Waits until an object of the component's name is as expected.
    pub async fn until<K>(&self, what: &str, fits: impl Fn(&K) -> bool) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
    {
        let api = self.api::<K>();
        until(&api, NAME_OF_COMPONENT, what, fits).await
    }

    /// Waits until the component has a condition, for its present generation.
    pub async fn until_condition(&self, type_: &str, status: &str, reason: &str) -> DynamoComponentDeployment {
        self.until(&format!("{type_}={status}/{reason}"), |component: &DynamoComponentDeployment| {
            is_current(component)
                && condition(component, type_).is_some_and(|found| found.0 == status && found.1 == reason)
        })
        .await
    }

    /// Waits until the component is ready at its present generation.
    pub async fn until_ready(&self) -> DynamoComponentDeployment {
        self.until_condition("Available", "True", "DeploymentReady").await
    }

    /// Waits until the controller has finished a reconcile that began after now, by changing an annotation of the
    /// component that it does not care about.
    pub async fn until_reconciled(&self) {
        let before = self.counter("reconcile_total");
        let patch = json!({ "metadata": { "annotations": { "example.com/poked": before.to_string() } } });
        self.edit::<DynamoComponentDeployment>(&patch).await;
        let look = async || Some(()).filter(|()| self.counter("reconcile_total") > before);
        wait::until("a reconcile", LIMIT, look).await.unwrap();
    }

    /// Waits until exactly these events, as `reason note`, have been recorded in the namespace about the component.
    pub async fn until_recorded(&self, expected: &[String]) {
        let api: Api<Event> = self.api();
        let look = async || {
            let all = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
            let ours = all.into_iter().filter(|event| event.reporting_controller.as_deref() == Some(NAME));
            let mut reported: Vec<String> =
                ours.map(|e| format!("{} {}", e.reason.unwrap_or_default(), e.note.unwrap_or_default())).collect();
            reported.sort();
            if reported == expected { Ok(()) } else { Err(format!("{reported:?}")) }
        };
        wait::until(format!("events {expected:?}"), LIMIT, look).await.unwrap();
    }

    /// Sum of a counter of the controller over all label sets that contain `labels`.
    pub fn counter_of(&self, name: &str, labels: &[&str]) -> u64 {
        let text = self.context.metrics.text();
        let prefix = format!("dynamo_operator_{name}");
        let lines = text.lines().filter(|line| line.starts_with(&prefix) && labels.iter().all(|l| line.contains(l)));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.counter_of(name, &[])
    }

    /// Writes of a kind that the API server has accepted, status writes not counted.
    pub fn writes_of(&self, kind: &str) -> u64 {
        let all = self.counter_of("api_writes_total", &[&format!("kind=\"{kind}\"")]);
        all - self.counter_of("api_writes_total", &[&format!("kind=\"{kind}\""), "verb=\"status\""])
    }

    pub fn status_writes(&self) -> u64 {
        self.counter_of("api_writes_total", &["verb=\"status\""])
    }
}

/// Waits until an object is as expected.
pub async fn until<K>(api: &Api<K>, name: &str, what: &str, fits: impl Fn(&K) -> bool) -> K
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
{
    let look = async || match api.get_opt(name).await {
        Ok(Some(object)) if fits(&object) => Ok(object),
        Ok(Some(object)) => Err(serde_json::to_string(&object).unwrap()),
        Ok(None) => Err("nothing".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    wait::until(format!("{} {name} to be {what}", K::kind(&())), LIMIT, look).await.unwrap()
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.context.shutdown.request();
    }
}

/// A component that becomes ready on the fake nodes.
pub fn component() -> Value {
    json!({
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoComponentDeployment",
        "metadata": { "name": NAME_OF_COMPONENT },
        "spec": {
            "backendFramework": "vllm",
            "name": "Worker",
            "type": "worker",
            "replicas": 1,
            "podTemplate": { "spec": {
                // The account that only a graph has is not needed for what is looked at here.
                "serviceAccountName": "default",
                "containers": [{
                    "name": "main",
                    "image": "registry.example.com/vllm-runtime:1.5.0",
                    "command": ["python3"],
                    "args": ["-m", "dynamo.vllm", "--model", "m"],
                }],
            } },
        },
    })
}

/// `status`, `reason` and message of a condition.
pub fn condition(component: &DynamoComponentDeployment, type_: &str) -> Option<(String, String, String)> {
    let found = component.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}

/// Whether the status is about the present spec.
pub fn is_current(component: &DynamoComponentDeployment) -> bool {
    component.status.as_ref().and_then(|status| status.observed_generation) == component.metadata.generation
}

pub fn uid<K: Resource>(object: &K) -> String {
    object.meta().uid.clone().unwrap()
}

/// Everything that all tests need; of other projects what can be had.
fn crds() -> Vec<Value> {
    own_crds()
        .into_iter()
        .chain(leader_worker_sets().unwrap_or_default())
        .chain([
            open_definition("networking.istio.io", "v1beta1", "VirtualService", "virtualservices"),
            open_definition("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
            pod_snapshots(),
        ])
        .collect()
}

/// The definitions of components and checkpoints.
pub fn own_crds() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let read = |kind: &str| read_yaml(&folder.join(format!("nvidia.com_{kind}.yaml")));
    ["dynamocomponentdeployments", "dynamocheckpoints", "dynamocomponents"].map(read).to_vec()
}

/// The definition of LeaderWorkerSets; says so if it cannot be had.
pub fn leader_worker_sets() -> Option<Vec<Value>> {
    let files = Assets::from_env().and_then(|assets| assets.definitions(ForeignApi::LeaderWorkerSet));
    match files {
        Ok(files) => Some(files.iter().map(|file| read_yaml(file)).collect()),
        Err(error) => {
            println!("skipped: no definition of LeaderWorkerSets: {error}");
            None
        }
    }
}

fn read_yaml(file: &Path) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// A definition of PodSnapshots without a schema.
fn pod_snapshots() -> Value {
    stand_in("nvidia.com", "v1alpha1", "PodSnapshot")
}

fn stand_in(group: &str, version: &str, kind: &str) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": { "api-approved.kubernetes.io": "unapproved, a stand-in for tests" },
        },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": singular },
            "versions": [{ "name": version, "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    })
}
