//! Objects that another operator made before us, by plain updates.

use std::time::Duration;

use controller_kit::{
    apply::{Applier, ApplyOutcome, Desired},
    failure::Class,
};
use k8s_openapi::api::autoscaling::{v1, v2};
use kube::{
    Resource,
    api::{PostParams, ResourceExt},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::{Bench, D, MANAGER, deployment};

const LIMIT: Duration = Duration::from_secs(30);
const MARK: &str = "example.com/last-applied-hash";

fn with_env(names: &[&str]) -> Value {
    let env: Vec<Value> = names.iter().map(|name| json!({ "name": name, "value": "1" })).collect();
    let mut object = deployment(0, "i:1");
    object["spec"]["template"]["spec"]["containers"][0]["env"] = json!(env);
    object
}

/// The Deployment as the predecessor makes and remakes it.
async fn by_predecessor(bench: &Bench, hash: &str, env: &[&str]) -> Value {
    let mut object = with_env(env);
    object["metadata"]["annotations"] = json!({ MARK: hash, "example.com/generation": "1" });
    object["metadata"]["ownerReferences"] = json!([bench.parent.controller_owner_ref(&()).unwrap()]);
    let params = PostParams { field_manager: Some("manager".to_owned()), ..PostParams::default() };
    let object: D = serde_json::from_value(object).unwrap();
    let api = bench.api::<D>();
    match api.get_opt("d").await.unwrap() {
        None => drop(api.create(&params, &object).await.unwrap()),
        Some(mut live) => {
            live.spec = object.spec;
            live.annotations_mut().insert(MARK.to_owned(), hash.to_owned());
            // Whatever the Deployment controller wrote in between.
            live.metadata.resource_version = None;
            api.replace("d", &params, &live).await.unwrap();
        }
    }
    bench.live::<D>("d").await.unwrap()
}

/// An operator process with the name of its predecessor.
fn applier(bench: &Bench) -> Applier {
    bench.with_caches(Vec::new()).with_predecessors(&[MARK])
}

/// Applies as a controller does: the controllers of Kubernetes write status in between, which is looked at again.
async fn write<K: Resource<DynamicType = ()>>(bench: &Bench, applier: &Applier, desired: &Desired) -> Value {
    wait::until("the update", LIMIT, async || {
        let live = bench.live::<K>("d").await;
        match applier.apply(desired, live.as_ref()).await {
            Ok(ApplyOutcome::Updated(object)) => Ok(object),
            Err(error) if error.class() == Class::Transient => Err(error.to_string()),
            other => panic!("not updated: {other:?}"),
        }
    })
    .await
    .unwrap()
}

async fn apply(bench: &Bench, applier: &Applier, env: &[&str]) -> Value {
    write::<D>(bench, applier, &bench.desired::<D>(with_env(env))).await
}

fn env(object: &Value) -> Vec<&str> {
    let list = object["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    list.iter().map(|variable| variable["name"].as_str().unwrap()).collect()
}

fn assert_bookkeeping_is_kept(object: &Value, hash: &str) {
    let annotations = &object["metadata"]["annotations"];
    assert_eq!((&annotations[MARK], &annotations["example.com/generation"]), (&json!(hash), &json!("1")));
}

fn managers(object: &Value) -> Vec<(&str, &str)> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries.iter().map(|e| (e["manager"].as_str().unwrap(), e["operation"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_takeover_changes_nothing_and_what_is_dropped_later_goes() {
    let bench = Bench::new("takeover").await;
    let theirs = by_predecessor(&bench, "1", &["A", "B"]).await;
    let ours = applier(&bench);
    let taken = apply(&bench, &ours, &["A", "B"]).await;
    assert_eq!(taken["spec"], theirs["spec"]);
    // An annotation is a new generation of a Deployment, but no new revision.
    let seen = wait::until("the Deployment controller", LIMIT, async || {
        let live = bench.live::<D>("d").await.unwrap();
        let observed = live["status"]["observedGeneration"].as_i64() >= taken["metadata"]["generation"].as_i64();
        observed.then_some(live)
    })
    .await
    .unwrap();
    assert_eq!(seen["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1", "nothing rolls");
    assert_eq!(taken["metadata"]["ownerReferences"], theirs["metadata"]["ownerReferences"]);
    assert_bookkeeping_is_kept(&taken, "1");

    let shrunk = apply(&bench, &ours, &["A"]).await;
    assert_eq!(env(&shrunk), ["A"]);
    let controller = ("kube-controller-manager", "Update");
    assert!(managers(&shrunk).iter().all(|entry| [(MANAGER, "Apply"), controller].contains(entry)), "{shrunk}");
    assert_bookkeeping_is_kept(&shrunk, "1");
    let text = bench.metrics.text();
    assert!(text.contains("api_writes_total{verb=\"update\",kind=\"Deployment\",accepted=\"true\"} 3\n"), "{text}");
}

#[tokio::test]
async fn first_contact_removes_nothing_unless_the_spec_changed_too() {
    let bench = Bench::new("takeoverdrop").await;
    by_predecessor(&bench, "1", &["A", "B"]).await;
    let ours = applier(&bench);
    let taken = apply(&bench, &ours, &["A"]).await;
    assert_eq!(env(&taken), ["A", "B"], "what the predecessor rendered beyond us must not roll pods");
    let changed = apply(&bench, &ours, &["A", "C"]).await;
    assert_eq!(env(&changed), ["A", "C"]);
    assert_bookkeeping_is_kept(&changed, "1");
}

#[tokio::test]
async fn a_spec_that_changed_while_no_operator_ran_is_followed_at_once() {
    let bench = Bench::new("takeoveredit").await;
    by_predecessor(&bench, "1", &["A", "B"]).await;
    let changed = apply(&bench, &applier(&bench), &["A", "C"]).await;
    assert_eq!(env(&changed), ["A", "C"]);
    assert_bookkeeping_is_kept(&changed, "1");
}

#[tokio::test]
async fn a_predecessor_that_came_back_is_followed_once_more() {
    let bench = Bench::new("takeoverback").await;
    by_predecessor(&bench, "1", &["A"]).await;
    let ours = applier(&bench);
    apply(&bench, &ours, &["A"]).await;
    by_predecessor(&bench, "2", &["A", "B", "C"]).await;
    let changed = apply(&bench, &ours, &["A", "C", "D"]).await;
    assert_eq!(env(&changed), ["A", "C", "D"]);
    assert_bookkeeping_is_kept(&changed, "2");
}

#[tokio::test]
async fn what_others_set_stays_theirs() {
    let bench = Bench::new("takeoverother").await;
    by_predecessor(&bench, "1", &["A", "B"]).await;
    bench.meddle::<D>("d", json!({ "metadata": { "labels": { "theirs": "x" } }, "spec": { "paused": true } })).await;
    let taken = apply(&bench, &applier(&bench), &["A", "C"]).await;
    assert_eq!(taken["metadata"]["labels"], json!({ "ours": "yes", "theirs": "x" }));
    assert_eq!(taken["spec"]["paused"], true);
    assert_eq!(env(&taken), ["A", "C"]);
}

#[tokio::test]
async fn a_takeover_does_not_hide_that_the_object_changed() {
    let bench = Bench::new("takeoverstale").await;
    let seen = by_predecessor(&bench, "1", &["A", "B"]).await;
    bench.meddle::<D>("d", json!({ "metadata": { "labels": { "theirs": "x" } } })).await;
    let desired = bench.desired::<D>(with_env(&["A", "C"])).only_if_unchanged();
    let ours = applier(&bench);
    assert!(ours.apply(&desired, Some(&seen)).await.is_err());
    assert_eq!(env(&bench.live::<D>("d").await.unwrap()), ["A", "B"]);
    assert_eq!(env(&write::<D>(&bench, &ours, &desired).await), ["A", "C"]);
}

fn autoscaler(least: Option<u32>) -> Value {
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "missing" });
    let mut object = json!({ "metadata": { "name": "d" }, "spec": { "scaleTargetRef": target, "maxReplicas": 3 } });
    if let Some(least) = least {
        object["spec"]["minReplicas"] = json!(least);
    }
    object
}

#[tokio::test]
async fn what_it_set_in_another_version_of_the_api_goes_too_when_it_is_dropped() {
    let bench = Bench::new("takeoverversion").await;
    let mut theirs = autoscaler(Some(2));
    theirs["metadata"]["annotations"] = json!({ MARK: "1" });
    theirs["metadata"]["ownerReferences"] = json!([bench.parent.controller_owner_ref(&()).unwrap()]);
    let params = PostParams { field_manager: Some("manager".to_owned()), ..PostParams::default() };
    let theirs: v1::HorizontalPodAutoscaler = serde_json::from_value(theirs).unwrap();
    bench.api::<v1::HorizontalPodAutoscaler>().create(&params, &theirs).await.unwrap();

    type A = v2::HorizontalPodAutoscaler;
    let ours = applier(&bench);
    let taken = write::<A>(&bench, &ours, &bench.desired::<A>(autoscaler(Some(2)))).await;
    assert_eq!(taken["spec"]["minReplicas"], 2);
    let shrunk = write::<A>(&bench, &ours, &bench.desired::<A>(autoscaler(None))).await;
    assert_eq!(shrunk["spec"]["minReplicas"], 1, "the default");
    assert_eq!(shrunk["metadata"]["annotations"][MARK], "1");
    assert!(!managers(&shrunk).contains(&("manager", "Update")), "{shrunk}");
}
