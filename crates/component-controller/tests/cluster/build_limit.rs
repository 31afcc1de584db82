//! However many images are needed at once, no more builds run at a time than may.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use api_types::v1alpha1::DynamoComponent;
use axum::{Router, extract::Request, http::StatusCode, routing::any};
use component_controller::image_build::model::has_ended;
use controller_kit::conditions::find;
use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use kube::{
    Api, ResourceExt,
    api::{WatchEvent, WatchParams},
};
use serde_json::json;
use test_cluster::wait;
use tokio::{net::TcpListener, sync::watch};

use crate::harness::{Harness, LIMIT};

const EXPECTED: usize = 8;
/// Value of `DYNAMO_IMAGE_BUILD_CONCURRENCY` where it is not set.
const MOST: usize = 4;

/// A registry that has nothing, and answers only after a request for each image: all reconciles are in the
/// middle by then.
async fn slow_registry() -> String {
    let requested = watch::Sender::new(BTreeSet::new());
    let answer = any(move |request: Request| {
        let (requested, path) = (requested.clone(), request.uri().path().to_owned());
        async move {
            if !path.contains("/manifests/") {
                return (StatusCode::OK, "{}");
            }
            requested.send_modify(|paths| _ = paths.insert(path));
            requested.subscribe().wait_for(|paths| paths.len() == EXPECTED).await.unwrap();
            (StatusCode::NOT_FOUND, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":""}]}"#)
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let serving = axum::serve(listener, Router::new().fallback(answer));
    tokio::spawn(async move { serving.await });
    host
}

/// Follows the Jobs of a namespace and remembers how many of them were unfinished at a time.
async fn count(jobs: Api<Job>, most: Arc<AtomicUsize>) {
    let mut events = jobs.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let mut unfinished = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event.unwrap() {
            WatchEvent::Added(job) | WatchEvent::Modified(job) if !has_ended(&job) => {
                unfinished.insert(job.name_any());
            }
            WatchEvent::Added(job) | WatchEvent::Modified(job) | WatchEvent::Deleted(job) => {
                unfinished.remove(&job.name_any());
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(error) => panic!("{error:?}"),
        }
        most.fetch_max(unfinished.len(), Ordering::SeqCst);
    }
}

#[tokio::test]
async fn builds_that_are_expected_at_once_do_not_exceed_what_may_run() {
    let host = slow_registry().await;
    let mut harness = Harness::without_controller("images-many").await;
    // One namespace gets three quarters of the workers.
    harness.concurrency(2 * EXPECTED);
    let most = Arc::new(AtomicUsize::new(0));
    let counting = tokio::spawn(count(harness.api(), Arc::clone(&most)));
    for number in 0..EXPECTED {
        let component = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponent",
            "metadata": { "name": format!("c{number}"), "annotations": { "nvidia.com/docker-registry-insecure": "true" } },
            "spec": { "dynamoComponent": "chat:v1", "image": format!("{host}/c{number}:v1"),
                "downloadUrl": "http://store.example/chat.tar" },
        });
        harness.apply::<DynamoComponent>(&component).await;
    }
    harness.start();
    let api = harness.api::<DynamoComponent>();
    let look = async || {
        let all = api.list(&Default::default()).await.map_err(|error| error.to_string())?;
        let reported = |component: &DynamoComponent| -> Option<String> {
            let ready = find(&component.status.as_ref()?.conditions, "Ready")?;
            Some(format!("{} {}", ready.status, ready.message))
        };
        let reported: Vec<_> = all.iter().map(|component| reported(component).unwrap_or_default()).collect();
        if reported.iter().all(|reported| reported.starts_with("True")) { Ok(()) } else { Err(format!("{reported:?}")) }
    };
    wait::until("all images to be built", LIMIT, look).await.unwrap();
    assert!(!counting.is_finished(), "the count did not go on");
    let most = most.load(Ordering::SeqCst);
    assert!((1..=MOST).contains(&most), "{most} builds ran at a time");
}
