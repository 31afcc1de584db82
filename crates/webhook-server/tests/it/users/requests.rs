//! Requests: fields that have a default in one version and no place, or another default, in the other.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use test_cluster::TestNamespace;

use super::{
    Way, Written,
    oracle::{copy, ours},
};
use crate::{
    namespace,
    versions::{VERSIONS, other},
};

const KIND: &str = "DynamoGraphDeploymentRequest";
const FLUX: Way = Way::ServerSide("kustomize-controller");

/// The same in both versions, but for what only one of them can say.
fn manifest(version: &str) -> Value {
    let image = "nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.5.0";
    let mut spec = json!({ "model": "m", "backend": "vllm", "autoApply": true });
    if version == "v1alpha1" {
        spec["useMocker"] = json!(true);
        spec["enableGpuDiscovery"] = json!(false);
        spec["profilingConfig"] = json!({
            "profilerImage": image, "outputPVC": "results",
            "config": { "sla": { "ttft": 1, "isl": 3000, "osl": 300 }, "other": { "a": 1 } },
        });
    } else {
        spec["image"] = json!(image);
        spec["features"] = json!({ "mocker": { "enabled": true } });
        spec["searchStrategy"] = json!("thorough");
        spec["sla"] = json!({ "ttft": 1, "e2eLatency": 5 });
        spec["workload"] = json!({ "isl": 3000, "osl": 300, "concurrency": 2 });
    }
    spec
}

/// Writes the status as a controller does in the other version.
async fn reconcile(namespace: &TestNamespace, version: &str, name: &str) {
    let api = ours(namespace, KIND, version, name).api;
    let status = json!({ "observedGeneration": 1 });
    let object = json!({ "apiVersion": format!("nvidia.com/{version}"), "kind": KIND, "status": status });
    let params = PatchParams::apply("graph-controller/status").force();
    api.patch_status(name, &params, &Patch::Apply(&object)).await.unwrap();
}

fn less(spec: &Value, pointer: &str) -> Value {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let mut spec = spec.clone();
    spec.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(last).unwrap();
    spec
}

const REMOVABLE: [&[&str]; 2] = [
    &[
        "/autoApply",
        "/useMocker",
        "/enableGpuDiscovery",
        "/profilingConfig/outputPVC",
        "/profilingConfig/config/sla/ttft",
        "/profilingConfig/config/sla/osl",
        "/profilingConfig/config/other",
        "/profilingConfig/config",
    ],
    &["/autoApply", "/features", "/searchStrategy", "/sla/ttft", "/sla", "/workload/osl", "/workload", "/image"],
];

#[tokio::test]
async fn what_is_removed_from_a_request_goes_and_its_defaults_come_back() {
    let namespace = namespace("requests").await;
    for (version, pointers) in VERSIONS.into_iter().zip(REMOVABLE) {
        for (number, pointer) in pointers.iter().enumerate() {
            let name = format!("{version}-{number}");
            let both = [ours(&namespace, KIND, version, &name), copy(&namespace, KIND, version, &name).await];
            let whole = manifest(version);
            for spec in [whole.clone(), less(&whole, pointer), whole.clone(), less(&whole, pointer)] {
                for object in &both {
                    object.write(FLUX, &spec, &Value::Null).await.unwrap();
                }
                reconcile(&namespace, other(version), &name).await;
                let [ours, alone] = [both[0].spec().await, both[1].spec().await];
                assert_eq!(ours, alone, "{version} {pointer}");
            }
        }
    }
}

/// Two users, one in each version, set the same field; one of them gives it up.
#[tokio::test]
async fn a_field_of_a_request_that_two_authors_set_goes_with_the_second() {
    let namespace = namespace("shared").await;
    let write = async |object: &Written, way, spec: &Value| object.write(way, spec, &Value::Null).await.unwrap();
    let argo = Way::ServerSide("argocd-controller");
    for (number, (alpha, beta)) in [
        ("/autoApply", "/autoApply"),
        ("/useMocker", "/features"),
        ("/profilingConfig/config/sla/ttft", "/sla/ttft"),
        ("/profilingConfig/config/sla/osl", "/workload/osl"),
        ("/runtimeVersionOverride", "/runtimeVersionOverride"),
    ]
    .into_iter()
    .enumerate()
    {
        for first in VERSIONS {
            let name = format!("{first}-{number}");
            let mut specs = VERSIONS.map(manifest);
            for spec in &mut specs {
                spec["runtimeVersionOverride"] = json!("1.2.3");
                // Not the default of the version that gives it up first.
                spec["autoApply"] = json!(first == "v1alpha1");
            }
            let objects = VERSIONS.map(|version| ours(&namespace, KIND, version, &name));
            for ((object, spec), way) in objects.iter().zip(&specs).zip([FLUX, argo]) {
                write(object, way, spec).await;
            }
            let pointers = [alpha, beta];
            let [giver, keeper] = if first == "v1alpha1" { [0, 1] } else { [1, 0] };
            let before = [objects[0].spec().await, objects[1].spec().await];
            let ways = [FLUX, argo];
            write(&objects[giver], ways[giver], &less(&specs[giver], pointers[giver])).await;
            let after = [objects[0].spec().await, objects[1].spec().await];
            assert_eq!(after, before, "{first} gives {alpha} up, and the other user keeps it");
            write(&objects[keeper], ways[keeper], &less(&specs[keeper], pointers[keeper])).await;
            let after = objects[keeper].spec().await;
            let value = |spec: &Value| spec.pointer(pointers[keeper]).cloned();
            match alpha {
                "/autoApply" => assert_eq!(value(&after), Some(json!(keeper == 1)), "the default of the version"),
                _ => assert_ne!(value(&after), value(&before[keeper]), "{alpha} is set by none of them"),
            }
        }
    }
}
