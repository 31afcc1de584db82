//! Writes of a pass over a model: its finalizer, and the memory of its adapter where the status cannot hold it.

use api_types::{annotations, v1alpha1::DynamoModel};
use controller_kit::{
    apply::{Applier, MetadataPatch},
    failure::Class,
    read::Interruption,
};

use super::{
    claim::FINALIZER,
    model::{Applied, Observed, Plan},
    note::{self, Keep},
};

/// Adds the finalizer, if the plan says so.
///
/// # Errors
/// Transient failures.
pub(super) async fn apply(applier: &Applier, observed: &Observed, plan: Plan) -> Result<Applied, Interruption> {
    let Plan { needs_finalizer, inputs } = plan;
    let rejection = match needs_finalizer {
        true => applier.add_finalizer(&observed.model, FINALIZER).await.err(),
        false => None,
    };
    match rejection {
        Some(error) if error.class() == Class::Transient => Err(error.into()),
        rejection => Ok(Applied { inputs, rejection }),
    }
}

/// Keeps the memory of what is loaded in an annotation where the status cannot hold it. After the status: the ready endpoints in
/// there hold what the memory says.
///
/// # Errors
/// What the API server answered.
pub(super) async fn keep_memory(applier: &Applier, observed: &Observed, applied: Applied) -> Result<(), Interruption> {
    if applied.rejection.is_some() {
        return Ok(());
    }
    let model = &observed.model;
    let undeclared = applier.cannot_store::<DynamoModel>(note::FIELD);
    let patch = match note::plan(model, applied.inputs.memory.as_ref(), undeclared) {
        Keep::AsItIs => return Ok(()),
        Keep::Say(text) => MetadataPatch::default().annotation(annotations::ADAPTER, Some(&text)),
        // Nothing was loaded since the status was read that has the memory.
        Keep::Nothing => MetadataPatch::default().annotation(annotations::ADAPTER, None).only_if_unchanged(),
    };
    applier.patch_metadata(model, model.metadata.uid.as_deref().unwrap_or_default(), &patch).await?;
    Ok(())
}
