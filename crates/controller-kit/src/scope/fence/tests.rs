//! Tests of the fence: where a process may act, by what it has read and when.

use std::collections::HashMap;

use serde_json::json;

use super::*;
use crate::scope::marker_reads::{MarkerAnswer, Unanswered};

fn marker(second: u32) -> Marker {
    let lease = json!({
        "metadata": {"name": MARKER_LEASE},
        "spec": {
            "holderIdentity": "namespace-restricted-operator-1.5.0",
            "leaseDurationSeconds": 30,
            "renewTime": format!("2001-01-01T00:00:{second:02}.000000Z"),
        },
    });
    Marker::of(&serde_json::from_value(lease).unwrap()).unwrap()
}

impl Fence {
    /// That of a cluster-wide process that has seen no marker.
    pub(crate) fn open() -> Self {
        let fence = Self::of(Role::Cluster, None);
        locked(&fence.shared.observed).true_at = Some(Instant::now());
        fence
    }

    /// Another operator marks the namespace.
    pub(crate) fn mark(&self, namespace: &str) {
        locked(&self.shared.observed).markers.observe(namespace, Some(marker(0)), Instant::now());
    }
}

fn found(second: u32, started: Instant) -> MarkerLookup {
    Ok(MarkerAnswer { started, markers: HashMap::from([("team".to_owned(), marker(second))]) })
}

/// A cluster-wide process that has seen one marker, and reads it every two seconds until `seconds` have passed.
fn reading(seconds: u64) -> (Fence, Instant) {
    let fence = Fence::of(Role::Cluster, None);
    let start = Instant::now();
    for second in (0..=seconds).step_by(2) {
        let now = start + Duration::from_secs(second);
        fence.conclude(found(0, now), now);
    }
    (fence, start + Duration::from_secs(seconds))
}

fn is_marked(fence: &Fence, now: Instant) -> bool {
    matches!(fence.confirmed_at("team", now), Err(Excluded::Marked { .. }))
}

#[test]
fn a_marker_that_seems_expired_keeps_us_out_until_the_api_server_says_so_too() {
    let (fence, now) = reading(28);
    let late = now + Duration::from_secs(3);
    assert!(is_marked(&fence, late), "the watch may be dead");
    assert!(fence.needs_answers(late));
    assert!(!fence.conclude(Err(Unanswered::Late), late));
    assert!(is_marked(&fence, late), "no answer is no leave");
    fence.conclude(found(20, late), late);
    assert!(is_marked(&fence, late), "it was renewed, and the watch did not bring it");
    let (fence, now) = reading(30);
    assert_eq!(fence.confirmed_at("team", now), Ok(()), "it was not renewed");
    assert!(!fence.needs_answers(now + Duration::from_secs(60)), "nothing more is to be known of it");
}

#[test]
fn a_process_that_was_stopped_acts_nowhere_before_it_has_read_markers() {
    let (fence, now) = reading(2);
    assert_eq!(fence.confirmed_at("other", now), Ok(()));
    let wake = now + Duration::from_secs(60);
    assert_eq!(
        fence.confirmed_at("other", wake),
        Err(Excluded::Unknown),
        "another operator may have marked it meanwhile"
    );
    assert_eq!(fence.may_act_at("other", wake), Ok(()), "nothing says otherwise, and work waits for an answer");
    assert!(fence.conclude(found(50, wake), wake));
    assert_eq!(fence.confirmed_at("other", wake), Ok(()));
    assert!(is_marked(&fence, wake));
}

/// Found defect: the heartbeat of the process alone refreshed what it had observed, so that a watch that hung hid a
/// new marker for two minutes.
#[test]
fn only_answers_of_the_api_server_refresh_what_is_believed() {
    let (fence, now) = reading(2);
    for second in 0..30 {
        let now = now + Duration::from_secs(second);
        fence.conclude(Err(Unanswered::Late), now);
        let may = fence.confirmed_at("other", now);
        assert_eq!(may, if second < 10 { Ok(()) } else { Err(Excluded::Unknown) }, "after {second} s");
    }
    let now = now + Duration::from_secs(30);
    fence.conclude(found(0, now - Duration::from_secs(11)), now);
    assert_eq!(
        fence.confirmed_at("other", now),
        Err(Excluded::Unknown),
        "an answer counts from when its request was sent"
    );
}

/// Without a pause nothing waits, and a process that does nothing sends no request.
#[tokio::test]
async fn a_write_after_a_pause_waits_for_an_answer() {
    let fence = Fence::open();
    assert_eq!(fence.confirmed("team").await, Ok(()));
    assert!(fence.shared.needed.notified().now_or_never().is_none(), "the answer is young");
    let old = Instant::now().checked_sub(MAX_AGE).unwrap();
    locked(&fence.shared.observed).true_at = Some(old);
    let answers = async {
        fence.shared.needed.notified().await;
        let now = Instant::now();
        fence.conclude(found(0, now), now);
    };
    let (team, other, ()) = tokio::join!(fence.confirmed("team"), fence.confirmed("other"), answers);
    assert!(matches!(team, Err(Excluded::Marked { .. })), "the watch did not bring it: {team:?}");
    assert_eq!(other, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_refused() {
    let fence = Fence::open();
    locked(&fence.shared.observed).true_at = Instant::now().checked_sub(MAX_AGE);
    let start = tokio::time::Instant::now();
    assert_eq!(fence.confirmed("team").await, Err(Excluded::Unknown));
    assert_eq!(start.elapsed(), ANSWER_LIMIT, "there was time for an answer");
}

#[test]
fn a_member_acts_on_answers_too() {
    let role = Role::Member { namespace: "team".to_owned(), owner: "us".to_owned() };
    let (fence, start) = (Fence::of(role, None), Instant::now());
    let after = |seconds| start + Duration::from_secs(seconds);
    let owned = |second| {
        let mut marker = marker(second);
        marker.owner = Some("us".to_owned());
        marker
    };
    let answer =
        |second, started| Ok(MarkerAnswer { started, markers: HashMap::from([("team".to_owned(), owned(second))]) });
    assert_eq!(fence.confirmed_at("team", start), Err(Excluded::Unknown));
    fence.conclude(answer(0, start), start);
    fence.conclude(answer(10, after(10)), after(10));
    assert_eq!(fence.confirmed_at("team", after(19)), Ok(()));
    assert_eq!(fence.confirmed_at("team", after(20)), Err(Excluded::Unknown), "the marker may be given back");
    fence.conclude(answer(10, after(20)), after(20));
    assert_eq!(fence.confirmed_at("team", after(24)), Ok(()));
    let held = fence.confirmed_at("team", after(25));
    assert!(matches!(held, Err(Excluded::NotHeld { .. })), "renewed after 0 s for all that is known: {held:?}");
}

/// Found defect: after a pause of the process, a reconcile sent one more write before the loss of the lease was
/// noticed.
#[test]
fn a_process_that_leads_no_more_acts_nowhere() {
    let (fence, now) = (Fence::unfenced(), Instant::now());
    assert_eq!(fence.confirmed_at("team", now), Ok(()));
    fence.leads_until(now + Duration::from_secs(10));
    assert_eq!(fence.confirmed_at("team", now), Ok(()));
    assert_eq!(fence.confirmed_at("team", now + Duration::from_secs(10)), Err(Excluded::NotLeading));
}
