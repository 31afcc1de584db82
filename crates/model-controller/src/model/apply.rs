//! Writes of a pass over a model: its finalizer, and the memory of its adapter if the status has no field for it.

use api_types::{annotations, v1alpha1::DynamoModel};
use controller_kit::{
    apply::{Applier, MetadataPatch},
    failure::Class,
    request::Interruption,
};

use super::{
    memory_annotation::{self, AnnotationPlan},
    model::{ModelApplied, ModelObserved, ModelPlan},
    ownership::FINALIZER,
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
    let ModelPlan { needs_finalizer, inputs } = plan;
    let rejection = match needs_finalizer {
        true => applier.add_finalizer(&observed.model, FINALIZER).await.err(),
        false => None,
    };
    match rejection {
        Some(error) if error.class() == Class::Transient => Err(error.into()),
        rejection => Ok(ModelApplied { inputs, rejection }),
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
    let patch = match memory_annotation::plan(model, applied.inputs.memory.as_ref(), undeclared) {
        AnnotationPlan::Unchanged => return Ok(()),
        AnnotationPlan::Set(text) => MetadataPatch::default().annotation(annotations::ADAPTER, Some(&text)),
        // Only if nothing was loaded since the status with the memory was read.
        AnnotationPlan::Remove => MetadataPatch::default().annotation(annotations::ADAPTER, None).only_if_unchanged(),
    };
    applier.patch_metadata(model, model.metadata.uid.as_deref().unwrap_or_default(), &patch).await?;
    Ok(())
}
