//! Tests of a process that starts, and of what it has read about others.

use std::time::Duration;

use super::*;

/// Gives a process that is new what it reads of all Leases, and lets it take one.
fn started(now: Instant, found: impl Fn(LeaseTarget) -> Option<Record>) -> Replica {
    let mut replica = Replica::new("p");
    replica.ready();
    for request in replica.requests(now, 1) {
        replica.answered(request.target(), now, LeaseAnswer::Found(found(request.target())), now);
    }
    let claim = replica.requests(now, 1);
    let claim = claim.iter().find(|request| matches!(request, LeaseRequest::Write { .. })).unwrap();
    let lease = Record { holder: "p.1".to_owned(), version: 50, acknowledged: 0, assignment: None };
    replica.answered(claim.target(), now, LeaseAnswer::Written(lease), now);
    replica
}

/// The first write of the elected Lease.
fn election(replica: &mut Replica, now: Instant) -> Option<Option<Assignment>> {
    replica.requests(now, 1).into_iter().find_map(|request| match request {
        LeaseRequest::Write { target: LeaseTarget::Elected, assignment, .. } => Some(assignment),
        _ => None,
    })
}

#[test]
fn a_new_process_waits_for_members_that_no_lease_names_when_the_assignment_was_deleted() {
    let now = Instant::now();
    // The elected Lease and those of some members were deleted.
    let record =
        |holder: &str, acknowledged| Record { holder: holder.to_owned(), version: 9, acknowledged, assignment: None };
    let mut replica = started(now, |target| match target {
        LeaseTarget::Slot(0) => Some(record("o.1", 7)),
        LeaseTarget::Slot(3) => Some(record("", 0)),
        _ => None,
    });
    assert_eq!(replica.slot.as_ref().map(|slot| slot.number), Some(3), "no Lease that may have been deleted");
    let end = now + LEASE_DURATION + MARGIN;
    assert_eq!(election(&mut replica, end - Duration::from_millis(1)), None);
    assert_eq!(election(&mut replica, end), Some(None));
}

#[test]
fn a_first_assignment_follows_a_reading_of_all_members() {
    let now = Instant::now();
    let mut replica = started(now, |_| None);
    assert_eq!(election(&mut replica, now), Some(None), "at once, without an assignment");
    // The request was late: another process was elected before it arrived, and its Lease was deleted.
    let other = Record { holder: "o.1".to_owned(), version: 60, acknowledged: 0, assignment: None };
    let elected = Record { holder: "p".to_owned(), version: 70, acknowledged: 0, assignment: None };
    let written = now + Duration::from_millis(1);
    replica.answered(LeaseTarget::Elected, now, LeaseAnswer::Written(elected), written);
    let own = Record { holder: "p.1".to_owned(), version: 50, acknowledged: 0, assignment: None };
    for request in replica.requests(written, 1) {
        let LeaseRequest::Read(target) = request else { panic!("{request:?} before the members are known") };
        let found = if target == LeaseTarget::Slot(0) { Some(own.clone()) } else { None };
        let found = if target == LeaseTarget::Slot(1) { Some(other.clone()) } else { found };
        replica.answered(target, written, LeaseAnswer::Found(found), written);
    }
    let assignment = election(&mut replica, written).flatten().unwrap();
    assert!(assignment.names(1) && assignment.ranges.iter().all(|range| range.from.len() == 1), "{assignment:?}");
}

#[test]
fn a_member_whose_lease_was_deleted_does_not_go_on_in_the_same_term() {
    let now = Instant::now();
    let mut replica = started(now, |_| None);
    assert_eq!(replica.acts_until(), Some(now + RENEW_DEADLINE));

    replica.observe(LeaseTarget::Slot(0), None, now);
    assert_eq!(replica.acts_until(), None);
    let later = now + RENEW_PERIOD;
    let requests = replica.requests(later, 2);
    let writes = requests.iter().filter_map(|request| match request {
        LeaseRequest::Write { target, holder, .. } => Some((*target, holder.as_str())),
        LeaseRequest::Read(_) => None,
    });
    // The elected member may have taken the first Lease from it before that was deleted.
    assert_eq!(writes.collect::<Vec<_>>(), [(LeaseTarget::Slot(1), "p.2")]);
}
