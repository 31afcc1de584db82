//! Images of DynamoComponents: looked for in a registry, and built where it has none.

use crate::bed::{Bed, LIMIT};
use api_types::v1alpha1::DynamoComponent;
use axum::{Router, http::StatusCode, routing::any};
use controller_kit::conditions::find;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use test_cluster::wait;
use tokio::net::TcpListener;

/// A registry that has the repository `there` and nothing else, and counts what it is asked.
async fn registry() -> (String, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let answer = any(move |request: axum::extract::Request| {
        counter.fetch_add(1, Ordering::Relaxed);
        let found = request.uri().path() == "/v2/there/manifests/v1";
        async move { if found { StatusCode::OK } else { StatusCode::NOT_FOUND } }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let serving = axum::serve(listener, Router::new().fallback(answer));
    tokio::spawn(async move { serving.await });
    (host, asked)
}

fn component(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponent",
        "metadata": { "name": name, "annotations": { "nvidia.com/docker-registry-insecure": "true" } },
        "spec": { "dynamoComponent": "chat:v1", "image": image, "downloadUrl": "http://store.example/chat.tar" },
    })
}

fn told(component: &DynamoComponent, type_: &str) -> Option<(String, String)> {
    let conditions = &component.status.as_ref()?.conditions;
    find(conditions, type_).map(|told| (told.status.clone(), told.message.clone()))
}

/// Waits until a condition of a component is as it shall be.
async fn until(bed: &Bed, name: &str, type_: &str, status: &str) -> DynamoComponent {
    let look = || async {
        let found: DynamoComponent = bed.api().get(name).await.map_err(|error| error.to_string())?;
        match told(&found, type_) {
            Some((live, _)) if live == status => Ok(found),
            other => Err(format!("{other:?}")),
        }
    };
    wait::until(format!("{type_} of {name} to be {status}"), LIMIT, look).await.unwrap()
}

async fn jobs(bed: &Bed) -> Vec<Job> {
    bed.api::<Job>().list(&ListParams::default()).await.unwrap().items
}

#[tokio::test]
async fn an_image_is_built_where_the_registry_has_none() {
    let (host, asked) = registry().await;
    let bed = Bed::new("images").await;
    let (there, missing) = (format!("{host}/there:v1"), format!("{host}/missing:v1"));
    bed.apply::<DynamoComponent>(&component("there", &there)).await;
    let found = until(&bed, "there", "DynamoComponentAvailable", "True").await;
    assert_eq!(told(&found, "ImageExists"), Some(("True".to_owned(), there)));
    assert!(jobs(&bed).await.is_empty());
    assert_eq!(asked.load(Ordering::Relaxed), 1, "what is known is not asked again");

    // The fake nodes end the pod of every Job well.
    bed.apply::<DynamoComponent>(&component("missing", &missing)).await;
    let built = until(&bed, "missing", "DynamoComponentAvailable", "True").await;
    assert_eq!(told(&built, "ImageExists"), Some(("True".to_owned(), missing)));
    let made = jobs(&bed).await;
    assert_eq!(made.len(), 1);

    // Defect of the operator of 2025: what was available once was never looked at again.
    bed.apply::<DynamoComponent>(&component("missing", &format!("{host}/missing:v2"))).await;
    let look = || async {
        let now = jobs(&bed).await;
        let another = now.iter().any(|job| job.metadata.uid != made[0].metadata.uid);
        if another { Ok(()) } else { Err(format!("{} Jobs", now.len())) }
    };
    wait::until("another Job for another image", LIMIT, look).await.unwrap();
    bed.api::<DynamoComponent>().delete("missing", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn the_example_is_built_without_a_question() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/2025/component.yaml");
    let example: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let bed = Bed::new("images-example").await;
    bed.apply::<DynamoComponent>(&example).await;
    let built = until(&bed, "frontend--v1", "Ready", "True").await;
    let image = example["spec"]["image"].as_str().unwrap().to_owned();
    assert_eq!(told(&built, "ImageExists"), Some(("True".to_owned(), image)));
    assert_eq!(jobs(&bed).await.len(), 1);
}

#[tokio::test]
async fn a_mistake_is_told_with_its_field() {
    let bed = Bed::new("images-wrong").await;
    let mut wrong = component("wrong", "r.example/x:v1");
    wrong["spec"]["imageBuildTimeout"] = json!("soon");
    bed.apply::<DynamoComponent>(&wrong).await;
    let found = until(&bed, "wrong", "Stalled", "True").await;
    let message = told(&found, "DynamoComponentAvailable").unwrap().1;
    assert!(message.starts_with("spec.imageBuildTimeout"), "{message}");
    assert!(jobs(&bed).await.is_empty());
}
