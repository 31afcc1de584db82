//! One object in two versions.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};

use crate::{common::graphs, manifests::graph, namespace};

pub const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];

pub fn other(version: &str) -> &'static str {
    if version == "v1alpha1" { "v1beta1" } else { "v1alpha1" }
}

#[tokio::test]
async fn reading_in_either_version_and_writing_it_back_changes_nothing() {
    let namespace = namespace("versions").await;
    for version in VERSIONS {
        let (api, _) = graphs(namespace.client(), namespace.name(), version);
        let object = serde_json::from_value(graph(version, 2, Some("fast"))).unwrap();
        let created = api.create(&PostParams::default(), &object).await.unwrap();
        for read in VERSIONS {
            let (api, _) = graphs(namespace.client(), namespace.name(), read);
            let live = api.get("chat").await.unwrap();
            assert_eq!(live.types.as_ref().unwrap().api_version, format!("nvidia.com/{read}"));
            let written = api.replace("chat", &PostParams::default(), &live).await.unwrap();
            assert_eq!(written.metadata.generation, created.metadata.generation, "{version} read as {read}");
            assert_eq!(written.data, live.data, "{version} read as {read}");
            let listed = api.list(&ListParams::default()).await.unwrap();
            assert_eq!(listed.items[0].data, live.data, "{version} listed as {read}");
        }
        let (api, _) = graphs(namespace.client(), namespace.name(), version);
        let live = api.get("chat").await.unwrap();
        assert!(subset(&graph(version, 2, Some("fast"))["spec"], &live.data["spec"]), "{:#}", live.data);
        api.delete("chat", &Default::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_watch_in_one_version_sees_what_is_written_in_the_other() {
    let namespace = namespace("watched").await;
    for version in VERSIONS {
        let (api, _) = graphs(namespace.client(), namespace.name(), version);
        let (seen, _) = graphs(namespace.client(), namespace.name(), other(version));
        let object = serde_json::from_value(graph(version, 1, None)).unwrap();
        let created = api.create(&PostParams::default(), &object).await.unwrap();
        let from = created.resource_version().unwrap();
        let mut events = seen.watch(&WatchParams::default().timeout(60), &from).await.unwrap().boxed();
        let patch = json!({ "metadata": { "labels": { "seen": "yes" } } });
        api.patch("chat", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        let event = tokio::time::timeout(Duration::from_secs(30), events.try_next()).await.unwrap().unwrap();
        let Some(WatchEvent::Modified(changed)) = event else { panic!("{event:?}") };
        assert_eq!(changed.types.as_ref().unwrap().api_version, format!("nvidia.com/{}", other(version)));
        assert_eq!(changed.labels()["seen"], "yes");
        api.delete("chat", &Default::default()).await.unwrap();
    }
}

/// Whether everything that the first holds is in the second. Lists are compared item by item.
pub fn subset(expected: &Value, live: &Value) -> bool {
    match (expected, live) {
        (Value::Object(expected), Value::Object(live)) => {
            expected.iter().all(|(key, value)| live.get(key).is_some_and(|live| subset(value, live)))
        }
        (Value::Array(expected), Value::Array(live)) => {
            expected.len() == live.len() && expected.iter().zip(live).all(|(expected, live)| subset(expected, live))
        }
        _ => expected == live,
    }
}
