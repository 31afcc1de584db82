//! Tests of gains and losses: they wait for work, caches and former owners.

use super::*;
use crate::{
    places::Span,
    shards::assignment::{Member, Range},
};

const HALF: u64 = u64::MAX / 2;

fn member(id: &str) -> Member {
    Member { id: id.to_owned(), slot: 0, seen: 1 }
}

/// The first half belongs to `owner`, who waits for `from`; the second to another member.
fn assignment(epoch: u64, owner: &str, from: &[&str]) -> Assignment {
    let from = from.iter().map(|id| Former { member: member(id), epoch }).collect();
    let ranges = vec![
        Range { last: HALF, owner: member(owner), from },
        Range { last: u64::MAX, owner: member("other"), from: Vec::new() },
    ];
    Assignment { epoch, by: "other".to_owned(), ranges }
}

fn half() -> Places {
    Places::of([Span { first: 0, last: HALF }])
}

/// A member that acts in the first half.
fn acting() -> Duty {
    let mut duty = Duty::new("me", 0, Places::default());
    duty.observe(Some(&assignment(1, "me", &[])));
    assert!(duty.begin_loading(1, |_| false), "there is no former owner");
    assert_eq!(duty.loaded(1), half());
    duty
}

#[test]
fn a_gain_waits_for_the_former_owner_and_for_the_caches() {
    let mut duty = Duty::new("me", 0, Places::default());
    duty.observe(Some(&assignment(5, "me", &["you"])));
    assert!(!duty.begin_loading(1, |_| false), "the former owner has not stopped");
    assert!(duty.begin_loading(1, |former| former.member == member("you") && former.epoch == 5));
    assert!(!duty.begin_loading(2, |_| true), "the reading is under way");
    assert!(duty.active().is_empty(), "the caches may lack what the former owner wrote");
    assert_eq!(duty.loaded(1), half());
    assert_eq!(*duty.active(), half());
}

#[test]
fn a_loss_is_acknowledged_when_nothing_runs_there() {
    let mut duty = acting();
    assert_eq!(duty.acknowledged(), 1);
    duty.observe(Some(&assignment(2, "you", &["me"])));
    assert!(duty.active().is_empty() && *duty.draining() == half());
    assert_eq!(duty.acknowledged(), 1);
    assert!(duty.is_awaited(1) && !duty.is_awaited(2));
    duty.drained(&half());
    assert_eq!(duty.acknowledged(), 2);
}

#[test]
fn what_comes_back_is_drained_before_it_is_gained_again() {
    let mut duty = acting();
    assert_eq!(duty.acknowledged(), 1);
    duty.observe(Some(&assignment(2, "you", &["me"])));
    duty.observe(Some(&assignment(3, "me", &[])));
    assert_eq!(duty.acknowledged(), 1, "work of the first time runs");
    assert!(!duty.begin_loading(2, |_| true));
    duty.drained(&half());
    assert_eq!(duty.acknowledged(), 3);
    assert!(!duty.begin_loading(2, |_| true), "work of the first time may run, although it writes no more");
    duty.runs_in(&Places::default());
    assert!(duty.begin_loading(2, |_| true));
}

#[test]
fn work_from_before_an_expired_lease_ends_before_its_namespace_is_gained_again() {
    let mut duty = Duty::new("me", 0, acting().expired().ending().clone());
    duty.observe(Some(&assignment(2, "me", &[])));
    let busy = Places::of([Span { first: 7, last: 7 }]);
    duty.runs_in(&busy);
    assert!(duty.begin_loading(1, |_| true));
    assert_eq!(duty.loaded(1), half().without(&busy));
    duty.runs_in(&Places::default());
    assert!(duty.begin_loading(2, |_| true));
    assert_eq!(duty.loaded(2), busy);
}

#[test]
fn a_reading_from_before_a_loss_is_not_used_after_it() {
    let mut duty = Duty::new("me", 0, Places::default());
    duty.observe(Some(&assignment(1, "me", &[])));
    assert!(duty.begin_loading(1, |_| true));
    duty.observe(Some(&assignment(2, "you", &["me"])));
    duty.observe(Some(&assignment(3, "me", &["you"])));
    assert!(duty.begin_loading(2, |_| true));
    assert!(duty.loaded(1).is_empty(), "another member has acted since that reading began");
    assert_eq!(duty.loaded(2), half());
}

#[test]
fn without_an_assignment_it_acts_nowhere() {
    let mut duty = acting();
    duty.observe(None);
    assert!(duty.active().is_empty() && *duty.draining() == half());
}
