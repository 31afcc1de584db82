//! Admission of objects: acceptance, changes and rejection. Pure: a request and the facts about cluster and
//! installation determine the answer.
//!
//! A review has two steps: [`lookups`] names the objects that the rules read, and [`review`] gives the answer once
//! they have been fetched.

mod authored;
mod component_deployment;
mod defaults;
mod deployment_request;
mod exposure;
mod facts;
mod field;
mod graph;
mod kind;
mod request;
mod restore;
mod subject;
mod validate;

use api_types::{
    conversion::{ApiVersion, convert},
    violations::Violation,
};
use field::FieldNode;
use json_patch::PatchOperation;
use kind::ReviewedKind;
use serde_json::Value;

pub use self::{
    facts::{CheckpointSettings, Facts, Features, Lookup, LookupResult},
    kind::AdmissionPath,
    request::{Operation, Request},
};

/// The objects that the rules for this request read, without duplicates. Each is fetched once and comes back in
/// [`Facts::found`], which is empty here. A feature that is off needs none.
#[must_use]
pub fn lookups(path: AdmissionPath, request: &Request, facts: &Facts) -> Vec<Lookup> {
    let Some(object) = &request.object else { return Vec::new() };
    if path == AdmissionPath::RestorePod && facts.features.checkpoint {
        return restore::lookups(request, object);
    }
    let kind = path.reviewed_kind().filter(|_| path.validates());
    let Some(kind @ (ReviewedKind::Graph | ReviewedKind::Component)) = kind else { return Vec::new() };
    let Ok(hub) = convert(object.clone(), ApiVersion::V1Beta1) else { return Vec::new() };
    let mut lookups = exposure::lookups(kind, &hub, request, facts);
    let is_changed = request.old_object.as_ref().is_none_or(|old| old.get("spec") != object.get("spec"));
    if kind == ReviewedKind::Graph && is_changed {
        lookups.extend(graph::lookups(&hub, request.operation, facts));
    }
    lookups
}

/// Reviews one request. Subresources, deletions and connections are admitted as they are, and so are objects that
/// are being deleted: the removal of a finalizer must not be blocked.
#[must_use]
pub fn review(path: AdmissionPath, request: &Request, facts: &Facts) -> Answer {
    let has_subresource = request.subresource.as_ref().is_some_and(|name| !name.is_empty());
    if has_subresource || !matches!(request.operation, Operation::Create | Operation::Update) {
        return Answer::admitted();
    }
    match path.reviewed_kind() {
        Some(kind) if path.validates() => validate::review(kind, request, facts),
        Some(kind) => defaults::review(kind, request, facts),
        None => restore::review(request, facts),
    }
}

/// Reviews an object in a namespace of another install. Its settings are not known, so only what is rejected under
/// all settings is refused here; defaults, restores and warnings are left to its own webhooks. A marker is a Lease that
/// the namespace's users can write, so it must not switch the rules off.
#[must_use]
pub fn review_for_another_install(path: AdmissionPath, request: &Request, facts: &Facts) -> Answer {
    let [most, least] = facts.of_another_install().map(|facts| review(path, request, &facts));
    match (most, least) {
        (Answer::Deny { mut violations, .. }, Answer::Deny { violations: least, .. }) => {
            violations.retain(|violation| least.iter().any(|other| other.path == violation.path));
            Answer::of(violations, Vec::new())
        }
        _ => Answer::admitted(),
    }
}

fn is_deleting(object: &Value) -> bool {
    FieldNode::root(object).fields(&["metadata", "deletionTimestamp"]).is_set()
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Admitted, after the patch has been applied to the object.
    Allow {
        /// Changes by defaults; empty on validating paths.
        patch: Vec<PatchOperation>,
        /// Shown to the user by clients such as kubectl.
        warnings: Vec<String>,
    },
    /// Refused.
    Deny {
        /// All violations; never empty.
        violations: Vec<Violation>,
        /// Shown to the user beside the violations.
        warnings: Vec<String>,
    },
}

impl Answer {
    /// Admitted unchanged and without a warning.
    #[must_use]
    pub fn admitted() -> Self {
        Self::Allow { patch: Vec::new(), warnings: Vec::new() }
    }

    /// Refused if there are violations, otherwise admitted as it is.
    #[must_use]
    pub fn of(violations: Vec<Violation>, warnings: Vec<String>) -> Self {
        if violations.is_empty() {
            Self::Allow { patch: Vec::new(), warnings }
        } else {
            Self::Deny { violations, warnings }
        }
    }
}

/// Whether two values say the same. Null says nothing.
fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let [one, other] = [one, other].map(|value| value.filter(|value| !value.is_null()));
    match (one, other) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            one.iter().all(|(key, value)| is_same(Some(value), other.get(key)))
                && other.iter().all(|(key, value)| value.is_null() || one.contains_key(key))
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(Some(one), Some(other)))
        }
        (one, other) => one == other,
    }
}
