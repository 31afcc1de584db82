//! The pod that is captured for a component of a graph: its engine alone, as it runs in the graph.

use api_types::{annotations, labels, names, v1beta1::ComponentSpec};
use k8s_openapi::{
    api::{
        core::v1::{PodSpec, PodTemplateSpec},
        resource::v1::ResourceClaimTemplate,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::Value;

use super::{control, overlay::lay_over};
use crate::{
    RenderInput, SharedGpus, ValidatedComponent, gpus,
    metadata::{Pairs, some},
    pod::{self, gpu_memory},
    pull_secrets, render_claim_template,
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
    let own = control::find(pod, target).and_then(|target| gpus::count(target.resources.as_ref()).ok());
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
