//! Requests that no API server sends, and how connections begin and end.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use http::Request;
use kube::Client;
use serde_json::{Value, json};
use test_cluster::{Signal, wait};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    common::{Install, LIMIT, Replica, address},
    harness, namespace, own_install,
};

/// Path that validates graphs.
pub const GRAPHS: &str = "/validate/nvidia.com/v1beta1/dynamographdeployments";

/// Path that converts objects.
pub const CONVERT: &str = "/convert";

/// Status and body of an answer.
pub async fn send(client: &Client, method: &str, path: &str, body: Vec<u8>) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).body(body.into()).unwrap();
    let answer = client.send(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

pub fn conversion(objects: &Value) -> Vec<u8> {
    let request = json!({ "uid": "u", "desiredAPIVersion": "nvidia.com/v1beta1", "objects": objects });
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request })
        .to_string()
        .into_bytes()
}

#[tokio::test]
async fn bodies_that_make_no_sense_are_refused_with_a_reason() {
    let harness = harness().await;
    let client = harness.install.client_of(&harness.replica).await;
    for (method, path, body, status, text) in [
        ("POST", "/convert", b"{".to_vec(), 400, "not a ConversionReview"),
        ("POST", "/convert", b"[]".to_vec(), 400, "request: missing"),
        ("POST", "/convert", b"\xff\xfe".to_vec(), 400, "not a ConversionReview"),
        ("POST", "/convert", Vec::new(), 400, "not a ConversionReview"),
        ("POST", "/convert", vec![b'['; 100_000], 400, "not a ConversionReview"),
        ("POST", GRAPHS, b"{}".to_vec(), 400, "cannot be answered"),
        ("POST", GRAPHS, b"null".to_vec(), 400, "not an AdmissionReview"),
        ("POST", GRAPHS, vec![b' '; 9 << 20], 413, "larger than 8388608 bytes"),
        ("GET", GRAPHS, Vec::new(), 405, "by POST"),
        ("POST", "/validate/nvidia.com/v1beta1", Vec::new(), 404, "nothing is served here"),
    ] {
        let found = send(&client, method, path, body).await;
        assert!(found.0 == status && found.1.contains(text), "{method} {path}: {found:?}");
    }
    assert!(harness.replica.ready().await.is_ok());
}

#[tokio::test]
async fn objects_that_cannot_be_converted_fail_the_review_and_name_themselves() {
    let harness = harness().await;
    let client = harness.install.client_of(&harness.replica).await;
    for (objects, text) in [
        (json!([1]), "request.objects[0]"),
        (
            json!([{ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel", "metadata": { "name": "m" } }]),
            "DynamoModel",
        ),
        (json!("x"), "must be a list"),
    ] {
        let (status, body) = send(&client, "POST", "/convert", conversion(&objects)).await;
        let answer: Value = serde_json::from_str(&body).unwrap();
        let result = &answer["response"]["result"];
        assert_eq!((status, &result["status"], &answer["response"]["uid"]), (200, &json!("Failure"), &json!("u")));
        assert!(result["message"].as_str().unwrap().contains(text), "{body}");
    }
}

#[tokio::test]
async fn many_objects_come_back_in_their_order() {
    let harness = harness().await;
    let client = harness.install.client_of(&harness.replica).await;
    let objects: Vec<Value> = (0..500)
        .map(|index| {
            let mut graph = crate::manifests::graph("v1alpha1", index, Some("fast"));
            graph["metadata"]["name"] = json!(format!("g{index}"));
            graph
        })
        .collect();
    let (_, body) = send(&client, "POST", "/convert", conversion(&json!(objects))).await;
    let answer: Value = serde_json::from_str(&body).unwrap();
    let converted = answer["response"]["convertedObjects"].as_array().unwrap();
    let names: Vec<_> = converted.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, (0..500).map(|index| format!("g{index}")).collect::<Vec<_>>());
    let replicas =
        |object: &Value| object["spec"]["components"].as_array().unwrap().iter().any(|c| c["replicas"] == 499);
    assert!(replicas(&converted[499]));
}

/// A connection with the best protocol that both sides support.
async fn connected(install: &Install, replica: &Replica, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
    connected_from(install, replica, protocols, Ipv4Addr::LOCALHOST.into()).await
}

/// The same from an address of this machine.
pub async fn connected_from(
    install: &Install,
    replica: &Replica,
    protocols: &[&[u8]],
    from: IpAddr,
) -> TlsStream<TcpStream> {
    let ca = install.stored("ca.crt").await;
    let mut roots = rustls::RootCertStore::empty();
    for der in <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::pem_slice_iter(&ca) {
        roots.add(der.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let stream = socket.connect(replica.webhook).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from(format!("webhook.{}.svc", install.namespace)).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// The best protocol that both sides support.
async fn negotiated(protocols: &[&[u8]]) -> Option<Vec<u8>> {
    let harness = harness().await;
    let stream = connected(&harness.install, &harness.replica, protocols).await;
    let (_, connection) = stream.get_ref();
    connection.alpn_protocol().map(<[u8]>::to_vec)
}

#[tokio::test]
async fn http_1_is_spoken_and_nothing_else() {
    assert_eq!(negotiated(&[b"h2", b"http/1.1"]).await.unwrap(), b"http/1.1");
    assert_eq!(negotiated(&[b"http/1.1"]).await.unwrap(), b"http/1.1");
    assert_eq!(negotiated(&[]).await, None);
}

/// Defect of ours: every kind that a client made up became a label, which was kept for ever.
#[tokio::test]
async fn kinds_that_are_made_up_leave_no_trace_in_metrics() {
    let harness = harness().await;
    let client = harness.install.client_of(&harness.replica).await;
    let request = json!({
        "uid": "u", "operation": "CREATE", "resource": {}, "object": {},
        "kind": { "group": "nvidia.com", "version": "v1beta1", "kind": "MadeUp" },
    });
    let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
    assert_eq!(send(&client, "POST", GRAPHS, review.to_string().into_bytes()).await.0, 200);
    let metrics = harness.replica.get("/metrics").await.unwrap();
    assert!(metrics.contains("resource_type=\"DynamoGraphDeployment\""), "{metrics}");
    assert!(!metrics.contains("MadeUp"), "{metrics}");
}

/// A server that gets the signal to stop is not ready at once, but answers for a while, and has clients open new
/// connections.
#[tokio::test]
async fn a_server_that_stops_still_answers_while_others_learn_of_it() {
    let namespace = namespace("drains").await;
    let install = own_install(&namespace).await;
    let replica = install.start().await;
    let client = install.client_of(&replica).await;
    let objects = json!([crate::manifests::graph("v1alpha1", 1, None)]);
    assert_eq!(send(&client, "POST", "/convert", conversion(&objects)).await.0, 200);
    let ended = async { install.stop(&replica, Signal::Terminate).await };
    let calls = async {
        wait::until("the server to be not ready", LIMIT, async || {
            replica.ready().await.err().filter(|error| error.contains("about to stop"))
        })
        .await
        .unwrap();
        // On a connection that is there, and on a new one.
        for client in [&client, &install.client_of(&replica).await] {
            let request = Request::post("/convert").body(conversion(&objects).into()).unwrap();
            let answer = client.send(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers()["connection"], "close");
        }
    };
    tokio::join!(ended, calls);
    assert!(TcpStream::connect(address(install.front)).await.is_err());
    assert!(install.log(&replica).contains("stopped"));
}
