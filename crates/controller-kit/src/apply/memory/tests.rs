//! Tests of what is remembered, and for how long.

use std::time::{Duration, Instant};

use super::{CORRECTIONS_WINDOW, EXPIRY, MAX_CORRECTIONS, WriteMemory};
use crate::{
    apply::Difference,
    request::ObjectId,
    store::{CacheView, Key, Shown},
};

struct Cache {
    kind: &'static str,
    latest: u64,
    shown: Shown,
}

impl CacheView for Cache {
    fn group_kind(&self) -> (&str, &str) {
        ("apps", self.kind)
    }

    fn latest(&self) -> u64 {
        self.latest
    }

    fn shows(&self, _: &Key, _: &str) -> Shown {
        self.shown
    }
}

fn id(kind: &str, name: &str) -> ObjectId {
    ObjectId { group: "apps".into(), kind: kind.into(), namespace: "n".into(), name: name.into() }
}

fn deployments(latest: u64) -> Cache {
    Cache { kind: "Deployment", latest, shown: Shown::Alive }
}

#[test]
fn a_write_is_waited_for_until_the_cache_has_seen_it() {
    let (mut memory, now) = (WriteMemory::default(), Instant::now());
    memory.wrote("p", &id("Deployment", "a"), 12, now);
    memory.wrote("p", &id("Deployment", "b"), 11, now);
    assert_eq!(memory.stale("p", &[&deployments(11)], now), Some(EXPIRY), "the newer write counts");
    assert_eq!(memory.stale("other", &[&deployments(11)], now), None, "other parents do not wait");
    assert_eq!(memory.stale("p", &[&deployments(12)], now), None);
    assert_eq!(memory.stale("p", &[&deployments(11)], now), None, "what was seen once stays seen");
}

#[test]
fn a_lost_event_blocks_for_a_while_only() {
    let (mut memory, now) = (WriteMemory::default(), Instant::now());
    memory.wrote("p", &id("Deployment", "a"), 12, now);
    let soon = now + EXPIRY - Duration::from_secs(1);
    assert_eq!(memory.stale("p", &[&deployments(1)], soon), Some(Duration::from_secs(1)));
    assert_eq!(memory.stale("p", &[&deployments(1)], now + EXPIRY), None);
}

#[test]
fn kinds_without_cache_are_not_waited_for() {
    let (mut memory, now) = (WriteMemory::default(), Instant::now());
    memory.wrote("p", &id("ServiceAccount", "a"), 12, now);
    assert_eq!(memory.stale("p", &[&deployments(1)], now), None);
}

#[test]
fn a_deletion_is_waited_for_until_the_object_is_gone_or_leaving() {
    let (mut memory, now) = (WriteMemory::default(), Instant::now());
    memory.wait_until(Shown::Deleting, "p", &id("Deployment", "a"), "old", now);
    assert_eq!(memory.stale("p", &[&deployments(9)], now), Some(EXPIRY));
    let leaving = Cache { shown: Shown::Deleting, ..deployments(9) };
    assert_eq!(memory.stale("p", &[&leaving], now), None);
    memory.wait_until(Shown::Absent, "p", &id("Deployment", "a"), "old", now);
    assert_eq!(memory.stale("p", &[&leaving], now), Some(EXPIRY), "it is gone, not leaving");
    let gone = Cache { shown: Shown::Absent, ..deployments(9) };
    assert_eq!(memory.stale("p", &[&gone], now), None);
}

#[test]
fn only_the_very_same_difference_is_settled() {
    let mut memory = WriteMemory::default();
    let left = |value: &str| vec![Difference { path: "spec.x".into(), live: Some(value.into()) }];
    let object = id("Deployment", "a");
    memory.record_residual("p", &object, "desired", &left("rounded"));
    assert!(memory.is_residual("p", &object, "desired", &left("rounded")));
    assert!(!memory.is_residual("p", &object, "desired", &left("drifted")), "another writer changed it");
    assert!(!memory.is_residual("p", &object, "other", &left("rounded")), "the desired object is another");
    assert!(!memory.is_residual("p", &object, "desired", &[]), "no difference is no residual");
    assert!(!memory.is_residual("p", &id("Deployment", "b"), "desired", &left("rounded")));
    memory.record_residual("p", &object, "desired", &[]);
    assert!(!memory.is_residual("p", &object, "desired", &left("rounded")));
}

#[test]
fn a_parent_that_is_gone_leaves_nothing_behind() {
    let (mut memory, now) = (WriteMemory::default(), Instant::now());
    memory.wrote("p", &id("Deployment", "a"), 12, now);
    memory.forget("p");
    assert_eq!(memory.stale("p", &[&deployments(1)], now), None);
    assert!(memory.parents.is_empty());
}

#[test]
fn an_inheritance_holds_for_one_object_and_its_marks_until_the_parent_is_gone() {
    let mut memory = WriteMemory::default();
    assert!(!memory.has_inherited("p", "u", "1"));
    memory.inherited("p", "u", "1");
    assert!(memory.has_inherited("p", "u", "1"));
    assert!(!memory.has_inherited("p", "another", "1"));
    assert!(!memory.has_inherited("p", "u", "2"), "the predecessor wrote again");
    memory.forget("p");
    assert!(!memory.has_inherited("p", "u", "1"));
}

#[test]
fn a_status_is_held_back_from_the_first_try_on_until_one_is_written() {
    let (mut memory, now) = (WriteMemory::default(), Instant::now());
    let second = Duration::from_secs(1);
    assert_eq!(memory.held_back("p", now), Duration::ZERO);
    assert_eq!(memory.held_back("p", now + second), second);
    assert_eq!(memory.held_back("q", now + second), Duration::ZERO, "another object");
    memory.status_is_current("p");
    assert_eq!(memory.held_back("p", now + second), Duration::ZERO, "the next one");
    memory.forget("p");
    assert_eq!(memory.held_back("p", now + 2 * second), Duration::ZERO, "its successor");
}

#[test]
fn drift_is_corrected_a_limited_number_of_times_a_minute() {
    let (mut memory, now) = (WriteMemory::default(), Instant::now());
    let (a, b) = (id("Deployment", "a"), id("Deployment", "b"));
    for _ in 0..MAX_CORRECTIONS {
        assert!(memory.may_correct("p", &a, now));
    }
    let soon = now + CORRECTIONS_WINDOW - Duration::from_secs(1);
    assert!(!memory.may_correct("p", &a, soon));
    assert!(memory.may_correct("p", &b, soon), "each object has a limit of its own");
    assert!(memory.may_correct("other", &a, soon));
    assert!(memory.may_correct("p", &a, now + CORRECTIONS_WINDOW));
}
