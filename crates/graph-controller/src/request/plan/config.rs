//! The profiler's `--config`: the spec as JSON, field for field in the order in which the upstream operator writes it.
//! Its profilers read nothing but JSON, so the order is a courtesy to those who compare Jobs.

use rendering::go_json::fit_for_html;
use serde_json::{Map, Value, json};

/// The order of fields, by the path of their object; others follow by name. Items of a list have its path.
const ORDER: [(&str, &[&str]); 13] = [
    ("", SPEC),
    (".modelCache", &["pvcName", "pvcModelPath", "pvcMountPath"]),
    (".hardware", &["gpuSku", "vramMb", "totalGpus", "numGpusPerNode", "interconnect", "rdma"]),
    (".workload", &["isl", "osl", "concurrency", "requestRate"]),
    (".sla", &["ttft", "itl", "e2eLatency", "optimizationType"]),
    (".features", &["planner", "mocker"]),
    (".overrides", &["profilingJob", "dgd"]),
    (".overrides.profilingJob", &["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "template"]),
    (".overrides.profilingJob.template", &["metadata", "spec"]),
    (".overrides.profilingJob.template.spec", POD),
    (".overrides.profilingJob.template.spec.volumes", NAMED),
    (".overrides.profilingJob.template.spec.initContainers", NAMED),
    (".overrides.profilingJob.template.spec.containers", NAMED),
];

const SPEC: &[&str] = &[
    "model",
    "backend",
    "image",
    "runtimeVersionOverride",
    "modelCache",
    "hardware",
    "workload",
    "sla",
    "overrides",
    "features",
    "searchStrategy",
    "autoApply",
];

const NAMED: &[&str] = &["name", "image", "command", "args", "workingDir", "ports", "envFrom", "env", "resources"];

const POD: &[&str] = &[
    "volumes",
    "initContainers",
    "containers",
    "ephemeralContainers",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "dnsPolicy",
    "nodeSelector",
    "serviceAccountName",
    "serviceAccount",
    "automountServiceAccountToken",
    "nodeName",
    "securityContext",
    "imagePullSecrets",
    "affinity",
    "schedulerName",
    "tolerations",
];

/// The spec that the profiler gets: the user's, with the hardware that was found where it names none.
pub fn profiler_config(spec: &Value, hardware: &Value) -> String {
    let mut spec = spec.clone();
    if let Some(fields) = spec.as_object_mut()
        && hardware.as_object().is_some_and(|hardware| !hardware.is_empty())
    {
        fields.insert("hardware".to_owned(), hardware.clone());
    }
    if let Some(Value::Object(template)) = spec.pointer_mut("/overrides/profilingJob/template") {
        template.entry("metadata").or_insert_with(|| json!({}));
    }
    conceal_values(&mut spec);
    fit_for_html(&text(&spec, ""))
}

/// Values of environment variables of the Job stay in the Job, whose readers RBAC limits: no profiler needs them,
/// and arguments end in lists of processes and in logs.
fn conceal_values(spec: &mut Value) {
    for containers in ["initContainers", "containers"] {
        let path = format!("/overrides/profilingJob/template/spec/{containers}");
        let containers = spec.pointer_mut(&path).and_then(Value::as_array_mut).into_iter().flatten();
        let variables = containers.filter_map(|container| container.get_mut("env")?.as_array_mut()).flatten();
        for variable in variables.filter_map(Value::as_object_mut) {
            variable.remove("value");
        }
    }
}

fn text(value: &Value, path: &str) -> String {
    match value {
        Value::Object(fields) => object_text(fields, path),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| text(item, path)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Number(number) => number_text(number),
        simple => simple.to_string(),
    }
}

fn object_text(fields: &Map<String, Value>, path: &str) -> String {
    let order = ORDER.iter().find(|(of, _)| *of == path).map(|(_, order)| *order).unwrap_or_default();
    let known = order.iter().filter_map(|key| fields.get_key_value(*key));
    let mut others: Vec<_> = fields.iter().filter(|(key, _)| !order.contains(&key.as_str())).collect();
    others.sort_by_key(|(key, _)| *key);
    let field = |(key, value): (&String, &Value)| format!("{}:{}", json!(key), text(value, &format!("{path}.{key}")));
    let all: Vec<_> = known.chain(others).map(field).collect();
    format!("{{{}}}", all.join(","))
}

/// Whole numbers have no fraction, however they were written.
fn number_text(number: &serde_json::Number) -> String {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => format!("{float:.0}"),
        _ => number.to_string(),
    }
}

/// Returns the part of a spec that determines the profile; the rest only determines whether and with which runtime the
/// graph is created.
pub fn profiled_spec(spec: &Value) -> String {
    let mut spec = spec.clone();
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("autoApply");
        fields.remove("runtimeVersionOverride");
    }
    conceal_values(&mut spec);
    api_types::names::sha256_hex(text(&spec, "").as_bytes(), 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_the_order_of_the_api_and_others_by_name() {
        let spec = json!({ "autoApply": true, "model": "m", "sla": { "itl": 30.0, "ttft": 0.5 }, "overrides": {
            "profilingJob": { "template": { "spec": { "containers": [{ "image": "i", "name": "n" }], "volumes": [] } } } } });
        let text = profiler_config(&spec, &json!({ "vramMb": 81920.0, "gpuSku": "t4" }));
        let expected = r#"{"model":"m","hardware":{"gpuSku":"t4","vramMb":81920},"sla":{"ttft":0.5,"itl":30},"overrides":{"profilingJob":{"template":{"metadata":{},"spec":{"volumes":[],"containers":[{"name":"n","image":"i"}]}}}},"autoApply":true}"#;
        assert_eq!(text, expected);
    }

    /// Values that overrides set for the Job are not copied into its arguments.
    #[test]
    fn values_of_the_jobs_environment_are_not_among_its_arguments() {
        let spec = json!({ "overrides": { "profilingJob": { "template": { "spec": { "containers": [
            { "name": "profiler", "env": [{ "name": "TOKEN", "value": "s3cret" }] } ] } } } } });
        let text = profiler_config(&spec, &Value::Null);
        assert!(text.contains(r#"{"name":"TOKEN"}"#) && !text.contains("s3cret"), "{text}");
    }

    #[test]
    fn characters_of_html_are_escaped_and_still_mean_the_same() {
        let spec = json!({ "model": "<a>&\u{2028}\"" });
        let text = profiler_config(&spec, &Value::Null);
        assert_eq!(text, r#"{"model":"\u003ca\u003e\u0026\u2028\""}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), spec);
    }

    #[test]
    fn when_and_with_which_runtime_the_graph_is_made_is_no_matter_of_the_profile() {
        let print = |auto: bool, model: &str| {
            profiled_spec(&json!({ "model": model, "autoApply": auto, "runtimeVersionOverride": auto.to_string() }))
        };
        assert_eq!(print(true, "m"), print(false, "m"));
        assert_ne!(print(true, "m"), print(true, "n"));
    }
}
