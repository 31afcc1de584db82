//! Rules about a component, in a graph or on its own.

use api_types::{
    annotations,
    v1beta1::{BackendFramework, ComponentSpec, ComponentType},
    violations,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;

use super::{Features, Findings, ProviderChoice, Version, below, discovery_backend, fit, fragment};
use crate::{RolloutStrategy, frameworks, validate};

/// Context on which the rules about a component depend.
#[derive(Clone, Copy, Debug)]
pub struct ComponentRuleContext<'a> {
    /// Features of the cluster.
    pub features: &'a Features,
    /// The choice of the workload provider of its graph; `None` if it is on its own.
    pub provider: Option<ProviderChoice<'a>>,
    /// Reason why fields that only Grove serves are rejected; `None` if they are possible.
    pub lacks_grove: Option<&'a str>,
    /// `spec.backendFramework`.
    pub framework: Option<BackendFramework>,
    /// Whether its image is built from an archive, unless it names one: the legacy API.
    pub is_built: bool,
}

/// Checks the component at the path `at`, in the order of its fields.
pub fn check(at: &str, component: &ComponentSpec, context: &ComponentRuleContext<'_>, out: &mut Findings) {
    for (path, fragment, place) in fragment::of_component(at, component) {
        match context.provider {
            Some(provider) => fragment::check(&path, fragment, place, provider, out),
            None => out.forbidden(path, "is for components of a graph; remove it"),
        }
    }
    // CEL refuses it in components on their own, in both versions.
    let sets_minimum = context.provider.is_some() && component.min_available.is_some();
    if let Some(reason) = context.lacks_grove.filter(|_| sets_minimum) {
        out.forbidden(format!("{at}.minAvailable"), reason);
    }
    out.extend(validate::check_component(component).into_iter().map(|violation| below(violation, at)));
    endpoint_picker(at, component, context, out);
    capture_template(at, component, out);
    pod_annotations(at, component, out);
    elastic_experts(at, component, context, out);
    if let Some(reason) = context.lacks_grove.filter(|_| component.forces_scaling_group()) {
        out.forbidden(format!("{at}.experimental.grove.forceScalingGroup"), reason);
    }
    checkpoint(at, component, context.features, out);
    image(at, component, context, out);
}

/// Warns about fields without effect.
pub fn warn(at: &str, component: &ComponentSpec, out: &mut Findings) {
    let Some(checkpoint) = component.checkpoint() else { return };
    for (field, is_set) in [("mode", checkpoint.mode.is_some()), ("identity", checkpoint.identity.is_some())] {
        if is_set {
            out.warn(format!("{at}.experimental.checkpoint.{field}"), "deprecated; remove it");
        }
    }
}

/// Checks that the user leaves alone the replicas that a scaling adapter owns.
pub(super) fn check_replicas(at: &str, new: &ComponentSpec, old: &ComponentSpec, out: &mut Findings) {
    let adapter = new.scaling_adapter.is_some() || old.scaling_adapter.is_some();
    if adapter && new.desired_replicas() != old.desired_replicas() {
        let text = format!(
            "belongs to the component's scaling adapter, which has set {}; scale the DynamoGraphDeploymentScalingAdapter, and \
             leave replicas out of the manifest",
            old.desired_replicas()
        );
        out.forbidden(format!("{at}.replicas"), text);
    }
}

/// Checks the change of a component, beside the rules of CEL. `owner` is the kind of the object that would have to be
/// created anew.
pub fn check_update(at: &str, new: &ComponentSpec, old: &ComponentSpec, owner: &str, out: &mut Findings) {
    // v1alpha1 keeps it in an annotation, which CEL does not see.
    if new.forces_scaling_group() != old.forces_scaling_group() {
        let given = new.experimental.as_ref().and_then(|it| it.grove.as_ref()?.force_scaling_group);
        out.immutable(format!("{at}.experimental.grove.forceScalingGroup"), json!(given), violations::anew(owner));
    }
}

/// The endpoint picker of a gateway.
fn endpoint_picker(at: &str, component: &ComponentSpec, context: &ComponentRuleContext<'_>, out: &mut Findings) {
    let is_served = context.features.inference_pool || context.provider.is_none();
    if component.type_ == Some(ComponentType::Epp) && !is_served {
        let text = "an endpoint picker needs the API inference.networking.k8s.io, which this cluster does not serve; \
                    install the Gateway API Inference Extension first";
        out.forbidden(format!("{at}.type"), text);
    }
}

/// The user's part of the pod that is captured.
fn capture_template(at: &str, component: &ComponentSpec, out: &mut Findings) {
    let job = component.checkpoint().and_then(|checkpoint| checkpoint.job.as_ref());
    if let Some(template) = job.and_then(|job| job.pod_template.as_ref()) {
        out.extend(fit::<PodTemplateSpec>(&format!("{at}.experimental.checkpoint.job.podTemplate"), template).1);
    }
}

fn pod_annotations(at: &str, component: &ComponentSpec, out: &mut Findings) {
    let path = |key: &str| format!("{at}.podTemplate.metadata.annotations[{key}]");
    let backend = component.pod_annotation(annotations::DISCOVERY_BACKEND);
    out.extend(backend.and_then(|backend| discovery_backend(path(annotations::DISCOVERY_BACKEND), backend)));
    let strategy = RolloutStrategy::from_annotations(component.pod_annotations()).err().into_iter().flatten();
    out.extend(strategy.map(|violation| below(violation, at)));
}

/// The head of a Ray cluster is started in front of the container's own command, so there must be one.
fn elastic_experts(at: &str, component: &ComponentSpec, context: &ComponentRuleContext<'_>, out: &mut Findings) {
    let main = component.main_container().filter(|_| context.framework == Some(BackendFramework::Vllm));
    if main.is_some_and(frameworks::starts_ray_head_without_command) {
        let text = "--enable-elastic-ep with --data-parallel-backend ray needs an explicit command, because Ray is started in \
                    front of it; write the command that the image would run";
        out.required(format!("{at}.podTemplate.spec.containers[main].command"), text);
    }
}

/// Checkpoints must be switched on.
fn checkpoint(at: &str, component: &ComponentSpec, features: &Features, out: &mut Findings) {
    if component.enabled_checkpoint().is_some() && !features.checkpoint {
        let text = "checkpoints are switched off in this installation; switch them on in the operator's configuration \
                    (checkpoint.enabled), or set enabled to false";
        out.forbidden(format!("{at}.experimental.checkpoint"), text);
    }
}

/// The image that runs the component, and the version of the runtime in it.
fn image(at: &str, component: &ComponentSpec, context: &ComponentRuleContext<'_>, out: &mut Findings) {
    let image = component.main_container().and_then(|main| main.image.as_deref()).unwrap_or_default();
    if image.is_empty() {
        // The operator names the image of a component that is built.
        let missing = validate::missing_image(component).filter(|_| !context.is_built);
        out.extend(missing.map(|violation| below(violation, at)));
    } else if context.provider.is_some() {
        runtime_version(at, image, component.runtime_version_override.as_deref(), out);
    }
}

/// The version of the runtime is that of the image's tag, or stated beside it.
pub(super) fn runtime_version(at: &str, image: &str, stated: Option<&str>, out: &mut Findings) {
    if stated.unwrap_or_default().is_empty() && Version::of_image(image).is_none() {
        let text = format!(
            "the tag of image {image:?} does not contain the version of the Dynamo runtime; write that version here, such as 1.5.0"
        );
        out.required(format!("{at}.runtimeVersionOverride"), text);
    }
}
