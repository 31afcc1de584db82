//! Devices that a container has through claims (DRA), and the ResourceClaimTemplates of the GPUs that the processes of
//! one pod share.

mod claim;
mod gpus;

use api_types::names;
pub(crate) use claim::of;
pub use claim::{ClaimSource, ContainerClaim};
pub use gpus::{DeviceClasses, classes_of, count_gpus};
use k8s_openapi::api::resource::v1::{
    DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaimSpec, ResourceClaimTemplate, ResourceClaimTemplateSpec,
};

use crate::{SharedGpus, metadata::named};

const REQUEST: &str = "gpus";

/// The template from which each pod of a component gets its claim, without owner.
///
/// The graph owns it, and not a revision of the component: pods of two revisions use the same one.
pub fn render_claim_template(
    namespace: &str,
    graph: &str,
    component: &str,
    shared: SharedGpus<'_>,
) -> ResourceClaimTemplate {
    ResourceClaimTemplate {
        metadata: named(names::gpu_claim_template(graph, component), namespace),
        spec: ResourceClaimTemplateSpec { metadata: None, spec: claim_spec(REQUEST, shared) },
    }
}

/// A claim of exactly as many devices as an engine has GPUs.
pub(crate) fn claim_spec(request: &str, shared: SharedGpus<'_>) -> ResourceClaimSpec {
    let exactly = ExactDeviceRequest {
        device_class_name: shared.device_class.to_owned(),
        allocation_mode: Some("ExactCount".to_owned()),
        count: Some(shared.count.into()),
        ..ExactDeviceRequest::default()
    };
    let request = DeviceRequest { name: request.to_owned(), exactly: Some(exactly), first_available: None };
    ResourceClaimSpec { devices: Some(DeviceClaim { requests: Some(vec![request]), ..DeviceClaim::default() }) }
}
