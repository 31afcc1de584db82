//! `crds serve` where a step fails or another program contradicts.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::{
    apply::wait,
    converter::Converter,
    migration,
    serve::{CONFIG_MAP, GRAPHS, Harness, MODELS, NAMESPACE, QUIET},
};

/// Our definitions, that of models changed.
fn with_models(converter: &Converter, change: impl Fn(&mut CustomResourceDefinition)) -> Vec<Value> {
    let mut crds = api_types::crds::all_converted_by(&converter.service()).unwrap();
    crds.iter_mut().filter(|crd| crd.metadata.name.as_deref() == Some(MODELS)).for_each(change);
    crds.iter().map(|crd| json!(crd)).collect()
}

/// Models are stored in a version that our definition lacks; no release is given.
fn of_a_later_version(crd: &mut CustomResourceDefinition) {
    crd.metadata.annotations = None;
    let mut version = crd.spec.versions[0].clone();
    version.name = "v1beta1".to_owned();
    crd.spec.versions[0].storage = false;
    crd.spec.versions.push(version);
}

fn status(address: SocketAddr, path: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_definition_that_is_refused_keeps_no_other_from_its_bundle_and_is_tried_again() {
    let (converter, next) = (Converter::start(), Converter::start());
    let harness = Harness::start(with_models(&converter, of_a_later_version)).await;
    let mut served = harness.serve(&converter, &[]);
    wait(async || served.log().contains("which is older")).await;
    harness.publish(&converter.bundle()).await;
    harness.until_held(&converter.bundle()).await;
    harness.publish(&next.bundle()).await;
    harness.until_held(&next.bundle()).await;
    assert!(served.runs());
    assert_eq!((status(served.health, "/healthz"), status(served.health, "/readyz")), (200, 503));

    let mut stored = harness.definitions.get(MODELS).await.unwrap().spec.versions;
    stored.iter_mut().for_each(|version| version.storage = !version.storage);
    harness.change(MODELS, json!({ "spec": { "versions": stored } })).await;
    wait(async || status(served.health, "/readyz") == 200).await;
}

#[tokio::test]
async fn a_bundle_that_is_no_certificate_is_refused_and_the_next_one_is_set() {
    let (converter, next) = (Converter::start(), Converter::start());
    let harness = Harness::start(Vec::new()).await;
    let mut served = harness.serve(&converter, &[]);
    harness.publish(&converter.bundle()).await;
    harness.until_held(&converter.bundle()).await;
    harness.publish("no certificate").await;
    let remedy = format!("is ca.crt of ConfigMap {NAMESPACE}/{CONFIG_MAP} a PEM file of certificates?");
    wait(async || served.log().contains(&remedy)).await;
    harness.publish(&next.bundle()).await;
    harness.until_held(&next.bundle()).await;
    assert!(served.runs());
    wait(async || status(served.health, "/readyz") == 200).await;
}

#[tokio::test]
async fn objects_that_cannot_be_migrated_keep_no_bundle_from_its_place() {
    let harness = Harness::start(migration::former().iter().map(|crd| json!(crd)).collect()).await;
    let graph = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": { "name": "g", "namespace": "default" }, "spec": { "services": {} },
    });
    harness.cluster.apply(&[graph]).await.unwrap();
    let converter = Converter::start();
    let mut served = harness.serve(&converter, &["--timeout", "5"]);
    wait(async || served.log().contains("not all objects are migrated")).await;
    harness.publish(&converter.bundle()).await;
    harness.until_held(&converter.bundle()).await;
    assert!(served.runs());
    assert_eq!(status(served.health, "/readyz"), 200, "objects are migrated while the program is ready");

    converter.expose(&harness.cluster.client().unwrap()).await;
    let stored = async || harness.definitions.get(GRAPHS).await.unwrap().status.unwrap().stored_versions.unwrap();
    wait(async || stored().await == ["v1beta1"]).await;
}

#[tokio::test]
async fn two_that_contradict_each_other_write_ever_more_rarely() {
    let (one, other) = (Converter::start(), Converter::start());
    let harness = Harness::start(Vec::new()).await;
    let mut served = [harness.serve(&one, &[]), harness.serve(&other, &[])];
    let corrections =
        |log: String| log.matches(&format!("{GRAPHS} updated; the write before was of field manager")).count();
    wait(async || served.iter().all(|served| corrections(served.log()) >= 4)).await;
    let before: usize = served.iter().map(|served| corrections(served.log())).sum();
    tokio::time::sleep(2 * QUIET).await;
    let after: usize = served.iter().map(|served| corrections(served.log())).sum();
    assert!(after - before <= 5, "{before} and then {after} within {:?}", 2 * QUIET);
    assert!(served.iter_mut().all(|served| served.runs()));
}
