//! Objects whose fields have managers in both versions. Every object that a controller has written a status for is one:
//! the status is in v1beta1, whatever its user writes.
//!
//! Each object has a twin whose fields all have managers in one version. What the user applies must have the same
//! effect on both. `DYNAMO_MERGE_CASES` says how many manifests are applied in each direction, `DYNAMO_MERGE_SEED`
//! where to begin.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use test_cluster::TestNamespace;

use crate::{common::objects, namespace};

pub const IMAGE: &str = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0";
const GRAPH: &str = "DynamoGraphDeployment";
/// For a test that runs on every change.
const CASES: u64 = 24;

async fn try_apply(api: &Api<DynamicObject>, manager: &str, manifest: &Value) -> kube::Result<DynamicObject> {
    let name = manifest["metadata"]["name"].as_str().unwrap();
    api.patch(name, &PatchParams::apply(manager).force(), &Patch::Apply(manifest)).await
}

async fn apply(api: &Api<DynamicObject>, manager: &str, manifest: &Value) -> DynamicObject {
    try_apply(api, manager, manifest).await.unwrap()
}

fn api(namespace: &TestNamespace, version: &str) -> Api<DynamicObject> {
    objects(namespace, GRAPH, version)
}

pub fn graph(version: &str, name: &str, spec: &Value) -> Value {
    let mut graph =
        json!({ "apiVersion": format!("nvidia.com/{version}"), "kind": GRAPH, "metadata": { "name": name } });
    if !spec.is_null() {
        graph["spec"] = spec.clone();
    }
    graph
}

/// Writes as controllers do: a status, and an annotation of their own.
pub async fn reconcile(namespace: &TestNamespace, version: &str, name: &str) {
    let api = api(namespace, version);
    let mut status = graph(version, name, &Value::Null);
    status["status"] = json!({ "state": "pending" });
    let params = PatchParams::apply("graph-controller/status").force();
    api.patch_status(name, &params, &Patch::Apply(&status)).await.unwrap();
    let mut kept = graph(version, name, &Value::Null);
    kept["metadata"]["annotations"] = json!({ "nvidia.com/current-worker-hash": "0123abcd" });
    apply(&api, "graph-controller", &kept).await;
}

/// The spec in both versions, and that nothing of the way through the merge was stored.
async fn specs(namespace: &TestNamespace, name: &str) -> [Value; 2] {
    let mut specs = [Value::Null, Value::Null];
    for (spec, version) in specs.iter_mut().zip(["v1alpha1", "v1beta1"]) {
        let live = api(namespace, version).get(name).await.unwrap();
        let annotations = live.metadata.annotations.unwrap_or_default();
        let notes: Vec<_> = annotations.keys().filter(|key| key.starts_with("nvidia.com/merge")).collect();
        assert!(notes.is_empty(), "{notes:?}");
        *spec = live.data["spec"].clone();
    }
    specs
}

fn full_service() -> Value {
    json!({
        "componentType": "worker", "subComponentType": "decode", "dynamoNamespace": "ns", "replicas": 1,
        "ingress": { "enabled": true, "host": "a", "tls": { "secretName": "s" } }, "annotations": { "a": "1", "b": "2" }, "labels": { "c": "3" },
        "resources": { "limits": { "cpu": "1", "memory": "1Gi" } },
        "sharedMemory": { "size": "1Gi" },
        "extraPodSpec": { "mainContainer": {
            "image": IMAGE, "env": [{ "name": "C1", "value": "1" }, { "name": "C2", "value": "2" }],
            "resources": { "limits": { "cpu": "2", "example.com/nic": "1" } },
            "volumeMounts": [{ "name": "v", "mountPath": "/a", "readOnly": true }, { "name": "v", "mountPath": "/b" }],
        }, "volumes": [{ "name": "v", "emptyDir": {} }] },
    })
}

/// A manifest without what is at a JSON pointer.
fn less(service: &Value, pointer: &str) -> Value {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let mut service = service.clone();
    match service.pointer_mut(parent).unwrap() {
        Value::Object(fields) => drop(fields.remove(last).unwrap()),
        Value::Array(items) => drop(items.remove(last.parse().unwrap())),
        other => panic!("{other}"),
    }
    service
}

/// Defect: removing one variable removed all, and an Ingress that was removed from the manifest stayed.
#[tokio::test]
async fn what_is_removed_from_a_v1alpha1_manifest_goes_and_the_rest_stays() {
    let namespace = namespace("removed").await;
    let alpha = api(&namespace, "v1alpha1");
    let services = |service: &Value| json!({ "services": { "Worker": service } });
    for (number, pointer) in [
        "/extraPodSpec/mainContainer/env/1",
        "/extraPodSpec/mainContainer/env",
        "/extraPodSpec/mainContainer/resources/limits/cpu",
        "/extraPodSpec/mainContainer/resources",
        "/extraPodSpec/mainContainer/volumeMounts/0",
        "/extraPodSpec/mainContainer/volumeMounts/0/readOnly",
        "/resources/limits/memory",
        "/resources/limits/cpu",
        "/ingress",
        "/ingress/tls",
        "/annotations",
        "/annotations/b",
        "/labels",
        "/dynamoNamespace",
        "/subComponentType",
        "/sharedMemory",
    ]
    .into_iter()
    .enumerate()
    {
        let (mixed, alone) = (format!("mixed-{number}"), format!("alone-{number}"));
        for name in [&mixed, &alone] {
            apply(&alpha, "argocd", &graph("v1alpha1", name, &services(&full_service()))).await;
        }
        reconcile(&namespace, "v1beta1", &mixed).await;
        for service in [less(&full_service(), pointer), full_service(), less(&full_service(), pointer)] {
            for name in [&mixed, &alone] {
                apply(&alpha, "argocd", &graph("v1alpha1", name, &services(&service))).await;
            }
            assert_eq!(specs(&namespace, &mixed).await, specs(&namespace, &alone).await, "{pointer}");
        }
        let live = &specs(&namespace, &mixed).await[0]["services"]["Worker"];
        assert_eq!(live.pointer(pointer).filter(|_| !pointer.ends_with("/0")), None, "{pointer}: {live:#}");
    }
}

/// Small, fast and repeatable.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    /// A part of a manifest: everything in it may be missing, but what it needs to be valid.
    pub fn part(&mut self, whole: &Value, needed: &[&str]) -> Value {
        match whole {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(key, _)| needed.contains(&key.as_str()) || self.below(10) > 2);
                let kept: Vec<_> = kept.collect();
                let mut part = |key: &str, value| match key {
                    "volumes" | "sharedMemory" => Value::clone(value),
                    _ => self.part(value, needed),
                };
                let kept = kept.into_iter().map(|(key, value)| (key.clone(), part(key, value)));
                // Server-side apply makes null of an object that it empties.
                kept.filter(|(_, value)| *value != json!({})).collect()
            }
            Value::Array(items) => {
                let kept: Vec<_> = items
                    .iter()
                    .filter(|item| needed.iter().any(|name| item["name"] == *name) || self.below(10) > 2)
                    .collect();
                kept.into_iter().map(|item| self.part(item, needed)).collect()
            }
            other => other.clone(),
        }
    }
}

pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Everything that each of the versions can say in more than one place, or alone.
pub fn everything(version: &str) -> Value {
    let mut worker = full_service();
    worker["envs"] = json!([{ "name": "E1", "value": "1" }, { "name": "C1", "value": "hidden" }]);
    worker["volumeMounts"] = json!([{ "name": "v", "mountPoint": "/c" }]);
    worker["livenessProbe"] = json!({ "httpGet": { "path": "/", "port": 1 }, "periodSeconds": 5 });
    worker["extraPodSpec"]["mainContainer"]["livenessProbe"] = json!({ "timeoutSeconds": 7 });
    let mut spec = json!({
        "backendFramework": "vllm", "pvcs": [{ "name": "p" }], "envs": [{ "name": "G", "value": "1" }],
        "services": { "Worker": worker, "Frontend": { "componentType": "frontend", "replicas": 1,
            "ingress": { "enabled": true, "host": "h" }, "extraPodSpec": { "mainContainer": { "image": IMAGE } } } },
    });
    if version == "v1beta1" {
        let whole = graph("v1alpha1", "g", &spec);
        spec = api_types::conversion::convert(whole, "nvidia.com/v1beta1".parse().unwrap()).unwrap()["spec"].take();
        let worker = &mut spec["components"][1];
        worker["podTemplate"]["metadata"] = json!({ "labels": { "l": "1" }, "annotations": { "m": "2" } });
        worker["podTemplate"]["spec"]["containers"][0]["volumeMounts"][0]["subPath"] = json!("s");
    }
    spec
}

pub const NEEDED: [&str; 22] = [
    "services",
    "components",
    "Worker",
    "Frontend",
    "backendFramework",
    "name",
    "main",
    "containers",
    "image",
    "extraPodSpec",
    "mainContainer",
    "podTemplate",
    "spec",
    "componentType",
    "type",
    "mountPath",
    "mountPoint",
    "value",
    "httpGet",
    "port",
    "enabled",
    "host",
];

/// One user, with controllers in the other version, and the twin without.
async fn follows_the_manifest(version: &str, controllers: &str) {
    let namespace = namespace(&format!("random-{version}")).await;
    let (cases, seed) = (setting("DYNAMO_MERGE_CASES", CASES), setting("DYNAMO_MERGE_SEED", 1));
    let api = api(&namespace, version);
    let mut chance = Chance::new(seed);
    let (mut name, mut steps, mut applied) = (0, Vec::new(), 0);
    for case in 0..cases {
        if case % 6 == 0 {
            name += 1;
            steps.clear();
        }
        let (mixed, alone) = (format!("mixed-{name}"), format!("alone-{name}"));
        let spec = chance.part(&everything(version), &NEEDED);
        steps.push(spec.clone());
        let mut refused = Vec::new();
        for name in [&mixed, &alone] {
            let answer = try_apply(&api, "kustomize-controller", &graph(version, name, &spec)).await;
            refused.push(answer.err());
        }
        assert_eq!(
            refused[0].is_some(),
            refused[1].is_some(),
            "manifest {case} of DYNAMO_MERGE_SEED={seed} in {version}: {steps:#?}"
        );
        if let Some(why) = refused.remove(0) {
            steps.pop();
            println!("manifest {case} refused: {why}");
            continue;
        }
        applied += 1;
        reconcile(&namespace, controllers, &mixed).await;
        let (is, expected) = (specs(&namespace, &mixed).await, specs(&namespace, &alone).await);
        assert_eq!(is, expected, "manifest {case} of DYNAMO_MERGE_SEED={seed} in {version}: {steps:#?}");
    }
    assert!(applied * 2 >= cases, "{applied} of {cases} manifests were admitted");
}

#[tokio::test]
async fn random_manifests_in_v1alpha1_have_the_effect_that_they_have_without_managers_in_v1beta1() {
    follows_the_manifest("v1alpha1", "v1beta1").await;
}

#[tokio::test]
async fn random_manifests_in_v1beta1_have_the_effect_that_they_have_without_managers_in_v1alpha1() {
    follows_the_manifest("v1beta1", "v1alpha1").await;
}
