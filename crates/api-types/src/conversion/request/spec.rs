//! The spec of a request, with the profiler's opaque configuration in v1alpha1, parts of which are fields in v1beta1.

use serde_json::{Value, json};

use crate::{
    conversion::{
        Extent,
        value::{Object, at, copy, filled, insert_filled, is_true, list, named, object, put, text},
    },
    v1beta1::{ModelCache, SearchStrategy, Workload},
};

/// Fields that are the same in both versions.
const SAME: [&str; 3] = ["model", "backend", "runtimeVersionOverride"];
/// The container of the profiling job whose resources v1alpha1 can say.
pub(super) const PROFILER: &str = "profiler";
/// Path of the profiling job's pod in v1beta1.
const POD: [&str; 4] = ["overrides", "profilingJob", "template", "spec"];

pub(super) fn to_beta(alpha: &Object, extent: Extent) -> Object {
    let mut beta = said(alpha);
    if extent == Extent::Whole {
        // The versions have opposite defaults.
        beta.entry("autoApply").or_insert(json!(false));
        fill_defaults(&mut beta);
    }
    beta
}

/// Adds the defaults of what v1alpha1 cannot say or has not said. The API server adds them to all that it reads from
/// storage: so what is stored is what is read, and writing back what was read changes nothing.
pub(super) fn fill_defaults(beta: &mut Object) {
    beta.entry("searchStrategy").or_insert_with(|| json!(SearchStrategy::default()));
    let (workload, cache) = (Workload::default(), ModelCache::default());
    for (part, field, default) in [
        ("workload", "isl", json!(workload.isl)),
        ("workload", "osl", json!(workload.osl)),
        ("modelCache", "pvcMountPath", json!(cache.pvc_mount_path)),
    ] {
        if let Some(Value::Object(part)) = beta.get_mut(part) {
            part.entry(field).or_insert(default);
        }
    }
}

fn said(alpha: &Object) -> Object {
    let mut beta = Object::new();
    copy(alpha, &mut beta, &SAME);
    copy_applies(alpha, &mut beta);
    let profiling = object(alpha, "profilingConfig");
    let image = profiling.and_then(|profiling| text(profiling, "profilerImage"));
    let workers = object(alpha, "deploymentOverrides").and_then(|overrides| text(overrides, "workersImage"));
    insert_filled(&mut beta, "image", image.or(workers));
    if is_true(alpha, "useMocker") {
        put(&mut beta, &["features", "mocker", "enabled"], Some(json!(true)));
    }
    let Some(profiling) = profiling else { return beta };
    if let Some(config) = object(profiling, "config") {
        config_to_beta(config, &mut beta);
    }
    let mut pod = Object::new();
    let resources = object(profiling, "resources").filter(|resources| !resources.is_empty());
    put(&mut pod, &["containers"], resources.map(|resources| json!([{ "name": PROFILER, "resources": resources }])));
    for key in ["tolerations", "nodeSelector"] {
        insert_filled(&mut pod, key, profiling.get(key).cloned());
    }
    put(&mut beta, &POD, filled(pod));
    beta
}

/// Copies the field that says whether the graph is made.
fn copy_applies(from: &Object, into: &mut Object) {
    put(into, &["autoApply"], from.get("autoApply").filter(|applies| applies.is_boolean()).cloned());
}

pub(super) fn to_alpha(beta: &Object, extent: Extent) -> Object {
    let mut alpha = Object::new();
    copy(beta, &mut alpha, &SAME);
    copy_applies(beta, &mut alpha);
    let mocks = at(beta, &["features", "mocker", "enabled"]).filter(|mocks| mocks.is_boolean());
    put(&mut alpha, &["useMocker"], mocks.cloned());
    let mut profiling = Object::new();
    insert_filled(&mut profiling, "profilerImage", text(beta, "image"));
    insert_filled(&mut profiling, "config", config_to_alpha(beta));
    if let Some(pod) = at(beta, &POD).and_then(Value::as_object) {
        let resources = profiler(list(pod, "containers")).and_then(|profiler| object(profiler, "resources"));
        insert_filled(&mut profiling, "resources", resources.cloned());
        for key in ["tolerations", "nodeSelector"] {
            insert_filled(&mut profiling, key, pod.get(key).cloned());
        }
    }
    insert_filled(&mut alpha, "profilingConfig", profiling);
    if extent == Extent::Whole {
        fill_alpha_defaults(&mut alpha);
    }
    alpha
}

/// Adds what v1alpha1 requires, and the defaults that the API server adds when v1alpha1 is written: so writing back
/// what was read changes nothing.
pub(super) fn fill_alpha_defaults(alpha: &mut Object) {
    for (field, default) in [
        ("autoApply", json!(true)),
        ("useMocker", json!(false)),
        ("enableGpuDiscovery", json!(true)),
        ("profilingConfig", json!({})),
    ] {
        alpha.entry(field).or_insert(default);
    }
    if let Some(Value::Object(profiling)) = alpha.get_mut("profilingConfig") {
        profiling.entry("profilerImage").or_insert(json!(""));
    }
}

/// The profiler's container; the first one without a name if none has the name, as earlier versions wrote it.
fn profiler(containers: &[Value]) -> Option<&Object> {
    let unnamed = || containers.iter().filter_map(Value::as_object).find(|container| text(container, "name").is_none());
    named(containers, PROFILER).or_else(unnamed)
}

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
pub(super) fn config_to_beta(config: &Object, beta: &mut Object) {
    let mut set = |(place, field): (&[&str], &[&str]), read: &dyn Fn(&Value) -> Option<Value>| {
        put(beta, field, at(config, place).and_then(read));
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

/// The configuration, as far as v1beta1 has fields for it.
pub(super) fn config_to_alpha(beta: &Object) -> Object {
    let mut config = Object::new();
    for (place, field) in NUMBERS.into_iter().chain(WHOLE) {
        put(&mut config, place, at(beta, field).filter(|value| value.is_number()).cloned());
    }
    for (place, field) in TEXTS {
        put(&mut config, place, object(beta, field[0]).and_then(|parent| text(parent, field[1])).map(Value::from));
    }
    put(&mut config, OPTIMIZATION.0, at(beta, OPTIMIZATION.1).filter(|goal| goal.is_string()).cloned());
    put(&mut config, PLANNER.0, at(beta, PLANNER.1).and_then(Value::as_object).cloned().and_then(filled));
    config
}
