//! Fields of another form in each version: `resources`, with fixed names in v1alpha1 and any names in v1beta1, and
//! features, which v1alpha1 switches on and v1beta1 has under `experimental` if they are on.

use serde_json::{Value, json};

use crate::conversion::value::{Object, copy, insert_filled, is_quantity, is_true, object, text};

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

/// The modes of GPU memory service and failover, in v1alpha1 and v1beta1. Others are kept as they are.
const MODES: [(&str, &str); 2] = [("intraPod", "IntraPod"), ("interPod", "InterPod")];

/// GPU memory service or failover in v1beta1; none if it is off.
pub(super) fn feature_to_beta(alpha: &Object) -> Option<Object> {
    is_true(alpha, "enabled").then(|| {
        let mut beta = alpha.clone();
        beta.remove("enabled");
        if let Some((_, mode)) = MODES.iter().find(|(mode, _)| text(alpha, "mode") == Some(mode)) {
            beta.insert("mode".to_owned(), json!(mode));
        }
        beta
    })
}

/// GPU memory service or failover in v1alpha1.
pub(super) fn feature_to_alpha(beta: &Object) -> Object {
    let mut alpha = beta.clone();
    alpha.insert("enabled".to_owned(), json!(true));
    if let Some((mode, _)) = MODES.iter().find(|(_, mode)| text(beta, "mode") == Some(mode)) {
        alpha.insert("mode".to_owned(), json!(mode));
    }
    alpha
}

/// Checkpointing in v1beta1, where `enabled` has no default.
pub(super) fn checkpoint_to_beta(alpha: &Object) -> Object {
    let mut beta = alpha.clone();
    beta.entry("enabled").or_insert_with(|| json!(false));
    beta
}
