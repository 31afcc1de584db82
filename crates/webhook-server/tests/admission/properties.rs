//! Every request gets an answer.

use std::sync::LazyLock;

use kube::core::GroupVersionKind;
use proptest::prelude::*;
use serde_json::{Value, json};
use webhook_server::admission::{AdmissionPath, Answer, Facts, Operation, Request, lookups, review};

use crate::{conformance_kit, support::*};

/// Objects to begin with: small ones with everything in them, and real ones if they are there.
static SEEDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let full = edited(&grove_graph(), |g| {
        g["spec"]["restart"] = json!({ "id": "1", "strategy": { "order": ["Frontend", "decode"] } });
        g["spec"]["topologyConstraint"] = json!({ "clusterTopologyName": "t", "packDomain": "rack" });
        g["spec"]["experimental"] = json!({ "kvTransferPolicy": { "clusterTopologyName": "t", "domain": "rack" } });
        g["spec"]["providerOverride"] =
            json!({ "apiVersion": "grove.io/v1alpha1", "value": { "spec": { "template": {} } } });
        g["spec"]["components"][1]["multinode"] =
            json!({ "nodeCount": 2, "leader": { "providerOverride": { "value": {} } } });
        g["spec"]["components"][1]["experimental"] = json!({
            "gpuMemoryService": { "mode": "IntraPod", "extraClientContainers": ["side"] }, "failover": { "numShadows": 1 },
            "grove": { "forceScalingGroup": true }, "checkpoint": { "enabled": true, "job": { "gmsClientContainers": ["x"] } },
        });
    });
    let mut seeds = vec![full, graph(), component()];
    seeds.extend(conformance_kit::inputs());
    seeds
});

fn leaf() -> impl Strategy<Value = Value> {
    let texts =
        ["", "main", "decode", "Frontend", "grove", "component", "InterPod", "-1", "9".repeat(40).leak(), "ü€\u{2028}"];
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
        Just(json!({})),
        Just(json!([])),
        Just(json!([null])),
        Just(json!({ "name": null })),
        Just(json!([{ "name": "main" }, { "name": "main" }, 3])),
    ]
}

/// Puts `leaf` at the place in `value` that `steps` lead to.
fn mutate(value: &mut Value, steps: &[u16], leaf: Value) {
    let Some((step, rest)) = steps.split_first() else {
        *value = leaf;
        return;
    };
    let step = usize::from(*step);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let position = step % fields.len();
            if let Some((_, below)) = fields.iter_mut().nth(position) {
                mutate(below, rest, leaf);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let position = step % items.len();
            mutate(&mut items[position], rest, leaf);
        }
        other => *other = leaf,
    }
}

fn mutated() -> impl Strategy<Value = Value> {
    let mutation = (prop::collection::vec(any::<u16>(), 1..9), leaf());
    (any::<prop::sample::Index>(), prop::collection::vec(mutation, 0..6)).prop_map(|(seed, mutations)| {
        let mut object = seed.get(&SEEDS).clone();
        for (steps, leaf) in mutations {
            mutate(&mut object, &steps, leaf);
        }
        object
    })
}

fn facts_of_any_kind() -> impl Strategy<Value = Facts> {
    any::<[bool; 5]>().prop_map(|[grove, lws, inference_pool, checkpoint, gpu_discovery]| {
        facts_with(|features| {
            features.grove = grove;
            features.lws = lws;
            features.inference_pool = inference_pool;
            features.checkpoint = checkpoint;
            features.gpu_discovery = gpu_discovery;
        })
    })
}

/// Asks at every path, as the kind that the path is for.
fn answers(object: &Value, old: Option<&Value>, facts: &Facts) {
    for path in AdmissionPath::ALL {
        for version in ["v1alpha1", "v1beta1"] {
            let kind = match path {
                AdmissionPath::ValidateComponent
                | AdmissionPath::ValidateComponentAlpha
                | AdmissionPath::DefaultComponent => "DynamoComponentDeployment",
                AdmissionPath::ValidateRequest | AdmissionPath::DefaultRequest => "DynamoGraphDeploymentRequest",
                AdmissionPath::ValidateCheckpoint => "DynamoCheckpoint",
                AdmissionPath::ValidateModel => "DynamoModel",
                AdmissionPath::ValidateGraph | AdmissionPath::DefaultGraph | AdmissionPath::RestorePod => {
                    "DynamoGraphDeployment"
                }
            };
            let typed = |object: &Value| match object {
                Value::Object(_) => edited(object, |o| {
                    o["apiVersion"] = json!(format!("nvidia.com/{version}"));
                    o["kind"] = json!(kind);
                }),
                other => other.clone(),
            };
            let operation = if old.is_some() { Operation::Update } else { Operation::Create };
            let kind =
                GroupVersionKind { group: "nvidia.com".to_owned(), version: version.to_owned(), kind: kind.to_owned() };
            let request = Request { kind, operation, old_object: old.map(typed), ..creation(typed(object)) };
            let _ = lookups(path, &request, facts);
            if let Answer::Allow { patch, .. } = review(path, &request, facts) {
                let mut patched = request.object.clone().unwrap();
                json_patch::patch(&mut patched, &patch).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_object_is_too_strange(object in mutated(), facts in facts_of_any_kind()) {
        answers(&object, None, &facts);
    }

    #[test]
    fn no_change_is_too_strange(old in mutated(), new in mutated(), facts in facts_of_any_kind()) {
        answers(&new, Some(&old), &facts);
    }

    /// Rules may differ from those under which an object was admitted. Sending it again is always possible.
    #[test]
    fn an_object_may_be_sent_again(object in mutated(), facts in facts_of_any_kind()) {
        let known = object["kind"].as_str().and_then(validates).is_some() && object["metadata"].is_object();
        let versions = ["nvidia.com/v1alpha1", "nvidia.com/v1beta1"];
        if known && object["apiVersion"].as_str().is_some_and(|version| versions.contains(&version)) {
            let request = change(object.clone(), edited(&object, |o| o["metadata"]["finalizers"] = json!([])));
            let single = ["DynamoCheckpoint", "DynamoModel"].contains(&request.kind.kind.as_str());
            if !(single && request.kind.version == "v1beta1") {
                let answer = validate(&request, &facts);
                prop_assert_eq!(violations(&answer), Vec::<String>::new(), "{}", words(&answer));
            }
        }
    }
}

/// No single object keeps the server busy.
#[test]
fn large_objects_are_answered_soon() {
    let many = |item: Value| Value::Array(vec![item; 20_000]);
    let large = edited(&component(), |c| {
        c["spec"]["experimental"] = json!({ "gpuMemoryService": { "extraClientContainers": many(json!("x")) } });
        c["spec"]["podTemplate"]["spec"]["containers"] =
            many(json!({ "name": "a", "resources": { "limits": { "a": "b" } } }));
    });
    let begin = std::time::Instant::now();
    let answer = update(&large, &edited(&large, |c| c["spec"]["replicas"] = json!(7)), &facts());
    assert_eq!(violations(&answer), Vec::<String>::new());
    assert_eq!(violations(&create(&large, &facts())).len(), 201, "200 of the rules, and the size");
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}
