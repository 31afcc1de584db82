//! Fields of a status that the served CustomResourceDefinition does not declare, because it is another operator's or an
//! older one. The API server refuses a whole server-side apply for one of them, and names it: that is how they are
//! learnt. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
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
    fields: BTreeSet<UndeclaredPath>,
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
            field.remove_from(status);
        }
    }

    /// Whether this field of the status, with all that is below it, is known to be refused.
    pub(super) fn lacks(&self, id: &ObjectId, field: &str) -> bool {
        let path = UndeclaredPath(vec![PathStep::Field(field.to_owned())]);
        self.of(id).is_some_and(|lacking| lacking.fields.contains(&path))
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
            if path.remove_from(status) {
                refused.taken = true;
                let fresh = || Lacking { fields: BTreeSet::new(), tried: now };
                let lacking = self.kinds.entry(kind_of(id)).or_insert_with(fresh);
                let name = path.to_string();
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
            std::mem::take(&mut lacking.fields).into_iter().partition(|path| path.is_in(status));
        lacking.fields = fields;
        if lacking.fields.is_empty() {
            self.kinds.remove(&kind_of(id));
        }
        declared.iter().map(ToString::to_string).collect()
    }

    fn of(&self, id: &ObjectId) -> Option<&Lacking> {
        // Mostly there is none, and nothing to be copied for a key.
        if self.kinds.is_empty() { None } else { self.kinds.get(&kind_of(id)) }
    }
}

fn kind_of(id: &ObjectId) -> (String, String) {
    (id.group.clone(), id.kind.clone())
}

/// Path of a field below the status.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct UndeclaredPath(Vec<PathStep>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PathStep {
    /// A field of an object, or a key of a map.
    Field(String),
    /// The items of a list, whichever was named: they have one schema.
    Items,
}

impl UndeclaredPath {
    /// Reads `.status.endpoints[podName="a"].ready`; none for what is not below the status.
    fn parse(text: &str) -> Option<Self> {
        let mut rest = text.strip_prefix(".status")?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(name) = rest.strip_prefix('.') {
                let (name, after) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
                steps.push(PathStep::Field(name.to_owned()));
                rest = after;
            } else {
                rest = after_item(rest.strip_prefix('[')?)?;
                steps.push(PathStep::Items);
            }
        }
        matches!(steps.last(), Some(PathStep::Field(_))).then_some(Self(steps))
    }

    /// Whether there was something to remove.
    fn remove_from(&self, status: &mut Value) -> bool {
        remove(&self.0, status)
    }

    fn is_in(&self, status: &Value) -> bool {
        contains(&self.0, status)
    }
}

impl fmt::Display for UndeclaredPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("status")?;
        self.0.iter().try_for_each(|step| match step {
            PathStep::Field(name) => write!(f, ".{name}"),
            PathStep::Items => f.write_str("[]"),
        })
    }
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

fn remove(steps: &[PathStep], value: &mut Value) -> bool {
    match (steps, value) {
        ([PathStep::Field(name)], Value::Object(fields)) => fields.remove(name).is_some(),
        ([PathStep::Field(name), rest @ ..], Value::Object(fields)) => {
            fields.get_mut(name).is_some_and(|value| remove(rest, value))
        }
        ([PathStep::Items, rest @ ..], Value::Array(items)) => {
            items.iter_mut().fold(false, |any, item| remove(rest, item) | any)
        }
        _ => false,
    }
}

fn contains(steps: &[PathStep], value: &Value) -> bool {
    match (steps, value) {
        ([], _) => true,
        ([PathStep::Field(name), rest @ ..], Value::Object(fields)) => {
            fields.get(name).is_some_and(|value| contains(rest, value))
        }
        ([PathStep::Items, rest @ ..], Value::Array(items)) => items.iter().any(|item| contains(rest, item)),
        _ => false,
    }
}

/// The fields that the API server names as not declared in its answer to a server-side apply. Of the fields of one
/// object it names one at a time, of several objects in lists and maps all together.
fn undeclared(answer: &str) -> Vec<UndeclaredPath> {
    let named = answer.lines().filter_map(|line| line.trim().strip_suffix(NOT_DECLARED)?.strip_suffix(": "));
    named.filter_map(|line| UndeclaredPath::parse(line.split_once("): ").map_or(line, |(_, path)| path))).collect()
}

#[cfg(test)]
mod tests;
