//! Plans for a model that is not being deleted. Pure.

use std::collections::BTreeSet;

use api_types::v1alpha1::AdapterMemory;

use super::{
    claim::Asks,
    model::{Observed, Phase, Plan, StatusInputs},
    survey::Survey,
};
use crate::engine::AdapterName;

/// Plans the finalizer and the inputs of the status.
pub fn plan(observed: &Observed) -> Plan {
    let survey = Survey::of(observed);
    let memory = remember(observed, survey.is_complete());
    let needs_finalizer = memory.is_some() && !observed.claim.has_finalizer;
    let inputs = StatusInputs {
        generation: observed.model.metadata.generation,
        is_adapter: matches!(observed.claim.asks, Asks::Adapter { .. } | Asks::Nonsense),
        phase: phase(observed, &survey),
        services: observed.found.services.len(),
        endpoints: survey.endpoints,
        memory,
    };
    Plan { needs_finalizer, inputs }
}

fn phase(observed: &Observed, survey: &Survey) -> Phase {
    if let Some(violations) = &observed.violations {
        return Phase::Invalid(violations.clone());
    }
    if let (Some(other), Asks::Adapter { name, .. }) = (&observed.taken_by, &observed.claim.asks) {
        return Phase::NameTaken(format!(
            "DynamoModel {} of the same base model loads an adapter named {name} from another source; give this one \
             another spec.modelName, or delete the other",
            other.name
        ));
    }
    if survey.endpoints.is_empty() {
        return Phase::NoEndpoints;
    }
    if survey.is_served() {
        return Phase::Served;
    }
    if survey.needs_help { Phase::Failing(survey.summary()) } else { Phase::Loading(survey.summary()) }
}

/// What the status shall remember of what was loaded, written before an engine is asked for anything.
fn remember(observed: &Observed, complete: bool) -> Option<AdapterMemory> {
    let old = &observed.claim.memory;
    let superseded: BTreeSet<&AdapterName> = observed.lingering.iter().collect();
    let memory = match &observed.claim.asks {
        Asks::Adapter { name, source } => {
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
        Asks::Nothing => AdapterMemory { superseded: names(&superseded), ..AdapterMemory::default() },
        Asks::Nonsense | Asks::Farewell { .. } => AdapterMemory { superseded: names(&superseded), ..old.clone() },
    };
    Some(memory).filter(|memory| *memory != AdapterMemory::default())
}

fn names(names: &BTreeSet<&AdapterName>) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
