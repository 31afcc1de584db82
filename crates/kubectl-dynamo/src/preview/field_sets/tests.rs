//! Tests of the fields that appliers own.

use serde_json::{Value, json};

use super::{apply, fields_of};

fn owned(manager: &str, operation: &str, fields: Value) -> Value {
    json!({ "manager": manager, "operation": operation, "fieldsV1": fields })
}

/// `spec` of an object with this spec and these owners after an apply by `us`.
fn applied(spec: Value, owners: Vec<Value>, body: Value) -> Value {
    let live = json!({ "kind": "K", "metadata": { "uid": "u", "managedFields": owners }, "spec": spec });
    let after = apply(&live, &json!({ "kind": "K", "metadata": {}, "spec": body }), "us");
    assert_eq!(after["metadata"]["uid"], "u");
    after["spec"].clone()
}

fn ours(fields: Value) -> Vec<Value> {
    vec![owned("us", "Apply", json!({ "f:spec": fields }))]
}

#[test]
fn what_others_set_and_defaults_stay() {
    let after =
        applied(json!({ "a": 1, "default": true, "b": { "x": 1 } }), ours(json!({ "f:a": {} })), json!({ "a": 2 }));
    assert_eq!(after, json!({ "a": 2, "default": true, "b": { "x": 1 } }));
}

#[test]
fn what_is_no_longer_applied_is_removed_with_its_defaults() {
    let live = json!({ "probe": { "path": "/x", "period": 10 }, "keep": 1 });
    let after = applied(live, ours(json!({ "f:probe": { "f:path": {} }, "f:keep": {} })), json!({ "keep": 1 }));
    assert_eq!(after, json!({ "keep": 1 }));
}

#[test]
fn a_field_that_is_removed_from_a_deployment_falls_back_to_its_default() {
    let object = |version: &str, container: Value| {
        json!({ "apiVersion": version, "metadata": {},
        "spec": { "template": { "spec": { "containers": [container] } } } })
    };
    let with =
        |probe: Value| json!({ "name": "main", "resources": { "limits": { "cpu": "1" } }, "livenessProbe": probe });
    let probe = json!({ "httpGet": { "port": 1 }, "periodSeconds": 5, "failureThreshold": 60 });
    for version in ["apps/v1", "nvidia.com/v1beta1"] {
        let live = apply(&json!({}), &object(version, with(probe.clone())), "us");
        let without = json!({ "name": "main", "livenessProbe": { "httpGet": { "port": 1 } } });
        let mut after = apply(&live, &object(version, without.clone()), "us");
        let main = after["spec"]["template"]["spec"]["containers"][0].take();
        if version == "apps/v1" {
            assert_eq!(main["resources"], json!({}));
            let expected = json!({ "httpGet": { "path": "/", "port": 1, "scheme": "HTTP" }, "failureThreshold": 3,
                "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1 });
            assert_eq!(main["livenessProbe"], expected);
        } else {
            assert_eq!(main, without);
        }
    }
}

#[test]
fn what_another_manager_owns_as_well_stays() {
    let mut owners = ours(json!({ "f:labels": { "f:a": {}, "f:b": {}, "f:c": {} } }));
    owners.push(owned("other", "Update", json!({ "f:spec": { "f:labels": { "f:b": {} } } })));
    let after = applied(json!({ "labels": { "a": 1, "b": 2, "c": 3 } }), owners, json!({ "labels": { "a": 1 } }));
    assert_eq!(after, json!({ "labels": { "a": 1, "b": 2 } }));
}

#[test]
fn elements_with_an_identity_are_merged_and_others_replaced() {
    let live = json!({ "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }, { "name": "C" }],
        "args": ["x", "y"] });
    let set = json!({ "f:args": {}, "f:env": { ".": {}, "k:{\"name\":\"A\"}": { ".": {}, "f:name": {}, "f:value": {} },
        "k:{\"name\":\"B\"}": { ".": {}, "f:name": {}, "f:value": {} } } });
    let after =
        applied(live, ours(set), json!({ "env": [{ "name": "D" }, { "name": "A", "value": "3" }], "args": ["z"] }));
    assert_eq!(after["env"], json!([{ "name": "D" }, { "name": "A", "value": "3" }, { "name": "C" }]));
    assert_eq!(after["args"], json!(["z"]));
}

#[test]
fn a_map_with_one_owner_is_replaced() {
    let after = applied(
        json!({ "selector": { "a": 1 } }),
        ours(json!({ "f:selector": {} })),
        json!({ "selector": { "b": 1 } }),
    );
    assert_eq!(after, json!({ "selector": { "b": 1 } }));
}

#[test]
fn an_object_that_was_applied_here_loses_fields_at_the_next_apply() {
    let first = json!({ "kind": "K", "metadata": { "name": "n", "labels": { "a": "1" } }, "spec": { "ports": [
        { "containerPort": 1 }, { "containerPort": 2 }] } });
    let live = apply(&json!({ "metadata": { "uid": "u" } }), &first, "us");
    let second = json!({ "kind": "K", "metadata": { "name": "n" }, "spec": { "ports": [{ "containerPort": 2 }] } });
    let after = apply(&live, &second, "us");
    assert_eq!(after["spec"], second["spec"]);
    assert_eq!(after["metadata"].get("labels"), None);
}

#[test]
fn sets_of_fields_are_written_as_the_api_server_writes_them() {
    let body = json!({ "apiVersion": "v1", "kind": "K", "metadata": { "name": "n", "uid": "u", "finalizers": ["f"] },
        "spec": { "ports": [{ "port": 80 }] } });
    let expected = json!({ "f:metadata": { "f:finalizers": { "v:\"f\"": {} } },
        "f:spec": { "f:ports": { "k:{\"port\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {} } } } });
    assert_eq!(fields_of("", &body), expected);
}

#[test]
fn what_is_replaced_whole_gets_its_defaults_again() {
    let live = json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } });
    let after = applied(
        live.clone(),
        ours(json!({ "f:fieldRef": {} })),
        json!({ "fieldRef": { "fieldPath": "metadata.name" } }),
    );
    assert_eq!(after, live);
}
