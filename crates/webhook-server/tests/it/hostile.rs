//! Clients on the pod network that are no API server: what they send costs others nothing.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use serde_json::{Value, json};
use test_cluster::wait;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use crate::{
    common::{Install, Replica},
    namespace, own_install,
    requests::{CONVERT, GRAPHS, connected_from, conversion, send},
};

/// The time in which an answer counts as given at once: a part of what the API server waits.
const SOON: Duration = Duration::from_secs(6);

/// A neighbour on the network; the API server and the clients of the other tests have the address 127.0.0.1.
fn neighbour(number: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 1, number).into()
}

async fn connections(install: &Install, replica: &Replica, count: usize, from: IpAddr) -> Vec<TlsStream<TcpStream>> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        open.push(connected_from(install, replica, &[b"http/1.1"], from).await);
    }
    open
}

fn graphs() -> Value {
    json!([crate::manifests::graph("v1alpha1", 1, None)])
}

async fn converts(install: &Install, replica: &Replica) {
    let client = install.client_of(replica).await;
    let answer = timeout(SOON, send(&client, "POST", CONVERT, conversion(&graphs()))).await;
    assert_eq!(answer.unwrap().0, 200);
}

/// Peak of the memory of a process, in MiB.
fn peak(install: &Install, replica: &Replica) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", install.pid(replica))).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() >> 10
}

#[tokio::test]
async fn idle_connections_of_a_neighbour_keep_no_other_client_from_being_served() {
    let namespace = namespace("idle").await;
    let install = own_install(&namespace).await;
    let replica = install.start().await;
    let idle = connections(&install, &replica, 512, neighbour(1)).await;
    converts(&install, &replica).await;
    drop(idle);
}

#[tokio::test]
async fn bodies_that_never_end_keep_no_other_client_from_being_served() {
    let namespace = namespace("slow").await;
    let install = own_install(&namespace).await;
    let replica = install.start().await;
    let mut slow = connections(&install, &replica, 256, neighbour(2)).await;
    for (index, stream) in slow.iter_mut().enumerate() {
        let path = if index % 2 == 0 { CONVERT } else { GRAPHS };
        let head = format!("POST {path} HTTP/1.1\r\nHost: webhook\r\nContent-Length: 1000\r\n\r\n{{");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
    }
    converts(&install, &replica).await;
    let client = install.client_of(&replica).await;
    let admission = timeout(SOON, send(&client, "POST", GRAPHS, b"{}".to_vec())).await;
    assert_eq!(admission.unwrap().0, 400);
}

/// One that says nothing is gone before it can become many.
#[tokio::test]
async fn a_connection_without_a_request_ends_after_ten_seconds() {
    let namespace = namespace("mute").await;
    let install = own_install(&namespace).await;
    let replica = install.start().await;
    let mut mute = connected_from(&install, &replica, &[b"http/1.1"], neighbour(3)).await;
    let mut byte = [0];
    let end = timeout(Duration::from_secs(30), mute.read(&mut byte)).await.unwrap();
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}

/// A review of as many values as fit into the largest body.
fn bomb(head: &str, value: &str, bytes: usize, tail: &str) -> Vec<u8> {
    let mut text = String::with_capacity(bytes + 512);
    text.push_str(head);
    text.push_str(value);
    while text.len() < bytes {
        write!(text, ",{value}").unwrap();
    }
    text.push_str(tail);
    text.into_bytes()
}

#[tokio::test]
async fn no_body_takes_more_memory_than_the_process_has() {
    let namespace = namespace("bomb").await;
    let install = own_install(&namespace).await;
    let replica = install.start().await;
    let client = install.client_of(&replica).await;
    let before = peak(&install, &replica);
    let convert = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"nvidia.com/v1beta1","objects":["#;
    for value in ["[0]", r#"{"":0}"#] {
        let body = bomb(convert, value, 24 << 20, "]}}");
        let (status, text) = send(&client, "POST", CONVERT, body).await;
        assert!(status == 413 || text.contains("\"Failure\""), "{status} {text:.200}");
        let one = format!(r#"{convert}{{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","spec":["#);
        let (status, text) = send(&client, "POST", CONVERT, bomb(&one, value, 24 << 20, "]}]}}")).await;
        assert!(status == 413 || text.contains("\"Failure\""), "{status} {text:.200}");
        let admission = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","kind":{"group":"nvidia.com","version":"v1beta1","kind":"DynamoGraphDeployment"},"resource":{},"object":{"spec":["#;
        let (status, text) = send(&client, "POST", GRAPHS, bomb(admission, value, 7 << 20, "]}}}")).await;
        assert_eq!(status, 413, "{text:.200}");
    }
    let after = peak(&install, &replica);
    assert!(after < before + 200, "from {before} to {after} MiB");
    converts(&install, &replica).await;
}

/// A page of large objects, as the API server sends it for a list in the older version.
#[tokio::test]
async fn a_list_of_large_objects_is_converted_one_by_one() {
    let namespace = namespace("list").await;
    let install = own_install(&namespace).await;
    let replica = install.start().await;
    let client = install.client_of(&replica).await;
    let before = peak(&install, &replica);
    let objects: Vec<Value> = (0..40)
        .map(|index| {
            let mut graph = crate::manifests::graph("v1alpha1", index, Some("fast"));
            let env: Vec<Value> = (0..20_000).map(|n| json!({ "name": format!("N{n}"), "value": "x" })).collect();
            graph["metadata"]["name"] = json!(format!("g{index}"));
            graph["spec"]["envs"] = json!(env);
            graph
        })
        .collect();
    let (status, body) = send(&client, "POST", CONVERT, conversion(&json!(objects))).await;
    assert_eq!(status, 200, "{body:.300}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["response"]["result"]["status"], "Success", "{:.300}", answer["response"]["result"].to_string());
    assert_eq!(answer["response"]["convertedObjects"].as_array().unwrap().len(), 40);
    let after = peak(&install, &replica);
    assert!(after < before + 200, "from {before} to {after} MiB");
}

/// The namespace and the names of a lookup become parts of a path: only valid names are used.
#[tokio::test]
async fn names_that_are_no_names_are_not_looked_up() {
    let namespace = namespace("forged").await;
    let install = own_install(&namespace).await;
    let replica = install.start().await;
    let client = install.client_of(&replica).await;
    let request = |namespace: &str, of_pod: &str, checkpoint: &str| {
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": "CREATE", "name": "p", "namespace": namespace,
            "kind": { "group": "", "version": "v1", "kind": "Pod" },
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "object": { "apiVersion": "v1", "kind": "Pod", "spec": { "containers": [{ "name": "main", "image": "x" }] },
                "metadata": { "name": "p", "namespace": of_pod,
                    "labels": { "nvidia.com/selector": "s", "nvidia.com/dynamo-component": "c",
                        "nvidia.com/dynamo-namespace": "d" },
                    "annotations": { "nvidia.com/dynamo-checkpoint-restore-candidate": "true",
                        "nvidia.com/dynamo-checkpoint-name": checkpoint,
                        "nvidia.com/snapshot-target-containers": "main" } } },
        }})
    };
    let forged = "victim/dynamographdeployments?watch=true&x=";
    let path = "/mutate-core-v1-pod-checkpoint-restore";
    for (namespace, status) in [(forged, 400), ("..", 400), ("x", 200)] {
        let body = request(namespace, forged, "ckpt").to_string().into_bytes();
        let found = wait::until("an answer", SOON, async || {
            timeout(SOON, send(&client, "POST", path, body.clone())).await.map_err(|_| "none")
        });
        assert_eq!(found.await.unwrap().0, status, "{namespace}");
    }
}
