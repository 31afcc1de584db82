//! The pod that is captured for a component of a graph: its engine alone, as it runs in the graph; and whether its user
//! prepared it for shared GPU memory.
//!
//! A user's specification of a pod is laid over that pod. Only given values count: a missing field, an empty text and
//! an empty list count as not given. Containers, volumes and variables are matched by name, a probe is replaced as a
//! whole, maps unite, and every other list is replaced.

use api_types::{
    env,
    gpu_memory_service::{CLAIM, SERVER, SOCKET_DIR, SOCKETS},
    names,
    typed::typed,
    v1alpha1::{AlphaEngineMode, DynamoCheckpoint},
    v1beta1::ComponentSpec,
    violations::Violation,
};
use k8s_openapi::api::{
    core::v1::{Container, PodSpec, PodTemplateSpec},
    resource::v1::ResourceClaimTemplate,
};
use serde_json::{Map, Value, json};

use crate::{
    RenderInput, SharedGpus, ValidatedComponent, gpus,
    metadata::{Pairs, pod_template},
    pod::{self, gpu_memory},
    render_claim_template,
};

/// The component as it is captured.
#[derive(Clone, Debug)]
pub struct CapturedComponent<'a> {
    /// The component as its user wrote it.
    pub declared: &'a ComponentSpec,
    /// The component, with what holds for the graph merged in, and without what another pod or node is for: sidecar,
    /// further nodes, experimental settings.
    pub alone: &'a ValidatedComponent<'a>,
    /// The component as it runs in the graph.
    pub running: &'a ValidatedComponent<'a>,
    /// Identifier of the checkpoint.
    pub id: &'a str,
    /// Labels that win over the user's.
    pub labels: Pairs,
}

/// The pod that is captured for a component, and the claim of the GPUs that its processes share, without owner; `None`
/// if the component has no checkpoint.
pub fn render_captured_pod(
    input: &RenderInput<'_>,
    component: &CapturedComponent<'_>,
) -> Option<(PodTemplateSpec, Option<ResourceClaimTemplate>)> {
    let usage = component.running.checkpoint?;
    let mut pod = pod::render(input, component.alone, None);
    pod.containers.retain(|container| container.name == usage.target);
    pod.restart_policy = Some("Never".to_owned());
    if let Some(own) = usage.overlay.and_then(|overlay| overlay.get("spec")) {
        pod = lay_over(pod, own);
    }
    pod::add_pull_secrets(&mut pod, input, component.alone);
    let shared = component.running.shared_gpus;
    let claim = shared.map(|shared| share_gpus(&mut pod, component, usage.target, usage.clients, shared));
    let (labels, annotations) = metadata(component, usage.overlay);
    Some((pod_template(labels, annotations, pod), claim))
}

/// Lets the captured process and its clients use one claim.
fn share_gpus(
    pod: &mut PodSpec,
    component: &CapturedComponent<'_>,
    target: &str,
    clients: &[String],
    shared: SharedGpus<'_>,
) -> ResourceClaimTemplate {
    let own = pod::parts::find(pod, target).and_then(|target| gpus::count(target.resources.as_ref()).ok());
    let count = own.filter(|count| *count > 0).unwrap_or(shared.count);
    gpu_memory::share(pod, target, clients, &names::checkpoint_claim_template(component.id));
    let mut claim =
        render_claim_template(component.alone.namespace, "", component.id, SharedGpus { count, standbys: 0, ..shared });
    claim.metadata.name = Some(names::checkpoint_claim_template(component.id));
    claim
}

/// The user's labels and annotations; those for the capture win over the component's.
fn metadata(component: &CapturedComponent<'_>, overlay: Option<&Value>) -> (Pairs, Pairs) {
    let given = |field: &str| -> Pairs {
        let pairs = overlay.and_then(|overlay| overlay.get("metadata")?.get(field)?.as_object());
        let texts = pairs.into_iter().flatten().filter_map(|(key, value)| Some((key, value.as_str()?)));
        texts.map(|(key, value)| (key.clone(), value.to_owned())).collect()
    };
    let mut all_labels = component.declared.pod_labels().cloned().unwrap_or_default();
    all_labels.extend(given("labels"));
    all_labels.extend(component.labels.clone());
    let mut all_annotations = component.declared.pod_annotations().cloned().unwrap_or_default();
    all_annotations.extend(given("annotations"));
    (all_labels, all_annotations)
}

const SERVICE: &str = "spec.gpuMemoryService";
const POD: &str = "spec.job.podTemplateSpec.spec";

/// Validates that the pod template has what processes with shared GPU memory need.
///
/// # Errors
/// Everything that is missing.
pub fn check_shared_gpu_memory(checkpoint: &DynamoCheckpoint) -> Result<(), Vec<Violation>> {
    let Some(service) = checkpoint.spec.gpu_memory_service.as_ref().filter(|service| service.enabled) else {
        return Ok(());
    };
    if service.mode == AlphaEngineMode::InterPod {
        let problem = "is not served for checkpoints";
        return Err(vec![Violation::invalid(format!("{SERVICE}.mode"), "interPod", problem, "write intraPod")]);
    }
    let mut violations: Vec<Violation> = Vec::new();
    let empty = PodSpec::default();
    let pod = checkpoint.spec.job.pod_template_spec.spec.as_ref().unwrap_or(&empty);
    if !pod.resource_claims.iter().flatten().any(|claim| claim.name == CLAIM) {
        violations.push(missing(&format!("{POD}.resourceClaims"), CLAIM));
    }
    if !pod.volumes.iter().flatten().any(|volume| volume.name == SOCKETS) {
        violations.push(missing(&format!("{POD}.volumes"), SOCKETS));
    }
    let target = checkpoint.spec.job.target_container();
    let others = service.extra_client_containers.iter().flatten().map(String::as_str);
    for name in std::iter::once(target).chain(others) {
        check_client(&pod.containers, "containers", name, &mut violations);
    }
    check_client(pod.init_containers.as_deref().unwrap_or_default(), "initContainers", SERVER, &mut violations);
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

fn check_client(all: &[Container], list: &str, name: &str, violations: &mut Vec<Violation>) {
    let Some(container) = all.iter().find(|container| container.name == name) else {
        violations.push(missing(&format!("{POD}.{list}"), name));
        return;
    };
    let at = format!("{POD}.{list}[{name}]");
    let mut claims = container.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
    if !claims.any(|claim| claim.name == CLAIM) {
        violations.push(missing(&format!("{at}.resources.claims"), CLAIM));
    }
    let mut mounts = container.volume_mounts.iter().flatten();
    if !mounts.any(|mount| mount.name == SOCKETS && mount.mount_path == SOCKET_DIR) {
        violations.push(missing(&format!("{at}.volumeMounts"), SOCKETS));
    }
    let mut env = container.env.iter().flatten();
    if !env.any(|variable| variable.name == env::GMS_SOCKET_DIR && variable.value.as_deref() == Some(SOCKET_DIR)) {
        violations.push(missing(&format!("{at}.env"), env::GMS_SOCKET_DIR));
    }
}

fn missing(field: &str, name: &str) -> Violation {
    let remedy = "prepare the pod as it runs in its graph, or remove spec.gpuMemoryService";
    Violation::required(field, format!("has no {name}, without which its processes share no GPU memory"), remedy)
}

/// The pod with the user's part laid over it. `own` has the form of a pod's spec.
pub(super) fn lay_over(pod: PodSpec, own: &Value) -> PodSpec {
    let mut merged = json!(pod);
    merge(&mut merged, own);
    // Both have the form of a pod's spec, so the result has.
    typed(merged).unwrap_or(pod)
}

fn merge(base: &mut Value, own: &Value) {
    let (Value::Object(base), Value::Object(own)) = (base, own) else { return };
    for (key, own) in own.iter().filter(|(_, own)| !is_silent(own)) {
        match base.get_mut(key) {
            None => drop(base.insert(key.clone(), own.clone())),
            Some(base) => merge_field(key, base, own),
        }
    }
}

fn merge_field(key: &str, base: &mut Value, own: &Value) {
    match key {
        "containers" => by_name(base, own, merge),
        "initContainers" | "volumes" => by_name(base, own, Value::clone_from),
        "env" => {
            by_name(base, own, Value::clone_from);
            if let Value::Array(items) = base {
                items.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
            }
        }
        "livenessProbe" | "readinessProbe" | "startupProbe" => base.clone_from(own),
        _ if base.is_object() && own.is_object() => merge(base, own),
        _ => base.clone_from(own),
    }
}

/// Items of both lists; where both have one of that name, `unite` lays the user's over the other.
fn by_name(base: &mut Value, own: &Value, unite: impl Fn(&mut Value, &Value)) {
    let (Value::Array(base), Value::Array(own)) = (base, own) else { return };
    for own in own {
        match base.iter_mut().find(|base| base["name"] == own["name"]) {
            Some(base) => unite(base, own),
            None => base.push(own.clone()),
        }
    }
}

fn is_silent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => Map::is_empty(fields),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(base: Value, own: Value) -> Value {
        json!(lay_over(serde_json::from_value(base).unwrap(), &own))
    }

    #[test]
    fn what_is_not_said_stays() {
        let base = json!({ "restartPolicy": "Never", "nodeSelector": { "a": "1" }, "hostNetwork": true,
            "containers": [{ "name": "main", "image": "i", "args": ["x"], "resources": { "limits": { "cpu": "1" } } }] });
        let own = json!({ "restartPolicy": "", "nodeSelector": { "b": "2" }, "hostNetwork": false,
            "containers": [{ "name": "main", "args": [], "resources": { "limits": { "memory": "1Gi" } } }] });
        let expected = json!({ "restartPolicy": "Never", "nodeSelector": { "a": "1", "b": "2" }, "hostNetwork": false,
            "containers": [{ "name": "main", "image": "i", "args": ["x"],
                "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } }] });
        assert_eq!(over(base, own), expected);
    }

    #[test]
    fn items_of_one_name_are_merged() {
        let base = json!({
            "volumes": [{ "name": "v", "emptyDir": {} }],
            "initContainers": [{ "name": "init", "image": "old", "args": ["x"] }],
            "containers": [{ "name": "main", "image": "i", "env": [{ "name": "B", "value": "1" }],
                "livenessProbe": { "periodSeconds": 5, "exec": { "command": ["a"] } } }],
        });
        let own = json!({
            "volumes": [{ "name": "v", "hostPath": { "path": "/" } }, { "name": "w", "emptyDir": {} }],
            "initContainers": [{ "name": "init", "image": "new" }],
            "containers": [
                { "name": "main", "env": [{ "name": "B", "value": "2" }, { "name": "A", "value": "0" }],
                  "livenessProbe": { "exec": { "command": ["b"] } } },
                { "name": "side", "image": "s" },
            ],
        });
        let expected = json!({
            "volumes": [{ "name": "v", "hostPath": { "path": "/" } }, { "name": "w", "emptyDir": {} }],
            "initContainers": [{ "name": "init", "image": "new" }],
            "containers": [
                { "name": "main", "image": "i", "env": [{ "name": "A", "value": "0" }, { "name": "B", "value": "2" }],
                  "livenessProbe": { "exec": { "command": ["b"] } } },
                { "name": "side", "image": "s" },
            ],
        });
        assert_eq!(over(base, own), expected);
    }
}
