//! Compares the record of a case with the reference's: what the API server said to each document, the objects that came
//! out, and the final status of the custom resources.

mod diff;
mod mask;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use diff::diff;
use regex::Regex;
use serde_json::Value;

/// Kinds that an implementation may generate although the reference does not.
const EXTRA_KINDS: [&str; 2] = ["PodDisruptionBudget", "NetworkPolicy"];

/// Accounts that the reference makes for every graph; ours come only with components that use them.
static SPARE_ACCOUNT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"/(?:ServiceAccount|RoleBinding)/((?:planner|epp)-serviceaccount)(?:-binding)?$").ok()
});

/// Suffix of the reference's Roles of single graphs. Our graphs share one that the chart creates.
const OWN_ROLE: &str = "-k8s-service-discovery-role";
/// Suffix of the bindings of discovery accounts.
const DISCOVERY_BINDING: &str = "-k8s-service-discovery-binding";

/// Every difference between two records, one line each. Empty means equal.
pub(super) fn compare(expected: &Value, actual: &Value) -> Vec<String> {
    let mut out = Vec::new();
    outcomes(expected, actual, &mut out);
    let (expected, actual) = (mask::revisions(expected), mask::revisions(actual));
    objects(&expected, &actual, &mut out);
    statuses(&expected, &actual, &mut out);
    out
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn strings<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    list(value, field).iter().filter_map(Value::as_str)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn outcomes(expected: &Value, actual: &Value, out: &mut Vec<String>) {
    let name = |outcome: &Value| format!("{}/{}", text(outcome, "kind"), text(outcome, "name"));
    let accepted = |outcome: &Value| outcome.get("ok").and_then(Value::as_bool).unwrap_or_default();
    for expected in list(expected, "applied") {
        let key = name(expected);
        let Some(got) = list(actual, "applied").iter().rfind(|got| name(got) == key) else {
            out.push(format!("applied {key}: missing"));
            continue;
        };
        let message = text(got, "message");
        let named = |field: &str| message.contains(field) || strings(got, "fields").any(|named| named.contains(field));
        match (accepted(expected), accepted(got)) {
            (true, false) => {
                let start: String = message.chars().take(200).collect();
                out.push(format!("applied {key}: expected accepted, got rejected: {start}"));
            }
            (false, true) => {
                let fields = expected.get("fields").unwrap_or(&Value::Null);
                out.push(format!("applied {key}: expected rejected at {fields}, got accepted"));
            }
            (false, false) => {
                let missing: Vec<_> =
                    strings(expected, "fields").filter(|field| !named(reported(expected, field))).collect();
                if !missing.is_empty() {
                    out.push(format!("applied {key}: rejection does not name {missing:?}"));
                }
            }
            (true, true) => {}
        }
    }
}

/// Returns the name that a violation must contain. If the reference failed instead of rejecting, the path is that of
/// its decoder; the last name in it is that of the field.
fn reported<'a>(outcome: &Value, field: &'a str) -> &'a str {
    let broke_down = outcome.get("code").and_then(Value::as_u64).is_some_and(|code| code >= 500);
    if broke_down { field.rsplit('.').next().unwrap_or(field) } else { field }
}

fn by_key(case: &Value) -> BTreeMap<String, Value> {
    let objects = list(case, "objects").iter();
    objects.map(|object| (key(object), without_role(mask::clean(object.clone())))).collect()
}

/// An object without the role that the account of a graph is bound to.
fn without_role(mut object: Value) -> Value {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if text(&object, "kind") == "RoleBinding" && name.ends_with(DISCOVERY_BINDING) {
        object["roleRef"] = Value::Null;
    }
    object
}

fn key(object: &Value) -> String {
    let group = text(object, "apiVersion").split('/').next().unwrap_or_default();
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    format!("{group}/{}/{name}", text(object, "kind"))
}

fn objects(expected: &Value, actual: &Value, out: &mut Vec<String>) {
    let (expected, actual) = (by_key(expected), by_key(actual));
    let keys: BTreeSet<_> = expected.keys().chain(actual.keys()).collect();
    for key in keys {
        match (expected.get(key), actual.get(key)) {
            (Some(_), None) if is_spare(key, &expected) || key.ends_with(OWN_ROLE) => {}
            (Some(_), None) => out.push(format!("{key}: not generated")),
            (None, _) => {
                let kind = key.split('/').nth(1).unwrap_or_default();
                if !expected.is_empty() && !EXTRA_KINDS.contains(&kind) {
                    out.push(format!("{key}: unexpected object"));
                }
            }
            (Some(expected), Some(got)) => diff(expected, got, key, out),
        }
    }
}

fn is_spare(key: &str, expected: &BTreeMap<String, Value>) -> bool {
    let captures = SPARE_ACCOUNT.as_ref().and_then(|regex| regex.captures(key));
    let account = captures.and_then(|captures| captures.get(1)).map(|account| account.as_str());
    account.is_some_and(|account| {
        !expected.values().filter_map(|object| object.get("spec")).any(|spec| uses_account(spec, account))
    })
}

fn uses_account(value: &Value, account: &str) -> bool {
    match value {
        Value::Object(fields) => {
            fields.get("serviceAccountName").and_then(Value::as_str) == Some(account)
                || fields.values().any(|field| uses_account(field, account))
        }
        Value::Array(items) => items.iter().any(|item| uses_account(item, account)),
        _ => false,
    }
}

/// The final status of each custom resource that the case applied, in the newest version that is served.
fn final_statuses(case: &Value) -> BTreeMap<String, Value> {
    let ours = list(case, "crs").iter().filter(|resource| resource.get("applied") != Some(&Value::Bool(false)));
    let statuses = ours.filter_map(|resource| {
        let version = ["v1beta1", "v1alpha1"].iter().find_map(|version| resource.get(*version)?.as_object())?;
        let status = version.get("status").filter(|status| !status.is_null()).cloned();
        let key = format!("{}/{}", text(resource, "kind"), text(resource, "name"));
        Some((key, status.unwrap_or_else(|| Value::Object(serde_json::Map::new()))))
    });
    statuses.collect()
}

fn statuses(expected: &Value, actual: &Value, out: &mut Vec<String>) {
    let actual = final_statuses(actual);
    for (key, expected) in final_statuses(expected) {
        let Some(got) = actual.get(&key) else {
            out.push(format!("status {key}: missing"));
            continue;
        };
        for field in ["state", "components", "phase"] {
            if let Some(value) = expected.get(field) {
                diff(value, got.get(field).unwrap_or(&Value::Null), &format!("status {key}.{field}"), out);
            }
        }
        conditions(&key, &expected, got, out);
    }
}

/// Types, statuses and reasons count; messages, times and further types do not.
fn conditions(key: &str, expected: &Value, got: &Value, out: &mut Vec<String>) {
    let reason = |condition: &Value| condition.get("reason").and_then(Value::as_str).map(str::to_owned);
    let outcome = |condition: &Value| (text(condition, "status").to_owned(), reason(condition));
    let shown =
        |(status, reason): (String, Option<String>)| format!("{status}/{}", reason.as_deref().unwrap_or("None"));
    for condition in list(expected, "conditions") {
        let kind = text(condition, "type");
        let found = list(got, "conditions").iter().rfind(|other| text(other, "type") == kind);
        if found.map(outcome) != Some(outcome(condition)) {
            let found = found.map_or_else(|| "None".to_owned(), |found| shown(outcome(found)));
            out.push(format!("status {key}.conditions[{kind}]: expected {}, got {found}", shown(outcome(condition))));
        }
    }
}

#[cfg(test)]
mod tests;
