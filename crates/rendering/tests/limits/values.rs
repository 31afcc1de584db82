//! Objects with one value at its maximum, made from the schemas of the definitions.

use api_types::{conversion::ApiVersion, crds};
use serde_json::{Map, Value, json};

/// The schema of a kind's spec in a version.
pub struct Schema {
    pub kind: String,
    pub version: ApiVersion,
    pub spec: Value,
}

/// Those of graphs and components.
pub fn schemas() -> Vec<Schema> {
    let mut schemas = Vec::new();
    for crd in crds::all().unwrap() {
        let kind = crd.spec.names.kind;
        if !["DynamoGraphDeployment", "DynamoComponentDeployment"].contains(&kind.as_str()) {
            continue;
        }
        for version in &crd.spec.versions {
            let spec = json!(version.schema)["openAPIV3Schema"]["properties"]["spec"].clone();
            let version = format!("nvidia.com/{}", version.name).parse().unwrap();
            schemas.push(Schema { kind: kind.clone(), version, spec });
        }
    }
    schemas
}

/// `base` once for each number, list, map and text of the schema, that one at its maximum.
pub fn at_maximum(base: &Value, spec: &Value) -> Vec<Value> {
    let mut objects = Vec::new();
    visit(spec, &base["spec"], &mut |spec| {
        let mut object = base.clone();
        object["spec"] = spec;
        objects.push(object);
    });
    objects
}

/// Calls `found` with `live` once for each value below it at its maximum. Lists and maps have the items that are there,
/// or one of them.
fn visit(schema: &Value, live: &Value, found: &mut dyn FnMut(Value)) {
    if let Some(largest) = largest(schema) {
        found(largest);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let inner = live.get(name).cloned().unwrap_or_else(|| least(property));
        visit(property, &inner, &mut |value| {
            let mut changed = if live.is_object() { live.clone() } else { least(schema) };
            changed[name] = value;
            found(changed);
        });
    }
    if let Some(items) = schema.get("items") {
        let first = live.get(0).cloned().unwrap_or_else(|| least(items));
        visit(items, &first, &mut |value| found(json!([value])));
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        let entry = live.as_object().and_then(|map| map.iter().next());
        let (key, first) = entry.map_or(("w".to_owned(), least(values)), |(key, value)| (key.clone(), value.clone()));
        visit(values, &first, &mut |value| found(json!({ &key: value })));
    }
}

/// The largest value that a schema allows; none for texts and lists of Kubernetes' types, which have no maximum: the
/// limit of the whole object is theirs.
fn largest(schema: &Value) -> Option<Value> {
    let limit = |keyword: &str| schema[keyword].as_u64();
    let whole = |most: i64| schema["maximum"].as_f64().map_or(most, |maximum| maximum as i64);
    match schema["type"].as_str()? {
        "integer" if schema["format"] == "int64" => Some(json!(whole(i64::MAX))),
        "integer" => Some(json!(whole(i64::from(i32::MAX)))),
        "number" => Some(json!(schema["maximum"].as_f64().unwrap_or(f64::MAX))),
        "string" if schema.get("enum").is_some() => None,
        "string" => Some(json!("a".repeat(usize::try_from(limit("maxLength")?).unwrap()))),
        "array" => {
            let items = limit("maxItems")?;
            Some((0..items).map(|index| numbered(least(&schema["items"]), index)).collect())
        }
        "object" if schema["additionalProperties"].is_object() => {
            let entries = limit("maxProperties")?;
            let value = least(&schema["additionalProperties"]);
            Some((0..entries).map(|index| (format!("k{index}"), value.clone())).collect::<Map<_, _>>().into())
        }
        _ => None,
    }
}

/// Gives an item a name of its own, so that a list is not one of the same item.
fn numbered(mut item: Value, index: u64) -> Value {
    if item.get("name").is_some() {
        item["name"] = json!(format!("n{index}"));
    }
    item
}

/// The smallest value that a schema allows.
fn least(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            required.map(|name| (name.to_owned(), least(&schema["properties"][name]))).collect::<Map<_, _>>().into()
        }
        Some("array") => json!([]),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(0)),
        Some("boolean") => json!(true),
        Some("string") => json!("a"),
        _ => json!({}),
    }
}
