//! Real objects.

use serde_json::{Value, json};

use crate::law::{OWNED, all_inputs, components, law, there};

#[test]
fn real_objects_come_back() {
    for input in all_inputs() {
        law(&input.object).unwrap_or_else(|difference| panic!("{}: {difference}", input.origin));
        for component in components(&input.object) {
            law(&component).unwrap_or_else(|difference| panic!("{}: {difference}", input.origin));
        }
    }
}

/// Data that the reference can read is enough for it: for real graphs, our part of the payload contains at most empty
/// values.
#[test]
fn real_graphs_fit_the_format_of_the_reference() {
    for input in all_inputs().into_iter().filter(|input| !input.object["spec"].is_null()) {
        let seen = there(&input.object);
        for key in OWNED {
            let Some(payload) = seen["metadata"]["annotations"][key].as_str() else { continue };
            let payload: Value = serde_json::from_str(payload).unwrap();
            let ours = payload["exact"].as_array().into_iter().flatten();
            let empty = [json!(null), json!(""), json!([]), json!({})];
            let more: Vec<_> = ours.filter(|place| !empty.contains(&place["value"])).collect();
            assert!(more.is_empty(), "{}: {more:#?}", input.origin);
        }
    }
}
