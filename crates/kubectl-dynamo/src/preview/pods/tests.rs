//! Tests of the replacement of pods.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::preview::objects::{ObjectKey, Preconditions};

fn key() -> ObjectKey {
    let text = str::to_owned;
    ObjectKey { group: text("apps"), plural: text("deployments"), namespace: text("n"), name: text("d") }
}

fn deployment(replicas: usize, image: &str, strategy: Value) -> Value {
    json!({
        "metadata": { "name": "d", "namespace": "n", "uid": "u", "generation": 1, "resourceVersion": "1",
            "ownerReferences": [{ "kind": "DynamoComponentDeployment", "uid": "c" }] },
        "spec": { "replicas": replicas, "strategy": strategy, "template": {
            "metadata": { "labels": { "nvidia.com/dynamo-component": "Decode" } },
            "spec": { "containers": [{ "image": image, "resources": { "limits": { "nvidia.com/gpu": "2" } } }] } } },
        "status": { "updatedReplicas": replicas },
    })
}

fn live(count: usize) -> Vec<Value> {
    let pod = |index: usize| {
        json!({ "metadata": { "name": format!("d-{index}"), "namespace": "n",
                "labels": { "nvidia.com/selector": "d" } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] } })
    };
    (0..count).map(pod).collect()
}

type Played = (Vec<(usize, usize)>, Vec<(&'static str, String)>);

/// `(pods, serving)` after each step, and all changes of pods.
fn play(before: Value, after: Value, pods: usize) -> Played {
    let mut objects = PreviewObjects::new(Timestamp::UNIX_EPOCH);
    objects.read(key(), before);
    let mut all = PreviewPods::read(&objects, Some(&live(pods)));
    let edit = |object: &mut Value| {
        *object = after;
        Ok(())
    };
    objects.patch(&key(), Preconditions::default(), edit).unwrap();
    let (mut steps, mut changes) = (Vec::new(), Vec::new());
    loop {
        let now = all.react(&objects);
        steps.push((all.all().len(), all.all().iter().filter(|pod| pod.ready).count()));
        if !all.make_ready() && now.is_empty() {
            break;
        }
        changes.extend(now.into_iter().map(|change| (change.verb, change.name)));
        assert!(steps.len() < 50, "it does not end: {steps:?}");
    }
    (steps, changes)
}

#[test]
fn a_rolling_update_keeps_to_its_surge_and_unavailable() {
    let step = |surge: Value, unavailable: Value| {
        let step = json!({ "maxSurge": surge, "maxUnavailable": unavailable });
        json!({ "type": "RollingUpdate", "rollingUpdate": step })
    };
    for (strategy, most, least) in [
        (step(json!(1), json!(0)), 4, 3),
        (step(json!(0), json!(1)), 3, 2),
        (step(json!("100%"), json!(0)), 6, 3),
        (step(json!("0%"), json!("1%")), 3, 2),
        (Value::Null, 4, 3),
        (json!({ "type": "Recreate" }), 3, 0),
    ] {
        let (steps, changes) = play(deployment(3, "a", strategy.clone()), deployment(3, "b", strategy.clone()), 3);
        assert_eq!(steps.iter().map(|step| step.0).max(), Some(most), "{strategy}: {steps:?}");
        assert_eq!(steps.iter().map(|step| step.1).min(), Some(least), "{strategy}: {steps:?}");
        assert_eq!(steps.last(), Some(&(3, 3)), "{strategy}");
        let of = |verb| changes.iter().filter(|change| change.0 == verb).count();
        assert_eq!((of("create"), of("delete")), (3, 3), "{strategy}: {changes:?}");
    }
}

#[test]
fn replicas_change_without_a_replacement() {
    let (steps, changes) = play(deployment(3, "a", Value::Null), deployment(1, "a", Value::Null), 3);
    assert_eq!((steps.last(), changes.len()), (Some(&(1, 1)), 2));
    let (steps, changes) = play(deployment(1, "a", Value::Null), deployment(3, "a", Value::Null), 1);
    assert_eq!((steps.last(), changes.len()), (Some(&(3, 3)), 2));
}

#[test]
fn a_workload_that_does_not_change_keeps_its_pods_whatever_they_lack() {
    let same = || deployment(3, "a", Value::Null);
    assert_eq!(play(same(), same(), 2), (vec![(2, 2)], Vec::new()));
}

#[test]
fn gpus_are_those_of_all_containers() {
    let mut objects = PreviewObjects::new(Timestamp::UNIX_EPOCH);
    objects.read(key(), deployment(3, "a", Value::Null));
    let pods = PreviewPods::read(&objects, Some(&live(3)));
    assert_eq!(gpus(pods.all()), 6);
    assert_eq!(pods.all()[0].component, "Decode");
}

fn pods(count: usize) -> Vec<Pod> {
    let requests: Amounts = [("nvidia.com/gpu".to_owned(), 2 * ONE), ("cpu".to_owned(), ONE / 2)].into();
    (0..count).map(|_| Pod { requests: requests.clone(), ready: true, ..Pod::default() }).collect()
}

#[test]
fn only_what_grows_beyond_a_limit_is_named() {
    let quota = |resource: &str, hard: &str, used: &str, scopes: Value| {
        json!({ "metadata": { "name": "q" }, "spec": { "hard": { resource: hard }, "scopes": scopes },
            "status": { "used": { resource: used } } })
    };
    for (resource, hard, used, needed) in [
        ("pods", "3", "2", Some("4")),
        ("pods", "4", "2", None),
        ("requests.nvidia.com/gpu", "6", "4", Some("8")),
        ("requests.nvidia.com/gpu", "8", "4", None),
        ("cpu", "1", "1", Some("2")),
        ("requests.cpu", "1500m", "1", Some("2")),
        ("persistentvolumeclaims", "0", "1", None),
    ] {
        let mut quota = quota(resource, hard, used, Value::Null);
        quota["spec"].as_object_mut().unwrap().remove("scopes");
        let found = excesses(&[quota], &pods(2), &pods(4));
        assert_eq!(found.first().map(|excess| excess.needed.as_str()), needed, "{resource} {hard}");
    }
    assert!(excesses(&[quota("pods", "0", "9", json!(["BestEffort"]))], &pods(2), &pods(4)).is_empty());
    let mut full = quota("pods", "0", "9", Value::Null);
    full["spec"].as_object_mut().unwrap().remove("scopes");
    assert!(excesses(&[full], &pods(4), &pods(4)).is_empty(), "nothing grows");
}
