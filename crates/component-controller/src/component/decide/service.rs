//! The Service.

use super::desired;
use crate::component::error::Error;
use controller_kit::{apply::Desired, store::controller_owner};
use k8s_openapi::api::core::v1::Service;
use workload::{RenderInput, ValidatedComponent, render_service};

/// What becomes of the Service.
#[derive(Debug)]
pub enum ServiceStep {
    /// It has to be like this.
    Apply(Box<Desired>),
    /// It is ours and no longer wanted.
    Delete,
    /// None is wanted, and none of ours is there.
    Nothing,
}

/// The Service as it should be, or not be.
pub(super) fn decide(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    uid: &str,
    live: Option<&Service>,
) -> Result<ServiceStep, Error> {
    if let Some(rendered) = render_service(input, valid) {
        return Ok(ServiceStep::Apply(Box::new(desired(&rendered, uid, true)?)));
    }
    let ours = live.and_then(controller_owner).is_some_and(|owner| owner.uid == uid);
    let going = live.is_some_and(|live| live.metadata.deletion_timestamp.is_some());
    Ok(if ours && !going { ServiceStep::Delete } else { ServiceStep::Nothing })
}
