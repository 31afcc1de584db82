//! Writes to the reconciled object itself: its status and its finalizers.

use std::sync::Arc;

use controller_kit::{
    apply::{Desired, MetadataPatch, RequestError},
    failure::Class,
    store::{CacheView, Key, Packed, Shown},
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ApiResource, DeleteParams};
use serde_json::{Value, json};

use crate::{Bench, version};

fn status(available: &str, message: &str, second: u32) -> Value {
    json!({ "conditions": [{
        "type": "Available", "status": available, "message": message,
        "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z"),
    }] })
}

/// An object whose status no other client writes: a pod that no scheduler looks at.
async fn pod(bench: &Bench) {
    let containers = json!([{ "name": "main", "image": "i" }]);
    let pod =
        json!({ "metadata": { "name": "p" }, "spec": { "schedulerName": "no-scheduler", "containers": containers } });
    bench.apply::<Pod>(&bench.desired::<Pod>(pod)).await;
}

async fn live(bench: &Bench) -> Packed<Pod> {
    Packed::from_value(bench.live::<Pod>("p").await.unwrap()).unwrap()
}

async fn write(bench: &Bench, status: Value) -> bool {
    bench.applier.patch_status(&live(bench).await, &status).await.unwrap()
}

/// Message and transition time of the condition on the API server.
async fn shown(bench: &Bench) -> (Value, Value) {
    let status = live(bench).await.status();
    let mut all = status["conditions"].as_array().unwrap().iter();
    let found = all.find(|condition| condition["type"] == "Available").unwrap();
    (found["message"].clone(), found["lastTransitionTime"].clone())
}

#[tokio::test]
async fn a_status_is_written_when_it_says_something_new() {
    let bench = Bench::new("status").await;
    pod(&bench).await;
    assert!(write(&bench, status("False", "a", 1)).await);
    assert!(write(&bench, status("False", "b", 2)).await);
    assert_eq!(shown(&bench).await, (json!("b"), json!("2026-01-01T00:00:01Z")), "the status is as old as before");
    let before = live(&bench).await;
    assert!(!write(&bench, status("False", "b", 3)).await, "only the time is new");
    assert_eq!(version(&live(&bench).await.value()), version(&before.value()));
    assert!(write(&bench, status("True", "b", 4)).await);
    assert_eq!(shown(&bench).await, (json!("b"), json!("2026-01-01T00:00:04Z")));
}

#[tokio::test]
async fn a_status_of_an_object_that_is_gone_is_not_written_and_no_error() {
    let bench = Bench::new("statusgone").await;
    pod(&bench).await;
    let mut ghost = live(&bench).await;
    ghost.metadata.name = Some("ghost".to_owned());
    assert!(!bench.applier.patch_status(&ghost, &status("True", "a", 1)).await.unwrap());
    let mut predecessor = live(&bench).await;
    predecessor.metadata.uid = Some("of-the-one-before".to_owned());
    assert!(!bench.applier.patch_status(&predecessor, &status("True", "a", 1)).await.unwrap());
    assert!(!live(&bench).await.status().to_string().contains("Available"));
}

/// The schema may be another operator's, or an older one of ours. A pod's has never had these fields.
#[tokio::test]
async fn fields_that_the_served_schema_lacks_do_not_keep_the_rest_from_being_written() {
    let bench = Bench::new("undeclared").await;
    pod(&bench).await;
    let with = |available: &str| {
        let mut status = status(available, "a", 1);
        status["conditions"][0]["adapterOf"] = json!("x");
        (status["adapter"], status["observedBy"]) = (json!({ "name": "x" }), json!(1));
        status
    };
    let attempts = |accepted: bool| {
        let line = format!("api_writes_total{{verb=\"status\",kind=\"Pod\",accepted=\"{accepted}\"}} ");
        let text = bench.metrics.text();
        let count = text.lines().find_map(|found| found.split_once(&line)).map(|(_, count)| count.to_owned());
        count.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    assert!(!bench.applier.cannot_store::<Pod>("adapter"), "no write was sent yet");
    assert!(write(&bench, with("False")).await);
    assert_eq!(shown(&bench).await.0, json!("a"));
    assert!(bench.applier.cannot_store::<Pod>("adapter"));
    assert!(!bench.applier.cannot_store::<Pod>("conditions"));
    let refused = attempts(false);
    assert!((1..=3).contains(&refused), "{refused}");
    assert!(!write(&bench, with("False")).await, "nothing that can be stored is new");
    assert!(write(&bench, with("True")).await);
    assert_eq!((attempts(false), attempts(true)), (refused, 2), "nothing is refused twice");
}

#[tokio::test]
async fn a_field_that_the_served_schema_lacks_is_reported_with_the_remedy() {
    let bench = Bench::new("unknown").await;
    let mut object = bench.desired::<Pod>(json!({ "metadata": { "name": "p" } })).object().clone();
    object["spec"] = json!({ "containers": [{ "name": "main", "image": "i", "inventedLately": 1 }] });
    let desired = Desired::dynamic(ApiResource::erase::<Pod>(&()), object, &bench.uid()).unwrap();
    let error = bench.applier.apply(&desired, None).await.unwrap_err();
    assert_eq!(error.class(), Class::Invalid, "{error}");
    assert!(
        error.to_string().contains("inventedLately: field not declared in schema; the cluster serves another"),
        "{error}"
    );
}

/// Found defect: a patch of all annotations took the one of client-side apply away, which caches leave out.
#[tokio::test]
async fn annotations_and_labels_that_a_patch_does_not_name_stay() {
    const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let bench = Bench::new("metadatapatch").await;
    let parent = async || bench.api::<ConfigMap>().get("parent").await.unwrap();
    // As a cache has it.
    let cached = async || Packed::<ConfigMap>::from_value(serde_json::to_value(parent().await).unwrap()).unwrap();
    let patch = async |patch: MetadataPatch| {
        let object = cached().await;
        let uid = object.metadata.uid.clone().unwrap();
        bench.applier.patch_metadata(&object, &uid, &patch).await.unwrap()
    };
    let set = |value: Option<&str>| MetadataPatch::default().annotation("test.io/ours", value);
    let annotations = async || serde_json::to_value(parent().await.metadata.annotations).unwrap();
    bench.meddle::<ConfigMap>("parent", json!({ "metadata": { "annotations": null, "labels": null } })).await;
    assert!(!patch(set(None)).await, "there is nothing to remove");
    assert!(patch(set(Some("0")).label("zone", Some("a"))).await, "neither map is there");
    assert_eq!(parent().await.metadata.labels.unwrap()["zone"], "a");
    for theirs in [json!({ APPLIED: "{}" }), json!({ APPLIED: "{}", "test.io/theirs": "x" })] {
        bench.meddle::<ConfigMap>("parent", json!({ "metadata": { "annotations": null } })).await;
        bench.meddle::<ConfigMap>("parent", json!({ "metadata": { "annotations": theirs } })).await;
        assert!(patch(set(Some("1"))).await && patch(set(Some("2"))).await && !patch(set(Some("2"))).await);
        let mut both = theirs.clone();
        both["test.io/ours"] = json!("2");
        assert_eq!(annotations().await, both);
        assert!(patch(set(None).only_if_unchanged()).await);
        assert_eq!(annotations().await, theirs);
    }
}

#[tokio::test]
async fn a_metadata_patch_for_another_object_or_version_is_refused() {
    let bench = Bench::new("metadataversion").await;
    let parent = async || bench.api::<ConfigMap>().get("parent").await.unwrap();
    let set = MetadataPatch::default().annotation("test.io/ours", Some("1"));
    let seen = parent().await;
    bench.meddle::<ConfigMap>("parent", json!({ "metadata": { "annotations": { "test.io/theirs": "x" } } })).await;
    let uid = seen.metadata.uid.clone().unwrap();
    let error = bench.applier.patch_metadata(&seen, &uid, &set.clone().only_if_unchanged()).await.unwrap_err();
    assert!(matches!(error, RequestError::Changed { .. }), "{error}");
    let mut predecessor = parent().await;
    predecessor.metadata.uid = Some("of-the-one-before".to_owned());
    let error = bench.applier.patch_metadata(&predecessor, &uid, &set).await.unwrap_err();
    assert!(matches!(error, RequestError::Changed { .. }), "{error}");
    let annotations = parent().await.metadata.annotations.unwrap();
    assert!(!annotations.contains_key("test.io/ours"), "{annotations:?}");
    let mut ghost = parent().await;
    ghost.metadata.name = Some("ghost".to_owned());
    assert!(!bench.applier.patch_metadata(&ghost, &uid, &set).await.unwrap(), "what is gone needs no patch");
    let name = json!({ "op": "remove", "path": "/metadata/annotations" });
    let error = bench.applier.edit_spec(&parent().await, &uid, vec![name]).await.unwrap_err();
    assert!(matches!(error, RequestError::Render { .. }), "{error}");
}

#[tokio::test]
async fn one_finalizer_goes_and_the_others_stay() {
    let bench = Bench::new("finalizer").await;
    let finalizers = json!(["test.io/a", "test.io/b", "test.io/c"]);
    bench.meddle::<ConfigMap>("parent", json!({ "metadata": { "finalizers": finalizers } })).await;
    let seen = bench.api::<ConfigMap>().get("parent").await.unwrap();
    assert!(bench.applier.remove_finalizer(&seen, "test.io/b").await.unwrap());
    let now = bench.api::<ConfigMap>().get("parent").await.unwrap();
    assert_eq!(now.metadata.finalizers, Some(vec!["test.io/a".to_owned(), "test.io/c".to_owned()]));
    assert!(!bench.applier.remove_finalizer(&now, "test.io/b").await.unwrap(), "it has none");
    // The list is another than the one that was seen: `c` is at the place of `b`.
    let error = bench.applier.remove_finalizer(&seen, "test.io/b").await.unwrap_err();
    assert!(matches!(error, RequestError::Changed { .. }), "{error}");
    bench.meddle::<ConfigMap>("parent", json!({ "metadata": { "finalizers": null } })).await;
}

/// A cache of ConfigMaps that has not heard anything since it saw one object.
struct Behind {
    version: u64,
    uid: String,
}

impl CacheView for Behind {
    fn group_kind(&self) -> (&str, &str) {
        ("", "ConfigMap")
    }

    fn latest(&self) -> u64 {
        self.version
    }

    fn shows(&self, _: &Key, uid: &str) -> Shown {
        if self.uid == uid { Shown::Deleting } else { Shown::Absent }
    }
}

#[tokio::test]
async fn an_object_whose_last_finalizer_went_is_not_looked_at_until_the_cache_has_dropped_it() {
    let bench = Bench::new("lastfinalizer").await;
    bench.meddle::<ConfigMap>("parent", json!({ "metadata": { "finalizers": ["test.io/a"] } })).await;
    bench.api::<ConfigMap>().delete("parent", &DeleteParams::default()).await.unwrap();
    let seen = bench.api::<ConfigMap>().get("parent").await.unwrap();
    let version = seen.metadata.resource_version.as_ref().unwrap().parse().unwrap();
    let applier = bench.with_caches(vec![Arc::new(Behind { version, uid: bench.uid() })]);
    assert!(applier.stale(&bench.uid()).is_none());
    assert!(applier.remove_finalizer(&seen, "test.io/a").await.unwrap());
    assert!(bench.api::<ConfigMap>().get_opt("parent").await.unwrap().is_none());
    assert!(applier.stale(&bench.uid()).is_some(), "the cache still has it");
}
