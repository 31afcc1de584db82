//! Law that holds for every object, and the real objects with which it is tested.

use api_types::conversion::{ApiVersion, convert};
use serde_json::{Value, json};

use crate::support;

pub const KINDS: [&str; 4] = [
    "DynamoGraphDeployment",
    "DynamoComponentDeployment",
    "DynamoGraphDeploymentRequest",
    "DynamoGraphDeploymentScalingAdapter",
];
/// Annotations that conversion owns.
pub const OWNED: [&str; 4] =
    ["nvidia.com/dgd-spec", "nvidia.com/dgd-status", "nvidia.com/dcd-spec", "nvidia.com/dcd-status"];

pub fn other(object: &Value) -> ApiVersion {
    match object["apiVersion"].as_str() {
        Some("nvidia.com/v1alpha1") => ApiVersion::V1Beta1,
        _ => ApiVersion::V1Alpha1,
    }
}

pub fn there(object: &Value) -> Value {
    convert(object.clone(), other(object)).unwrap()
}

/// There and back is the same, and the second time is byte for byte as the first.
pub fn law(object: &Value) -> Result<(), String> {
    let mut expected = object.clone();
    if expected["metadata"].is_null() {
        expected["metadata"] = json!({});
    }
    let seen = there(object);
    let back = there(&seen);
    if back != expected {
        let places = support::differences(&expected, &back).into_iter();
        let places = places.map(|at| format!("{}: {:?} came back as {:?}", at.path, at.given, at.kept));
        let places: Vec<String> = places.collect();
        return Err(format!("{}\ngiven {expected:#}\nseen as {seen:#}", places.join("\n")));
    }
    let bytes = |value: &Value| serde_json::to_vec(value).unwrap();
    if bytes(&there(&back)) != bytes(&seen) {
        return Err(format!("given {expected:#}\nseen as {seen:#}\nthen as {:#}", there(&back)));
    }
    Ok(())
}

pub fn all_inputs() -> Vec<support::Input> {
    [("v1alpha1", KINDS[0]), ("v1beta1", KINDS[0]), ("v1beta1", KINDS[2])]
        .into_iter()
        .flat_map(|(version, kind)| support::inputs(version, kind))
        .collect()
}

/// The components of a graph, each as an object of its own.
pub fn components(graph: &Value) -> Vec<Value> {
    let alone = |mut spec: Value, name: &str| {
        spec["backendFramework"] = json!("vllm");
        json!({ "apiVersion": graph["apiVersion"], "kind": KINDS[1], "metadata": { "name": name }, "spec": spec })
    };
    let services = graph["spec"]["services"].as_object().into_iter().flatten();
    let components = graph["spec"]["components"].as_array().into_iter().flatten();
    let services = services.filter(|(_, service)| service.is_object()).map(|(name, spec)| alone(spec.clone(), name));
    services.chain(components.map(|spec| alone(spec.clone(), "c"))).collect()
}
