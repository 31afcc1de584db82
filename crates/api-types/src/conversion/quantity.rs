//! Quantities in JSON, where a number is one too.

use serde_json::Value;

use crate::quantity::exact_nanos;
pub(super) use crate::quantity::is_quantity;

/// The value in billionths; none if it is not a quantity or too large to say.
pub(super) fn nanos(quantity: &Value) -> Option<i128> {
    match quantity {
        Value::String(text) => exact_nanos(text),
        Value::Number(number) => exact_nanos(&number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values() {
        for (given, nanos_wanted) in [
            (json!("1"), Some(1_000_000_000)),
            (json!(1), Some(1_000_000_000)),
            (json!("1000m"), Some(1_000_000_000)),
            (json!("0.5"), Some(500_000_000)),
            (json!(".5"), Some(500_000_000)),
            (json!("1e3"), Some(1_000_000_000_000)),
            (json!("1Ki"), Some(1_024_000_000_000)),
            (json!("-1"), Some(-1_000_000_000)),
            (json!("0Gi"), Some(0)),
            (json!("1.50"), Some(1_500_000_000)),
            (json!(""), None),
            (json!("."), None),
            (json!("1.2.3"), None),
            (json!("ten"), None),
            (json!("1Gb"), None),
            (json!("99999999999999999999999999999999999999999999"), None),
            (json!("1e999999999"), None),
            (json!("1e-2147483648"), None),
            (json!("0e999999999"), Some(0)),
            (json!(null), None),
            (json!("１"), None),
        ] {
            assert_eq!(nanos(&given), nanos_wanted, "{given}");
        }
    }
}
