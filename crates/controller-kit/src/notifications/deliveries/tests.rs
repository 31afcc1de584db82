//! Tests of `deliveries`.

use serde_json::json;

use super::*;
use crate::notifications::plan::HealthChange;

fn object(namespace: &str, uid: &str) -> ObjectReference {
    let text = |text: &str| Some(text.to_owned());
    ObjectReference { namespace: text(namespace), uid: text(uid), ..ObjectReference::default() }
}

fn event(id: &str) -> NotificationEvent {
    NotificationEvent {
        id: id.to_owned(),
        change: HealthChange::Failing,
        reason: "A".to_owned(),
        message: String::new(),
    }
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

#[test]
fn a_receiver_that_cannot_be_used_is_named_with_its_key() {
    for (receiver, expected) in [
        (json!({ "url": "http://a" }), "notifications.receivers[3].name: is required"),
        (json!({ "name": "a" }), "notifications.receivers[3]: set one of url and urlFile"),
        (json!({ "name": "a", "url": "http://a", "urlFile": "/f" }), "set one of url and urlFile"),
        (json!({ "name": "a", "url": "http://a b" }), "notifications.receivers[3].url: "),
        (json!({ "name": "a", "url": "http://a", "caFile": "/nowhere" }), "notifications.receivers[3].caFile: "),
    ] {
        let receiver = serde_json::from_value(receiver).unwrap();
        let Err(error) = Sender::new(3, &receiver) else { panic!("{receiver:?} is accepted") };
        assert!(error.to_string().contains(expected), "{error}");
    }
}
