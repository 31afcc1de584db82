//! What follows from what was observed. Pure.

use std::{collections::BTreeSet, time::Duration};

use api_types::v1alpha1::{AdapterMemory, DynamoModelStatus};
use jiff::Timestamp;

use super::{
    claim::Asks,
    observe::Observed,
    status::{Facts, Standing, status},
    survey::Survey,
};
use crate::engine::AdapterName;

/// What to do for a model that stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Whether it needs the finalizer: something may have to be unloaded when it goes.
    pub needs_finalizer: bool,
    /// Its status.
    pub status: DynamoModelStatus,
}

/// Decides for a model that stays.
pub fn decide(observed: &Observed, now: Timestamp) -> Decision {
    let survey = Survey::of(observed);
    let memory = remember(observed, survey.is_complete());
    let facts = Facts {
        generation: observed.generation,
        is_adapter: matches!(observed.claim.asks, Asks::Adapter { .. } | Asks::Nonsense),
        standing: standing(observed, &survey),
        services: observed.found.services.len(),
        endpoints: survey.endpoints,
        memory: memory.clone(),
    };
    let needs_finalizer = memory.is_some() && !observed.claim.has_finalizer;
    Decision { needs_finalizer, status: status(observed.live.as_ref(), &facts, now) }
}

fn standing(observed: &Observed, survey: &Survey) -> Standing {
    if let Some(mistakes) = &observed.mistakes {
        return Standing::Invalid(mistakes.clone());
    }
    if let (Some(other), Asks::Adapter { name, .. }) = (&observed.taken_by, &observed.claim.asks) {
        return Standing::Taken(format!(
            "DynamoModel {} of the same base model loads an adapter named {name} from another source; give this one \
             another spec.modelName, or delete the other",
            other.name
        ));
    }
    if survey.endpoints.is_empty() {
        return Standing::NoEndpoints;
    }
    if survey.is_served() {
        return Standing::Served;
    }
    if survey.needs_help { Standing::Failing(survey.summary()) } else { Standing::Coming(survey.summary()) }
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

/// What to do for a model that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// No engine holds its adapter any more.
    Done,
    /// Some engines do not let go of it. They do not hold up the deletion for ever.
    GiveUp,
    /// Engines are still being asked; look again after this time.
    Wait(Duration),
}

/// Decides for a model that is being deleted, since `waited`; `holders` is how many pods may still hold its adapter.
pub fn farewell(holders: usize, waited: Duration, patience: Duration) -> Farewell {
    match patience.checked_sub(waited) {
        _ if holders == 0 => Farewell::Done,
        Some(rest) if !rest.is_zero() => Farewell::Wait(rest),
        _ => Farewell::GiveUp,
    }
}

#[cfg(test)]
mod tests;
