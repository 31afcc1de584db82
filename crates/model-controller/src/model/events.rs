//! Events about a model. Pure.

use std::collections::BTreeSet;

use api_types::{
    conditions::{self, model as reason},
    v1alpha1::DynamoModelStatus,
};
use controller_kit::events::Event;

/// The event for a change of the status.
pub fn between(before: Option<&DynamoModelStatus>, after: &DynamoModelStatus) -> Option<Event> {
    let was = before.and_then(|status| ready(status));
    let (is, message) = ready(after)?;
    if was.map(|(reason, _)| reason) == Some(is) {
        return None;
    }
    let was_served = matches!(was, Some((reason::ALL_ENDPOINTS_READY | reason::ENDPOINTS_DISCOVERED, _)));
    let served = format!("served by {total} of {total} endpoints", total = after.total_endpoints);
    Some(match is {
        reason::ALL_ENDPOINTS_READY => Event::normal(reason::ENDPOINTS_READY, "Update", served),
        reason::ENDPOINTS_DISCOVERED => Event::normal(reason::ENDPOINTS_DISCOVERED, "Get", served),
        reason::NO_ENDPOINTS => Event::warning("NoEndpointsFound", "Get", message),
        reason::NOT_READY if was_served => Event::warning(reason::NOT_READY, "Update", message),
        reason::LOAD_FAILED => Event::warning("PartialEndpointFailure", "Update", message),
        reason::INVALID_SPEC => Event::warning(reason::INVALID_SPEC, "Validate", message),
        reason::NAME_TAKEN => Event::warning(reason::NAME_TAKEN, "Update", message),
        _ => return None,
    })
}

/// Reason and message of `Ready`.
fn ready(status: &DynamoModelStatus) -> Option<(&str, &str)> {
    let condition = status.conditions.iter().find(|condition| condition.type_ == conditions::READY)?;
    Some((condition.reason.as_str(), condition.message.as_str()))
}

/// The event for the release of a deleted model; `holders` are the pods that may still hold its adapter.
pub fn released(holders: &BTreeSet<String>) -> Event {
    if holders.is_empty() {
        return Event::normal("LoRAUnloaded", "Cleanup", "no endpoint holds the adapter any more");
    }
    let named: Vec<&str> = holders.iter().take(10).map(String::as_str).collect();
    let note = format!(
        "endpoints that may still hold the adapter, until their pods are restarted: {} ({})",
        holders.len(),
        named.join(", ")
    );
    Event::warning("LoRAUnloadFailed", "Cleanup", note)
}
