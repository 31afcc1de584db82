//! Removes empty fields, so that equal specs have one form.
//!
//! `value: ""`, `resources: {}` and `args: []` have no effect. Without them the objects equal those of the upstream
//! operator, and adding or removing them starts no new worker revision.

use api_types::typed::typed;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

/// Fields whose empty object says nothing: maps, and structures that are always there. An empty object elsewhere, such
/// as
/// `emptyDir: {}` or `securityContext: {}`, is a statement and stays.
const MAPS: &[&str] =
    &["annotations", "labels", "limits", "matchLabels", "nodeSelector", "overhead", "requests", "resources"];

/// Maps from names to texts, in which an empty text is a value. What has such a name and is no map, is none: `options`
/// are a map for drivers of volumes and a list for DNS.
const TEXTS: &[&str] = &["annotations", "labels", "matchLabels", "nodeSelector", "options", "volumeAttributes"];

/// Fields in which an empty text says something: of all storage classes, none.
const STATEMENTS: &[&str] = &["storageClassName"];

/// Removes fields without effect.
pub fn canonical(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut value = json!(template);
    drop_silent(&mut value);
    // The result differs from the input only in optional fields that are missing, so it has the same form.
    typed(value).unwrap_or_else(|_| template.clone())
}

fn drop_silent(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // A label or annotation without a value is still there.
            fields
                .iter_mut()
                .filter(|(key, value)| !(value.is_object() && TEXTS.contains(&key.as_str())))
                .for_each(|(_, value)| drop_silent(value));
            fields.retain(|key, value| !is_silent(key, value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_silent),
        _ => {}
    }
}

fn is_silent(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() && !STATEMENTS.contains(&key),
        Value::Array(items) => items.is_empty() && key != "containers",
        Value::Object(fields) => fields.is_empty() && MAPS.contains(&key),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without it, the volume would be made in the cluster's default class.
    #[test]
    fn a_volume_without_any_storage_class_stays_one() {
        let of_class = |class: Value| {
            let mut claim =
                json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
            if !class.is_null() {
                claim["storageClassName"] = class;
            }
            let volume = json!({ "name": "cache", "ephemeral": { "volumeClaimTemplate": { "spec": claim } } });
            let template = json!({ "spec": { "containers": [], "volumes": [volume] } });
            json!(canonical(&serde_json::from_value(template).unwrap()))
                .pointer("/spec/volumes/0/ephemeral/volumeClaimTemplate/spec/storageClassName")
                .cloned()
        };
        assert_eq!(of_class(json!("")), Some(json!("")));
        assert_eq!(of_class(json!("fast")), Some(json!("fast")));
        assert_eq!(of_class(Value::Null), None, "the cluster's choice, as before");
    }

    #[test]
    fn parameters_of_volume_drivers_stay_as_they_are() {
        let template = json!({ "spec": {
            "containers": [],
            "dnsConfig": { "options": [{ "name": "rotate", "value": "" }] },
            "volumes": [
                { "name": "csi", "csi": { "driver": "d", "volumeAttributes": { "empty": "", "set": "1" } } },
                { "name": "none", "csi": { "driver": "d", "fsType": "", "volumeAttributes": {} } },
                { "name": "flex", "flexVolume": { "driver": "d", "options": { "empty": "" } } },
            ]
        } });
        let mut expected = template.clone();
        expected["spec"]["dnsConfig"]["options"] = json!([{ "name": "rotate" }]);
        expected["spec"]["volumes"][1]["csi"].as_object_mut().unwrap().remove("fsType");
        assert_eq!(json!(canonical(&serde_json::from_value(template).unwrap())), expected);
    }

    #[test]
    fn what_says_nothing_is_left_out_and_what_says_something_stays() {
        let template: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": { "labels": {}, "annotations": { "a": "" } },
            "spec": {
                "securityContext": {},
                "containers": [{ "name": "main", "resources": { "limits": {} }, "args": [],
                    "env": [{ "name": "EMPTY", "value": "" }, { "name": "SET", "value": "0" }] }],
                "volumes": [{ "name": "scratch", "emptyDir": {} }],
                "terminationGracePeriodSeconds": 0
            }
        }))
        .unwrap();
        let expected = json!({
            "metadata": { "annotations": { "a": "" } },
            "spec": {
                "securityContext": {},
                "containers": [{ "name": "main", "env": [{ "name": "EMPTY" }, { "name": "SET", "value": "0" }] }],
                "volumes": [{ "name": "scratch", "emptyDir": {} }],
                "terminationGracePeriodSeconds": 0
            }
        });
        assert_eq!(json!(canonical(&template)), expected);
    }
}
