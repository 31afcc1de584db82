//! How one adapter stands on one engine, as its model sees it.

use super::{
    AdapterName,
    state::{Engine, Held, ListAnswer, Problem},
    wishes::Wanted,
};

/// How one adapter stands on one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stand {
    /// This process has not found out yet. What was true before is the best guess.
    Unknown,
    /// The engine serves it.
    Loaded,
    /// It is being loaded, or will be as soon as the engine is ready.
    Coming,
    /// The engine manages no adapters.
    Unmanaged,
    /// The last attempt failed.
    Failing {
        /// What went wrong.
        problem: Problem,
        /// How often in a row.
        failures: u32,
    },
}

/// How a wanted adapter stands.
pub fn stand(engine: &Engine, name: &AdapterName, wanted: &Wanted) -> Stand {
    let trusted = wanted.trust.holds_for(&engine.endpoint);
    let fits = match engine.held.get(name) {
        Some(Held::Loaded { source: Some(source) }) => *source == wanted.source,
        Some(Held::Loaded { source: None }) => trusted,
        Some(Held::Accepted { .. } | Held::Dropped) | None => false,
    };
    if let Some(outage) = engine.outage.as_ref().filter(|_| !fits || engine.is_lost()) {
        return Stand::Failing { problem: outage.problem.clone(), failures: outage.failures };
    }
    if fits {
        return if engine.doubtful { Stand::Coming } else { Stand::Loaded };
    }
    match engine.setbacks.get(name) {
        Some(setback) if setback.problem == Problem::Unmanaged => Stand::Unmanaged,
        Some(setback) if setback.source.as_ref().is_none_or(|source| *source == wanted.source) => {
            Stand::Failing { problem: setback.problem.clone(), failures: setback.failures }
        }
        _ if unknown(engine, name) => Stand::Unknown,
        _ => Stand::Coming,
    }
}

fn unknown(engine: &Engine, name: &AdapterName) -> bool {
    match engine.list {
        ListAnswer::Unasked => true,
        ListAnswer::None => !engine.held.contains_key(name) && !engine.absent.contains(name),
        ListAnswer::Given => false,
    }
}
