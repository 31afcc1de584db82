//! Records outcomes of requests in the state of an engine. Pure: time is an argument.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    AdapterName, AdapterSource, EngineOutcome, EngineRequest,
    state::{Engine, Held, LOST_AFTER, ListSupport, Problem},
};

type AdapterNames = BTreeSet<AdapterName>;

/// Records that a request was sent.
pub fn sent(engine: &mut Engine, request: &EngineRequest, now: Instant) {
    match request.name() {
        Some(name) => {
            engine.running.insert(name.clone());
        }
        None => {
            engine.listing = Some(engine.running.clone());
            engine.listed_at = Some(now);
        }
    }
}

/// Records the outcome of a request. Returns the adapters whose state changed.
pub fn record(engine: &mut Engine, request: &EngineRequest, outcome: EngineOutcome, now: Instant) -> AdapterNames {
    if !matches!(outcome, EngineOutcome::Unreachable { .. } | EngineOutcome::TimedOut) {
        engine.outage = None;
    }
    match request {
        EngineRequest::List { counted } => listed(engine, counted, outcome, now),
        EngineRequest::Load { name, source, .. } => {
            engine.running.remove(name);
            loaded(engine, name, source, outcome, now);
            BTreeSet::from([name.clone()])
        }
        EngineRequest::Unload { name } => {
            engine.running.remove(name);
            unloaded(engine, name, outcome, now);
            BTreeSet::from([name.clone()])
        }
    }
}

fn loaded(engine: &mut Engine, name: &AdapterName, source: &AdapterSource, outcome: EngineOutcome, now: Instant) {
    let failure = Some(source.clone());
    match outcome {
        EngineOutcome::Done => {
            engine.absent.remove(name);
            engine.abandoned.remove(name);
            let source = source.clone();
            let held = match engine.list {
                ListSupport::Unsupported => {
                    engine.request_failures.remove(name);
                    Held::Loaded(Some(source))
                }
                ListSupport::Supported | ListSupport::Unknown => Held::Accepted(source),
            };
            engine.held.insert(name.clone(), held);
        }
        EngineOutcome::TimedOut => {
            // The load may have succeeded, or may succeed later. The next list shows it.
            engine.must_list = true;
            engine.abandoned.insert(name.clone(), now + engine.pace.longest_load_timeout);
            engine.record_failure(name, failure, Problem::TimedOut, now);
        }
        other => fail(engine, name, failure, other, now),
    }
}

fn unloaded(engine: &mut Engine, name: &AdapterName, outcome: EngineOutcome, now: Instant) {
    match outcome {
        // The next list confirms it. Failures are kept until then: an engine may report "not found" and still list the
        // adapter.
        EngineOutcome::Done | EngineOutcome::NotThere | EngineOutcome::Unmanaged
            if engine.list != ListSupport::Unsupported =>
        {
            engine.held.insert(name.clone(), Held::Dropped);
        }
        // Without a list, the response counts.
        EngineOutcome::Done | EngineOutcome::NotThere | EngineOutcome::Unmanaged => {
            engine.absent.insert(name.clone());
            engine.held.remove(name);
            engine.request_failures.remove(name);
        }
        EngineOutcome::TimedOut => {
            engine.must_list = true;
            engine.record_failure(name, None, Problem::TimedOut, now);
        }
        other => {
            // The adapter was probably not loaded; the next list shows it.
            engine.must_list |= engine.list == ListSupport::Supported && matches!(other, EngineOutcome::Refused { .. });
            fail(engine, name, None, other, now);
        }
    }
}

fn fail(engine: &mut Engine, name: &AdapterName, source: Option<AdapterSource>, outcome: EngineOutcome, now: Instant) {
    let problem = match outcome {
        EngineOutcome::Unmanaged => Problem::Unmanaged,
        EngineOutcome::Refused { status, message } => Problem::Refused { status, message },
        EngineOutcome::NotThere => Problem::Refused { status: 404, message: String::new() },
        EngineOutcome::Unreachable { reason } => return engine.record_outage(Problem::Unreachable { reason }, now),
        // No outcomes of a load or an unload; callers handle `TimedOut`.
        EngineOutcome::Done | EngineOutcome::Listed { .. } | EngineOutcome::NoList | EngineOutcome::TimedOut => return,
    };
    engine.record_failure(name, source, problem, now);
}

fn listed(engine: &mut Engine, counted: &Arc<AdapterNames>, outcome: EngineOutcome, now: Instant) -> AdapterNames {
    let in_flight = engine.listing.take().unwrap_or_default();
    engine.must_list = false;
    engine.list_at = now + engine.audit_pause();
    match outcome {
        EngineOutcome::Listed { names, others } => {
            engine.list = ListSupport::Supported;
            engine.counted = Arc::clone(counted);
            engine.others = others;
            engine.list_rejections = 0;
            engine.absent.clear();
            engine.stale = false;
            apply_list(engine, &names.into_iter().collect(), &in_flight, now)
        }
        EngineOutcome::NoList | EngineOutcome::NotThere | EngineOutcome::Unmanaged | EngineOutcome::Done => {
            list_unsupported(engine)
        }
        EngineOutcome::Refused { .. } => {
            engine.list_rejections += 1;
            if engine.list == ListSupport::Supported && engine.list_rejections < LOST_AFTER {
                engine.list_at = now + engine.pace.pause(engine.list_rejections);
                engine.must_list = engine.stale;
                return BTreeSet::new();
            }
            engine.list_at = now
                + engine.pace.pause(engine.list_rejections).max(Duration::from_secs(30)).min(engine.pace.longest_pause);
            list_unsupported(engine)
        }
        EngineOutcome::Unreachable { reason } => {
            engine.record_outage(Problem::Unreachable { reason }, now);
            list_again(engine, now)
        }
        EngineOutcome::TimedOut => {
            engine.record_outage(Problem::TimedOut, now);
            list_again(engine, now)
        }
    }
}

/// Requests the list again after the pause of the outage.
fn list_again(engine: &mut Engine, now: Instant) -> AdapterNames {
    engine.must_list = true;
    engine.list_at = now;
    engine.held.keys().chain(engine.request_failures.keys()).cloned().collect()
}

/// Takes the engine's list as the truth, except for adapters that were being loaded or unloaded.
fn apply_list(engine: &mut Engine, names: &AdapterNames, in_flight: &AdapterNames, now: Instant) -> AdapterNames {
    let before = std::mem::take(&mut engine.held);
    let mut after = BTreeMap::new();
    for name in names {
        let held = match before.get(name) {
            Some(known) if in_flight.contains(name) => known.clone(),
            Some(Held::Accepted(source)) => Held::Loaded(Some(source.clone())),
            Some(Held::Loaded(source)) => Held::Loaded(source.clone()),
            Some(Held::Dropped) => {
                engine.record_failure(name, None, Problem::StillListed, now);
                Held::Loaded(None)
            }
            None if in_flight.contains(name) => continue,
            None => Held::Loaded(None),
        };
        if !matches!(before.get(name), Some(Held::Dropped)) && !in_flight.contains(name) {
            // Keep failures of loads: a list without the new source does not end them.
            engine.request_failures.retain(|other, failure| other != name || failure.source.is_none());
        }
        after.insert(name.clone(), held);
    }
    for (name, known) in &before {
        if names.contains(name) {
            continue;
        }
        if in_flight.contains(name) {
            after.insert(name.clone(), known.clone());
        } else if let Held::Accepted(source) = known {
            engine.record_failure(name, Some(source.clone()), Problem::NotListed, now);
        }
    }
    // An adapter that is not listed needs no unload.
    engine.request_failures.retain(|name, failure| failure.source.is_some() || after.contains_key(name));
    let mut changed: BTreeSet<_> = after.keys().filter(|name| before.get(*name) != after.get(*name)).cloned().collect();
    changed.extend(before.keys().filter(|name| !after.contains_key(*name)).cloned());
    // A listed adapter is loaded; a load that is overdue has failed, and its models are enqueued.
    engine.abandoned.retain(|name, _| !after.contains_key(name));
    changed.extend(engine.abandoned.extract_if(.., |_, until| *until <= now).map(|(name, _)| name));
    engine.held = after;
    changed
}

/// The engine has no list, so its responses count. If it may have restarted, it counts as empty: to load an adapter
/// twice does no harm.
fn list_unsupported(engine: &mut Engine) -> AdapterNames {
    engine.list = ListSupport::Unsupported;
    let mut changed = BTreeSet::new();
    if std::mem::take(&mut engine.stale) {
        engine.absent.clear();
        changed.extend(std::mem::take(&mut engine.held).into_keys());
    }
    let names: Vec<AdapterName> = engine.held.keys().chain(engine.request_failures.keys()).cloned().collect();
    for name in names {
        match engine.held.get(&name) {
            Some(Held::Accepted(source)) => {
                let source = Some(source.clone());
                engine.held.insert(name.clone(), Held::Loaded(source));
                engine.request_failures.remove(&name);
            }
            Some(Held::Dropped) => {
                engine.held.remove(&name);
                engine.request_failures.remove(&name);
                engine.absent.insert(name.clone());
            }
            Some(Held::Loaded(_)) | None => {}
        }
        changed.insert(name);
    }
    changed
}
