//! Each change is delivered once, whenever the process ends.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{HealthChange, NOTIFIED, carry_over, condition, due, record};

/// State of an object as its conditions say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Stalled(&'static str),
    Working,
    Crashing,
    Ready,
}

use State::{Crashing, Ready, Stalled, Working};

fn status(state: State) -> Value {
    let (stalled, reconciling, reason) = match state {
        Stalled(reason) => ("True", "False", reason),
        Working => ("False", "True", "Progressing"),
        Crashing => ("False", "True", "CrashLoop"),
        Ready => ("False", "False", "UpToDate"),
    };
    json!({ "conditions": [
        { "type": "Reconciling", "status": reconciling, "reason": reason, "message": "" },
        { "type": "Stalled", "status": stalled, "reason": reason, "message": "pod p: no image" },
    ] })
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

/// Returns the events that are delivered for one state after another, and the final status.
fn deliver(states: &[State]) -> (Vec<(HealthChange, String)>, Value) {
    let (mut live, mut delivered) = (json!({}), Vec::new());
    for state in states {
        let mut next = status(*state);
        carry_over(&mut next, &live);
        if let Some(event) = due(&next, "uid") {
            delivered.push((event.change, event.reason.clone()));
            record(&mut next, &event, now());
        }
        assert_eq!(due(&next, "uid"), None, "{state:?} was delivered");
        live = next;
    }
    (delivered, live)
}

#[test]
fn changes_are_delivered_once_and_work_in_progress_is_none() {
    let failing = |reason: &str| (HealthChange::Failing, reason.to_owned());
    let resolved = |reason: &str| (HealthChange::Resolved, reason.to_owned());
    let table: [(&[State], Vec<_>); 8] = [
        (&[Working, Ready, Working, Ready], vec![]),
        (&[Working, Stalled("A"), Stalled("A")], vec![failing("A")]),
        (&[Stalled("A"), Working, Stalled("A")], vec![failing("A")]),
        (&[Stalled("A"), Working, Ready, Ready], vec![failing("A"), resolved("A")]),
        (&[Stalled("A"), Stalled("B"), Ready], vec![failing("A"), failing("B"), resolved("B")]),
        (&[Working, Crashing, Working, Crashing], vec![failing("CrashLoop")]),
        (&[Crashing, Stalled("A"), Ready], vec![failing("CrashLoop"), failing("A"), resolved("A")]),
        (&[Stalled("A"), Ready, Stalled("A")], vec![failing("A"), resolved("A"), failing("A")]),
    ];
    for (states, expected) in table {
        assert_eq!(deliver(states).0, expected, "{states:?}");
    }
    let (_, healthy) = deliver(&[Working, Ready]);
    assert!(condition(&healthy, NOTIFIED).is_none(), "an object without a problem costs no write");
}

#[test]
fn a_status_without_progress_says_nothing() {
    for status in [json!(null), json!({}), json!({ "conditions": [] })] {
        assert_eq!(due(&status, "uid"), None);
    }
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let mut long = status(Stalled("A"));
    long["conditions"][1]["message"] = json!("é".repeat(4000));
    let message = due(&long, "uid").unwrap().message;
    assert!(message.len() <= 4096 && message.ends_with('é'));
}

proptest! {
    /// Attempts to deliver one event have one identifier, and no two events of an object, nor those of two objects,
    /// have the same.
    #[test]
    fn identifiers_are_those_of_events(states in prop::collection::vec(0..4_usize, 1..40)) {
        let (mut live, mut seen) = (json!({}), std::collections::BTreeSet::new());
        for state in states {
            let mut next = status([Ready, Working, Stalled("A"), Crashing][state]);
            carry_over(&mut next, &live);
            if let Some(event) = due(&next, "uid") {
                let again = due(&next, "uid").unwrap();
                prop_assert_eq!(&again.id, &event.id, "the process ended before it was recorded");
                prop_assert!(seen.insert(event.id.clone()), "{:?}", event);
                prop_assert_ne!(due(&next, "other").unwrap().id, event.id.clone());
                record(&mut next, &event, now());
            }
            live = next;
        }
    }
}
