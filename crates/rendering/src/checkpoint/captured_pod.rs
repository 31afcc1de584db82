//! The pod that is captured for a component of a graph: its engine alone, as it runs in the graph; and whether its user
//! prepared it for shared GPU memory.

use api_types::{
    annotations, env, labels, names,
    v1alpha1::{DynamoCheckpoint, EngineMode},
    v1beta1::ComponentSpec,
    violations::Violation,
};
use k8s_openapi::{
    api::{
        core::v1::{Container, PodSpec, PodTemplateSpec},
        resource::v1::ResourceClaimTemplate,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::Value;

use super::{overlay::lay_over, restore};
use crate::{
    RenderInput, SharedGpus, ValidatedComponent, gpus,
    metadata::{Pairs, some},
    pod::{
        self, gpu_memory,
        gpu_memory::{CLAIM, SERVER, SOCKET_DIR, SOCKETS},
    },
    pull_secrets, render_claim_template,
    violation::Violations,
};

/// The component as it is captured.
#[derive(Clone, Debug)]
pub struct CapturedComponent<'a> {
    /// The component as its user wrote it.
    pub declared: &'a ComponentSpec,
    /// The same with what holds for the whole graph merged in, and without what another pod or node is for: sidecar,
    /// further nodes, experimental settings.
    pub alone: &'a ValidatedComponent<'a>,
    /// The component as it runs in the graph.
    pub running: &'a ValidatedComponent<'a>,
    /// Identifier of the checkpoint.
    pub id: &'a str,
    /// Labels that win over the user's.
    pub labels: Pairs,
}

/// What is needed for a capture.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedPod {
    /// The pod.
    pub template: PodTemplateSpec,
    /// The claim of the GPUs that its processes share, without owner.
    pub claim: Option<ResourceClaimTemplate>,
}

/// The pod that is captured for a component; `None` if the component has no checkpoint.
pub fn render_captured_pod(input: &RenderInput<'_>, component: &CapturedComponent<'_>) -> Option<CapturedPod> {
    let usage = component.running.checkpoint()?;
    let mut pod = pod::render(input, component.alone, None);
    pod.containers.retain(|container| container.name == usage.target);
    pod.restart_policy = Some("Never".to_owned());
    if let Some(own) = usage.overlay.and_then(|overlay| overlay.get("spec")) {
        pod = lay_over(pod, own);
    }
    if component.alone.annotation(annotations::DISABLE_PULL_SECRET_DISCOVERY) != Some(labels::TRUE) {
        pull_secrets::add_pull_secrets(&mut pod, input.pull_secrets);
    }
    let shared = component.running.shared_gpus();
    let claim = shared.map(|shared| share_gpus(&mut pod, component, usage.target, usage.clients, shared));
    let metadata = metadata(component, usage.overlay);
    Some(CapturedPod { template: PodTemplateSpec { metadata: Some(metadata), spec: Some(pod) }, claim })
}

/// Lets the captured process and its clients use one claim.
fn share_gpus(
    pod: &mut PodSpec,
    component: &CapturedComponent<'_>,
    target: &str,
    clients: &[String],
    shared: SharedGpus<'_>,
) -> ResourceClaimTemplate {
    let own = restore::find(pod, target).and_then(|target| gpus::count(target.resources.as_ref()).ok());
    let count = own.filter(|count| *count > 0).unwrap_or(shared.count);
    gpu_memory::share(pod, target, clients, &names::checkpoint_claim_template(component.id));
    let mut claim =
        render_claim_template(component.alone.namespace, "", component.id, SharedGpus { count, standbys: 0, ..shared });
    claim.metadata.name = Some(names::checkpoint_claim_template(component.id));
    claim
}

/// The user's labels and annotations; those for the capture win over the component's.
fn metadata(component: &CapturedComponent<'_>, overlay: Option<&Value>) -> ObjectMeta {
    let own = component.declared.pod_template.as_ref().and_then(|template| template.metadata.as_ref());
    let given = |field: &str| -> Pairs {
        let pairs = overlay.and_then(|overlay| overlay.get("metadata")?.get(field)?.as_object());
        let texts = pairs.into_iter().flatten().filter_map(|(key, value)| Some((key, value.as_str()?)));
        texts.map(|(key, value)| (key.clone(), value.to_owned())).collect()
    };
    let mut all_labels = own.and_then(|own| own.labels.clone()).unwrap_or_default();
    all_labels.extend(given("labels"));
    all_labels.extend(component.labels.clone());
    let mut all_annotations = own.and_then(|own| own.annotations.clone()).unwrap_or_default();
    all_annotations.extend(given("annotations"));
    ObjectMeta { labels: some(all_labels), annotations: some(all_annotations), ..ObjectMeta::default() }
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
    let mut violations = Violations::default();
    if service.mode == EngineMode::InterPod {
        let problem = "is not served for checkpoints";
        violations.push(Violation::invalid(format!("{SERVICE}.mode"), "interPod", problem, "write intraPod"));
        return Err(violations.into_inner());
    }
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
    let violations = violations.into_inner();
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

fn check_client(all: &[Container], list: &str, name: &str, violations: &mut Violations) {
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
