//! Carries a decision out: the graph first, because the status tells when it was scaled.

use api_types::v1beta1::DynamoGraphDeploymentScalingAdapter as Adapter;
use controller_kit::apply::{Applier, Error};
use controller_kit::store::Packed;
use serde_json::json;

use super::decide::{Decision, Scale};
use super::observe::Observed;

/// Writes what differs. Says whether the graph was changed.
///
/// # Errors
/// What the API server answered.
pub(super) async fn apply(
    applier: &Applier,
    packed: &Packed<Adapter>,
    observed: &Observed,
    decision: &Decision,
) -> Result<bool, Error> {
    let mut scaled = false;
    if let (Some(graph), Some(scale)) = (&observed.graph, &decision.scale) {
        let Scale { index, component, to, .. } = scale;
        let at = format!("/spec/components/{index}");
        // The list may have changed since it was read; another component must not get these replicas.
        let operations = vec![
            json!({ "op": "test", "path": format!("{at}/name"), "value": component }),
            json!({ "op": "test", "path": format!("{at}/scalingAdapter"), "value": {} }),
            json!({ "op": "add", "path": format!("{at}/replicas"), "value": to }),
        ];
        let uid = packed.metadata.uid.as_deref().unwrap_or_default();
        scaled = applier.edit_fields(graph, uid, operations).await?;
    }
    if let Some(status) = &decision.status {
        applier.patch_status(packed, status).await?;
    }
    Ok(scaled)
}
