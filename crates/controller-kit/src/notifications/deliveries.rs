//! Deliveries that are under way. Pure: time comes in from outside.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::plan::Event;
use crate::{backoff::Backoff, fairness::FairQueue};

/// Notifications that are sent at the same time.
const PLACES: usize = 8;
/// Pause before a reconcile asks again whether a notification was delivered.
const POLL: Duration = Duration::from_secs(1);
/// Shortest time between two notifications of one object: what comes and goes in between is not delivered.
const GAP: Duration = Duration::from_secs(10);
/// Notifications of one namespace in each [`WINDOW`].
const MAX_PER_WINDOW: usize = 60;
const WINDOW: Duration = Duration::from_secs(60);
/// Objects whose deliveries are remembered. Those beyond wait.
const MAX_OBJECTS: usize = 10_000;
/// How long a delivery is remembered that no reconcile asks for: its object is gone.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(900);

/// Answer to an offered event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// All receivers have accepted it.
    Done,
    /// Offer it again after this time.
    Pending(Duration),
}

/// What is to be sent to which receivers.
#[derive(Debug, Clone, PartialEq)]
pub struct Shipment {
    /// The object.
    pub object: ObjectReference,
    /// The event.
    pub event: Event,
    /// Indices of the receivers that have accepted the event.
    pub accepted: BTreeSet<usize>,
}

/// Deliveries by the uid of their object: one for each object.
#[derive(Debug)]
pub struct Deliveries {
    entries: HashMap<String, DeliveryEntry>,
    queue: FairQueue<String>,
    backoff: Backoff<String>,
    window: Option<Instant>,
    started: HashMap<String, usize>,
}

#[derive(Debug)]
struct DeliveryEntry {
    shipment: Shipment,
    phase: DeliveryPhase,
    asked: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeliveryPhase {
    Waiting,
    Sending,
    Failed { again: Instant },
    Done { at: Instant },
}

impl Deliveries {
    /// None.
    pub fn new() -> Self {
        Self {
            entries: HashMap::new(),
            queue: FairQueue::new(PLACES),
            backoff: Backoff::default(),
            window: None,
            started: HashMap::new(),
        }
    }

    /// A reconcile found that this event is due.
    pub fn offer(&mut self, object: &ObjectReference, event: &Event, now: Instant) -> Delivery {
        let uid = object.uid.clone().unwrap_or_default();
        let mut accepted = BTreeSet::new();
        if let Some(entry) = self.entries.get_mut(&uid) {
            entry.asked = now;
            let same = entry.shipment.event.id == event.id;
            let rest = match entry.phase {
                DeliveryPhase::Done { .. } if same => return Delivery::Done,
                DeliveryPhase::Waiting if same => Some(POLL),
                DeliveryPhase::Sending => Some(POLL),
                DeliveryPhase::Failed { again } if same => again.checked_duration_since(now),
                DeliveryPhase::Done { at } => (at + GAP).checked_duration_since(now),
                // What was not delivered yet is out of date.
                DeliveryPhase::Waiting | DeliveryPhase::Failed { .. } => None,
            };
            if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
                return Delivery::Pending(rest);
            }
            if same {
                accepted.clone_from(&entry.shipment.accepted);
            }
        }
        let namespace = object.namespace.clone().unwrap_or_default();
        if let Some(rest) = self.exhausted(&uid, &namespace, now) {
            return Delivery::Pending(rest);
        }
        let waits = self.entries.get(&uid).is_some_and(|entry| entry.phase == DeliveryPhase::Waiting);
        let shipment = Shipment { object: object.clone(), event: event.clone(), accepted };
        self.entries.insert(uid.clone(), DeliveryEntry { shipment, phase: DeliveryPhase::Waiting, asked: now });
        if !waits {
            *self.started.entry(namespace.clone()).or_default() += 1;
            self.queue.push(&namespace, uid);
        }
        Delivery::Pending(POLL)
    }

    /// How long an object has to wait because its namespace, or the process, has as many deliveries as it may have.
    fn exhausted(&mut self, uid: &str, namespace: &str, now: Instant) -> Option<Duration> {
        let begun = *self.window.get_or_insert(now);
        let rest = (begun + WINDOW).checked_duration_since(now).unwrap_or_default();
        if rest.is_zero() {
            self.window = Some(now);
            self.started.clear();
            let forgotten =
                |entry: &DeliveryEntry| entry.asked + FORGOTTEN_AFTER < now && entry.phase != DeliveryPhase::Sending;
            for (uid, _) in self.entries.extract_if(|_, entry| forgotten(entry)) {
                self.backoff.clear(&uid);
            }
            return None;
        }
        let is_full = self.entries.len() >= MAX_OBJECTS && !self.entries.contains_key(uid);
        let is_spent = self.started.get(namespace).is_some_and(|started| *started >= MAX_PER_WINDOW);
        (is_full || is_spent).then_some(rest)
    }

    /// The next event to send, if there is room.
    pub fn start(&mut self) -> Option<Shipment> {
        loop {
            let uid = self.queue.pop()?;
            // It may have been forgotten meanwhile.
            let Some(entry) = self.entries.get_mut(&uid) else { continue };
            entry.phase = DeliveryPhase::Sending;
            self.queue.take(entry.shipment.object.namespace.as_deref().unwrap_or_default(), 1);
            return Some(entry.shipment.clone());
        }
    }

    /// An event was sent; all receivers have accepted it, or another attempt is due.
    pub fn finish(&mut self, shipment: Shipment, all: bool, now: Instant) {
        self.queue.give_back(shipment.object.namespace.as_deref().unwrap_or_default());
        let uid = shipment.object.uid.clone().unwrap_or_default();
        let phase = match all {
            true => {
                self.backoff.clear(&uid);
                DeliveryPhase::Done { at: now }
            }
            false => DeliveryPhase::Failed { again: now + self.backoff.next(&uid) },
        };
        if let Some(entry) = self.entries.get_mut(&uid) {
            (entry.phase, entry.shipment) = (phase, shipment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notifications::plan::Change;

    fn object(namespace: &str, uid: &str) -> ObjectReference {
        let text = |text: &str| Some(text.to_owned());
        ObjectReference { namespace: text(namespace), uid: text(uid), ..ObjectReference::default() }
    }

    fn event(id: &str) -> Event {
        Event { id: id.to_owned(), change: Change::Failing, reason: "A".to_owned(), message: String::new() }
    }

    fn send(all: &mut Deliveries, is_accepted: bool, now: Instant) -> Option<Shipment> {
        let shipment = all.start()?;
        all.finish(shipment.clone(), is_accepted, now);
        Some(shipment)
    }

    #[test]
    fn an_event_is_sent_once_and_known_until_it_is_recorded() {
        let (mut all, now) = (Deliveries::new(), Instant::now());
        for _ in 0..3 {
            assert_eq!(all.offer(&object("n", "1"), &event("a"), now), Delivery::Pending(POLL));
        }
        assert_eq!(send(&mut all, true, now).unwrap().event, event("a"));
        assert_eq!(all.start(), None);
        for _ in 0..3 {
            assert_eq!(all.offer(&object("n", "1"), &event("a"), now), Delivery::Done);
        }
        assert_eq!(all.start(), None);
    }

    #[test]
    fn a_failure_is_repeated_later_and_later_to_those_who_have_not_accepted() {
        let (mut all, mut now) = (Deliveries::new(), Instant::now());
        let mut pauses = Vec::new();
        for attempt in 0..4 {
            all.offer(&object("n", "1"), &event("a"), now);
            let mut shipment = all.start().unwrap();
            assert_eq!(shipment.accepted.contains(&1), attempt > 0);
            shipment.accepted.insert(1);
            all.finish(shipment, false, now);
            let Delivery::Pending(rest) = all.offer(&object("n", "1"), &event("a"), now) else { panic!("{attempt}") };
            assert_eq!(all.start(), None, "not before its time");
            pauses.push(rest.as_secs());
            now += rest;
        }
        assert_eq!(pauses, [1, 2, 4, 8]);
    }

    #[test]
    fn the_latest_event_of_an_object_replaces_one_that_waits() {
        let (mut all, now) = (Deliveries::new(), Instant::now());
        all.offer(&object("n", "1"), &event("a"), now);
        all.offer(&object("n", "1"), &event("b"), now);
        assert_eq!(send(&mut all, true, now).unwrap().event, event("b"));
        assert_eq!(all.start(), None);
        assert_eq!(all.offer(&object("n", "1"), &event("c"), now), Delivery::Pending(GAP), "not one after another");
        all.offer(&object("n", "1"), &event("c"), now + GAP);
        assert_eq!(send(&mut all, true, now).unwrap().event, event("c"));
    }

    #[test]
    fn one_namespace_has_a_limit_and_takes_turns_with_others() {
        let (mut all, now) = (Deliveries::new(), Instant::now());
        let flood: Vec<_> = (0..1000).map(|number| object("flood", &number.to_string())).collect();
        let refused = flood.iter().filter(|object| all.offer(object, &event("a"), now) == Delivery::Pending(WINDOW));
        assert_eq!(refused.count(), 1000 - MAX_PER_WINDOW);
        all.offer(&object("other", "other"), &event("a"), now);
        let first: Vec<_> = std::iter::from_fn(|| all.start()).collect();
        assert!(first.iter().any(|shipment| shipment.object.namespace.as_deref() == Some("other")));
        first.into_iter().for_each(|shipment| all.finish(shipment, true, now));
        while send(&mut all, true, now).is_some() {}
        let later = now + WINDOW;
        assert_eq!(all.offer(&flood[999], &event("a"), later), Delivery::Pending(POLL));
        assert!(send(&mut all, true, later).is_some());
        let gone = later + FORGOTTEN_AFTER + WINDOW;
        all.offer(&object("n", "new"), &event("a"), gone);
        assert_eq!(all.entries.len(), 1, "objects that are gone are forgotten");
    }
}
