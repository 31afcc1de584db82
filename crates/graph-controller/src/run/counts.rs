//! States by which objects are counted in the metrics, as the Go operator names them.

use api_types::v1beta1::{
    DynamoGraphDeployment, DynamoGraphDeploymentRequest, DynamoGraphDeploymentScalingAdapter, GraphState, RequestPhase,
};
use controller_kit::store::Packed;
use serde::Deserialize;

/// The state of a graph. One that has none was not looked at yet.
pub(super) fn of_graph(graph: &Packed<DynamoGraphDeployment>) -> &'static str {
    GraphState::deserialize(&graph.status()["state"]).unwrap_or_default().as_str()
}

/// The phase of a request. One that has none was not looked at yet.
pub(super) fn of_request(request: &Packed<DynamoGraphDeploymentRequest>) -> &'static str {
    RequestPhase::deserialize(&request.status()["phase"]).unwrap_or(RequestPhase::Pending).as_str()
}

/// Whether autoscalers can use an adapter: its selector is set, and selects one pod at least.
pub(super) fn of_adapter(adapter: &Packed<DynamoGraphDeploymentScalingAdapter>) -> &'static str {
    let status = adapter.status();
    let selects = status["selector"].as_str().is_some_and(|selector| !selector.is_empty());
    if selects && status["replicas"].as_i64().is_some_and(|replicas| replicas > 0) { "ready" } else { "not_ready" }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn with<K>(status: &Value) -> Packed<K> {
        Packed::from_value(json!({ "metadata": { "name": "x" }, "status": status })).unwrap()
    }

    #[test]
    fn states_are_those_of_the_dashboards() {
        for state in ["initializing", "pending", "successful", "failed"] {
            assert_eq!(of_graph(&with(&json!({ "state": state }))), state);
        }
        for phase in ["Pending", "Profiling", "Ready", "Deploying", "Deployed", "Failed"] {
            assert_eq!(of_request(&with(&json!({ "phase": phase }))), phase);
        }
        for nothing in [json!({}), Value::Null, json!("x"), json!({ "state": "x", "phase": 1 })] {
            assert_eq!(
                (of_graph(&with(&nothing)), of_request(&with(&nothing))),
                ("initializing", "Pending"),
                "{nothing}"
            );
        }
    }

    #[test]
    fn an_adapter_is_ready_once_autoscalers_can_use_it() {
        for (status, expected) in [
            (json!({ "selector": "a=b", "replicas": 2 }), "ready"),
            (json!({ "selector": "a=b", "replicas": 0 }), "not_ready"),
            (json!({ "selector": "", "replicas": 2 }), "not_ready"),
            (json!({ "replicas": 2 }), "not_ready"),
            (Value::Null, "not_ready"),
        ] {
            assert_eq!(of_adapter(&with(&status)), expected, "{status}");
        }
    }
}
