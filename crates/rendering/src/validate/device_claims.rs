//! Claims through which an engine may have GPUs that its command line depends on.

use api_types::{
    v1beta1::{BackendFramework, ComponentSpec, MAIN_CONTAINER},
    violations::Violation,
};
use k8s_openapi::api::core::v1::{Container, PodSpec};

use crate::{
    device_claims::{self, Claim},
    frameworks, gpus,
    violation::Violations,
};

/// The device claims whose GPUs must be counted: those of an engine whose replicas span nodes and that asks for no GPUs
/// as scalar resources. Others need not be known to be rendered.
///
/// # Errors
/// Every claim of the container that is none of the pod's.
pub(super) fn check(
    spec: &ComponentSpec,
    framework: Option<BackendFramework>,
    pod: &PodSpec,
    main: &Container,
) -> Result<Vec<Claim>, Vec<Violation>> {
    let counted = framework.is_some_and(frameworks::counts_gpus) && spec.is_multinode();
    if !counted || gpus::count(main.resources.as_ref()) != Ok(0) {
        return Ok(Vec::new());
    }
    let mut violations = Violations::default();
    let known = |name: &str| pod.resource_claims.iter().flatten().any(|claim| claim.name == name);
    let used = main.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
    for unknown in used.filter(|used| !known(&used.name)) {
        violations.push(Violation::invalid(
            format!("spec.podTemplate.spec.containers[{MAIN_CONTAINER}].resources.claims"),
            unknown.name.as_str(),
            "names no claim of spec.podTemplate.spec.resourceClaims",
            "add it there, with the ResourceClaim or ResourceClaimTemplate that it stands for",
        ));
    }
    let violations = violations.into_inner();
    if violations.is_empty() { Ok(device_claims::of(pod, main)) } else { Err(violations) }
}
