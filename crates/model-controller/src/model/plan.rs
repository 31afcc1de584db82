//! Plans for a model that is not being deleted. Pure.

use std::collections::BTreeSet;

use api_types::v1alpha1::AdapterMemory;

use super::{
    endpoint_summary::EndpointSummary,
    model::{ModelObserved, ModelPhase, ModelPlan, Requested},
};
use crate::engine::AdapterName;

/// Plans the finalizer and what the status shows.
pub fn plan(observed: &ModelObserved) -> ModelPlan {
    let summary = EndpointSummary::of(observed);
    let memory = remember(observed, summary.is_complete());
    ModelPlan {
        needs_finalizer: memory.is_some() && !observed.claim.has_finalizer,
        generation: observed.model.metadata.generation,
        is_adapter: matches!(observed.claim.requested, Requested::Adapter { .. } | Requested::Invalid),
        phase: phase(observed, &summary),
        services: observed.found.services.len(),
        endpoints: summary.endpoints,
        memory,
    }
}

fn phase(observed: &ModelObserved, summary: &EndpointSummary) -> ModelPhase {
    if let Some(violations) = &observed.violations {
        return ModelPhase::Invalid(violations.clone());
    }
    if let (Some(other), Requested::Adapter { name, .. }) = (&observed.taken_by, &observed.claim.requested) {
        return ModelPhase::NameTaken(format!(
            "DynamoModel {} of the same base model loads an adapter named {name} from another source; give this one \
             another spec.modelName, or delete the other",
            other.name
        ));
    }
    if summary.endpoints.is_empty() {
        return ModelPhase::NoEndpoints;
    }
    if summary.is_served() {
        return ModelPhase::Served;
    }
    if summary.needs_help { ModelPhase::Failing(summary.message()) } else { ModelPhase::Loading(summary.message()) }
}

/// The memory of loaded adapters for the status, written before any request to an engine.
fn remember(observed: &ModelObserved, complete: bool) -> Option<AdapterMemory> {
    let old = &observed.claim.memory;
    let superseded: BTreeSet<&AdapterName> = observed.lingering.iter().collect();
    let memory = match &observed.claim.requested {
        Requested::Adapter { name, source } => {
            let digest = source.digest();
            let same_name = old.model_name.as_deref() == Some(name.as_str());
            let same_source = old.source_digest.as_deref() == Some(digest.as_str());
            let other_copy = (same_name && !same_source)
                || old.superseded.iter().any(|earlier| earlier == name.as_str())
                || observed.taken_by.is_some();
            AdapterMemory {
                model_name: Some(name.to_string()),
                source_digest: Some(digest),
                reloading: other_copy || (same_name && old.reloading && !complete),
                superseded: names(&superseded),
            }
        }
        Requested::Nothing => AdapterMemory { superseded: names(&superseded), ..AdapterMemory::default() },
        Requested::Invalid | Requested::Deleting { .. } => {
            AdapterMemory { superseded: names(&superseded), ..old.clone() }
        }
    };
    Some(memory).filter(|memory| *memory != AdapterMemory::default())
}

fn names(names: &BTreeSet<&AdapterName>) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
