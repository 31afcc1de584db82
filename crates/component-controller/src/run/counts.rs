//! The state by which components are counted in the metrics, as the Go operator names it.

use api_types::{conditions::AVAILABLE, v1beta1::DynamoComponentDeployment};
use controller_kit::store::Packed;

/// Whether a component serves as its present spec asks.
pub(super) fn of_component(component: &Packed<DynamoComponentDeployment>) -> &'static str {
    let status = component.status();
    let is_new = component.metadata.generation > status["observedGeneration"].as_i64();
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let available = conditions.any(|condition| condition["type"] == AVAILABLE && condition["status"] == "True");
    if available && !is_new { "ready" } else { "not_ready" }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_component_is_ready_at_its_present_generation() {
        let status = |observed: i64, type_: &str, value: &str| json!({ "observedGeneration": observed, "conditions": [{ "type": type_, "status": value }] });
        for (status, expected) in [
            (status(2, "Available", "True"), "ready"),
            (status(1, "Available", "True"), "not_ready"),
            (status(2, "Available", "False"), "not_ready"),
            (status(2, "Other", "True"), "not_ready"),
            (Value::Null, "not_ready"),
        ] {
            let object = json!({ "metadata": { "name": "x", "generation": 2 }, "status": status });
            assert_eq!(of_component(&Packed::from_value(object).unwrap()), expected, "{status}");
        }
    }
}
