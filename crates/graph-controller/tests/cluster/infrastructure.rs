//! NATS and etcd beside graphs: real servers that come and go, their conditions, and what is left in them.

use std::time::Duration;

use api_types::{
    conditions::{self, infrastructure as reason},
    labels, names,
    v1beta1::DynamoGraphDeployment,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use outbound::{Limits, Outbound, Trust};
use serde_json::{Value, json};
use test_cluster::{Keys, Security, Server, wait};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::harness::{Harness, graph};

/// Time limit: a server that worked is checked once a minute, and a second time before a failure is reported.
const LIMIT: Duration = Duration::from_secs(240);
const LIMITS: Limits = Limits { patience: Duration::from_secs(30), longest: 1 << 20 };

/// Waits until a graph has this condition about NATS and etcd.
async fn reported(harness: &Harness, status: &str, reason: &str, message: &str) {
    let api = harness.api::<DynamoGraphDeployment>();
    let look = async || {
        let graph = api.get("chat").await.map_err(|error| error.to_string())?;
        let all = graph.status.unwrap_or_default().conditions;
        let found = all.into_iter().find(|c| c.type_ == conditions::INFRASTRUCTURE_READY).ok_or("no condition")?;
        let fits = found.status == status && found.reason == reason && found.message.contains(message);
        if fits { Ok(()) } else { Err(format!("{found:?}")) }
    };
    wait::until(format!("the condition to be {status}, {reason}, {message}"), LIMIT, look).await.unwrap();
}

/// Writes the Secret with what the operator connects by.
async fn write_secret(harness: &Harness, keys: &Keys, password: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "servers" },
        "stringData": {
            "ca.crt": keys.authority, "tls.crt": keys.client.certificate, "tls.key": keys.client.key,
            "nats-username": "operator", "nats-password": password,
        },
    });
    let params = PatchParams::apply("user").force();
    harness.api::<Secret>().patch("servers", &params, &Patch::Apply(&secret)).await.unwrap();
}

#[tokio::test]
async fn graphs_report_whether_nats_and_etcd_can_be_used() {
    let keys = Keys::new().unwrap();
    let users = "authorization: { users: [{ user: operator, password: secret }] }";
    let nats = Server::nats(Security::Tls(&keys), users).await.unwrap();
    let etcd = Server::etcd(Security::Open).await.unwrap();
    let mut harness = Harness::new("servers").await;
    harness.apply(&graph("chat", |_| {})).await;
    harness.component("chat", "Decode").await;
    harness.restart_with_servers(&format!("nats://{}", nats.address), &format!("http://{}", etcd.address), "servers");

    reported(&harness, "False", reason::UNUSABLE, "servers, which infrastructure.secretName names, does not exist")
        .await;
    write_secret(&harness, &keys, "wrong").await;
    reported(&harness, "False", reason::UNREACHABLE, &format!("NATS at nats://{}: ", nats.address)).await;
    write_secret(&harness, &keys, "secret").await;
    reported(&harness, "True", reason::CONNECTED, "").await;
    // It keeps nothing from running.
    harness.ready("chat").await;

    etcd.stop().await.unwrap();
    reported(&harness, "False", reason::UNREACHABLE, &format!("http://{} cannot be reached", etcd.address)).await;
    etcd.start_again().await.unwrap();
    reported(&harness, "True", reason::CONNECTED, "").await;
}

/// A server that is down when a graph is deleted holds up nothing, and is cleared once it is back.
#[tokio::test]
async fn what_a_deleted_graph_has_left_is_cleared() {
    let nats = Server::nats(Security::Open, "jetstream: { store_dir: \"kept\" }").await.unwrap();
    let etcd = Server::etcd(Security::Open).await.unwrap();
    let mut harness = Harness::new("leftovers").await;
    harness.apply(&graph("chat", |_| {})).await;
    harness.ready("chat").await;
    let decode = harness.component("chat", "Decode").await;
    let shared = names::dynamo_namespace(&harness.namespace, "chat", false);
    let workers = names::runtime_namespace(&shared, decode.labels().get(labels::WORKER_HASH).map(String::as_str));

    let stale = [format!("v1/instances/{shared}/frontend/http/1"), format!("v1/mdc/{workers}/decode/generate/2")];
    let others = [format!("v1/instances/{shared}-2/frontend/http/1"), "v1/mdc/team/decode/generate/2".to_owned()];
    for key in stale.iter().chain(&others) {
        ask_etcd(&etcd, "put", &json!({ "key": encoded(key), "value": encoded("x") })).await;
    }
    // Two components without a graph, which are workers of one namespace, as their labels say: there may be others.
    let alone = format!("{}-alone", harness.namespace);
    let stream = format!("namespace_{workers}_component_decode_kv_events");
    let foreign = format!("namespace_{alone}_component_backend_kv_events");
    for (name, subject) in [(stream.as_str(), "a.>"), ("orders", "b.>"), (foreign.as_str(), "c.>")] {
        let expected = json!({ "name": name, "subjects": [subject] });
        let made = ask_nats(&nats, &format!("STREAM.CREATE.{name}"), &expected).await;
        assert_eq!(made["error"], Value::Null);
    }

    let key = |component: &str| format!("v1/instances/{alone}/{component}/generate/3");
    for name in ["VllmWorker", "Other"] {
        stands_alone(&harness, name, &alone).await;
    }
    for component in ["VllmWorker", "Other", "backend"] {
        ask_etcd(&etcd, "put", &json!({ "key": encoded(&key(component)), "value": encoded("x") })).await;
    }

    // A controller that starts now has read what is in use before it cleans.
    harness.restart_with_servers(&format!("nats://{}", nats.address), &format!("http://{}", etcd.address), "");
    reported(&harness, "True", reason::CONNECTED, "").await;
    nats.stop().await.unwrap();
    harness.api::<DynamoGraphDeployment>().delete("chat", &DeleteParams::default()).await.unwrap();
    harness.gone::<DynamoGraphDeployment>("chat").await;
    harness.api::<Pod>().delete("vllmworker", &DeleteParams::default()).await.unwrap();

    let [first, second, shared] = ["VllmWorker", "Other", "backend"].map(key);
    let left = keys_without(&etcd, &[&stale[0], &stale[1], &first]).await;
    assert!(
        others.iter().chain([&second, &shared]).all(|key| left.contains(key)),
        "what lives keeps its own: {left:?}"
    );
    harness.api::<Pod>().delete("other", &DeleteParams::default()).await.unwrap();
    let left = keys_without(&etcd, &[&second, &shared]).await;
    assert!(others.iter().all(|key| left.contains(key)), "{left:?}");

    nats.start_again().await.unwrap();
    let streams = async || {
        let names = ask_nats(&nats, "STREAM.NAMES", &json!({})).await["streams"].clone();
        if names == json!([foreign, "orders"]) { Ok(()) } else { Err(names.to_string()) }
    };
    wait::until("the graph's stream to be gone, and no other", LIMIT, streams).await.unwrap();
}

/// A pod as the component controller makes it of a component without a graph. It waits at a gate.
async fn stands_alone(harness: &Harness, name: &str, dynamo_namespace: &str) {
    let labels = json!({ labels::SELECTOR: name.to_lowercase(), labels::COMPONENT: name, labels::COMPONENT_TYPE: "worker",
        labels::DYNAMO_NAMESPACE: dynamo_namespace });
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": name.to_lowercase(), "labels": labels },
        "spec": { "schedulingGates": [{ "name": "example.com/held" }], "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": "registry.example.com/engine:1" }] },
    }))
    .unwrap();
    // A new namespace has no account for pods in its first moments.
    let pods = harness.api::<Pod>();
    let make = async || pods.create(&PostParams::default(), &pod).await;
    wait::until("the pod to be admitted", LIMIT, make).await.unwrap();
}

/// The keys of etcd, once these are gone.
async fn keys_without(etcd: &Server, stale: &[&String]) -> Vec<String> {
    let look = async || {
        let keys = keys(etcd).await;
        if stale.iter().any(|key| keys.contains(key)) { Err(format!("{keys:?}")) } else { Ok(keys) }
    };
    wait::until(format!("{stale:?} to be gone"), LIMIT, look).await.unwrap()
}

fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// Asks etcd through its JSON gateway, as another client.
async fn ask_etcd(etcd: &Server, what: &str, body: &Value) -> Value {
    let uri = format!("http://{}/v3/kv/{what}", etcd.address);
    let request = http::Request::post(uri).body(body.to_string().into()).unwrap();
    let answer = Outbound::new(&Trust::default()).unwrap().send(request, LIMITS).await.unwrap();
    assert!(answer.status().is_success(), "{what}: {answer:?}");
    serde_json::from_slice(answer.body()).unwrap()
}

/// All keys of etcd.
async fn keys(etcd: &Server) -> Vec<String> {
    let all = json!({ "key": encoded("\0"), "range_end": encoded("\0"), "keys_only": true });
    let answer = ask_etcd(etcd, "range", &all).await;
    let keys = answer["kvs"].as_array().into_iter().flatten().map(|entry| entry["key"].as_str().unwrap());
    keys.map(|key| String::from_utf8(BASE64_STANDARD.decode(key).unwrap()).unwrap()).collect()
}

/// Asks JetStream in the plainest NATS, as another client.
async fn ask_nats(nats: &Server, what: &str, body: &Value) -> Value {
    let mut stream = BufReader::new(TcpStream::connect(&nats.address).await.unwrap());
    let body = body.to_string();
    let request = format!("CONNECT {{}}\r\nSUB answer 1\r\nPUB $JS.API.{what} answer {}\r\n{body}\r\n", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut line = String::new();
    while !line.starts_with("MSG ") {
        line.clear();
        assert!(stream.read_line(&mut line).await.unwrap() > 0, "NATS hung up");
    }
    let mut answer = vec![0; line.trim_end().rsplit(' ').next().unwrap().parse().unwrap()];
    stream.read_exact(&mut answer).await.unwrap();
    serde_json::from_slice(&answer).unwrap()
}
