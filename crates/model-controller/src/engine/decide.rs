//! What to ask of one engine next. Pure: time is an argument.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    AdapterName, Pace, Request,
    state::{Engine, Held, ListAnswer, Setback},
    wishes::{Wanted, Wishes},
};

/// Time between two questions that only confirm what was just loaded, while other loads are still under way.
const CONFIRM_PAUSE: Duration = Duration::from_millis(500);

/// Time between two questions whether a load that was given up has ended well all the same, if nobody wants it any more.
const ABANDONED_PAUSE: Duration = Duration::from_secs(2);

/// What to do now, and when to look again if nothing happens before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Requests to send.
    pub start: Vec<Request>,
    /// When to look again; `None` if only an event can change anything.
    pub wake: Option<Instant>,
}

/// What one adapter needs on one engine.
enum Need {
    /// Nothing: it is as wished, or under way, or has to wait for an event.
    Nothing,
    /// This request.
    Send(Request),
    /// The engine's list has to confirm the last answer.
    Confirmation,
    /// Another attempt at this time.
    Later(Instant),
}

/// What to ask of an engine, with at most `room` requests.
pub fn decide(engine: &Engine, wishes: &Wishes, pace: &Pace, room: usize, now: Instant) -> Step {
    let outage = engine.outage.as_ref().map(|outage| outage.retry_at);
    if engine.asking.is_some() || room == 0 {
        return Step::default();
    }
    if let Some(retry_at) = outage.filter(|retry_at| *retry_at > now) {
        return Step { start: Vec::new(), wake: Some(retry_at) };
    }
    let mut plan = Plan::of(engine, wishes, pace, now);
    let serving = engine.endpoint.ready && !wishes.is_empty();
    let question = || Step { start: vec![Request::List { counted: counted(engine, wishes) }], wake: None };
    let unseen = engine.others > 0 && wishes.names().any(|name| !engine.counted.contains(name));
    if serving && (engine.must_ask || engine.ask_at <= now || unseen) {
        return question();
    }
    // An engine in trouble is approached with one request at a time.
    let limit = if outage.is_some() { 1 } else { pace.per_engine };
    plan.start.truncate(limit.saturating_sub(engine.running.len()).min(room));
    if plan.start.is_empty() && plan.confirm {
        let pause_ends = engine.asked_at.map(|asked_at| asked_at + CONFIRM_PAUSE).filter(|end| *end > now);
        match pause_ends {
            Some(end) if !engine.running.is_empty() => plan.wakes.push(end),
            _ => return question(),
        }
    }
    plan.wakes.extend(serving.then_some(engine.ask_at));
    Step { start: plan.start, wake: plan.wakes.into_iter().min() }
}

/// The names that count in an engine's list: those that models ask for or give up, and those that this process loaded. An engine may
/// list any number of others.
fn counted(engine: &Engine, wishes: &Wishes) -> Arc<BTreeSet<AdapterName>> {
    let known = engine.held.keys().chain(&engine.running).chain(engine.abandoned.keys());
    Arc::new(wishes.names().chain(known).cloned().collect())
}

/// What all adapters together need.
#[derive(Default)]
struct Plan {
    start: Vec<Request>,
    confirm: bool,
    wakes: Vec<Instant>,
}

impl Plan {
    /// Unloading comes first: it makes room for what is to be loaded.
    fn of(engine: &Engine, wishes: &Wishes, pace: &Pace, now: Instant) -> Self {
        let mut plan = Self::default();
        for name in wishes.unload.keys().filter(|name| !wishes.load.contains_key(*name)) {
            plan.add(unload(engine, name, now));
        }
        for (name, wanted) in &wishes.load {
            plan.add(load(engine, name, wanted, pace, now));
        }
        plan
    }

    fn add(&mut self, need: Need) {
        match need {
            Need::Nothing => {}
            Need::Send(request) => self.start.push(request),
            Need::Confirmation => self.confirm = true,
            Need::Later(at) => self.wakes.push(at),
        }
    }
}

fn load(engine: &Engine, name: &AdapterName, wanted: &Wanted, pace: &Pace, now: Instant) -> Need {
    if engine.running.contains(name) || !engine.endpoint.ready {
        return Need::Nothing;
    }
    let trusted = wanted.trust.holds_for(&engine.endpoint);
    match engine.held.get(name) {
        Some(Held::Loaded { source: Some(source) } | Held::Accepted { source }) if *source != wanted.source => {
            drop_copy(engine, name, now)
        }
        Some(Held::Loaded { source: None }) if !trusted => drop_copy(engine, name, now),
        Some(Held::Loaded { .. }) => Need::Nothing,
        Some(Held::Accepted { .. } | Held::Dropped) => Need::Confirmation,
        // It may hold a copy of an older source, and would keep that one.
        None if engine.list == ListAnswer::None && !trusted && !engine.absent.contains(name) => {
            drop_copy(engine, name, now)
        }
        None => {
            let setback = engine.setbacks.get(name).filter(|setback| setback.source.as_ref() == Some(&wanted.source));
            let patience = pace.patience(setback.map_or(0, |setback| setback.given_up));
            let source = wanted.source.clone();
            when_due(setback, now, Request::Load { name: name.clone(), source, patience })
        }
    }
}

fn unload(engine: &Engine, name: &AdapterName, now: Instant) -> Need {
    if engine.running.contains(name) {
        return Need::Nothing;
    }
    match engine.held.get(name) {
        Some(Held::Accepted { .. } | Held::Loaded { .. }) => drop_copy(engine, name, now),
        Some(Held::Dropped) => Need::Confirmation,
        None if engine.list == ListAnswer::None && engine.endpoint.ready && !engine.absent.contains(name) => {
            drop_copy(engine, name, now)
        }
        None if engine.abandoned.contains_key(name) && engine.list == ListAnswer::Given && engine.endpoint.ready => {
            let next = engine.asked_at.map(|asked_at| asked_at + ABANDONED_PAUSE).filter(|next| *next > now);
            next.map_or(Need::Confirmation, Need::Later)
        }
        None => Need::Nothing,
    }
}

fn drop_copy(engine: &Engine, name: &AdapterName, now: Instant) -> Need {
    // A failed load says nothing about unloading.
    let setback = engine.setbacks.get(name).filter(|setback| setback.source.is_none());
    when_due(setback, now, Request::Unload { name: name.clone() })
}

fn when_due(setback: Option<&Setback>, now: Instant, request: Request) -> Need {
    match setback.map(|setback| setback.retry_at).filter(|retry_at| *retry_at > now) {
        Some(retry_at) => Need::Later(retry_at),
        None => Need::Send(request),
    }
}
