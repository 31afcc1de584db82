//! Tests of the way from types to structural schemas, on types made for it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    SchemaError, edit,
    kubernetes::{Definitions, POD_TEMPLATE, REFERENCE_PREFIX},
    structural::{schema_of, structural, structural_spec},
};
use crate::limits;

/// A thing that is described
/// on two lines.
///
/// And in a second paragraph.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Thing {
    /// Its colour.
    colour: Colour,
    /// Its other colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other: Option<Colour>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 3), inner(length(min = 1)))]
    names: Option<Vec<String>>,
    #[serde(default)]
    plain: Plain,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    map: BTreeMap<String, Option<i32>>,
    /// Its time.
    #[schemars(schema_with = "super::time")]
    time: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum Colour {
    /// Like blood.
    Red,
    Green,
}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
enum Plain {
    #[default]
    One,
    Two,
}

#[test]
fn a_type_becomes_structural() {
    let definitions = Definitions::load().unwrap();
    let colours = |description: &str| {
        let description = format!("{description}\n\n- `Red`: Like blood.");
        json!({ "type": "string", "enum": ["Green", "Red"], "description": description })
    };
    let mut schema = structural(schema_of::<Thing>(), &definitions).unwrap();
    for field in ["colour", "other"] {
        let values = edit::property(&mut schema, field).unwrap()["enum"].as_array_mut().unwrap();
        values.sort_by_key(Value::to_string);
    }
    assert_eq!(
        schema,
        json!({
            "type": "object",
            "description": "A thing that is described on two lines.\n\nAnd in a second paragraph.",
            "required": ["colour", "time"],
            "properties": {
                "colour": colours("Its colour."),
                "other": colours("Its other colour."),
                "names": { "type": "array", "maxItems": 3, "items": { "type": "string", "minLength": 1 } },
                "plain": { "type": "string", "enum": ["One", "Two"], "default": "One" },
                "map": {
                    "type": "object",
                    "additionalProperties": { "type": "integer", "format": "int32" },
                    "x-kubernetes-map-type": "granular",
                },
                "time": { "type": "string", "format": "date-time", "description": "Its time." },
            },
        })
    );
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Outer {
    inner: Tagged,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum Tagged {
    A(String),
    B(i32),
}

#[test]
fn what_is_not_structural_is_an_error_with_its_place() {
    let error = structural(schema_of::<Outer>(), &Definitions::load().unwrap()).unwrap_err();
    assert!(matches!(&error, SchemaError::Unsupported { path, .. } if path == "Outer.inner"), "{error}");
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Dangling {
    #[schemars(schema_with = "nowhere")]
    field: String,
}

fn nowhere(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    super::reference("Nowhere")
}

#[test]
fn a_reference_to_nowhere_is_an_error_with_its_place() {
    let error = structural(schema_of::<Dangling>(), &Definitions::load().unwrap()).unwrap_err();
    let SchemaError::UnknownDefinition { path, name } = error else { panic!("{error}") };
    assert_eq!((path.as_str(), name.as_str()), ("Dangling.field", "Nowhere"));
}

#[test]
fn a_pod_template_keeps_how_its_lists_merge_and_nothing_of_references() {
    let mut template = Definitions::load().unwrap().resolve(&format!("{REFERENCE_PREFIX}{POD_TEMPLATE}"), "x").unwrap();
    let text = template.to_string();
    assert!(!text.contains("$ref") && !text.contains("allOf") && !text.contains("description"), "{text:.200}");
    let ports = edit::property(&mut template, "spec.containers[].ports").unwrap();
    assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    assert_eq!(ports["items"]["properties"]["protocol"], json!({ "type": "string", "default": "TCP" }));
    assert_eq!(ports["items"]["properties"]["containerPort"], json!({ "type": "integer", "format": "int32" }));
    let metadata = edit::property(&mut template, "metadata").unwrap()["properties"].as_object().unwrap();
    assert_eq!(metadata.keys().collect::<Vec<_>>(), ["annotations", "finalizers", "labels", "name", "namespace"]);
    let limits = &edit::property(&mut template, "spec.containers[].resources.limits").unwrap()["additionalProperties"];
    assert_eq!(limits["x-kubernetes-int-or-string"], true);
}

#[test]
fn edits_name_what_they_miss() {
    let mut schema = json!({ "properties": { "a": { "items": { "properties": {} } } }, "required": ["a"] });
    let missing = |result: Result<(), SchemaError>| match result {
        Err(SchemaError::Missing(what)) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(edit::property(&mut schema, "a[].b").map(drop)), "a[].b");
    assert_eq!(missing(edit::remove_property(&mut schema, "b")), "b");
    assert_eq!(missing(edit::make_optional(&mut schema, "b")), "required b");
    edit::make_optional(&mut schema, "a").unwrap();
    edit::remove_property(&mut schema, "a").unwrap();
    assert_eq!(schema, json!({ "properties": {} }));
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Fields {
    #[schemars(range(max = limits::NODES))]
    count: Option<i32>,
    #[schemars(length(max = 3))]
    short: Option<Vec<String>>,
    map: BTreeMap<String, Colour>,
    #[schemars(schema_with = "super::env")]
    env: Vec<Value>,
}

#[test]
fn what_users_write_has_limits() {
    let schema = structural_spec(schema_of::<Fields>(), &Definitions::load().unwrap()).unwrap();
    let fields = &schema["properties"];
    assert_eq!(fields["count"]["maximum"], json!(1024));
    assert_eq!(fields["short"]["maxItems"], json!(3), "the type's own limit");
    assert_eq!(fields["short"]["items"]["maxLength"], json!(limits::TEXT));
    assert_eq!(fields["map"]["maxProperties"], json!(limits::ITEMS));
    assert_eq!(fields["map"]["additionalProperties"]["maxLength"], Value::Null, "the values are known");
    assert_eq!(fields["env"]["maxItems"], json!(limits::ITEMS));
    assert_eq!(fields["env"]["items"]["properties"]["name"]["maxLength"], Value::Null, "Kubernetes limits it");
}

#[test]
fn a_number_without_maximum_is_no_field_of_a_spec() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Unlimited {
        things: Vec<BTreeMap<String, Option<i64>>>,
    }
    let error = structural_spec(schema_of::<Unlimited>(), &Definitions::load().unwrap()).unwrap_err();
    assert!(matches!(&error, SchemaError::Unlimited(path) if path == "Unlimited.things[]{}"), "{error}");
}
