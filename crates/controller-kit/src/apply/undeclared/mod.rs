//! Fields of a status that the served CustomResourceDefinition does not declare, because it is another operator's or an
//! older one. The API server rejects a whole server-side apply for one of them, and names it: that is how they are
//! learnt. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{failure::NOT_DECLARED, request::ObjectId};

/// After this long, a write that is due anyway is tried with everything again: the CustomResourceDefinition may be
/// newer by now.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(300);

/// Undeclared fields, by group and kind.
#[derive(Debug, Default)]
pub(super) struct Undeclared {
    kinds: HashMap<(String, String), Lacking>,
}

#[derive(Debug)]
struct Lacking {
    /// Paths below the status, such as `.endpoints[].ready`.
    fields: BTreeSet<String>,
    /// Time at which a status was last sent with all of them.
    tried: Instant,
}

/// Result of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// Whether the status has lost a field by it.
    pub(super) taken: bool,
    /// Fields that were not known to be undeclared.
    pub(super) news: Vec<String>,
}

impl Undeclared {
    /// Takes away what is known to be refused.
    pub(super) fn strip(&self, id: &ObjectId, status: &mut Value) {
        for field in self.of(id).into_iter().flat_map(|lacking| &lacking.fields) {
            remove(field, status);
        }
    }

    /// Whether this field of the status, with all that is below it, is known to be refused.
    pub(super) fn lacks(&self, id: &ObjectId, field: &str) -> bool {
        self.of(id).is_some_and(|lacking| lacking.fields.contains(&format!(".{field}")))
    }

    /// Whether a status should be sent with everything in it; called when one is due.
    pub(super) fn try_again(&mut self, id: &ObjectId, now: Instant) -> bool {
        let Some(lacking) = self.kinds.get_mut(&kind_of(id)) else { return false };
        let again = now.saturating_duration_since(lacking.tried) >= TRY_AGAIN_AFTER;
        if again {
            lacking.tried = now;
        }
        again
    }

    /// The API server has answered like this to this status. What it names is remembered, and taken off the status.
    pub(super) fn refused(&mut self, id: &ObjectId, answer: &str, status: &mut Value, now: Instant) -> Refused {
        let mut refused = Refused::default();
        for path in undeclared(answer) {
            if remove(&path, status) {
                refused.taken = true;
                let fresh = || Lacking { fields: BTreeSet::new(), tried: now };
                let lacking = self.kinds.entry(kind_of(id)).or_insert_with(fresh);
                let name = format!("status{path}");
                if lacking.fields.insert(path) {
                    refused.news.push(name);
                }
            }
        }
        refused
    }

    /// The API server has taken this status: the fields in it are declared. Returns those that were not before.
    pub(super) fn accepted(&mut self, id: &ObjectId, status: &Value) -> Vec<String> {
        let Some(lacking) = self.kinds.get_mut(&kind_of(id)) else { return Vec::new() };
        let (declared, fields): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut lacking.fields).into_iter().partition(|path| contains(path, status));
        lacking.fields = fields;
        if lacking.fields.is_empty() {
            self.kinds.remove(&kind_of(id));
        }
        declared.iter().map(|path| format!("status{path}")).collect()
    }

    fn of(&self, id: &ObjectId) -> Option<&Lacking> {
        // Mostly there is none, and nothing to be copied for a key.
        if self.kinds.is_empty() { None } else { self.kinds.get(&kind_of(id)) }
    }
}

fn kind_of(id: &ObjectId) -> (String, String) {
    (id.group.clone(), id.kind.clone())
}

/// Placeholder for the items of a list, whichever was named: they have one schema.
const ITEMS: &str = "[]";

/// Reads `.status.endpoints[podName="a"].ready` as `.endpoints[].ready`; none for what is not below the status.
fn below_status(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix(".status")?;
    let mut path = String::new();
    while !rest.is_empty() {
        if let Some((name, after)) = first_field(rest) {
            path.push('.');
            path.push_str(name);
            rest = after;
        } else {
            rest = after_item(rest.strip_prefix('[')?)?;
            path.push_str(ITEMS);
        }
    }
    (!path.is_empty() && !path.ends_with(ITEMS)).then_some(path)
}

/// Splits off the field of an object, or the key of a map, with which a path begins.
fn first_field(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix('.')?;
    Some(path.split_at(path.find(['.', '[']).unwrap_or(path.len())))
}

/// Returns the text after the bracket that ends the name of an item. Quoted text may contain brackets.
fn after_item(text: &str) -> Option<&str> {
    let (mut quoted, mut escaped) = (false, false);
    let end = text.find(|c: char| {
        let ends = c == ']' && !quoted;
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    text.get(end + 1..)
}

/// Whether there was something to remove.
fn remove(path: &str, value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => match first_field(path) {
            Some((name, "")) => fields.remove(name).is_some(),
            Some((name, rest)) => fields.get_mut(name).is_some_and(|value| remove(rest, value)),
            None => false,
        },
        Value::Array(items) => {
            let Some(rest) = path.strip_prefix(ITEMS) else { return false };
            items.iter_mut().fold(false, |any, item| remove(rest, item) | any)
        }
        _ => false,
    }
}

fn contains(path: &str, value: &Value) -> bool {
    match value {
        _ if path.is_empty() => true,
        Value::Object(fields) => {
            first_field(path).is_some_and(|(name, rest)| fields.get(name).is_some_and(|value| contains(rest, value)))
        }
        Value::Array(items) => {
            path.strip_prefix(ITEMS).is_some_and(|rest| items.iter().any(|item| contains(rest, item)))
        }
        _ => false,
    }
}

/// The fields that the API server names as not declared in its answer to a server-side apply. Of the fields of one
/// object it names one at a time, of several objects in lists and maps all together.
fn undeclared(answer: &str) -> Vec<String> {
    let named = answer.lines().filter_map(|line| line.trim().strip_suffix(NOT_DECLARED)?.strip_suffix(": "));
    named.filter_map(|line| below_status(line.split_once("): ").map_or(line, |(_, path)| path))).collect()
}

#[cfg(test)]
mod tests;
