//! `values.schema.json`: what helm checks before it renders.

use serde_json::{Value, json};

use super::Setting;

/// The schema of a chart's values. Keys that it does not know are let through, as helm does without one: the values of a
/// subchart, and those that `_validate.tpl` refuses with a remedy.
pub(super) fn of(values: &[Setting]) -> String {
    let mut schema = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object" });
    for value in values {
        insert(&mut schema, &value.path, value);
    }
    format!("{schema:#}\n")
}

fn insert(schema: &mut Value, path: &[String], value: &Setting) {
    match path {
        [] => {
            let types = match value.types.as_slice() {
                [one] => json!(one),
                several => json!(several),
            };
            *schema = json!({ "description": value.meaning, "type": types });
        }
        [key, rest @ ..] => {
            let inner = &mut schema["properties"][key];
            if inner.is_null() {
                *inner = json!({ "type": ["object", "null"] });
            }
            insert(inner, rest, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_nested_as_in_the_file() {
        let value = |path: &[&str], types: &[&'static str]| Setting {
            path: path.iter().map(|&key| key.to_owned()).collect(),
            meaning: "M".to_owned(),
            types: types.to_vec(),
            default: Value::Null,
        };
        let schema: Value =
            serde_json::from_str(&of(&[value(&["a", "b"], &["boolean"]), value(&["a", "c"], &["string", "null"])]))
                .unwrap();
        let inner = &schema["properties"]["a"];
        assert_eq!(inner["type"], json!(["object", "null"]));
        assert_eq!(inner["properties"]["b"], json!({"description": "M", "type": "boolean"}));
        assert_eq!(inner["properties"]["c"]["type"], json!(["string", "null"]));
    }
}
