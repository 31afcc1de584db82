//! State of one adapter on one engine, as its model reports it.

use super::{
    AdapterName,
    desired::DesiredAdapter,
    state::{Engine, Held, ListSupport, Problem},
};

/// State of one adapter on one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterState {
    /// Not observed yet by this process.
    Unknown,
    /// The engine serves it.
    Loaded,
    /// It is being loaded, or will be as soon as the engine is ready.
    Loading,
    /// The engine manages no adapters.
    Unmanaged,
    /// The last attempt failed.
    Failing {
        /// The last problem.
        problem: Problem,
        /// Failures in a row.
        failures: u32,
    },
}

/// State of a desired adapter.
pub fn adapter_state(engine: &Engine, name: &AdapterName, adapter: &DesiredAdapter) -> AdapterState {
    let trusted = adapter.trust.holds_for(&engine.endpoint);
    let fits = match engine.held.get(name) {
        Some(Held::Loaded { source: Some(source) }) => *source == adapter.source,
        Some(Held::Loaded { source: None }) => trusted,
        Some(Held::Accepted { .. } | Held::Dropped) | None => false,
    };
    if let Some(outage) = engine.outage.as_ref().filter(|_| !fits || engine.is_lost()) {
        return AdapterState::Failing { problem: outage.problem.clone(), failures: outage.failures };
    }
    if fits {
        return if engine.stale { AdapterState::Loading } else { AdapterState::Loaded };
    }
    match engine.request_failures.get(name) {
        Some(failure) if failure.problem == Problem::Unmanaged => AdapterState::Unmanaged,
        Some(failure) if failure.source.as_ref().is_none_or(|source| *source == adapter.source) => {
            AdapterState::Failing { problem: failure.problem.clone(), failures: failure.failures }
        }
        _ if unknown(engine, name) => AdapterState::Unknown,
        _ => AdapterState::Loading,
    }
}

fn unknown(engine: &Engine, name: &AdapterName) -> bool {
    match engine.list {
        ListSupport::Unknown => true,
        ListSupport::Unsupported => !engine.held.contains_key(name) && !engine.absent.contains(name),
        ListSupport::Supported => false,
    }
}
