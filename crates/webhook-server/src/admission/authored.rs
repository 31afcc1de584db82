//! Paths in the version that the user wrote. Rules are about v1beta1; a user of v1alpha1 looks for the field in
//! v1alpha1.

use Segment::{Field, Item, Key};
use api_types::{
    v1beta1::MAIN_CONTAINER,
    violations::{Reason, Violation},
};
use serde_json::Value;

use super::{
    field::{FieldPath, Segment},
    kind::ReviewedKind,
};

/// The violation as a user who wrote v1alpha1 finds it. `alpha` is the object in v1alpha1. The path in v1beta1 is added
/// too, since documentation and `kubectl get` show that version.
pub(super) fn in_v1alpha1(
    mut violation: Violation<FieldPath>,
    kind: ReviewedKind,
    alpha: &Value,
) -> Violation<FieldPath> {
    let at = translate(&violation.path, kind, alpha);
    if at == violation.path {
        return violation;
    }
    let last = if violation.remedy.is_empty() { &mut violation.message } else { &mut violation.remedy };
    last.push_str(&format!(" ({} in v1beta1)", violation.path));
    Violation { path: at, ..violation }
}

/// Whether a violation is that a mount has no path which v1alpha1 marks as a compilation cache. The first one is the
/// cache, and the others are no violations: they are admitted, with a warning.
pub(super) fn is_further_cache(violation: &Violation<FieldPath>, kind: ReviewedKind, alpha: &Value) -> bool {
    if violation.reason != Reason::Required {
        return false;
    }
    let at = translate(&violation.path, kind, alpha);
    let mount = at.split_last().filter(|(_, field)| *field == "mountPoint");
    mount.is_some_and(|(mount, _)| mount.find(alpha).is_some_and(|mount| mount["useAsCompilationCache"] == true))
}

fn translate(path: &FieldPath, kind: ReviewedKind, alpha: &Value) -> FieldPath {
    let (mut translated, component) = match (kind, names(&path.0).as_slice()) {
        (ReviewedKind::Graph, ["spec", "components", ..]) => match &path.0[2..] {
            [Item { name: Some(name), .. }, rest @ ..] => (below(&["spec", "services"], &[Key(name.clone())]), rest),
            rest => (below(&["spec", "services"], &[]), rest),
        },
        (ReviewedKind::Graph, ["spec", "env", ..]) => return FieldPath(below(&["spec", "envs"], &path.0[2..])),
        (ReviewedKind::Graph, ["spec", "topologyConstraint", "clusterTopologyName"]) => {
            return FieldPath::fields(&["spec", "topologyConstraint", "topologyProfile"]);
        }
        (ReviewedKind::Request, ["spec", "image"]) => {
            return FieldPath::fields(&["spec", "profilingConfig", "profilerImage"]);
        }
        (ReviewedKind::Component, ["spec", ..]) => (below(&["spec"], &[]), &path.0[1..]),
        _ => return path.clone(),
    };
    let within = FieldPath(translated.clone());
    translated.extend(in_component(component, kind, within.find(alpha)));
    FieldPath(translated)
}

/// The names of the steps that are fields; other steps have none.
fn names(path: &[Segment]) -> Vec<&str> {
    path.iter().map(|step| if let Field(name) = step { name.as_str() } else { "" }).collect()
}

/// A path below a component.
fn in_component(path: &[Segment], kind: ReviewedKind, component: Option<&Value>) -> Vec<Segment> {
    match names(path).as_slice() {
        // In a graph the name is the key of the map.
        ["name"] if kind == ReviewedKind::Graph => Vec::new(),
        ["name"] => below(&["serviceName"], &[]),
        ["type"] => below(&["componentType"], &[]),
        ["sharedMemorySize"] => below(&["sharedMemory", "size"], &[]),
        ["experimental", "gpuMemoryService" | "failover" | "checkpoint", ..] => path[1..].to_vec(),
        ["podTemplate", "metadata", ..] => below(&["extraPodMetadata"], &path[2..]),
        ["podTemplate", "spec", ..] => in_pod(&path[2..], component),
        ["podTemplate", ..] => below(&["extraPodSpec"], &path[1..]),
        _ => path.to_vec(),
    }
}

/// A path below the pod spec. Some parts of the main container have fields of their own in v1alpha1.
fn in_pod(rest: &[Segment], component: Option<&Value>) -> Vec<Segment> {
    match rest {
        [Field(list)] if list == "containers" => below(&["extraPodSpec", "mainContainer", "image"], &[]),
        [Field(list), Item { name: Some(name), .. }, rest @ ..] if list == "containers" && name == MAIN_CONTAINER => {
            in_main(rest, component)
        }
        [Field(list), Item { name: Some(name), .. }, rest @ ..] if list == "containers" => {
            let index = position(component, "/extraPodSpec/containers", name).unwrap_or_default();
            let containers = below(&["extraPodSpec", "containers"], &[Item { index, name: None }]);
            [&containers[..], rest].concat()
        }
        rest => below(&["extraPodSpec"], rest),
    }
}

fn in_main(rest: &[Segment], component: Option<&Value>) -> Vec<Segment> {
    let main = || below(&["extraPodSpec", "mainContainer"], rest);
    match rest {
        [Field(resources), Field(list), Key(resource)] if resources == "resources" && list != "claims" => {
            let mut path = below(&["resources", list], &[]);
            let gpu = component.and_then(|component| component.get("resources")?.get(list)?.get("gpuType")?.as_str());
            match resource.as_str() {
                "cpu" | "memory" => path.push(Field(resource.clone())),
                resource if resource == gpu.unwrap_or(api_types::GPU) => path.push(Field("gpu".to_owned())),
                _ => path.extend([Field("custom".to_owned()), Key(resource.clone())]),
            }
            path
        }
        [Field(resources), ..] if resources == "resources" => rest.to_vec(),
        [Field(mounts), Item { name: Some(name), .. }, Field(_)] if mounts == "volumeMounts" => {
            let Some(index) = position(component, "/volumeMounts", name) else { return main() };
            below(&["volumeMounts"], &[Item { index, name: None }, Field("mountPoint".to_owned())])
        }
        [Field(probe), ..] if ["livenessProbe", "readinessProbe"].contains(&probe.as_str()) => rest.to_vec(),
        _ => main(),
    }
}

/// Position of the item with this name in a list of the component.
fn position(component: Option<&Value>, list: &str, name: &str) -> Option<usize> {
    let items = component?.pointer(list)?.as_array()?;
    items.iter().position(|item| item.get("name").and_then(Value::as_str) == Some(name))
}

/// These fields, and then these steps.
fn below(fields: &[&str], steps: &[Segment]) -> Vec<Segment> {
    [&FieldPath::fields(fields).0[..], steps].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::field::FieldNode, *};

    #[test]
    fn paths_are_reported_in_v1alpha1() {
        let beta = json!({ "spec": {
            "env": [{ "name": "A" }],
            "components": [{ "name": "decode", "podTemplate": { "spec": {
                "containers": [{ "name": "side" }, { "name": "main" }],
            } } }],
        } });
        let alpha =
            json!({ "spec": { "services": { "decode": { "extraPodSpec": { "containers": [{ "name": "side" }] } } } } });
        let spec = FieldNode::root(&beta).field("spec");
        let component = spec.field("components").items().next().unwrap();
        let pod = component.fields(&["podTemplate", "spec"]);
        let container = |name| pod.field("containers").named(name).unwrap();
        for (node, expected) in [
            (spec.field("components"), "spec.services"),
            (component.field("name"), "spec.services[decode]"),
            (component.field("type"), "spec.services[decode].componentType"),
            (component.field("replicas"), "spec.services[decode].replicas"),
            (component.fields(&["experimental", "failover", "mode"]), "spec.services[decode].failover.mode"),
            (
                component.fields(&["experimental", "grove", "forceScalingGroup"]),
                "spec.services[decode].experimental.grove.forceScalingGroup",
            ),
            (
                component.fields(&["podTemplate", "metadata", "annotations"]).key("a"),
                "spec.services[decode].extraPodMetadata.annotations[a]",
            ),
            (pod.field("nodeSelector"), "spec.services[decode].extraPodSpec.nodeSelector"),
            (pod.field("containers"), "spec.services[decode].extraPodSpec.mainContainer.image"),
            (container("main").field("image"), "spec.services[decode].extraPodSpec.mainContainer.image"),
            (
                container("main").fields(&["resources", "limits"]).key(api_types::GPU),
                "spec.services[decode].resources.limits.gpu",
            ),
            (
                container("main").fields(&["resources", "limits"]).key("rdma/ib"),
                "spec.services[decode].resources.limits.custom[rdma/ib]",
            ),
            (container("side").field("image"), "spec.services[decode].extraPodSpec.containers[0].image"),
            (spec.field("env").items().next().unwrap(), "spec.envs[0]"),
            (spec.fields(&["topologyConstraint", "clusterTopologyName"]), "spec.topologyConstraint.topologyProfile"),
            (spec.field("backendFramework"), "spec.backendFramework"),
        ] {
            assert_eq!(translate(&node.path, ReviewedKind::Graph, &alpha).to_string(), expected);
        }
    }

    #[test]
    fn a_gpu_is_called_as_the_author_calls_it() {
        let alpha = json!({ "spec": { "services": { "decode": { "resources": {
            "limits": { "gpu": "2", "gpuType": "x/gpu", "custom": { "nvidia.com/gpu": "1" } },
            "requests": { "gpu": "2" },
        } } } } });
        let beta = json!({ "spec": { "components": [{ "name": "decode", "podTemplate": { "spec": {
            "containers": [{ "name": "main" }],
        } } }] } });
        let component = FieldNode::root(&beta).fields(&["spec", "components"]).items().next().unwrap();
        let main = component.fields(&["podTemplate", "spec", "containers"]).items().next().unwrap();
        for (list, resource, expected) in [
            ("limits", "x/gpu", "limits.gpu"),
            ("limits", "nvidia.com/gpu", "limits.custom[nvidia.com/gpu]"),
            ("requests", "nvidia.com/gpu", "requests.gpu"),
            ("requests", "x/gpu", "requests.custom[x/gpu]"),
        ] {
            let node = main.fields(&["resources", list]).key(resource);
            let at = translate(&node.path, ReviewedKind::Graph, &alpha).to_string();
            assert_eq!(at, format!("spec.services[decode].resources.{expected}"));
        }
    }

    #[test]
    fn a_single_component_has_no_list() {
        let path = FieldPath::fields(&["spec", "podTemplate", "spec", "nodeSelector"]);
        let translated = translate(&path, ReviewedKind::Component, &json!({}));
        assert_eq!(translated.to_string(), "spec.extraPodSpec.nodeSelector");
    }
}
