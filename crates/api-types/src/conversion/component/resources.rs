//! `resources`: fixed names of v1alpha1, any names in v1beta1.

use serde_json::{Value, json};

use crate::conversion::{
    quantity::is_quantity,
    value::{Object, copy, insert_filled, object, text},
};

/// What a GPU is called if v1alpha1 does not say.
pub(super) const GPU: &str = "nvidia.com/gpu";

/// Requirements of a container. What is not a quantity is left out, as no pod could have it.
pub(super) fn to_native(alpha: &Object) -> Object {
    let mut native = Object::new();
    for side in ["requests", "limits"] {
        if let Some(item) = object(alpha, side) {
            insert_filled(&mut native, side, list_of(item));
        }
    }
    copy(alpha, &mut native, &["claims"]);
    native
}

fn list_of(item: &Object) -> Object {
    let mut list = Object::new();
    let gpu = text(item, "gpuType").unwrap_or(GPU);
    let fixed = [("cpu", "cpu"), ("memory", "memory"), ("gpu", gpu)];
    let fixed = fixed.into_iter().filter_map(|(key, name)| Some((name, item.get(key)?)));
    let custom = object(item, "custom").into_iter().flatten().map(|(name, quantity)| (name.as_str(), quantity));
    for (name, quantity) in fixed.chain(custom) {
        if quantity.as_str().is_some_and(is_quantity) {
            list.insert(name.to_owned(), quantity.clone());
        }
    }
    list
}

/// The requirements of a container in the form of v1alpha1; none if they say nothing.
pub(super) fn from_native(native: &Object) -> Object {
    let mut alpha = Object::new();
    for side in ["requests", "limits"] {
        if let Some(list) = object(native, side) {
            insert_filled(&mut alpha, side, item_of(list));
        }
    }
    if native.get("claims").and_then(Value::as_array).is_some_and(|claims| !claims.is_empty()) {
        copy(native, &mut alpha, &["claims"]);
    }
    alpha
}

fn item_of(list: &Object) -> Object {
    let mut item = Object::new();
    let mut custom = Object::new();
    for (name, quantity) in list {
        // A number is a quantity too, but v1alpha1 only takes text.
        let quantity = match quantity {
            Value::Number(number) => json!(number.to_string()),
            other => other.clone(),
        };
        match name.as_str() {
            "cpu" | "memory" => item.insert(name.clone(), quantity),
            GPU => item.insert("gpu".to_owned(), quantity),
            _ => custom.insert(name.clone(), quantity),
        };
    }
    insert_filled(&mut item, "custom", custom);
    item
}
