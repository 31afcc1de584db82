//! Graphs: random manifests, written in random ways.
//!
//! `DYNAMO_MERGE_CASES` says how many manifests are written in each test, `DYNAMO_MERGE_SEED` where to begin.

use serde_json::{Value, json};
use test_cluster::TestNamespace;

use super::{
    Way, Written,
    oracle::{copy, ours},
};
use crate::{
    managers::{Chance, IMAGE, NEEDED, everything, graph, reconcile, setting},
    namespace,
    versions::other,
};

const KIND: &str = "DynamoGraphDeployment";
/// For a test that runs on every change.
const CASES: u64 = 40;
/// Manifests for each object.
const PER_OBJECT: u64 = 8;

/// A part of a manifest, always with replicas: without them, admission adds them to one of the two objects.
fn part(chance: &mut Chance, whole: &Value) -> Value {
    chance.part(whole, &[&NEEDED[..], &["replicas"]].concat())
}

/// The ways of one tool. Every tool's object may also be edited and replaced by hand.
const TOOLS: [&[Way]; 3] = [
    &[Way::ClientSide("kubectl-client-side-apply"), Way::ServerSide("kubectl")],
    &[Way::ClientSide("argocd-controller"), Way::ServerSide("argocd-controller")],
    &[Way::ServerSide("kustomize-controller")],
];

fn way(chance: &mut Chance, tool: usize) -> Way {
    let ways = TOOLS[tool];
    match chance.below(8) {
        0 => Way::Replace,
        1 | 2 => Way::Edit,
        _ => ways[usize::try_from(chance.below(ways.len() as u64)).unwrap()],
    }
}

/// Writes to one object, for the message of a failure.
struct History {
    seed: u64,
    steps: Vec<String>,
}

impl History {
    fn add(&mut self, version: &str, way: Way, spec: &Value) {
        self.steps.push(format!("{version} {way:?} {spec}"));
    }
}

impl std::fmt::Display for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DYNAMO_MERGE_SEED={}:\n{}", self.seed, self.steps.join("\n"))
    }
}

/// One user, and controllers that write in the other version.
async fn one_author(version: &str) {
    let namespace = namespace(&format!("user-{version}")).await;
    let (cases, seed) = (setting("DYNAMO_MERGE_CASES", CASES), setting("DYNAMO_MERGE_SEED", 1));
    for number in 0..cases.div_ceil(PER_OBJECT) {
        let seed = seed + number;
        let mut chance = Chance::new(seed);
        let name = format!("g-{number}");
        let both = [ours(&namespace, KIND, version, &name), copy(&namespace, KIND, version, &name).await];
        let tool = usize::try_from(chance.below(TOOLS.len() as u64)).unwrap();
        let mut history = History { seed, steps: Vec::new() };
        let mut live = None;
        for _ in 0..PER_OBJECT {
            let way = way(&mut chance, tool);
            let everything = everything(version);
            let whole = live.as_ref().filter(|_| matches!(way, Way::Edit)).unwrap_or(&everything);
            let spec = part(&mut chance, whole);
            history.add(version, way, &spec);
            let answers =
                [both[0].write(way, &spec, &Value::Null).await, both[1].write(way, &spec, &Value::Null).await];
            let [ours, alone] = answers.map(|answer| answer.err().map(|error| error.to_string()));
            // The API server makes null of a list that an apply empties, and refuses that where no conversion takes it
            // off.
            let emptied = alone.as_ref().is_some_and(|why| why.contains(r#"must be of type array: "null""#));
            match (ours, alone) {
                (None, None) => {}
                (Some(_), Some(_)) if emptied => continue,
                (None, Some(_)) if emptied => break,
                (ours, alone) => panic!("{ours:?}, and alone {alone:?}: {history}"),
            }
            reconcile(&namespace, other(version), &name).await;
            let [ours, alone] = [both[0].spec().await, both[1].spec().await];
            assert_eq!(ours, alone, "{history}");
            live = Some(ours);
        }
    }
}

#[tokio::test]
async fn an_author_in_v1alpha1_reads_what_that_version_alone_would_give() {
    one_author("v1alpha1").await;
}

#[tokio::test]
async fn an_author_in_v1beta1_reads_what_that_version_alone_would_give() {
    one_author("v1beta1").await;
}

/// Returns the fields that the user of v1alpha1 may write. `envs` and the component's own `volumeMounts` are not among
/// them, and no variable or mount belongs to both users: there, each of these lists is one field, of the user who
/// changed it last.
fn alpha() -> Value {
    let variable = |name: &str| json!({ "name": name, "value": name });
    json!({ "services": { "Worker": {
        "componentType": "worker", "replicas": 1, "dynamoNamespace": "ns",
        "ingress": { "enabled": true, "host": "a", "tls": { "secretName": "s" } },
        "annotations": { "a": "1", "b": "2" }, "labels": { "c": "3" },
        "sharedMemory": { "size": "1Gi" },
        "resources": { "limits": { "cpu": "1" } },
        "extraPodSpec": {
            "mainContainer": {
                "image": IMAGE, "env": [variable("A1"), variable("A2")],
                "volumeMounts": [{ "name": "v", "mountPath": "/a" }],
                "livenessProbe": { "periodSeconds": 7 },
            },
            "volumes": [{ "name": "v", "emptyDir": {} }],
        },
    } } })
}

/// Returns the fields that the user of v1beta1 may write.
fn beta() -> Value {
    let variable = |name: &str| json!({ "name": name, "value": name });
    json!({ "components": [{
        "name": "Worker", "type": "worker", "replicas": 2, "scalingAdapter": {},
        "podTemplate": {
            "metadata": { "labels": { "l": "1" }, "annotations": { "m": "2" } },
            "spec": { "terminationGracePeriodSeconds": 9, "containers": [{
                "name": "main", "env": [variable("B1"), variable("B2")],
                "resources": { "limits": { "memory": "1Gi", "example.com/nic": "1" } },
                "volumeMounts": [{ "name": "v", "mountPath": "/b" }],
                "livenessProbe": { "timeoutSeconds": 4 },
            }], "volumes": [{ "name": "v", "emptyDir": {} }, { "name": "w", "emptyDir": {} }] },
        },
    }] })
}

/// A spec without the order of its lists, and without empty ones. The position of an item of another user is nothing
/// that a user states.
fn unordered(spec: &Value) -> Value {
    match spec {
        Value::Object(fields) => {
            let filled = fields.iter().filter(|(_, value)| **value != json!([]));
            filled.map(|(key, value)| (key.clone(), unordered(value))).collect()
        }
        Value::Array(items) => {
            let mut items: Vec<_> = items.iter().map(unordered).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        other => other.clone(),
    }
}

/// Spec and annotations of a manifest in v1beta1 that says the same as one in v1alpha1.
fn in_beta(spec: &Value) -> (Value, Value) {
    let whole = graph("v1alpha1", "g", spec);
    let mut beta = api_types::conversion::convert(whole, "nvidia.com/v1beta1".parse().unwrap()).unwrap();
    (beta["spec"].take(), beta["metadata"]["annotations"].take())
}

/// Returns the fields that only v1alpha1 has.
fn only_alpha(spec: &Value) -> Value {
    let worker = &spec["services"]["Worker"];
    ["dynamoNamespace", "ingress", "annotations", "labels"].iter().map(|key| (*key, worker[key].clone())).collect()
}

async fn two_authors(namespace: &TestNamespace, number: u64, seed: u64) {
    let mut chance = Chance::new(seed);
    let name = format!("g-{number}");
    let argo = Way::ServerSide("argocd-controller");
    let flux = Way::ServerSide("kustomize-controller");
    let [in_alpha, live] = ["v1alpha1", "v1beta1"].map(|version| ours(namespace, KIND, version, &name));
    let alone: Written = copy(namespace, KIND, "v1beta1", &name).await;
    let mut history = History { seed, steps: Vec::new() };
    let mut said = Value::Null;
    for step in 0..PER_OBJECT {
        if step == 0 || chance.below(2) == 0 {
            let spec = part(&mut chance, &alpha());
            history.add("v1alpha1", argo, &spec);
            in_alpha.write(argo, &spec, &Value::Null).await.unwrap_or_else(|error| panic!("{error} {history}"));
            let (same, annotations) = in_beta(&spec);
            alone.write(argo, &same, &annotations).await.unwrap();
            said = only_alpha(&spec);
        } else {
            let spec = part(&mut chance, &beta());
            history.add("v1beta1", flux, &spec);
            live.write(flux, &spec, &Value::Null).await.unwrap_or_else(|error| panic!("{error} {history}"));
            alone.write(flux, &spec, &Value::Null).await.unwrap();
        }
        if chance.below(3) == 0 {
            reconcile(namespace, "v1beta1", &name).await;
        }
        let [found, expected] = [live.spec().await, alone.spec().await];
        assert_eq!(unordered(&found), unordered(&expected), "{history}");
        assert_eq!(only_alpha(&in_alpha.spec().await), said, "{history}");
    }
}

#[tokio::test]
async fn two_authors_in_two_versions_have_the_effect_that_they_have_in_one() {
    let namespace = namespace("two-users").await;
    let (cases, seed) = (setting("DYNAMO_MERGE_CASES", CASES), setting("DYNAMO_MERGE_SEED", 1));
    for number in 0..cases.div_ceil(PER_OBJECT) {
        two_authors(&namespace, number, seed + number).await;
    }
}
