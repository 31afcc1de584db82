//! Defaults that the API server sets where an apply has removed a field. Other defaults stay, because no manager owns them.

use serde_json::{Map, Value, json};

/// Parts of objects that are replaced whole: the part, its field, and the default.
const PARTS: [(&str, &str, &str); 2] = [("fieldRef", "apiVersion", "v1"), ("resourceFieldRef", "divisor", "0")];
/// Volumes that are made of files.
const FILES: [&str; 4] = ["configMap", "downwardAPI", "projected", "secret"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Sets the defaults of an object after an apply.
pub fn set(object: &mut Value) {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    // The definitions of these kinds have no defaults for pod templates.
    if ["grove.io/", "leaderworkerset.x-k8s.io/"].iter().any(|group| version.starts_with(group)) {
        return;
    }
    let is_workload = version.starts_with("apps/");
    of_parts(object);
    if let Some(pod) = object.pointer_mut("/spec/template/spec").filter(|_| is_workload) {
        of_pod(pod);
    }
}

fn of_parts(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (part, field, default) in PARTS {
                if let Some(part) = fields.get_mut(part) {
                    fill(part, &[(field, json!(default))]);
                }
            }
            fields.values_mut().for_each(of_parts);
        }
        Value::Array(items) => items.iter_mut().for_each(of_parts),
        _ => {}
    }
}

fn of_pod(pod: &mut Value) {
    fill(
        pod,
        &[
            ("dnsPolicy", json!("ClusterFirst")),
            ("restartPolicy", json!("Always")),
            ("schedulerName", json!("default-scheduler")),
            ("securityContext", json!({})),
            ("terminationGracePeriodSeconds", json!(30)),
        ],
    );
    for list in ["containers", "initContainers"] {
        pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().for_each(of_container);
    }
    for volume in pod.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        for kind in FILES {
            if let Some(source) = volume.get_mut(kind) {
                fill(source, &[("defaultMode", json!(0o644))]);
            }
        }
    }
}

fn of_container(container: &mut Value) {
    fill(
        container,
        &[
            ("resources", json!({})),
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
        ],
    );
    for probe in PROBES {
        let Some(probe) = container.get_mut(probe) else { continue };
        fill(
            probe,
            &[
                ("failureThreshold", json!(3)),
                ("periodSeconds", json!(10)),
                ("successThreshold", json!(1)),
                ("timeoutSeconds", json!(1)),
            ],
        );
        if let Some(get) = probe.get_mut("httpGet") {
            fill(get, &[("path", json!("/")), ("scheme", json!("HTTP"))]);
        }
    }
}

/// Sets the fields that are absent.
fn fill(object: &mut Value, defaults: &[(&str, Value)]) {
    let Some(fields): Option<&mut Map<String, Value>> = object.as_object_mut() else { return };
    for (field, default) in defaults {
        fields.entry(*field).or_insert_with(|| default.clone());
    }
}
