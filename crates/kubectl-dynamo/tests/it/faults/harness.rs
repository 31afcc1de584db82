//! A control plane with nodes and the controllers of the product, and namespaces in which faults are injected.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use api_types::v1beta1::DynamoGraphDeployment;
use controller_kit::{
    scope::{Fence, MARKER_LEASE},
    settings::OperatorConfiguration,
    store::Scope,
};
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use serde_json::{Value, json};
use test_cluster::{Cluster, Options, TestNamespace, open_definition, wait};
use tokio::sync::Semaphore;

use super::{
    fault::{Fault, Step},
    kubelet::{Kubelets, minutes_ago},
    operators::program,
    server::Server,
};
use crate::{controllers::Controllers, definitions, plugin};

/// Time limit of every operation except an answer of `why`; generous, because the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Time limit of an answer.
const WITHIN: Duration = Duration::from_secs(2);

/// Settings of the operator: checkpoints are switched on.
const CHECKPOINTS: &str = "{enabled: true, cleanupImage: registry.example.com/shell:1}";

/// Maximum number of concurrent calls.
const EXPLAINING: usize = 2;

/// Namespace of the cluster-wide install. Its Deployments represent the controllers, which run in this process.
const SYSTEM: &str = "dynamo-system";

/// A control plane without Grove and without LeaderWorkerSets.
pub struct Harness {
    pub cluster: Cluster,
    pub client: Client,
    pub kubelets: Kubelets,
    /// Webhooks that deny, and logs of containers.
    pub server: Server,
    /// The same with a certificate that is expired.
    pub expired: Server,
    /// Limits how many run `why` at a time: a user has the machine mostly alone.
    explaining: Semaphore,
    /// Fence of the cluster-wide controllers.
    fence: Fence,
    _controllers: Controllers,
}

/// An answer of `why`.
pub struct Answer {
    pub text: String,
    pub diagnosis: Value,
    pub took: Duration,
}

impl Harness {
    pub async fn new() -> Self {
        let mut crds = definitions::own();
        crds.push(open_definition("nvidia.com", "v1alpha1", "PodSnapshot", "podsnapshots"));
        let options = Options { scheduler: true, crds, ..Options::default() };
        let cluster = Cluster::start(options).await.unwrap();
        let client = cluster.client().unwrap();
        let kubelets = Kubelets::new(client.clone());
        let server = Server::start(kubelets.clone(), false).await;
        let expired = Server::start(kubelets.clone(), true).await;
        let checkpoint = serde_saphyr::from_str(CHECKPOINTS).unwrap();
        let settings = OperatorConfiguration { checkpoint, ..OperatorConfiguration::default() };
        // As each cluster-wide install, it keeps out of namespaces that belong to another one.
        let fence = Fence::new(&Scope::Cluster, &settings);
        fence.follow(client.clone(), &Scope::Cluster);
        let controllers = Controllers::new(settings, Scope::Cluster, fence.clone());
        controllers.start(&client);
        tokio::spawn(kubelets.clone().run());
        let harness = Self {
            cluster,
            client,
            kubelets,
            server,
            expired,
            explaining: Semaphore::new(EXPLAINING),
            fence,
            _controllers: controllers,
        };
        for index in 0..3 {
            harness.node(&format!("worker-{index}"), json!({ "zone": "a" }), json!([]), "110").await;
        }
        let taint = json!([{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }]);
        harness.node("control-plane", json!({}), taint, "110").await;
        let system = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM } });
        harness.cluster.apply(&[system]).await.unwrap();
        let programs = ["graph-controller", "component-controller"].map(|name| program(name, SYSTEM));
        harness.cluster.apply(&programs).await.unwrap();
        harness
    }

    /// A node that is ready: 64 CPUs, 1 TiB of memory, 8 GPUs.
    pub async fn node(&self, name: &str, labels: Value, taints: Value, pods: &str) {
        let mut all =
            json!({ "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name });
        all.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
        let resources = json!({ "cpu": "64", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": pods,
            "nvidia.com/gpu": "8" });
        let condition = |type_: &str, status: &str| {
            json!({ "type": type_, "status": status, "reason": "KubeletReports",
            "lastHeartbeatTime": minutes_ago(0), "lastTransitionTime": minutes_ago(0) })
        };
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": all },
            "spec": { "taints": taints },
            "status": {
                "capacity": resources, "allocatable": resources,
                "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
                "daemonEndpoints": { "kubeletEndpoint": { "Port": self.server.port } },
                "conditions": [condition("Ready", "True"), condition("MemoryPressure", "False"),
                    condition("DiskPressure", "False"), condition("PIDPressure", "False")],
            },
        }))
        .unwrap();
        Api::<Node>::all(self.client.clone()).create(&PostParams::default(), &node).await.unwrap();
    }

    /// Writes a node condition as the kubelet reports it.
    pub async fn report_of_node(&self, name: &str, type_: &str, status: &str) {
        let condition = json!([{ "type": type_, "status": status, "reason": "KubeletReports",
            "lastHeartbeatTime": minutes_ago(0), "lastTransitionTime": minutes_ago(0) }]);
        let patch = Patch::Strategic(json!({ "status": { "conditions": condition } }));
        Api::<Node>::all(self.client.clone()).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// A namespace of one fault.
pub struct Team<'a> {
    pub harness: &'a Harness,
    pub namespace: String,
    pub client: Client,
    /// Controllers of an install for this namespace alone.
    own: Mutex<Vec<Controllers>>,
    _guard: TestNamespace,
}

impl<'a> Team<'a> {
    pub async fn new(harness: &'a Harness) -> Self {
        let guard = TestNamespace::new(&harness.cluster, "fault").await.unwrap();
        let (client, namespace) = (guard.client(), guard.name().to_owned());
        Self { harness, namespace, client, own: Mutex::default(), _guard: guard }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Name of the node of this test.
    pub fn node(&self) -> String {
        format!("{}-node", self.namespace)
    }

    /// Makes a node on which only pods run that select and tolerate it.
    pub async fn make_node(&self, pods: &str) {
        let taint = json!([{ "key": "pool", "value": self.namespace, "effect": "NoSchedule" }]);
        self.harness.node(&self.node(), json!({ "pool": self.namespace }), taint, pods).await;
    }

    /// Merges a patch into that node.
    pub async fn edit_node(&self, patch: &Value) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.patch(&self.node(), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Applies objects, in this namespace unless they are in another or in none.
    pub async fn apply(&self, objects: &Value) {
        let text = objects.to_string().replace("NAMESPACE", &self.namespace);
        let all: Value = serde_json::from_str(&text).unwrap();
        let all = match all {
            Value::Array(all) => all,
            one => vec![one],
        };
        self.harness.cluster.apply(&all).await.unwrap();
    }

    /// Applies the graph as a user does.
    pub async fn apply_graph(&self, graph: &Value) {
        let text = graph.to_string().replace("NAMESPACE", &self.namespace);
        let graph: Value = serde_json::from_str(&text).unwrap();
        let resource = ApiResource::erase::<DynamoGraphDeployment>(&());
        let graphs: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        graphs.patch("chat", &PatchParams::apply("user").force(), &Patch::Apply(&graph)).await.unwrap();
    }

    /// Does all steps in order. `graph` is what the user has in the manifest.
    pub async fn take(&self, steps: &[Step], graph: &mut Value) {
        for step in steps {
            match step {
                Step::Apply(objects) => self.apply(objects).await,
                Step::Edit(change) => {
                    change(graph);
                    self.apply_graph(graph).await;
                }
                Step::Nodes(report) => self.harness.kubelets.report(&self.namespace, report.clone()),
                Step::Restart => {
                    let pods = self.api::<Pod>();
                    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
                }
                Step::Do(act) => act(self).await,
            }
        }
    }

    /// Lets an install for this namespace alone have it: the cluster-wide controllers keep out.
    pub async fn mark(&self) {
        let now = Timestamp::now();
        self.apply(&json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": MARKER_LEASE, "namespace": "NAMESPACE" },
            "spec": { "holderIdentity": "namespace-restricted-operator-1.5.0", "leaseDurationSeconds": 3600,
                "acquireTime": format!("{now:.6}"), "renewTime": format!("{now:.6}") },
        }))
        .await;
    }

    /// Waits until the cluster-wide controllers keep out of the namespace.
    pub async fn fenced(&self) {
        let look = async || match self.harness.fence.may_act(&self.namespace) {
            Ok(()) => Err("they act".to_owned()),
            Err(_) => Ok(()),
        };
        wait::until("the cluster-wide controllers to keep out", LIMIT, look).await.unwrap();
    }

    /// Stops the controllers of this namespace.
    pub fn stop_controllers(&self) {
        self.own.lock().unwrap().clear();
    }

    /// Controllers for this namespace alone.
    pub fn controllers(&self, settings: OperatorConfiguration, start: impl FnOnce(&Controllers)) {
        let scope = Scope::Namespace(self.namespace.clone());
        let controllers = Controllers::new(settings, scope, Fence::unfenced());
        start(&controllers);
        self.own.lock().unwrap().push(controllers);
    }

    /// Asks the plugin as a user does.
    pub async fn explain(&self, target: &str) -> Result<Answer, String> {
        let args = ["why", target, "--output", "json"];
        let permit = self.harness.explaining.acquire().await.unwrap();
        let begin = Instant::now();
        let printed = plugin::command(self.harness.cluster.kubeconfig(), &self.namespace, &args).await;
        let took = begin.elapsed();
        drop(permit);
        let (_, text) = printed.map_err(|error| format!("{error:#}"))?;
        let diagnosis = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        Ok(Answer { text, diagnosis, took })
    }

    /// Asks about the object of a fault. Returns how long the answer took, or what it says if that is not the fault.
    pub async fn names(&self, fault: &Fault) -> Result<Duration, String> {
        let answer = self.explain(fault.target).await?;
        match fault.expected.is_named_in(&answer.diagnosis) {
            true => Ok(answer.took),
            false => Err(short(&answer.diagnosis)),
        }
    }

    /// Waits until the object is ready, as the plugin sees it.
    pub async fn ready(&self, target: &str) -> Result<Answer, String> {
        let look = async || {
            let answer = self.explain(target).await?;
            if answer.diagnosis["ready"] == true { Ok(answer) } else { Err(short(&answer.diagnosis)) }
        };
        wait::until(format!("{target} to be ready"), LIMIT, look).await.map_err(|error| error.to_string())
    }
}

/// A graph with one worker.
pub fn graph() -> Value {
    let main = json!({ "name": "main", "image": "registry.example.com/engine:1", "command": ["python3"],
        "args": ["-m", "dynamo.vllm"], "resources": { "limits": { "memory": "8Gi", "cpu": "1" } } });
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": { "name": "chat" },
        "spec": { "backendFramework": "vllm", "components": [{ "name": "decode", "type": "decode", "replicas": 1,
            "podTemplate": { "spec": { "containers": [main] } } }] },
    })
}

/// A fault that was injected and named.
pub struct Named<'a> {
    team: Team<'a>,
    /// Duration of the answer.
    pub took: Duration,
}

impl Named<'_> {
    /// Asks once more where the first answer took long, because other faults kept the machine busy. Returns how long the
    /// quickest answer took.
    ///
    /// # Errors
    /// No answer that names the fault comes in time.
    pub async fn in_time(&self, fault: &Fault) -> Result<Duration, String> {
        if self.took <= WITHIN {
            return Ok(self.took);
        }
        let look = async || match self.team.names(fault).await? {
            took if took <= WITHIN => Ok(took),
            took => Err(format!("named, but only after {took:?}")),
        };
        wait::until("an answer in time", LIMIT, look).await.map_err(|error| error.seen)
    }
}

/// Injects a fault, and runs `why` until it names it.
pub async fn play<'a>(harness: &'a Harness, fault: &Fault) -> Result<Named<'a>, String> {
    let team = Team::new(harness).await;
    let mut manifest = graph();
    team.take(&fault.before, &mut manifest).await;
    if let Some(change) = fault.graph {
        change(&mut manifest);
        team.apply_graph(&manifest).await;
        not_yet(fault, &team.ready("chat").await?)?;
    }
    match team.explain(fault.target).await {
        Ok(before) => not_yet(fault, &before)?,
        Err(absent) if absent.starts_with("there is no ") => {}
        Err(error) => return Err(error),
    }
    team.take(&fault.steps, &mut manifest).await;
    let look = async || team.names(fault).await;
    let took = wait::until("the cause", LIMIT, look).await.map_err(|error| error.seen)?;
    Ok(Named { team, took })
}

fn not_yet(fault: &Fault, before: &Answer) -> Result<(), String> {
    match fault.expected.is_mentioned_in(&before.text) {
        true => Err(format!("named before it was injected: {}", before.text)),
        false => Ok(()),
    }
}

/// The causes of an answer in few words.
fn short(diagnosis: &Value) -> String {
    let causes = diagnosis["causes"].as_array().into_iter().flatten().map(|cause| {
        let chain = cause["chain"].as_array().into_iter().flatten();
        let chain: Vec<String> = chain.map(|one| format!("{}/{}", one["kind"], one["name"])).collect();
        format!(
            "{} at {}: {} | {} | {}",
            cause["code"],
            chain.join(">"),
            cause["cause"],
            cause["evidence"],
            cause["remedy"]
        )
    });
    format!("{}\n      {}", diagnosis["summary"], causes.collect::<Vec<_>>().join("\n      ")).replace('"', "")
}
