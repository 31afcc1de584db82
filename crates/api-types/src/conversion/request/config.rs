//! The profiler's opaque configuration in v1alpha1, parts of which are fields in v1beta1.

use serde_json::{Value, json};

use crate::conversion::value::{Object, at, object, put, text};

/// Numbers, by their place in the configuration and in v1beta1's spec.
const NUMBERS: [(&[&str], &[&str]); 2] = [(&["sla", "ttft"], &["sla", "ttft"]), (&["sla", "itl"], &["sla", "itl"])];
/// Whole numbers.
const WHOLE: [(&[&str], &[&str]); 2] =
    [(&["sla", "isl"], &["workload", "isl"]), (&["sla", "osl"], &["workload", "osl"])];
/// Texts that are not empty.
const TEXTS: [(&[&str], &[&str]); 3] = [
    (&["deployment", "modelCache", "pvcName"], &["modelCache", "pvcName"]),
    (&["deployment", "modelCache", "modelPathInPvc"], &["modelCache", "pvcModelPath"]),
    (&["deployment", "modelCache", "pvcMountPath"], &["modelCache", "pvcMountPath"]),
];
const OPTIMIZATION: (&[&str], &[&str]) = (&["sla", "optimizationType"], &["sla", "optimizationType"]);
const PLANNER: (&[&str], &[&str]) = (&["planner"], &["features", "planner"]);

fn whole(number: &Value) -> Option<i32> {
    let number = number.as_f64()?.trunc();
    // The cast is exact: the range was checked.
    #[allow(clippy::cast_possible_truncation, reason = "the range is checked first")]
    (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number).then_some(number as i32)
}

/// Writes what v1beta1 has fields for into its spec.
pub(super) fn to_beta(config: &Object, beta: &mut Object) {
    let mut set = |(place, field): (&[&str], &[&str]), read: &dyn Fn(&Value) -> Option<Value>| {
        if let Some(value) = at(config, place).and_then(read) {
            put(beta, field, Some(value));
        }
    };
    for number in NUMBERS {
        set(number, &|value| value.is_number().then(|| value.clone()));
    }
    for number in WHOLE {
        set(number, &|value| whole(value).map(|value| json!(value)));
    }
    for field in TEXTS {
        set(field, &|value| value.as_str().filter(|text| !text.is_empty()).map(|text| json!(text)));
    }
    set(OPTIMIZATION, &|value| matches!(value.as_str(), Some("latency" | "throughput")).then(|| value.clone()));
    set(PLANNER, &|value| value.as_object().is_some_and(|planner| !planner.is_empty()).then(|| value.clone()));
}

/// The configuration, as far as v1beta1 has fields for it; none if it has none of them.
pub(super) fn to_alpha(beta: &Object) -> Option<Object> {
    let mut config = Object::new();
    for (place, field) in NUMBERS.into_iter().chain(WHOLE) {
        if let Some(number) = at(beta, field).filter(|value| value.is_number()) {
            put(&mut config, place, Some(number.clone()));
        }
    }
    for (place, field) in TEXTS {
        if let Some(text) = object(beta, field[0]).and_then(|parent| text(parent, field[1])) {
            put(&mut config, place, Some(json!(text)));
        }
    }
    if let Some(goal) = at(beta, OPTIMIZATION.1).filter(|goal| goal.is_string()) {
        put(&mut config, OPTIMIZATION.0, Some(goal.clone()));
    }
    if let Some(planner) = at(beta, PLANNER.1).and_then(Value::as_object).filter(|planner| !planner.is_empty()) {
        put(&mut config, PLANNER.0, Some(json!(planner)));
    }
    (!config.is_empty()).then_some(config)
}
