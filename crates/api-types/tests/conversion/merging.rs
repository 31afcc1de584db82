//! Server-side apply, as the API server does it where fields have managers in both versions: what one version loses is
//! exactly what the manager removed, and what a manager in the other version has stays.

use std::collections::BTreeSet;

use api_types::conversion::{ApiVersion, review::Review};
use serde_json::{Value, json};

use crate::{
    from_schema::{Chance, Schemas, XorShift},
    law::other,
    round_trips::setting,
};

/// For a test that runs on every change.
const CASES: u64 = 250;

type Paths = BTreeSet<Vec<String>>;

/// Keys of the entries of a list; none if the list has one owner.
fn identities(items: &[Value], schema: &Value) -> Option<Vec<String>> {
    match schema["x-kubernetes-list-type"].as_str()? {
        "set" => Some(items.iter().map(Value::to_string).collect()),
        "map" => {
            let keys: Vec<&str> =
                schema["x-kubernetes-list-map-keys"].as_array()?.iter().filter_map(Value::as_str).collect();
            let key_of = |item: &Value, key: &str| {
                let default = &schema["items"]["properties"][key]["default"];
                let value = item.get(key).unwrap_or(default);
                (!value.is_null()).then(|| value.to_string())
            };
            let identity = |item: &Value| keys.iter().map(|key| key_of(item, key)).collect::<Option<Vec<_>>>();
            items.iter().map(|item| identity(item).map(|keys| format!("[{}]", keys.join(",")))).collect()
        }
        _ => None,
    }
}

fn is_key(schema: &Value, name: &str) -> bool {
    schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().any(|key| key == name)
}

fn below<'a>(schema: &'a Value, key: &str) -> &'a Value {
    schema["properties"].get(key).unwrap_or(&schema["additionalProperties"])
}

/// All field paths, those of the objects on the way included.
fn paths(value: &Value, schema: &Value) -> Paths {
    let mut found = Paths::new();
    collect(value, schema, &mut Vec::new(), &mut found);
    found
}

fn collect(value: &Value, schema: &Value, at: &mut Vec<String>, found: &mut Paths) {
    let mut enter = |step: String, value: &Value, schema: &Value| {
        at.push(step);
        found.insert(at.clone());
        collect(value, schema, at, found);
        at.pop();
    };
    match value {
        Value::Object(fields) if schema["x-kubernetes-map-type"] != "atomic" => {
            fields.iter().for_each(|(key, value)| enter(format!(".{key}"), value, below(schema, key)));
        }
        Value::Array(items) => {
            let identities = identities(items, schema).into_iter().flatten();
            identities.zip(items).for_each(|(identity, item)| enter(identity, item, &schema["items"]));
        }
        _ => {}
    }
}

/// The value without these paths, as the API server takes them away.
fn without(value: &Value, schema: &Value, at: &mut Vec<String>, gone: &Paths) -> Option<Value> {
    if gone.contains(at) {
        return None;
    }
    let mut keep = |step: String, value: &Value, schema: &Value| {
        at.push(step);
        let kept = without(value, schema, at, gone);
        at.pop();
        kept
    };
    let rest = match value {
        Value::Object(fields) if schema["x-kubernetes-map-type"] != "atomic" && !fields.is_empty() => {
            let fields = fields
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), keep(format!(".{key}"), value, below(schema, key))?)));
            Value::Object(fields.collect())
        }
        Value::Array(items) if !items.is_empty() => match identities(items, schema) {
            Some(identities) => {
                let items = identities.into_iter().zip(items);
                Value::Array(items.filter_map(|(step, item)| keep(step, item, &schema["items"])).collect())
            }
            None => value.clone(),
        },
        _ => value.clone(),
    };
    let emptied = rest == json!({}) || rest == json!([]);
    Some(if emptied && rest != *value { Value::Null } else { rest })
}

fn take_away(value: &Value, schema: &Value, gone: &Paths) -> Value {
    without(value, schema, &mut Vec::new(), gone).unwrap_or(Value::Null)
}

fn convert(object: &Value) -> Value {
    let review = json!({ "request": {
        "uid": "u", "desiredAPIVersion": other(object).api_version(), "objects": [object],
    } });
    let mut answer = Vec::new();
    Review::read(review.to_string().as_bytes()).unwrap().answer(&mut answer, |_| Ok(())).unwrap();
    serde_json::from_slice::<Value>(&answer).unwrap()["response"]["convertedObjects"][0].take()
}

/// Some fields of an object below its spec and status, each with all that is below it; never the keys of entries.
fn some(value: &Value, schema: &Value, chance: &mut XorShift, percent: usize) -> Paths {
    let all = paths(value, schema);
    let mut found = Paths::new();
    collect_some(value, schema, &mut Vec::new(), chance, percent, &mut found);
    all.into_iter().filter(|path| (1..=path.len()).any(|end| found.contains(&path[..end]))).collect()
}

fn collect_some(
    value: &Value,
    schema: &Value,
    at: &mut Vec<String>,
    chance: &mut XorShift,
    percent: usize,
    found: &mut Paths,
) {
    match value {
        Value::Object(fields) if schema["x-kubernetes-map-type"] != "atomic" => {
            for (key, value) in fields {
                at.push(format!(".{key}"));
                if chance.percent(percent) {
                    found.insert(at.clone());
                }
                collect_some(value, below(schema, key), at, chance, percent, found);
                at.pop();
            }
        }
        Value::Array(items) => {
            for (identity, item) in identities(items, schema).into_iter().flatten().zip(items) {
                at.push(identity);
                if chance.percent(percent) {
                    found.insert(at.clone());
                }
                collect_some(item, &schema["items"], at, chance, percent, found);
                for key in item.as_object().into_iter().flatten().map(|(key, _)| key).filter(|key| is_key(schema, key))
                {
                    at.push(format!(".{key}"));
                    found.remove(at);
                    at.pop();
                }
                at.pop();
            }
        }
        _ => {}
    }
}

/// The fields that distinguish entries of lists. Who has something of an entry has these.
fn keys(value: &Value, schema: &Value) -> Paths {
    let mut found = paths(value, schema);
    found.retain(|path| {
        let [before @ .., last] = path.as_slice() else { return false };
        let of_entry = before.last().is_some_and(|step| step.starts_with('['));
        let mut at = schema;
        for step in &before[..before.len().saturating_sub(usize::from(of_entry))] {
            at = step.strip_prefix('.').map_or(&at["items"], |key| below(at, key));
        }
        of_entry && last.strip_prefix('.').is_some_and(|name| is_key(at, name))
    });
    found
}

/// Whether no list has an entry twice; the API server rejects others.
fn is_unambiguous(value: &Value, schema: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().all(|(key, value)| is_unambiguous(value, below(schema, key))),
        Value::Array(items) => {
            let listed = schema["x-kubernetes-list-type"].as_str().is_none_or(|kind| kind == "atomic");
            let names = identities(items, schema);
            (listed || names.is_some_and(|names| names.iter().collect::<BTreeSet<_>>().len() == items.len()))
                && items.iter().all(|item| is_unambiguous(item, &schema["items"]))
        }
        _ => true,
    }
}

fn show(paths: &Paths) -> String {
    paths.iter().take(12).map(|path| path.concat()).collect::<Vec<_>>().join("\n")
}

fn merge(object: &Value, chance: &mut XorShift, schemas: &Schemas) -> Result<(), String> {
    let version: ApiVersion = object["apiVersion"].as_str().unwrap().parse().unwrap();
    let kind = object["kind"].as_str().unwrap();
    let whole = |version| {
        let texts = json!({ "additionalProperties": {} });
        let mut schema = json!({ "properties": schemas.of(kind, version) });
        schema["properties"]["metadata"] = json!({ "properties": { "annotations": texts, "labels": texts } });
        schema
    };
    let (here, there) = (whole(version), whole(other(object)));
    let mut merged = object.clone();
    if !merged["metadata"].is_object() {
        merged["metadata"] = json!({});
    }
    merged["metadata"]["resourceVersion"] = json!("7");
    let seen = convert(&merged);
    if !is_unambiguous(&merged, &here) || !is_unambiguous(&seen, &there) {
        return Ok(());
    }
    let percent = chance.pick(&[0, 2, 5, 20]);
    let mut removed = some(&merged, &here, chance, percent);
    removed.retain(|path| path.len() > 1 && matches!(path[0].as_str(), ".spec" | ".status"));
    let pruned = take_away(&merged, &here, &removed);
    // What another manager has in the other version: as often as not, nothing.
    let percent = chance.pick(&[0, 0, 2, 10]);
    let mut managed = some(&seen, &there, chance, percent);
    managed.retain(|path| matches!(path[0].as_str(), ".spec" | ".status"));
    let mut managed: Paths = managed.iter().flat_map(|path| (1..=path.len()).map(|end| path[..end].to_vec())).collect();
    let keys = keys(&seen, &there).into_iter().filter(|key| managed.contains(&key[..key.len() - 1]));
    managed.extend(keys.collect::<Vec<_>>());

    let kept: Paths = paths(&convert(&pruned), &there).union(&managed).cloned().collect();
    let gone = paths(&seen, &there).difference(&kept).cloned().collect();
    let back = convert(&take_away(&seen, &there, &gone));
    let of_body = |object: &Value| {
        let mut paths = paths(object, &here);
        paths.retain(|path| path[0] != ".metadata");
        paths
    };
    let (is, expected) = (of_body(&back), of_body(&pruned));
    let lost: Paths = expected.difference(&is).cloned().collect();
    let undead: Paths = is.difference(&expected).cloned().collect();
    if !lost.is_empty() || (managed.is_empty() && !undead.is_empty()) {
        return Err(format!(
            "given {merged:#}\nremoved:\n{}\nmanaged:\n{}\nlost:\n{}\nnot removed:\n{}",
            show(&removed),
            show(&managed),
            show(&lost),
            show(&undead)
        ));
    }
    let says = paths(&convert(&back), &there);
    let taken: Paths = managed.difference(&says).cloned().collect();
    if !taken.is_empty() {
        return Err(format!(
            "given {merged:#}\nremoved:\n{}\nmanaged:\n{}\ntaken from the other manager:\n{}",
            show(&removed),
            show(&managed),
            show(&taken)
        ));
    }
    Ok(())
}

fn run(version: ApiVersion) {
    let schemas = Schemas::load();
    let (cases, seed) = (setting("DYNAMO_PROPTEST_CASES", CASES), setting("DYNAMO_PROPTEST_SEED", 1));
    for case in 0..cases {
        let mut chance = XorShift::new(seed, case);
        let object = schemas.object(version, &mut chance);
        if let Err(why) = merge(&object, &mut chance, &schemas) {
            panic!("case {case} of DYNAMO_PROPTEST_SEED={seed} from {version}:\n{why}");
        }
    }
}

#[test]
fn a_merge_in_v1alpha1_removes_what_the_manager_removed() {
    run(ApiVersion::V1Alpha1);
}

#[test]
fn a_merge_in_v1beta1_removes_what_the_manager_removed() {
    run(ApiVersion::V1Beta1);
}
