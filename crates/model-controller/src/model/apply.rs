//! Writes of a pass over a model: its finalizer, and the memory of its adapter if the status has no field for it.

use api_types::v1alpha1::DynamoModel;
use controller_kit::{apply::Applier, failure::Class, request::Interruption};

use super::{
    memory_annotation,
    model::{FINALIZER, ModelApplied, ModelObserved, ModelPlan},
};

/// Adds the finalizer if planned.
///
/// # Errors
/// Transient failures.
pub(super) async fn apply(
    applier: &Applier,
    observed: &ModelObserved,
    plan: ModelPlan,
) -> Result<ModelApplied, Interruption> {
    let rejection = match plan.needs_finalizer {
        true => applier.add_finalizer(&observed.model, FINALIZER).await.err(),
        false => None,
    };
    match rejection {
        Some(error) if error.class() == Class::Transient => Err(error.into()),
        rejection => Ok(ModelApplied { plan, rejection }),
    }
}

/// Keeps the memory of loaded adapters in an annotation if the status has no field for it. Called after the status
/// write, because the memory describes the ready endpoints in the status.
///
/// # Errors
/// The response of the API server.
pub(super) async fn keep_memory(
    applier: &Applier,
    observed: &ModelObserved,
    applied: ModelApplied,
) -> Result<(), Interruption> {
    if applied.rejection.is_some() {
        return Ok(());
    }
    let model = &observed.model;
    let undeclared = applier.cannot_store::<DynamoModel>(memory_annotation::FIELD);
    let patch = memory_annotation::plan(model, applied.plan.memory.as_ref(), undeclared);
    applier.patch_metadata(model, model.metadata.uid.as_deref().unwrap_or_default(), &patch).await?;
    Ok(())
}
