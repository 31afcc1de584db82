//! A namespace with a graph controller of its own in it.

use std::{fmt::Debug, path::Path, sync::Arc, time::Duration};

use api_types::v1beta1::{
    ComponentKind, ComponentReplicaStatus, DynamoComponentDeployment, DynamoComponentDeploymentStatus,
    DynamoGraphDeployment, DynamoGraphDeploymentRequest,
};
use controller_kit::{
    access::{Access as Rights, role},
    context::{Context, Readiness, Shutdown},
    metrics::Metrics,
    scope::Fence,
    settings::{DISCOVERY_ROLE, OperatorConfiguration},
    store::Scope,
};
use graph_controller::{
    NAME,
    access::{BINDS, BINDS_IN_NAMESPACE, DISCOVERY, rights},
    request::settings::RequestArgs,
};
use k8s_openapi::{
    api::authorization::v1::SelfSubjectAccessReview,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use test_cluster::{
    Access, TestNamespace, account,
    assets::{Assets, ForeignApi},
    open_definition, shared, wait,
};

/// Time limit of every wait; generous, because the machine may be under load.
pub const LIMIT: Duration = Duration::from_secs(90);

/// A namespace with a graph controller of its own in it.
pub struct Harness {
    pub namespace: String,
    pub client: Client,
    context: Context,
    // Dropped last: the namespace goes when the controller is being stopped.
    _guard: TestNamespace,
}

impl Harness {
    /// A namespace with a running controller that has the rights of production and no more. It does not use Grove.
    pub async fn new(prefix: &str) -> Self {
        let harness = Self::without_controller(prefix, false).await;
        harness.start();
        harness
    }

    /// A namespace whose controller is still to be started and uses Grove, if the definitions of Grove can be had.
    pub async fn on_grove(prefix: &str) -> Option<Self> {
        grove()?;
        Some(Self::without_controller(prefix, true).await)
    }

    /// The settings of the controller, as long as it is not started.
    pub fn settings(&mut self) -> &mut OperatorConfiguration {
        Arc::make_mut(&mut self.context.settings)
    }

    /// A namespace with a running controller that makes checkpoints. It does not use Grove.
    pub async fn with_checkpoints(prefix: &str) -> Self {
        let mut harness = Self::without_controller(prefix, false).await;
        harness.settings().checkpoint.enabled = true;
        harness.start();
        harness
    }

    /// Grants the controller beyond its namespace what it may do with a kind where an install is for the whole cluster.
    pub async fn grant_everywhere(&self, group: &str, resource: &str) {
        let of_kind =
            |right: &Rights| (right.group, right.resource) == (group, resource) && right.subresource.is_none();
        let held: Vec<_> = rights().into_iter().filter(of_kind).collect();
        self.grant(resource, rules(&held)).await;
        for verb in held.iter().flat_map(|right| right.verbs) {
            self.until_allowed(json!({ "group": group, "resource": resource, "verb": verb })).await;
        }
    }

    /// Lets the controller bind this ClusterRole, as the chart does for those of its release.
    pub async fn grant_binding(&self, role: &str) {
        let Rights { group, resource, .. } = BINDS[0];
        let rule = json!({ "apiGroups": [group], "resources": [resource], "resourceNames": [role], "verbs": ["bind"] });
        self.grant("bind", json!([rule])).await;
        self.until_allowed(json!({ "group": group, "resource": resource, "name": role, "verb": "bind" })).await;
    }

    /// Grants the controller rules in the whole cluster.
    pub async fn grant(&self, what: &str, rules: Value) {
        let name = format!("{}-{what}", self.namespace);
        let group = "rbac.authorization.k8s.io";
        let role = json!({ "apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
            "metadata": { "name": name }, "rules": rules });
        let binding = json!({ "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
            "metadata": { "name": name },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": self.namespace }] });
        self.access().await.apply(&[role, binding]).await.unwrap();
    }

    /// Roles reach the API server's authorizer after they are written.
    pub async fn until_allowed(&self, attributes: Value) {
        let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": attributes } });
        let review: SelfSubjectAccessReview = serde_json::from_value(review).unwrap();
        let api = Api::<SelfSubjectAccessReview>::all(self.client_of_controller());
        let look = async || {
            let answer = api.create(&PostParams::default(), &review).await.map_err(|error| error.to_string())?;
            let status = answer.status.ok_or("no answer")?;
            if status.allowed { Ok(()) } else { Err(status.reason.unwrap_or_default()) }
        };
        wait::until(format!("the right {attributes}"), LIMIT, look).await.unwrap();
    }

    /// The cluster, with all rights.
    pub async fn access(&self) -> &'static Access {
        shared(&definitions()).await.unwrap()
    }

    /// A client with the rights of the controller.
    pub fn client_of_controller(&self) -> Client {
        self.context.client.clone()
    }

    /// A namespace whose controller is still to be started.
    pub async fn without_controller(prefix: &str, grove: bool) -> Self {
        Self::of(shared(&definitions()).await.unwrap(), prefix, grove).await
    }

    /// A namespace with a running controller, in a cluster of one's own. It does not use Grove.
    pub async fn on(access: &Access, prefix: &str) -> Self {
        let harness = Self::of(access, prefix, false).await;
        harness.start();
        harness
    }

    async fn of(access: &Access, prefix: &str, grove: bool) -> Self {
        let guard = TestNamespace::new(access, prefix).await.unwrap();
        let namespace = guard.name().to_owned();
        let held = [rights(), BINDS_IN_NAMESPACE.to_vec()].concat();
        access.apply(&account(NAME, &namespace, role(NAME, Some(&namespace), &held))).await.unwrap();
        access.apply(&[discovery_role(&namespace)]).await.unwrap();
        let token = access.token(&namespace, NAME).await.unwrap();
        let mut settings = OperatorConfiguration::default();
        settings.orchestrators.grove.enabled = Some(grove);
        settings.rbac.discovery_role_name = DISCOVERY_ROLE.to_owned();
        settings.ingress.controller_class_name = "nginx".to_owned();
        // As in the chart of the upstream operator.
        settings.orchestrators.grove.termination_delay.0 = Duration::from_secs(4 * 3600);
        let context = Context {
            name: NAME,
            client: access.client_for_token(&token).unwrap(),
            settings: Arc::new(settings),
            scope: Scope::Namespace(namespace.clone()),
            fence: Fence::unfenced(),
            readiness: Readiness::default(),
            metrics: Metrics::new(),
            shutdown: Shutdown::manual(),
            notifier: None,
            concurrency: 4,
        };
        Self { client: guard.client(), namespace, context, _guard: guard }
    }

    /// Starts the controller.
    pub fn start(&self) {
        let running = self.context.clone();
        tokio::spawn(async move { graph_controller::run(running, RequestArgs::default()).await.unwrap() });
    }

    /// Ends the controller and starts another one.
    pub fn restart(&mut self) {
        self.context.shutdown.request();
        (self.context.readiness, self.context.metrics) = (Readiness::default(), Metrics::new());
        self.context.shutdown = Shutdown::manual();
        self.start();
    }

    /// Ends the controller and starts another one, with NATS and etcd at these addresses and credentials from a Secret
    /// if it has a name.
    pub fn restart_with_servers(&mut self, nats: &str, etcd: &str, secret: &str) {
        let mut settings = OperatorConfiguration::clone(&self.context.settings);
        settings.infrastructure.nats_address = nats.to_owned();
        settings.infrastructure.etcd_address = etcd.to_owned();
        settings.infrastructure.secret_name = secret.to_owned();
        settings.infrastructure.secret_namespace = self.namespace.clone();
        self.context.settings = Arc::new(settings);
        self.restart();
    }

    /// Writes of a kind that the API server has accepted.
    pub fn writes_of(&self, kind: &str) -> u64 {
        self.counter("api_writes_total", &format!("kind=\"{kind}\""))
    }

    /// Waits until the controller has finished a reconcile of a request that began after now.
    pub async fn until_request_reconciled(&self, request: &str) {
        let kind = "resource_type=\"DynamoGraphDeploymentRequest\"";
        // The first one may have begun before.
        for _ in 0..2 {
            let before = self.counter("reconcile_total", kind);
            let patch = json!({ "metadata": { "annotations": { "example.com/poked": before.to_string() } } });
            let requests = self.api::<DynamoGraphDeploymentRequest>();
            requests.patch(request, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
            let look = async || Some(()).filter(|()| self.counter("reconcile_total", kind) > before);
            wait::until("a reconcile", LIMIT, look).await.unwrap();
        }
    }

    /// Waits until the metrics count one object of a kind in this state, and none in another.
    pub async fn until_counted(&self, kind: &str, status: &str) {
        let kind = format!("resource_type=\"{kind}\"");
        let in_state = format!("{kind},namespace=\"{}\",status=\"{status}\"", self.namespace);
        let counts = || [&kind, &in_state].map(|label| self.counter("resources_total", label));
        let look = async || if counts() == [1, 1] { Ok(()) } else { Err(format!("{:?}", counts())) };
        wait::until(format!("{in_state} to be counted"), LIMIT, look).await.unwrap();
    }

    /// Sum of a counter of the controller over all label sets that contain `label`.
    fn counter(&self, name: &str, label: &str) -> u64 {
        let (text, prefix) = (self.context.metrics.text(), format!("dynamo_operator_{name}"));
        let lines = text.lines().filter(|line| line.starts_with(&prefix) && line.contains(label));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Waits until the controller has finished a reconcile that began after now, by changing an annotation of a graph
    /// that it does not care about.
    pub async fn until_reconciled(&self, graph: &str) {
        let before = self.counter("reconcile_total", "");
        let patch = json!({ "metadata": { "annotations": { "example.com/poked": before.to_string() } } });
        self.edit(graph, &patch).await;
        let look = async || Some(()).filter(|()| self.counter("reconcile_total", "") > before);
        wait::until("a reconcile", LIMIT, look).await.unwrap();
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies a graph as a user does.
    pub async fn apply(&self, graph: &Value) -> DynamoGraphDeployment {
        let name = graph["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("user").force();
        self.api::<DynamoGraphDeployment>().patch(name, &params, &Patch::Apply(graph)).await.unwrap()
    }

    /// Merges a patch into a graph, as another field manager.
    pub async fn edit(&self, name: &str, patch: &Value) {
        let params = PatchParams { field_manager: Some("another-manager".to_owned()), ..PatchParams::default() };
        self.api::<DynamoGraphDeployment>().patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until an object is as expected.
    pub async fn until<K>(&self, name: &str, what: &str, fits: impl Fn(&K) -> bool) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
    {
        let api = self.api::<K>();
        let look = async || match api.get_opt(name).await {
            Ok(Some(object)) if fits(&object) => Ok(object),
            Ok(Some(object)) => Err(serde_json::to_string(&object).unwrap()),
            Ok(None) => Err("nothing".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        wait::until(format!("{} {name} to be {what}", K::kind(&())), LIMIT, look).await.unwrap()
    }

    /// Waits until there is no such object.
    pub async fn gone<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api = self.api::<K>();
        let look = async || match api.get_opt(name).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err("it is there".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        wait::until(format!("{} {name} to be gone", K::kind(&())), LIMIT, look).await.unwrap();
    }

    /// The graph's components, by the name of the component; the newest of each.
    pub async fn components(&self, graph: &str) -> Vec<DynamoComponentDeployment> {
        let selector = format!("nvidia.com/dynamo-graph-deployment-name={graph}");
        self.api().list(&ListParams::default().labels(&selector)).await.unwrap().items
    }

    /// Waits for the object of one component.
    pub async fn component(&self, graph: &str, component: &str) -> DynamoComponentDeployment {
        let look = async || {
            let found = self.components(graph).await;
            found.into_iter().find(|d| d.spec.component.name == component).ok_or("none")
        };
        wait::until(format!("component {component}"), LIMIT, look).await.unwrap()
    }

    /// Says of one object what the component controller says once all its pods serve.
    pub async fn serve(&self, d: &DynamoComponentDeployment) {
        let replicas = d.spec.component.desired_replicas();
        let condition = Condition {
            type_: "Available".into(),
            status: "True".into(),
            reason: "DeploymentReady".into(),
            message: String::new(),
            observed_generation: d.metadata.generation,
            last_transition_time: Time(Timestamp::now()),
        };
        let status = DynamoComponentDeploymentStatus {
            observed_generation: d.metadata.generation,
            conditions: vec![condition],
            component: Some(ComponentReplicaStatus {
                component_kind: ComponentKind::Deployment,
                component_names: vec![d.name_any()],
                runtime_namespace: None,
                replicas,
                updated_replicas: replicas,
                ready_replicas: Some(replicas),
                available_replicas: Some(replicas),
                scheduled_replicas: None,
            }),
        };
        let patch = Patch::Merge(json!({ "status": status }));
        let api = self.api::<DynamoComponentDeployment>();
        api.patch_status(&d.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }

    /// Says of all components of a graph that they serve, until the graph is ready.
    pub async fn ready(&self, graph: &str) -> DynamoGraphDeployment {
        let look = async || {
            for d in self.components(graph).await {
                if d.status.as_ref().and_then(|status| status.observed_generation) != d.metadata.generation {
                    self.serve(&d).await;
                }
            }
            let graph = self.api::<DynamoGraphDeployment>().get(graph).await.unwrap();
            if is_ready(&graph) { Ok(graph) } else { Err(serde_json::to_string(&graph.status).unwrap()) }
        };
        wait::until(format!("{graph} to be ready"), LIMIT, look).await.unwrap()
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.context.shutdown.request();
    }
}

/// The rules of a role that grants these rights.
pub fn rules(rights: &[Rights]) -> Value {
    let rule =
        |right: &Rights| json!({ "apiGroups": [right.group], "resources": [right.resource], "verbs": right.verbs });
    rights.iter().map(rule).collect()
}

/// The role of discovery accounts, as the chart makes it in an install for one namespace.
fn discovery_role(namespace: &str) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": DISCOVERY_ROLE, "namespace": namespace }, "rules": rules(DISCOVERY) })
}

pub fn is_ready(graph: &DynamoGraphDeployment) -> bool {
    let observed = graph.status.as_ref().and_then(|status| status.observed_generation);
    condition(graph, "Ready", "True").is_some() && observed == graph.metadata.generation
}

/// The condition of a graph, if it has this status.
pub fn condition<'a>(graph: &'a DynamoGraphDeployment, type_: &str, status: &str) -> Option<&'a Condition> {
    let mut all = graph.status.iter().flat_map(|status| &status.conditions);
    all.find(|condition| condition.type_ == type_ && condition.status == status)
}

/// A frontend and a worker, after an edit of the JSON.
pub fn graph(name: &str, edit: impl FnOnce(&mut Value)) -> Value {
    let component = |name: &str, type_: &str| {
        let image = format!("registry.example.com/{type_}:1.5.0");
        json!({ "name": name, "type": type_, "replicas": 1,
            "podTemplate": { "spec": { "containers": [{ "name": "main", "image": image }] } } })
    };
    let mut graph = json!({
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": { "name": name },
        "spec": { "backendFramework": "vllm",
            "components": [component("Frontend", "frontend"), component("Decode", "decode")] },
    });
    edit(&mut graph);
    graph
}

fn definitions() -> Vec<Value> {
    let others = [
        open_definition("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools"),
        open_definition("networking.istio.io", "v1beta1", "DestinationRule", "destinationrules"),
        open_definition("networking.istio.io", "v1beta1", "VirtualService", "virtualservices"),
    ];
    own_definitions().into_iter().chain(others).chain(grove().unwrap_or_default()).collect()
}

/// The definitions of our own kinds.
pub fn own_definitions() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let own = files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    own.map(|path| read(&path)).collect()
}

/// The definitions of Grove; says so if they cannot be had.
fn grove() -> Option<Vec<Value>> {
    match Assets::from_env().and_then(|assets| assets.definitions(ForeignApi::Grove)) {
        Ok(files) => Some(files.iter().map(|file| read(file)).collect()),
        Err(error) => {
            println!("skipped: no definitions of Grove: {error}");
            None
        }
    }
}

fn read(path: &Path) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
