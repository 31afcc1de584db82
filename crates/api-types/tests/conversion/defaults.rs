//! Defaults: the API server adds those of the version in which an object is written when that comes in, and those of
//! the stored version whenever it reads what is stored. If the second adds something to what conversion has made of the
//! first, the first write that changes nothing is a write after all. So conversion leaves nothing to be added.

use api_types::conversion::ApiVersion;
use serde_json::Value;

use crate::{
    from_schema::{Schemas, XorShift},
    law::there,
    support,
};

const CASES: u64 = 500;

/// Applies the changes of the API server to an object: removes nulls where the schema does not allow them, and sets
/// defaults.
fn admitted(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let known = schema["properties"].as_object().into_iter().flatten();
            for (name, property) in known {
                if fields.get(name).is_some_and(Value::is_null) && property["nullable"] != true {
                    fields.remove(name);
                }
                if let (None, Some(default)) = (fields.get(name), property.get("default")) {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(value) = fields.get_mut(name) {
                    admitted(property, value);
                }
            }
            if let Some(inner) = schema.get("additionalProperties") {
                fields.values_mut().for_each(|value| admitted(inner, value));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| admitted(&schema["items"], item)),
        _ => {}
    }
}

fn admit(schemas: &Schemas, object: &mut Value) {
    let version: ApiVersion = object["apiVersion"].as_str().unwrap().parse().unwrap();
    let schema = schemas.of(object["kind"].as_str().unwrap(), version);
    if let Some(spec) = object.get_mut("spec") {
        admitted(&schema["spec"], spec);
    }
}

/// Returns the values that the API server would add to the stored form of objects that are written in `version`.
fn added(version: ApiVersion) -> Vec<String> {
    let schemas = Schemas::load();
    let mut found = Vec::new();
    for case in 0..CASES {
        let mut object = schemas.whole(version, &mut XorShift::new(7, case));
        admit(&schemas, &mut object);
        let stored = there(&object);
        let mut read = stored.clone();
        admit(&schemas, &mut read);
        let places = support::differences(&stored["spec"], &read["spec"]).into_iter();
        let places =
            places.map(|at| format!("{} {}{}: {:?} -> {:?}", case, object["kind"], at.path, at.given, at.kept));
        found.extend(places);
    }
    found
}

#[test]
fn what_is_written_in_v1alpha1_is_stored_with_the_defaults_of_v1beta1() {
    let found = added(ApiVersion::V1Alpha1);
    assert!(found.is_empty(), "{} places: {:#?}", found.len(), &found[..found.len().min(20)]);
}

#[test]
fn what_is_read_in_v1alpha1_has_the_defaults_of_v1alpha1() {
    let found = added(ApiVersion::V1Beta1);
    assert!(found.is_empty(), "{} places: {:#?}", found.len(), &found[..found.len().min(20)]);
}
