//! `values.schema.json`: what helm checks before it renders.

use serde_json::{Value, json};

use super::Setting;

/// Map that all other charts may use, with any content.
const SHARED: &str = "global";

/// The schema of a chart's values. Keys that are neither among its values nor `open` are refused: a name that is not
/// spelled as it should be would have no effect. Values below an open path are checked elsewhere.
pub(super) fn of(values: &[Setting], open: &[Vec<String>]) -> String {
    let mut schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
    });
    for value in values {
        let types = match value.types.as_slice() {
            [one] => json!(one),
            several => json!(several),
        };
        insert(&mut schema, &value.path, json!({ "description": value.meaning, "type": types }));
    }
    for path in open {
        insert(&mut schema, path, json!({}));
    }
    match &mut schema["properties"][SHARED] {
        shared @ Value::Null => *shared = json!({}),
        shared => shared["additionalProperties"] = json!(true),
    }
    format!("{schema:#}\n")
}

/// Adds the value at a path, unless the path leads into something that is described as a whole, or that is there
/// already.
fn insert(schema: &mut Value, path: &[String], what: Value) {
    let [key, rest @ ..] = path else { return };
    let inner = &mut schema["properties"][key];
    if rest.is_empty() {
        match inner {
            Value::Null => *inner = what,
            // Some of its keys are known here.
            _ if what == json!({}) && inner["additionalProperties"] == false => {
                inner["additionalProperties"] = json!(true)
            }
            _ => {}
        }
        return;
    }
    if inner.is_null() {
        *inner = json!({ "type": ["object", "null"], "additionalProperties": false });
    }
    if inner["additionalProperties"] == false {
        insert(inner, rest, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(keys: &[&str]) -> Vec<String> {
        keys.iter().map(|&key| key.to_owned()).collect()
    }

    fn value(keys: &[&str], types: &[&'static str]) -> Setting {
        let path = path(keys);
        Setting { path, meaning: "M".to_owned(), types: types.to_vec(), null_means: false, default: Value::Null }
    }

    #[test]
    fn values_are_nested_as_in_the_file() {
        let values = [value(&["a", "b"], &["boolean"]), value(&["a", "c"], &["string", "null"])];
        let schema: Value = serde_json::from_str(&of(&values, &[])).unwrap();
        let inner = &schema["properties"]["a"];
        assert_eq!(inner["type"], json!(["object", "null"]));
        assert_eq!(inner["properties"]["b"], json!({"description": "M", "type": "boolean"}));
        assert_eq!(inner["properties"]["c"]["type"], json!(["string", "null"]));
    }

    #[test]
    fn unknown_keys_are_refused_and_what_others_check_is_not() {
        let known: [&[&str]; 3] = [&["a", "b"], &["map"], &["global", "x"]];
        let values: Vec<_> =
            known.into_iter().chain([&["chart", "enabled"][..]]).map(|keys| value(keys, &["object"])).collect();
        let open = [
            path(&["sub"]),
            path(&["chart"]),
            path(&["chart", "x"]),
            path(&["sub", "enabled"]),
            path(&["a", "old"]),
            path(&["map", "old"]),
        ];
        let schema: Value = serde_json::from_str(&of(&values, &open)).unwrap();
        let all = &schema["properties"];
        assert_eq!(
            (&schema["additionalProperties"], &all["a"]["additionalProperties"]),
            (&json!(false), &json!(false))
        );
        assert_eq!((&all["sub"], &all["a"]["properties"]["old"]), (&json!({}), &json!({})));
        assert_eq!(all["map"], json!({"description": "M", "type": "object"}));
        assert_eq!(all["chart"]["additionalProperties"], true, "{all}");
        assert!(
            all["chart"]["properties"]["enabled"].is_object() && all["chart"]["properties"]["x"].is_null(),
            "{all}"
        );
        assert_eq!(all["global"]["additionalProperties"], true, "other charts have values there");
    }
}
