//! Receivers of notifications learn of failing objects: each change once, whatever ends in between.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use api_types::{
    v1alpha1::DynamoModel,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentRequest},
};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use end_to_end::{BoxError, COMPONENT_CONTROLLER, GRAPH_CONTROLLER, Harness, MODEL_CONTROLLER, harness, program};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use test_cluster::{Signal, wait};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::graphs::disaggregated;

const LIMIT: Duration = Duration::from_secs(120);
/// The document of the trigger objects promises that a receiver has them after this time.
const PROMISED: Duration = Duration::from_secs(30);
const TRIGGERS: &str = include_str!("../../../../tilt/dev/triggers.yaml");

type Received = Arc<Mutex<Vec<Value>>>;

/// A receiver of CloudEvents that requires a token.
struct Receiver {
    address: SocketAddr,
    received: Received,
    server: JoinHandle<()>,
}

impl Receiver {
    async fn listen(address: SocketAddr, received: Received) -> Result<Self, BoxError> {
        // The port is in use until the connections of an earlier server are closed.
        let bind = async || TcpListener::bind(address).await.map_err(|error| error.to_string());
        let listener = wait::until("the port", LIMIT, bind).await?;
        let (address, state) = (listener.local_addr()?, Arc::clone(&received));
        let app = Router::new().route("/", post(accept)).with_state(state);
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Ok(Self { address, received, server })
    }

    /// Waits until so many events about an object have arrived, and returns their types and reasons.
    async fn until(&self, kind: &str, count: usize) -> Result<Vec<String>, BoxError> {
        let check = async || {
            let of_kind = self.of(kind);
            if of_kind.len() == count { Ok(of_kind) } else { Err(format!("{of_kind:?}")) }
        };
        Ok(wait::until(format!("{count} events about a {kind}"), LIMIT, check).await?)
    }

    fn of(&self, kind: &str) -> Vec<String> {
        let text = |event: &Value, pointer| event.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let received = self.received.lock().unwrap();
        let of_kind = received.iter().filter(|event| text(event, "/data/kind") == kind);
        of_kind.map(|event| format!("{} {}", text(event, "/type"), text(event, "/data/reason"))).collect()
    }
}

async fn accept(State(received): State<Received>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if headers.get("authorization").is_none_or(|value| value != "Bearer secret") {
        return StatusCode::UNAUTHORIZED;
    }
    assert_eq!(headers["content-type"], "application/cloudevents+json");
    received.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    StatusCode::ACCEPTED
}

/// A configuration whose only receiver listens at that address.
fn configuration(harness: &Harness, address: SocketAddr) -> Result<PathBuf, BoxError> {
    let token = harness.cluster.dir().join(format!("{}-token", harness.ns()));
    fs::write(&token, "Bearer secret\n")?;
    let configuration = json!({
        "apiVersion": "operator.config.dynamo.nvidia.com/v1alpha1", "kind": "OperatorConfiguration",
        "notifications": { "receivers": [{ "name": "alerts", "url": format!("http://{address}/"),
            "header": { "name": "Authorization", "valueFile": token } }] },
    });
    let path = harness.cluster.dir().join(format!("{}-notifications.yaml", harness.ns()));
    fs::write(&path, configuration.to_string())?;
    Ok(path)
}

async fn start(harness: &Harness, binary: &str, configuration: &Path) -> Result<String, BoxError> {
    let mut process = program(binary, harness.ns(), harness.cluster.kubeconfig())?;
    process.args.push(format!("--config={}", configuration.display()));
    harness.cluster.run(&process).await?;
    Ok(process.name)
}

async fn apply<K: Resource<DynamicType = ()>>(harness: &Harness, object: &Value) -> Result<(), BoxError> {
    let name = object["metadata"]["name"].as_str().ok_or("no name")?;
    let api: Api<DynamicObject> =
        Api::namespaced_with(harness.client.clone(), harness.ns(), &ApiResource::erase::<K>(&()));
    api.patch(name, &PatchParams::apply("user").force(), &Patch::Apply(object)).await?;
    Ok(())
}

fn without_main(name: &str) -> Value {
    let mut broken = disaggregated(name, "1.0.0", 1, 1);
    broken["spec"]["components"][2]["podTemplate"]["spec"]["containers"][0]["name"] = json!("engine");
    broken
}

#[tokio::test]
async fn each_change_of_a_graph_arrives_once_over_restarts_of_both_sides() -> Result<(), BoxError> {
    let harness = harness("notifications").await?;
    let receiver = Receiver::listen("127.0.0.1:0".parse()?, Received::default()).await?;
    let configuration = configuration(&harness, receiver.address)?;
    let graphs = start(&harness, GRAPH_CONTROLLER, &configuration).await?;
    start(&harness, COMPONENT_CONTROLLER, &configuration).await?;
    harness.apply(&without_main("chat")).await?;
    assert_eq!(receiver.until("DynamoGraphDeployment", 1).await?, ["dynamo.operator.failing InvalidSpec"]);
    let graph = harness.api::<DynamoGraphDeployment>().get("chat").await?;
    let event = receiver.received.lock().unwrap()[0].clone();
    assert_eq!((&event["specversion"], &event["data"]["uid"]), (&json!("1.0"), &json!(graph.metadata.uid)));
    assert_eq!(event["subject"], json!(format!("DynamoGraphDeployment/{}/chat", harness.ns())));
    let message = event["data"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("spec.components[Decode].podTemplate.spec.containers"), "{message}");
    harness.condition("chat", "Notified", "True", "InvalidSpec").await?;

    // A restart repeats nothing: another graph, which is reconciled after it, is the sign that it was reconciled.
    harness.cluster.stop_program(&graphs, Signal::Kill).await?;
    start(&harness, GRAPH_CONTROLLER, &configuration).await?;
    harness.apply(&without_main("other")).await?;
    harness.condition("other", "Notified", "True", "InvalidSpec").await?;
    assert_eq!(receiver.of("DynamoGraphDeployment").len(), 2);

    // It is mended while the receiver is away, and the controller is killed before it is back.
    let (address, received) = (receiver.address, Arc::clone(&receiver.received));
    receiver.server.abort();
    let _ = receiver.server.await;
    harness.apply(&disaggregated("chat", "1.0.0", 1, 1)).await?;
    harness.ready("chat").await?;
    harness.cluster.stop_program(&graphs, Signal::Kill).await?;
    let receiver = Receiver::listen(address, received).await?;
    start(&harness, GRAPH_CONTROLLER, &configuration).await?;
    assert_eq!(receiver.until("DynamoGraphDeployment", 3).await?[2], "dynamo.operator.resolved InvalidSpec");
    harness.condition("chat", "Notified", "False", "Resolved").await?;
    assert!(receiver.of("DynamoComponentDeployment").is_empty(), "the graph has the problem of its components");
    let received = receiver.received.lock().unwrap();
    let ids: BTreeSet<_> = received.iter().map(|event| event["id"].to_string()).collect();
    assert_eq!(ids.len(), received.len());
    Ok(())
}

#[tokio::test]
async fn models_requests_and_components_of_no_graph_are_notified_of() -> Result<(), BoxError> {
    let harness = harness("notified-kinds").await?;
    let receiver = Receiver::listen("127.0.0.1:0".parse()?, Received::default()).await?;
    let configuration = configuration(&harness, receiver.address)?;
    for binary in [GRAPH_CONTROLLER, COMPONENT_CONTROLLER, MODEL_CONTROLLER] {
        start(&harness, binary, &configuration).await?;
    }
    let model = json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel", "metadata": { "name": "m" },
        "spec": { "modelName": " ", "baseModelName": "b", "modelType": "lora", "source": { "uri": "s3://1" } } });
    apply::<DynamoModel>(&harness, &model).await?;
    let foreign = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "dgdr-output-r" } });
    apply::<ConfigMap>(&harness, &foreign).await?;
    let request = json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": { "name": "r" }, "spec": { "model": "m", "image": "registry.example/profiler:1" } });
    apply::<DynamoGraphDeploymentRequest>(&harness, &request).await?;
    let mut component = disaggregated("c", "1.0.0", 1, 1)["spec"]["components"][2].clone();
    component["podTemplate"]["spec"]["containers"][0]["name"] = json!("engine");
    let component = json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
        "metadata": { "name": "c" }, "spec": component });
    apply::<DynamoComponentDeployment>(&harness, &component).await?;
    for kind in ["DynamoModel", "DynamoGraphDeploymentRequest", "DynamoComponentDeployment"] {
        let events = receiver.until(kind, 1).await?;
        assert!(events[0].starts_with("dynamo.operator.failing "), "{kind}: {events:?}");
    }
    Ok(())
}

/// The graphs that are broken on purpose, in the namespace of the test.
fn triggers(harness: &Harness) -> Result<Vec<Value>, BoxError> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(TRIGGERS)?;
    let mut graphs: Vec<_> = objects.into_iter().filter(|it| it["kind"] == "DynamoGraphDeployment").collect();
    for graph in &mut graphs {
        graph["metadata"]["namespace"] = json!(harness.ns());
    }
    Ok(graphs)
}

/// Reports on a graph's pods what a kubelet reports of a container that does not start.
async fn pods_wait(harness: &Harness, graph: &str, reason: &str) -> Result<(), BoxError> {
    let pods = harness.api::<Pod>();
    for pod in pods.list(&ListParams::default()).await?.into_iter().filter(|pod| pod.name_any().starts_with(graph)) {
        let mut main =
            serde_json::to_value(&pod.status.ok_or("no status")?.container_statuses.ok_or("no containers")?)?;
        main[0]["ready"] = json!(false);
        main[0]["started"] = json!(false);
        main[0]["state"] = json!({ "waiting": { "reason": reason, "message": "back-off" } });
        let conditions = json!([{ "type": "Ready", "status": "False", "reason": "ContainersNotReady" }]);
        let status = json!({ "status": { "containerStatuses": main, "conditions": conditions } });
        pods.patch_status(&pod.metadata.name.unwrap_or_default(), &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_trigger_graphs_arrive_with_their_causes_and_are_resolved_when_mended() -> Result<(), BoxError> {
    const KIND: &str = "DynamoGraphDeployment";
    let harness = harness("triggers").await?;
    let receiver = Receiver::listen("127.0.0.1:0".parse()?, Received::default()).await?;
    let configuration = configuration(&harness, receiver.address)?;
    start(&harness, GRAPH_CONTROLLER, &configuration).await?;
    start(&harness, COMPONENT_CONTROLLER, &configuration).await?;
    let mut graphs = triggers(&harness)?;
    let expected =
        [("crash-loop", "CrashLoopBackOff", "CrashLoop"), ("missing-image", "ImagePullBackOff", "ImagePullFailed")];
    assert_eq!(graphs.len(), expected.len());
    for (graph, (name, ..)) in graphs.iter().zip(expected) {
        assert_eq!(graph["metadata"]["name"], name);
        harness.apply(graph).await?;
        // The nodes are fake: every container starts there.
        harness.ready(name).await?;
    }
    for (index, (name, kubelet, reason)) in expected.into_iter().enumerate() {
        pods_wait(&harness, name, kubelet).await?;
        let since = Instant::now();
        assert_eq!(receiver.until(KIND, index + 1).await?[index], format!("dynamo.operator.failing {reason}"));
        assert!(since.elapsed() < PROMISED, "{name}: {:?}", since.elapsed());
        let event = receiver.received.lock().unwrap()[index].clone();
        assert_eq!(event["subject"], json!(format!("{KIND}/{}/{name}", harness.ns())));
    }
    for (index, (name, _, reason)) in expected.into_iter().enumerate() {
        let main = &mut graphs[index]["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0];
        *main = json!({ "name": "main", "image": "busybox:1.36", "command": ["sleep", "infinity"] });
        harness.apply(&graphs[index]).await?;
        let since = Instant::now();
        assert_eq!(receiver.until(KIND, index + 3).await?[index + 2], format!("dynamo.operator.resolved {reason}"));
        assert!(since.elapsed() < PROMISED, "{name}: {:?}", since.elapsed());
    }
    Ok(())
}
