//! Objects whose fields have managers in both versions. Every object that a controller has written a status for is one: the
//! status is in v1beta1, whatever its author writes.
//!
//! Each object has a twin whose fields all have managers in one version. What the author applies must have the same effect on
//! both.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use test_cluster::TestNamespace;

use crate::common::objects;
use crate::namespace;

const IMAGE: &str = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0";
const GRAPH: &str = "DynamoGraphDeployment";

async fn apply(api: &Api<DynamicObject>, manager: &str, manifest: &Value) -> DynamicObject {
    let name = manifest["metadata"]["name"].as_str().unwrap();
    api.patch(name, &PatchParams::apply(manager).force(), &Patch::Apply(manifest)).await.unwrap()
}

fn api(namespace: &TestNamespace, version: &str) -> Api<DynamicObject> {
    objects(namespace, GRAPH, version)
}

fn graph(version: &str, name: &str, spec: &Value) -> Value {
    let mut graph =
        json!({ "apiVersion": format!("nvidia.com/{version}"), "kind": GRAPH, "metadata": { "name": name } });
    if !spec.is_null() {
        graph["spec"] = spec.clone();
    }
    graph
}

/// What controllers write: a status, and an annotation of their own.
async fn reconcile(namespace: &TestNamespace, version: &str, name: &str) {
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
