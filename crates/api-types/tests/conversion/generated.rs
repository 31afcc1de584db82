//! Generated objects, and parts of real ones.

use api_types::conversion::ApiVersion;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::law::{KINDS, OWNED, all_inputs, components, law, there};

/// A part of an object: every value under it may be missing.
fn part(whole: &Value, keep: &mut impl FnMut() -> bool) -> Value {
    match whole {
        Value::Object(fields) => {
            let kept: Vec<_> = fields.iter().filter(|_| keep()).collect();
            Value::Object(kept.into_iter().map(|(key, value)| (key.clone(), part(value, keep))).collect())
        }
        Value::Array(items) => {
            let kept: Vec<_> = items.iter().filter(|_| keep()).collect();
            Value::Array(kept.into_iter().map(|item| part(item, keep)).collect())
        }
        other => other.clone(),
    }
}

fn part_of_object(whole: &Value, mut keep: impl FnMut() -> bool) -> Value {
    let mut object = Map::from_iter(["apiVersion", "kind"].map(|key| (key.to_owned(), whole[key].clone())));
    for key in ["metadata", "spec", "status"] {
        if let Some(value) = whole.get(key).filter(|_| keep()) {
            object.insert(key.to_owned(), part(value, &mut keep));
        }
    }
    // An annotation map that became empty is no difference that the API server would keep.
    if let Some(Value::Object(metadata)) = object.get_mut("metadata")
        && metadata.get("annotations").is_some_and(|annotations| *annotations == json!({}))
    {
        metadata.remove("annotations");
    }
    Value::Object(object)
}

/// Keys that conversion looks at, so that generated objects are not only ever unknown fields.
const KEYS: [&str; 70] = [
    "services",
    "components",
    "name",
    "serviceName",
    "componentType",
    "subComponentType",
    "type",
    "replicas",
    "resources",
    "requests",
    "limits",
    "cpu",
    "memory",
    "gpu",
    "gpuType",
    "custom",
    "claims",
    "envs",
    "env",
    "envFromSecret",
    "envFrom",
    "volumeMounts",
    "mountPoint",
    "mountPath",
    "useAsCompilationCache",
    "compilationCache",
    "pvcName",
    "sharedMemory",
    "disabled",
    "size",
    "sharedMemorySize",
    "scalingAdapter",
    "enabled",
    "mode",
    "experimental",
    "gpuMemoryService",
    "failover",
    "checkpoint",
    "grove",
    "extraPodSpec",
    "mainContainer",
    "containers",
    "podTemplate",
    "metadata",
    "spec",
    "labels",
    "annotations",
    "extraPodMetadata",
    "livenessProbe",
    "httpGet",
    "exec",
    "frontendSidecar",
    "image",
    "args",
    "ingress",
    "pvcs",
    "main",
    "sidecar-frontend",
    "a",
    "state",
    "phase",
    "componentNames",
    "componentName",
    "rollingUpdate",
    "profilingConfig",
    "config",
    "deployment",
    "overrides",
    "topologyConstraint",
    "autoApply",
];

fn leaf() -> impl Strategy<Value = Value> {
    let texts = [
        "",
        "main",
        "sidecar-frontend",
        "worker",
        "decode",
        "1",
        "0",
        "1000m",
        "8Gi",
        "a",
        "intraPod",
        "InterPod",
        "Ready",
    ];
    prop_oneof![
        2 => Just(Value::Null),
        4 => any::<bool>().prop_map(Value::from),
        2 => (-1..5_i32).prop_map(Value::from),
        8 => prop::sample::select(texts.to_vec()).prop_map(Value::from),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(7, 60, 6, |inner| {
        let key = prop::sample::select(KEYS.to_vec()).prop_map(ToOwned::to_owned);
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            4 => prop::collection::btree_map(key, inner, 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    let version = prop::sample::select(vec![ApiVersion::V1Alpha1, ApiVersion::V1Beta1]);
    let place = prop::sample::select(vec!["spec", "components", "services", "template", "status"]);
    (version, prop::sample::select(KINDS.to_vec()), place, tree(), tree()).prop_map(
        |(version, kind, place, value, more)| {
            let mut object = json!({ "apiVersion": version.api_version(), "kind": kind, "metadata": { "name": "a" } });
            match place {
                "components" => object["spec"] = json!({ "components": [named(value, "b"), named(more, "a")] }),
                "services" => object["spec"] = json!({ "services": { "a": value, "b": more } }),
                "template" => {
                    object["spec"] = json!({ "components": [named(json!({ "podTemplate": { "spec": {
                "containers": [named(value, "x"), named(more, "main")],
            } } }), "a")] })
                }
                "status" => object["status"] = json!({ "services": value, "components": more }),
                _ => object["spec"] = value,
            }
            object
        },
    )
}

fn named(mut value: Value, name: &str) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.insert("name".to_owned(), json!(name));
    }
    value
}

/// Data in any form, in place of payloads.
fn any_payload() -> impl Strategy<Value = String> {
    prop_oneof![
        tree().prop_map(|value| value.to_string()),
        tree().prop_map(|value| json!({ "version": 1, "spec": value }).to_string()),
        (tree(), tree()).prop_map(|(a, b)| {
            json!({ "spec": { "services": { "a": a }, "components": [named(b, "a")] }, "exact": [{ "path": "/spec/x" }] }).to_string()
        }),
        ".{0,20}",
    ]
}

#[test]
fn parts_of_real_objects_come_back() {
    let mut wholes: Vec<Value> = all_inputs().into_iter().map(|input| input.object).collect();
    wholes.extend(wholes.iter().flat_map(components).collect::<Vec<_>>());
    // What the other version makes of them, with payloads, is real too.
    wholes.extend(wholes.iter().map(there).collect::<Vec<_>>());
    if wholes.is_empty() {
        return;
    }
    let whole = prop::sample::select(wholes);
    proptest!(|(whole in whole, seed in any::<u64>(), percent in 50..100_u64)| {
        // Small, fast and repeatable.
        let mut state = seed | 1;
        let object = part_of_object(&whole, move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % 100 < percent
        });
        let mut bare = object.clone();
        if let Some(Value::Object(annotations)) = bare.get_mut("metadata").and_then(|m| m.get_mut("annotations")) {
            annotations.retain(|key, _| !OWNED.contains(&key.as_str()) && key != "nvidia.com/dgdr-spec");
        }
        let bare = part_of_object(&bare, || true);
        prop_assert_eq!(law(&bare), Ok(()));
        // With a payload that belongs to more than there is: nothing live is lost.
        let seen = there(&object);
        prop_assert_eq!(there(&seen)["spec"].clone(), object["spec"].clone());
    });
}

proptest! {
    #[test]
    fn any_object_comes_back(object in any_object()) {
        prop_assert_eq!(law(&object), Ok(()));
    }

    /// Whatever the annotations contain, what the object itself says is converted, and comes back.
    #[test]
    fn payloads_never_change_what_the_object_says(object in any_object(), payload in any_payload(), status in any_payload()) {
        let mut object = object;
        let mut annotations = Map::new();
        for key in OWNED.into_iter().chain(["nvidia.com/dgdr-spec", "nvidia.com/dgdr-status"]) {
            let text = if key.ends_with("spec") { &payload } else { &status };
            annotations.insert(key.to_owned(), json!(text));
        }
        object["metadata"]["annotations"] = Value::Object(annotations);
        let back = there(&there(&object));
        prop_assert_eq!(&back["spec"], &object["spec"]);
        prop_assert_eq!(&back["status"], &object["status"]);
    }
}
