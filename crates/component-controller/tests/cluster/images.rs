//! Images of DynamoComponents: looked for in a registry, and built where it has none.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use api_types::v1alpha1::DynamoComponent;
use axum::{Router, extract::Request, http::StatusCode, routing::any};
use component_controller::access::ACCESS;
use controller_kit::{
    access::{Access, Verb},
    conditions::find,
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Secret},
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use test_cluster::{Server, wait};
use tokio::net::TcpListener;

use crate::{
    harness::{Harness, LIMIT},
    registry::push,
};

fn component(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponent",
        "metadata": { "name": name, "annotations": { "nvidia.com/docker-registry-insecure": "true" } },
        "spec": { "dynamoComponent": "chat:v1", "image": image, "downloadUrl": "http://store.example/chat.tar" },
    })
}

fn reported(component: &DynamoComponent, type_: &str) -> Option<(String, String)> {
    let conditions = &component.status.as_ref()?.conditions;
    find(conditions, type_).map(|reported| (reported.status.clone(), reported.message.clone()))
}

/// Waits until a condition of a component is as expected.
async fn until(harness: &Harness, name: &str, type_: &str, status: &str) -> DynamoComponent {
    let look = || async {
        let found: DynamoComponent = harness.api().get(name).await.map_err(|error| error.to_string())?;
        match reported(&found, type_) {
            Some((live, _)) if live == status => Ok(found),
            other => Err(format!("{other:?}")),
        }
    };
    wait::until(format!("{type_} of {name} to be {status}"), LIMIT, look).await.unwrap()
}

async fn jobs(harness: &Harness) -> Vec<Job> {
    harness.api::<Job>().list(&ListParams::default()).await.unwrap().items
}

#[tokio::test]
async fn an_image_is_built_where_the_registry_has_none() {
    let registry = Server::registry().await.unwrap();
    let host = &registry.address;
    let harness = Harness::new("images").await;
    let (there, missing) = (format!("{host}/there:v1"), format!("{host}/missing:v1"));
    push(&there).await;
    harness.apply::<DynamoComponent>(&component("there", &there)).await;
    let found = until(&harness, "there", "DynamoComponentAvailable", "True").await;
    assert_eq!(reported(&found, "ImageExists"), Some(("True".to_owned(), there.clone())));
    assert!(jobs(&harness).await.is_empty());

    // The fake nodes end the pod of every Job well.
    harness.apply::<DynamoComponent>(&component("missing", &missing)).await;
    let built = until(&harness, "missing", "DynamoComponentAvailable", "True").await;
    assert_eq!(reported(&built, "ImageExists"), Some(("True".to_owned(), missing)));
    let made = jobs(&harness).await;
    assert_eq!(made.len(), 1);

    // Defect of the legacy operator: what was available once was never reconciled again.
    // This registry remembers nothing.
    registry.stop().await.unwrap();
    registry.start_again().await.unwrap();
    let mut edited = component("there", &there);
    edited["spec"]["buildArgs"] = json!(["A=b"]);
    harness.apply::<DynamoComponent>(&edited).await;
    let look = || async { if jobs(&harness).await.len() == 2 { Ok(()) } else { Err("no second Job") } };
    wait::until("a Job for the image that is gone", LIMIT, look).await.unwrap();
    until(&harness, "there", "ImageExistsChecked", "False").await;
    until(&harness, "there", "DynamoComponentAvailable", "True").await;

    harness.apply::<DynamoComponent>(&component("missing", &format!("{host}/missing:v2"))).await;
    let look = || async {
        let now = jobs(&harness).await;
        let another = now.len() == 2 && now.iter().all(|job| job.metadata.uid != made[0].metadata.uid);
        if another { Ok(()) } else { Err(format!("{} Jobs", now.len())) }
    };
    wait::until("another Job for another image", LIMIT, look).await.unwrap();
    harness.api::<DynamoComponent>().delete("missing", &DeleteParams::default()).await.unwrap();

    // What is known stays known when a registry does not answer.
    registry.stop().await.unwrap();
    edited["spec"]["buildArgs"] = json!(["A=c"]);
    let edited = harness.apply::<DynamoComponent>(&edited).await;
    let look = || async {
        let found: DynamoComponent = harness.api().get("there").await.map_err(|error| error.to_string())?;
        let seen = found.status.as_ref().and_then(|status| status.observed_generation);
        if seen == edited.metadata.generation { Ok(found) } else { Err(format!("{seen:?}")) }
    };
    let seen = wait::until("the edit to be seen", LIMIT, look).await.unwrap();
    assert_eq!(reported(&seen, "DynamoComponentAvailable").unwrap().0, "True");
}

/// The role reads ConfigMaps of one name only.
#[tokio::test]
async fn the_defaults_of_all_builds_are_read_by_their_name() {
    let registry = Server::registry().await.unwrap();
    let harness = Harness::new("images-defaults").await;
    let defaults = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "dynamo-image-builder-config" },
        "data": { "build_args": "[SHARED=yes]" },
    });
    harness.apply::<ConfigMap>(&defaults).await;
    let image = format!("{}/chat:v1", registry.address);
    harness.apply::<DynamoComponent>(&component("chat", &image)).await;
    let look = || async { jobs(&harness).await.pop().ok_or("no Job") };
    let job = wait::until("a Job", LIMIT, look).await.unwrap();
    let script = job.spec.unwrap().template.spec.unwrap().containers[0].command.clone().unwrap().pop().unwrap();
    assert!(script.contains("--opt build-arg:'SHARED=yes'"), "{script}");
}

/// A registry that requires a password, and has every image.
async fn closed_registry() -> String {
    let answer = any(|request: Request| async move {
        let shown = request.headers().get("authorization").is_some_and(|value| value == "Basic dTpw");
        let status = if shown { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        (status, [("www-authenticate", "Basic realm=\"r\""), ("docker-content-digest", digest)])
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let serving = axum::serve(listener, Router::new().fallback(answer));
    tokio::spawn(async move { serving.await });
    host
}

/// The chart gives `get`, and of the one Secret only.
#[tokio::test]
async fn a_login_needs_no_right_but_to_read_its_secret() {
    let host = closed_registry().await;
    let rights = ACCESS.iter().map(|right| match right.resource {
        "secrets" => Access { verbs: &[Verb::Get], ..*right },
        _ => *right,
    });
    let mut harness = Harness::with_rights("images-login", &rights.collect::<Vec<_>>()).await;
    harness.start();
    let mut closed = component("closed", &format!("{host}/there:v1"));
    closed["spec"]["dockerConfigJsonSecretName"] = json!("login");
    harness.apply::<DynamoComponent>(&closed).await;
    let waiting = until(&harness, "closed", "Stalled", "True").await;
    let message = reported(&waiting, "DynamoComponentAvailable").unwrap().1;
    assert!(message.contains("/login does not exist"), "{message}");
    let config = json!({ "auths": { host: { "auth": "dTpw" } } }).to_string();
    let login = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "login" }, "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": config },
    });
    harness.apply::<Secret>(&login).await;
    until(&harness, "closed", "DynamoComponentAvailable", "True").await;
}

#[tokio::test]
async fn without_the_right_to_read_a_login_the_remedy_is_reported() {
    let rights: Vec<_> = ACCESS.iter().filter(|right| right.resource != "secrets").copied().collect();
    let mut harness = Harness::with_rights("images-blind", &rights).await;
    harness.start();
    let mut closed = component("closed", "r.example/there:v1");
    closed["spec"]["dockerConfigJsonSecretName"] = json!("login");
    harness.apply::<DynamoComponent>(&closed).await;
    let blocked = until(&harness, "closed", "Stalled", "True").await;
    let message = reported(&blocked, "DynamoComponentAvailable").unwrap().1;
    let named = [format!("Secret {}/login", harness.namespace), "imagePullSecretDiscovery.enabled=true".to_owned()];
    assert!(named.iter().all(|part| message.contains(part)), "{message}");
}

#[tokio::test]
async fn the_example_is_built_without_a_query() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/2025/component.yaml");
    let example: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let harness = Harness::new("images-example").await;
    harness.apply::<DynamoComponent>(&example).await;
    let built = until(&harness, "frontend--v1", "Ready", "True").await;
    let image = example["spec"]["image"].as_str().unwrap().to_owned();
    assert_eq!(reported(&built, "ImageExists"), Some(("True".to_owned(), image)));
    assert_eq!(jobs(&harness).await.len(), 1);
}

#[tokio::test]
async fn a_violation_is_reported_with_its_field() {
    let harness = Harness::new("images-wrong").await;
    let mut wrong = component("wrong", "r.example/x:v1");
    wrong["spec"]["imageBuildTimeout"] = json!("soon");
    harness.apply::<DynamoComponent>(&wrong).await;
    let found = until(&harness, "wrong", "Stalled", "True").await;
    let message = reported(&found, "DynamoComponentAvailable").unwrap().1;
    assert!(message.starts_with("spec.imageBuildTimeout"), "{message}");
    assert!(jobs(&harness).await.is_empty());
}

/// Ends the only Job as a failure. The controller of Jobs may write beside us.
async fn fail(harness: &Harness) {
    let attempt = async || {
        let job = jobs(harness).await.pop().ok_or("no Job")?;
        let now = json!(job.status.as_ref().and_then(|status| status.start_time.clone()).ok_or("not started")?);
        let condition = |type_: &str| {
            json!({ "type": type_, "status": "True", "reason": "DeadlineExceeded", "message": "it waited for a node",
                "lastTransitionTime": now })
        };
        let status = json!({ "active": 0, "ready": 0, "failed": 1, "terminating": 0, "uncountedTerminatedPods": {},
            "conditions": [condition("FailureTarget"), condition("Failed")] });
        let name = job.metadata.name.unwrap_or_default();
        let patch = Patch::Merge(json!({ "status": status }));
        let patched = harness.api::<Job>().patch_status(&name, &PatchParams::default(), &patch).await;
        patched.map(drop).map_err(|error| error.to_string())
    };
    wait::until("the Job to have failed", LIMIT, attempt).await.unwrap();
}

/// A build that no node takes.
#[tokio::test]
async fn a_build_that_cannot_start_says_why_and_has_a_deadline() {
    let harness = Harness::new("images-stuck").await;
    let mut stuck = component("stuck", "r.example/stuck:v1");
    stuck["metadata"]["annotations"] = json!({ "nvidia.com/force-build-image": "true" });
    stuck["spec"]["imageBuilderExtraPodSpec"] = json!({ "nodeSelector": { "example.com/none": "such" } });
    harness.apply::<DynamoComponent>(&stuck).await;
    let look = || async {
        let found: DynamoComponent = harness.api().get("stuck").await.map_err(|error| error.to_string())?;
        let conditions = found.status.map(|status| status.conditions).unwrap_or_default();
        let said = ["ImageBuilding", "DynamoComponentAvailable", "Ready"].map(|type_| {
            find(&conditions, type_)
                .is_some_and(|c| c.reason == "Unschedulable" && c.message.contains("nodes are available"))
        });
        if said == [true; 3] { Ok(()) } else { Err(format!("{conditions:?}")) }
    };
    wait::until("the build to say what it waits for", LIMIT, look).await.unwrap();
    let deadline = jobs(&harness).await.first().and_then(|job| job.spec.as_ref()?.active_deadline_seconds);
    assert_eq!(deadline, Some(7200));

    // The test does not wait so long.
    fail(&harness).await;
    let failed = until(&harness, "stuck", "DynamoComponentAvailable", "False").await;
    let message = reported(&failed, "DynamoComponentAvailable").unwrap().1;
    assert!(message.contains("it waited for a node"), "{message}");
}

/// An API store with one archive, and how often it was downloaded.
async fn api_store(manifest: &'static str) -> (String, Arc<AtomicUsize>) {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(manifest.len() as u64);
    archive.append_data(&mut header, "dynamo.yaml", manifest.as_bytes()).unwrap();
    let archive = archive.into_inner().unwrap();
    let downloads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&downloads);
    let answer = any(move |request: Request| {
        let is_archive = request.uri().path().ends_with("/download");
        counted.fetch_add(usize::from(is_archive), Ordering::SeqCst);
        let body = if is_archive { archive.clone() } else { b"{}".to_vec() };
        async move { body }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serving = axum::serve(listener, Router::new().fallback(answer));
    tokio::spawn(async move { serving.await });
    (address, downloads)
}

#[tokio::test]
async fn the_manifest_of_an_archive_is_read_once_into_the_status() {
    let manifest =
        "service: graphs.agg:Frontend\nservices:\n- name: Frontend\n  config: {workers: 2, resources: {gpu: 1}}\n";
    let (store, downloads) = api_store(manifest).await;
    let mut harness = Harness::without_controller("manifest").await;
    harness.api_store = Some(store);
    harness.start();
    let component = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponent",
        "metadata": { "name": "chat", "annotations": {
            "nvidia.com/force-build-image": "true", "nvidia.com/read-archive-manifest": "true" } },
        "spec": { "dynamoComponent": "chat:v1", "image": "registry.example/chat:v1" },
    });
    harness.apply::<DynamoComponent>(&component).await;
    until(&harness, "chat", "ManifestRead", "True").await;
    // Several passes later.
    let built = until(&harness, "chat", "DynamoComponentAvailable", "True").await;
    let expected = json!({ "dynamoTag": "graphs.agg:Frontend", "services": [
        { "name": "Frontend", "workers": 2, "resources": { "nvidia.com/gpu": "1" } } ] });
    assert_eq!(serde_json::to_value(built.status.unwrap().manifest).unwrap(), expected);
    assert_eq!(downloads.load(Ordering::SeqCst), 1);
}
