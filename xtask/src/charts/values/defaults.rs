//! Substitutes for null: `files/defaults.json` of a chart, and the template that puts it into the values.
//!
//! Helm removes a key whose value is null, so templates would have to check for each key whether it is
//! missing.

use serde_json::{Value, json};

use super::Setting;

/// The template, for a chart of a name.
const TEMPLATE: &str = include_str!("complete.tpl");

/// The template for a chart.
pub(super) fn template(chart: &str) -> String {
    TEMPLATE.replace("CHART", chart)
}

/// Renders the substitutes for null in the values of a chart: an empty value for a list and for a map that is one
/// value; for everything else its default, unless null has a meaning of its own.
pub(super) fn of(values: &[Setting]) -> String {
    let mut defaults = json!({});
    for value in values {
        let [outer @ .., key] = value.path.as_slice() else { continue };
        let place = outer.iter().fold(&mut defaults, |inner, key| &mut inner[key.as_str()]);
        if place.is_null() {
            *place = json!({});
        }
        match &value.default {
            Value::Null => {}
            _ if value.null_means => {}
            Value::Array(_) => place[key.as_str()] = json!([]),
            Value::Object(_) => place[key.as_str()] = json!({}),
            scalar => place[key.as_str()] = scalar.clone(),
        }
    }
    format!("{defaults:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_means_nothing_where_there_can_be_nothing_and_the_default_elsewhere() {
        let value = |path: &[&str], default: Value, null_means: bool| Setting {
            path: path.iter().map(|&key| key.to_owned()).collect(),
            meaning: "M".to_owned(),
            types: vec![],
            null_means,
            default,
        };
        let defaults = of(&[
            value(&["a", "count"], json!(1), false),
            value(&["a", "on"], json!(true), false),
            value(&["a", "resources"], json!({"cpu": 1}), false),
            value(&["list"], json!(["x"]), false),
            value(&["b", "c", "tristate"], json!(false), true),
            value(&["d", "none"], Value::Null, false),
        ]);
        let expected = json!({
            "a": { "count": 1, "on": true, "resources": {} },
            "list": [],
            "b": { "c": {} },
            "d": {},
        });
        assert_eq!(serde_json::from_str::<Value>(&defaults).unwrap(), expected);
    }
}
