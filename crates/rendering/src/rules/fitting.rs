//! Values that do not fit into their types. The schema refuses most of them; pod templates have none.

use std::{borrow::Cow, collections::BTreeMap};

use api_types::{
    typed::{Misfit, Step, typed},
    violations::Violation,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The most fields of one value that are left out.
const MOST: usize = 64;

/// Reads the value at the path `at`, and leaves out what does not fit into the type: each such field is a violation.
/// Null is the same as nothing.
pub fn fit<T: DeserializeOwned + Default>(at: &str, value: &Value) -> (T, Vec<Violation>) {
    if value.is_null() {
        return (T::default(), Vec::new());
    }
    let (mut rest, mut removed, mut misfits) = (Cow::Borrowed(value), BTreeMap::new(), Vec::new());
    for _ in 0..MOST {
        let error = match typed(rest.as_ref().clone()) {
            Ok(fitting) => return (fitting, misfits),
            Err(error) => error,
        };
        let Some((path, value)) = take(rest.to_mut(), &error, &mut removed) else {
            misfits.push(misfit(at.to_owned(), value.clone(), error.problem()));
            return (T::default(), misfits);
        };
        if !value.is_null() || path.ends_with(']') {
            misfits.push(misfit(format!("{at}{path}"), value, error.problem()));
        }
    }
    misfits.push(Violation::invalid(at, Value::Null, "has too many fields that do not fit", "correct those first"));
    (T::default(), misfits)
}

fn misfit(path: String, value: Value, error: &serde_json::Error) -> Violation {
    let (place, reference) = match path.contains("odTemplate") {
        true => (" into a pod template", "see the reference of the Pod API"),
        false => ("", "see kubectl explain"),
    };
    Violation::invalid(path, value, format!("does not fit{place}: {error}"), reference)
}

/// Takes out what a path leads to. Returns its path with the positions that items had before others were taken out of
/// their lists.
fn take(rest: &mut Value, error: &Misfit, removed: &mut BTreeMap<String, Vec<usize>>) -> Option<(String, Value)> {
    let mut parents = error.steps();
    let last = parents.next_back()?;
    let (mut at, mut value) = (String::new(), rest);
    for step in parents {
        let below = step_of(&at, step, removed);
        value = match step {
            Step::Item(index) => value.get_mut(index)?,
            Step::Field(key) => value.get_mut(key)?,
        };
        at.push_str(&below);
    }
    let whole = format!("{at}{}", step_of(&at, last, removed));
    let taken = match (last, value) {
        (Step::Field(key), Value::Object(fields)) => fields.remove(key)?,
        (Step::Item(index), Value::Array(items)) if *index < items.len() => {
            let position = before(removed.get(&at), *index);
            let list = removed.entry(at).or_default();
            list.push(position);
            list.sort_unstable();
            items.remove(*index)
        }
        _ => return None,
    };
    Some((whole, taken))
}

fn step_of(at: &str, step: &Step, removed: &BTreeMap<String, Vec<usize>>) -> String {
    match step {
        Step::Item(index) => format!("[{}]", before(removed.get(at), *index)),
        // Fields of Kubernetes are one word; anything else is a key of the user.
        Step::Field(key) if key.bytes().all(|byte| byte.is_ascii_alphanumeric()) => format!(".{key}"),
        Step::Field(key) => format!("[{key}]"),
    }
}

/// The position that an item had before others were taken out.
fn before(removed: Option<&Vec<usize>>, index: usize) -> usize {
    removed.into_iter().flatten().fold(index, |index, removed| if *removed <= index { index + 1 } else { index })
}

#[cfg(test)]
mod tests {
    use api_types::v1beta1::ComponentSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_stays_and_the_rest_is_named_where_it_was() {
        let container = |ports: Value| json!({ "name": "main", "ports": ports });
        let of_ports = |ports: Value| json!({ "podTemplate": { "spec": { "containers": [container(ports)] } } });
        for (value, expected) in [
            (of_ports(json!([{ "containerPort": 1 }])), vec![]),
            (
                of_ports(json!([3, { "containerPort": 1 }, "x"])),
                vec!["spec.podTemplate.spec.containers[0].ports[0]", "spec.podTemplate.spec.containers[0].ports[2]"],
            ),
            (json!({ "podTemplate": { "spec": { "nodeSelector": "x" } } }), vec!["spec.podTemplate.spec.nodeSelector"]),
            (
                json!({ "podTemplate": { "metadata": { "labels": { "a/b": 1 } } } }),
                vec!["spec.podTemplate.metadata.labels[a/b]"],
            ),
            (json!({ "replicas": "x", "globalDynamoNamespace": null }), vec!["spec.replicas"]),
            (json!(3), vec!["spec"]),
            (json!(null), vec![]),
        ] {
            let given = edited(&value, "name", json!("decode"));
            let (component, misfits) = fit::<ComponentSpec>("spec", &given);
            assert_eq!(misfits.iter().map(|misfit| misfit.path.as_str()).collect::<Vec<_>>(), expected, "{value}");
            assert_eq!(component.name, if value.is_object() { "decode" } else { "" });
        }
    }

    fn edited(value: &Value, key: &str, with: Value) -> Value {
        let mut value = value.clone();
        if let Value::Object(fields) = &mut value {
            fields.insert(key.to_owned(), with);
        }
        value
    }

    #[test]
    fn too_many_misfits_are_one() {
        let (_, misfits) =
            fit::<ComponentSpec>("spec", &json!({ "podTemplate": { "spec": { "containers": vec![3; 9_000] } } }));
        assert_eq!(misfits.last().unwrap().path, "spec");
        assert_eq!(misfits.len(), MOST + 1);
    }
}
