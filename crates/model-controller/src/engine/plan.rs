//! Plans the next requests to one engine. Pure: time is an argument.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    AdapterName, EngineRequest,
    state::{Engine, Held, ListSupport, RequestFailure},
};
use crate::engine::{DesiredAdapter, DesiredAdapters};

/// Time between two lists that confirm a load, while other loads are under way.
const CONFIRM_PAUSE: Duration = Duration::from_millis(500);

/// Time between two lists that show whether a load that timed out succeeded later, if its adapter is to be unloaded.
const ABANDONED_PAUSE: Duration = Duration::from_secs(2);

/// Requests to send now, and when to plan again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStep {
    /// Requests to send.
    pub start: Vec<EngineRequest>,
    /// Time at which to plan again; `None` if only an event can change the plan.
    pub wake: Option<Instant>,
}

/// Plans at most `room` requests to an engine.
pub fn plan(engine: &Engine, desired: &DesiredAdapters, room: usize, now: Instant) -> EngineStep {
    let outage = engine.outage.as_ref().map(|outage| outage.retry_at);
    if engine.listing.is_some() || room == 0 {
        return EngineStep::default();
    }
    if let Some(retry_at) = outage.filter(|retry_at| *retry_at > now) {
        return EngineStep { start: Vec::new(), wake: Some(retry_at) };
    }
    let mut batch = Batch::of(engine, desired, now);
    let serving = engine.endpoint.ready && !desired.is_empty();
    let question = || EngineStep { start: vec![EngineRequest::List { counted: counted(engine, desired) }], wake: None };
    let unseen = engine.others > 0 && desired.names().any(|name| !engine.counted.contains(name));
    if serving && (engine.must_list || engine.list_at <= now || unseen) {
        return question();
    }
    // After an outage, one request at a time.
    let limit = if outage.is_some() { 1 } else { engine.pace.per_engine };
    batch.start.truncate(limit.saturating_sub(engine.running.len()).min(room));
    if batch.start.is_empty() && batch.confirm {
        let pause_ends = engine.listed_at.map(|listed_at| listed_at + CONFIRM_PAUSE).filter(|end| *end > now);
        match pause_ends {
            Some(end) if !engine.running.is_empty() => batch.wakes.push(end),
            _ => return question(),
        }
    }
    batch.wakes.extend(serving.then_some(engine.list_at));
    EngineStep { start: batch.start, wake: batch.wakes.into_iter().min() }
}

/// Names to look for in an engine's list: adapters to load or to unload, and those that this process loaded. An engine
/// may list any number of others.
fn counted(engine: &Engine, desired: &DesiredAdapters) -> Arc<BTreeSet<AdapterName>> {
    let known = engine.held.keys().chain(&engine.running).chain(engine.abandoned.keys());
    Arc::new(desired.names().chain(known).cloned().collect())
}

/// Next steps for all adapters. There is none for an adapter whose state is the desired one, that has a request under
/// way, or for which an event must come first.
#[derive(Default)]
struct Batch {
    /// Requests to send.
    start: Vec<EngineRequest>,
    /// Whether to request a list, to confirm the last response.
    confirm: bool,
    /// Times of retries.
    wakes: Vec<Instant>,
}

impl Batch {
    /// Unloads first: they free memory for the loads.
    fn of(engine: &Engine, desired: &DesiredAdapters, now: Instant) -> Self {
        let mut batch = Self::default();
        for name in desired.unload.keys().filter(|name| !desired.load.contains_key(*name)) {
            batch.unload(engine, name, now);
        }
        for (name, adapter) in &desired.load {
            batch.load(engine, name, adapter, now);
        }
        batch
    }

    fn load(&mut self, engine: &Engine, name: &AdapterName, adapter: &DesiredAdapter, now: Instant) {
        if engine.running.contains(name) || !engine.endpoint.ready {
            return;
        }
        let trusted = adapter.trust.holds_for(&engine.endpoint);
        match engine.held.get(name) {
            Some(Held::Loaded(Some(source)) | Held::Accepted(source)) if *source != adapter.source => {
                self.drop_copy(engine, name, now);
            }
            Some(Held::Loaded(None)) if !trusted => self.drop_copy(engine, name, now),
            Some(Held::Loaded(_)) => {}
            Some(Held::Accepted(_) | Held::Dropped) => self.confirm = true,
            // It may hold a copy of an older source, and a load would keep that copy.
            None if engine.list == ListSupport::Unsupported && !trusted && !engine.absent.contains(name) => {
                self.drop_copy(engine, name, now);
            }
            None => {
                let failure = engine.request_failures.get(name);
                let failure = failure.filter(|failure| failure.source.as_ref() == Some(&adapter.source));
                let timeout = engine.pace.load_timeout(failure.map_or(0, |failure| failure.timeouts));
                let source = adapter.source.clone();
                self.send_when_due(failure, now, EngineRequest::Load { name: name.clone(), source, timeout });
            }
        }
    }

    fn unload(&mut self, engine: &Engine, name: &AdapterName, now: Instant) {
        if engine.running.contains(name) {
            return;
        }
        let (list, ready) = (engine.list, engine.endpoint.ready);
        match engine.held.get(name) {
            Some(Held::Accepted(_) | Held::Loaded(_)) => self.drop_copy(engine, name, now),
            Some(Held::Dropped) => self.confirm = true,
            None if list == ListSupport::Unsupported && ready && !engine.absent.contains(name) => {
                self.drop_copy(engine, name, now);
            }
            None if engine.abandoned.contains_key(name) && list == ListSupport::Supported && ready => {
                match engine.listed_at.map(|listed_at| listed_at + ABANDONED_PAUSE).filter(|next| *next > now) {
                    Some(next) => self.wakes.push(next),
                    None => self.confirm = true,
                }
            }
            None => {}
        }
    }

    fn drop_copy(&mut self, engine: &Engine, name: &AdapterName, now: Instant) {
        // Failed loads do not delay an unload.
        let failure = engine.request_failures.get(name).filter(|failure| failure.source.is_none());
        self.send_when_due(failure, now, EngineRequest::Unload { name: name.clone() });
    }

    fn send_when_due(&mut self, failure: Option<&RequestFailure>, now: Instant, request: EngineRequest) {
        match failure.map(|failure| failure.retry_at).filter(|retry_at| *retry_at > now) {
            Some(retry_at) => self.wakes.push(retry_at),
            None => self.start.push(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Endpoint, SYSTEM_PORT};

    #[test]
    fn addresses_of_both_families_become_urls() {
        assert_eq!(i32::from(SYSTEM_PORT), api_types::ports::SYSTEM);
        for (address, url) in [("10.0.1.5", "http://10.0.1.5:9090"), ("fd00::7", "http://[fd00::7]:9090")] {
            let endpoint =
                Endpoint { pod_name: "p".into(), pod: "u".into(), address: address.parse().unwrap(), ready: true };
            assert_eq!(endpoint.url(), url);
        }
    }
}
