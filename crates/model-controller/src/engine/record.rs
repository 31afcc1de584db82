//! What an outcome says about an engine. Pure: time is an argument.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    AdapterName, Outcome, Pace, Request, Source,
    state::{Engine, Held, LOST_AFTER, ListAnswer, Problem},
};

/// Notes that a request was sent.
pub fn sent(engine: &mut Engine, request: &Request, now: Instant) {
    match request.name() {
        Some(name) => {
            engine.running.insert(name.clone());
        }
        None => {
            engine.asking = Some(engine.running.clone());
            engine.asked_at = Some(now);
        }
    }
}

/// Takes in what became of a request. Returns the adapters about which something else is known now.
pub fn record(
    engine: &mut Engine,
    request: &Request,
    outcome: Outcome,
    pace: &Pace,
    now: Instant,
) -> BTreeSet<AdapterName> {
    if !matches!(outcome, Outcome::Unreachable { .. } | Outcome::TimedOut) {
        engine.outage = None;
    }
    match request {
        Request::List { counted } => listed(engine, counted, outcome, pace, now),
        Request::Load { name, source, .. } => {
            engine.running.remove(name);
            loaded(engine, name, source, outcome, pace, now);
            BTreeSet::from([name.clone()])
        }
        Request::Unload { name } => {
            engine.running.remove(name);
            unloaded(engine, name, outcome, pace, now);
            BTreeSet::from([name.clone()])
        }
    }
}

fn loaded(engine: &mut Engine, name: &AdapterName, source: &Source, outcome: Outcome, pace: &Pace, now: Instant) {
    let setback = Some(source.clone());
    match outcome {
        Outcome::Done => {
            engine.absent.remove(name);
            engine.abandoned.remove(name);
            let source = source.clone();
            let held = match engine.list {
                ListAnswer::None => {
                    engine.setbacks.remove(name);
                    Held::Loaded { source: Some(source) }
                }
                ListAnswer::Given | ListAnswer::Unasked => Held::Accepted { source },
            };
            engine.held.insert(name.clone(), held);
        }
        Outcome::TimedOut => {
            // It may have happened, or happen yet. The list tells.
            engine.must_ask = true;
            engine.abandoned.insert(name.clone(), now + pace.most_patience);
            engine.set_back(name, setback, Problem::TimedOut, pace, now);
        }
        other => fail(engine, name, setback, other, pace, now),
    }
}

fn unloaded(engine: &mut Engine, name: &AdapterName, outcome: Outcome, pace: &Pace, now: Instant) {
    match outcome {
        // The list confirms it. Setbacks are kept until then: an engine may answer "not found" and go on listing the adapter.
        Outcome::Done | Outcome::NotThere | Outcome::Unmanaged if engine.list != ListAnswer::None => {
            engine.held.insert(name.clone(), Held::Dropped);
        }
        // Without a list, the word of the engine has to do.
        Outcome::Done | Outcome::NotThere | Outcome::Unmanaged => {
            engine.absent.insert(name.clone());
            engine.held.remove(name);
            engine.setbacks.remove(name);
        }
        Outcome::TimedOut => {
            engine.must_ask = true;
            engine.set_back(name, None, Problem::TimedOut, pace, now);
        }
        other => {
            // Most likely it was not there any more; the list tells.
            engine.must_ask |= engine.list == ListAnswer::Given && matches!(other, Outcome::Refused { .. });
            fail(engine, name, None, other, pace, now);
        }
    }
}

fn fail(engine: &mut Engine, name: &AdapterName, source: Option<Source>, outcome: Outcome, pace: &Pace, now: Instant) {
    match outcome {
        Outcome::Unmanaged => engine.set_back(name, source, Problem::Unmanaged, pace, now),
        Outcome::Refused { status, message } => {
            engine.set_back(name, source, Problem::Refused { status, message }, pace, now);
        }
        Outcome::NotThere => {
            engine.set_back(name, source, Problem::Refused { status: 404, message: String::new() }, pace, now);
        }
        Outcome::Unreachable { reason } => engine.lose_contact(Problem::Unreachable { reason }, pace, now),
        // No answer to a load or an unload, and `TimedOut` is looked at where it happens.
        Outcome::Done | Outcome::Listed { .. } | Outcome::NoList | Outcome::TimedOut => {}
    }
}

fn listed(
    engine: &mut Engine,
    counted: &Arc<BTreeSet<AdapterName>>,
    outcome: Outcome,
    pace: &Pace,
    now: Instant,
) -> BTreeSet<AdapterName> {
    let uncounted = engine.asking.take().unwrap_or_default();
    engine.must_ask = false;
    engine.ask_at = now + engine.audit_pause(pace);
    match outcome {
        Outcome::Listed { names, others } => {
            engine.list = ListAnswer::Given;
            engine.counted = Arc::clone(counted);
            engine.others = others;
            engine.list_refusals = 0;
            engine.absent.clear();
            engine.doubtful = false;
            believe(engine, &names.into_iter().collect(), &uncounted, pace, now)
        }
        Outcome::NoList | Outcome::NotThere | Outcome::Unmanaged | Outcome::Done => do_without(engine),
        Outcome::Refused { .. } => {
            engine.list_refusals += 1;
            if engine.list == ListAnswer::Given && engine.list_refusals < LOST_AFTER {
                engine.ask_at = now + pace.pause(engine.list_refusals);
                engine.must_ask = engine.doubtful;
                return BTreeSet::new();
            }
            engine.ask_at = now + pace.pause(engine.list_refusals).max(Duration::from_secs(30)).min(pace.longest_pause);
            do_without(engine)
        }
        Outcome::Unreachable { reason } => {
            engine.lose_contact(Problem::Unreachable { reason }, pace, now);
            ask_again(engine, now)
        }
        Outcome::TimedOut => {
            engine.lose_contact(Problem::TimedOut, pace, now);
            ask_again(engine, now)
        }
    }
}

/// The pause is that of the outage.
fn ask_again(engine: &mut Engine, now: Instant) -> BTreeSet<AdapterName> {
    engine.must_ask = true;
    engine.ask_at = now;
    engine.held.keys().chain(engine.setbacks.keys()).cloned().collect()
}

/// The engine's own list is the truth, except for what was in the middle of being changed.
fn believe(
    engine: &mut Engine,
    names: &BTreeSet<AdapterName>,
    uncounted: &BTreeSet<AdapterName>,
    pace: &Pace,
    now: Instant,
) -> BTreeSet<AdapterName> {
    let before = std::mem::take(&mut engine.held);
    let mut after = BTreeMap::new();
    for name in names {
        let held = match before.get(name) {
            Some(known) if uncounted.contains(name) => known.clone(),
            Some(Held::Accepted { source }) => Held::Loaded { source: Some(source.clone()) },
            Some(Held::Loaded { source }) => Held::Loaded { source: source.clone() },
            Some(Held::Dropped) => {
                engine.set_back(name, None, Problem::StillListed, pace, now);
                Held::Loaded { source: None }
            }
            None if uncounted.contains(name) => continue,
            None => Held::Loaded { source: None },
        };
        if !matches!(before.get(name), Some(Held::Dropped)) && !uncounted.contains(name) {
            // Unloading may have failed before; only success of what was tried ends a setback.
            engine.setbacks.retain(|other, setback| other != name || setback.source.is_none());
        }
        after.insert(name.clone(), held);
    }
    for (name, known) in &before {
        if names.contains(name) {
            continue;
        }
        if uncounted.contains(name) {
            after.insert(name.clone(), known.clone());
        } else if let Held::Accepted { source } = known {
            engine.set_back(name, Some(source.clone()), Problem::NotListed, pace, now);
        }
    }
    // What is not there needs no unloading any more.
    engine.setbacks.retain(|name, setback| setback.source.is_some() || after.contains_key(name));
    let mut changed: BTreeSet<_> = after.keys().filter(|name| before.get(*name) != after.get(*name)).cloned().collect();
    changed.extend(before.keys().filter(|name| !after.contains_key(*name)).cloned());
    // What is listed has arrived; what is overdue has failed, and whoever waits for it is told.
    engine.abandoned.retain(|name, _| !after.contains_key(name));
    changed.extend(engine.abandoned.extract_if(.., |_, until| *until <= now).map(|(name, _)| name));
    engine.held = after;
    changed
}

/// The engine does not tell what it holds, so its answers count as they are. If it may have restarted, it is taken to hold
/// nothing: loading once more does no harm.
fn do_without(engine: &mut Engine) -> BTreeSet<AdapterName> {
    engine.list = ListAnswer::None;
    let mut changed = BTreeSet::new();
    if std::mem::take(&mut engine.doubtful) {
        engine.absent.clear();
        changed.extend(std::mem::take(&mut engine.held).into_keys());
    }
    let names: Vec<AdapterName> = engine.held.keys().chain(engine.setbacks.keys()).cloned().collect();
    for name in names {
        match engine.held.get(&name) {
            Some(Held::Accepted { source }) => {
                let source = Some(source.clone());
                engine.held.insert(name.clone(), Held::Loaded { source });
                engine.setbacks.remove(&name);
            }
            Some(Held::Dropped) => {
                engine.held.remove(&name);
                engine.setbacks.remove(&name);
                engine.absent.insert(name.clone());
            }
            Some(Held::Loaded { .. }) | None => {}
        }
        changed.insert(name);
    }
    changed
}
