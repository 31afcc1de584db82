//! Selection of the notification due for an object. Pure.
//!
//! The status is the memory: `Stalled` and `Reconciling` hold the state, `Notified` what was delivered. Receivers may
//! get a notification twice, with one identifier, if the process ends before the status is written.
//!
//! An object is failing if it is stalled, or if its pods do not come up: a container that crashes needs a user,
//! although Kubernetes restarts it.

use api_types::{conditions::component, names::sha256_hex};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::conditions::{RECONCILING, STALLED};

/// Condition type: receivers were notified that the object is failing. Its message names the last event. Only
/// there once an event was delivered.
pub const NOTIFIED: &str = "Notified";
/// Reason of [`NOTIFIED`]: receivers were notified that the object is ready again.
pub const RESOLVED: &str = "Resolved";

/// Longest message of an event, in bytes.
const MAX_MESSAGE: usize = 4096;
/// Beginning of the message of [`NOTIFIED`]; the identifier of the event follows.
const EVENT: &str = "event ";

/// Event that receivers are notified of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationEvent {
    /// The same for each attempt to deliver it, and for no other event.
    pub id: String,
    /// Change of the object.
    pub change: HealthChange,
    /// Reason of `Stalled` or `Reconciling`; of a resolved problem, the one that was delivered.
    pub reason: String,
    /// The problem and its remedy.
    pub message: String,
}

/// Change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthChange {
    /// An action of a user is needed, or another one than the last delivered.
    Failing,
    /// The object is ready again.
    Resolved,
}

/// The event that was not delivered yet, if one is due. Work in progress is none: a problem is resolved when the
/// object is ready.
pub fn due(status: &Value, uid: &str) -> Option<NotificationEvent> {
    let (stalled, reconciling) = (condition(status, STALLED)?, condition(status, RECONCILING)?);
    let is_trouble = |found: &Value| is_true(found) && component::trouble(text(found, "reason")).is_some();
    let problem = Some(stalled).filter(|found| is_true(found)).or(Some(reconciling).filter(|found| is_trouble(found)));
    let notified = condition(status, NOTIFIED);
    let known = notified.filter(|notified| is_true(notified)).map(|notified| text(notified, "reason"));
    let (change, reason) = match (problem.map(|problem| text(problem, "reason")), known) {
        (Some(reason), known) if known != Some(reason) => (HealthChange::Failing, reason),
        (None, Some(known)) if !is_true(reconciling) => (HealthChange::Resolved, known),
        _ => return None,
    };
    let before = notified.map(|notified| text(notified, "message")).unwrap_or_default();
    let id = sha256_hex([uid, before, change.as_str(), reason, ""].join("\0").as_bytes(), 32);
    let mut message = problem.map(|problem| text(problem, "message")).unwrap_or_default().to_owned();
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    Some(NotificationEvent { id, change, reason: reason.to_owned(), message })
}

/// Records in a status that an event was delivered.
pub fn record(status: &mut Value, event: &NotificationEvent, now: Timestamp) {
    let reason = match event.change {
        HealthChange::Failing => event.reason.as_str(),
        HealthChange::Resolved => RESOLVED,
    };
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let notified = json!({
        "type": NOTIFIED, "status": if event.change == HealthChange::Failing { "True" } else { "False" },
        "reason": reason, "message": format!("{EVENT}{}", event.id), "lastTransitionTime": now.to_string(),
    });
    replace(status, Some(notified));
}

/// Keeps the record of the last delivered event: a status is computed without it.
pub fn carry_over(status: &mut Value, live: &Value) {
    replace(status, condition(live, NOTIFIED).cloned());
}

impl HealthChange {
    /// As in the type of an event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Resolved => "resolved",
        }
    }
}

fn replace(status: &mut Value, notified: Option<Value>) {
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    conditions.retain(|condition| text(condition, "type") != NOTIFIED);
    conditions.extend(notified);
}

fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    status.get("conditions")?.as_array()?.iter().find(|condition| text(condition, "type") == type_)
}

fn is_true(condition: &Value) -> bool {
    text(condition, "status") == "True"
}

fn text<'a>(condition: &'a Value, field: &str) -> &'a str {
    condition.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
