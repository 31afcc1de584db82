//! Carries a decision out: the graph first, because the status tells when it was scaled.

use api_types::v1beta1::DynamoGraphDeploymentScalingAdapter as Adapter;
use controller_kit::{
    apply::{Applier, Error},
    failure::Class,
    store::Packed,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{
    decide::{Decision, Outcome, Scale},
    observe::Observed,
};

/// Writes what differs, and says what became of the wish. The status is written whatever the graph says: autoscalers read it.
///
/// # Errors
/// What goes away by itself.
pub(super) async fn apply(
    applier: &Applier,
    packed: &Packed<Adapter>,
    observed: &Observed,
    decision: &Decision,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let scaled = scale(applier, packed, observed, decision).await;
    if let Some(status) = decision.status(matches!(scaled, Ok(true)).then_some(now)) {
        applier.patch_status(packed, &status).await?;
    }
    match scaled {
        Ok(true) => Ok(Outcome::Scaled),
        Ok(false) => Ok(Outcome::Unchanged),
        Err(error) if error.class() == Class::Transient => Err(error),
        Err(error) => Ok(Outcome::Refused(error.to_string())),
    }
}

/// Gives the component its replicas. Says whether the graph was changed.
async fn scale(
    applier: &Applier,
    packed: &Packed<Adapter>,
    observed: &Observed,
    decision: &Decision,
) -> Result<bool, Error> {
    let (Some(graph), Some(scale)) = (&observed.graph, &decision.scale) else { return Ok(false) };
    let Scale { index, component, to, .. } = scale;
    let at = format!("/spec/components/{index}");
    // The list may have changed since it was read; another component must not get these replicas.
    let operations = vec![
        json!({ "op": "test", "path": format!("{at}/name"), "value": component }),
        json!({ "op": "test", "path": format!("{at}/scalingAdapter"), "value": {} }),
        json!({ "op": "add", "path": format!("{at}/replicas"), "value": to }),
    ];
    let uid = packed.metadata.uid.as_deref().unwrap_or_default();
    applier.edit_spec(graph, uid, operations).await
}
