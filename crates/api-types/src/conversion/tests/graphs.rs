//! Tests of the parts of graphs outside their components, and of standalone components.

use super::*;

#[test]
fn the_frame_of_a_graph() {
    let alpha = object(
        ApiVersion::V1Alpha1,
        "DynamoGraphDeployment",
        &json!({
            "envs": [{ "name": "A" }], "pvcs": [{ "name": "p", "create": false }], "restart": { "id": "1" },
            "topologyConstraint": { "topologyProfile": "t", "packDomain": "rack" },
            "services": { "b": { "serviceName": "x" }, "a": {}, "gone": null },
        }),
    );
    let beta = up(&alpha);
    assert_eq!(
        beta["spec"],
        json!({
            "env": [{ "name": "A" }], "restart": { "id": "1" },
            "topologyConstraint": { "clusterTopologyName": "t", "packDomain": "rack" },
            "components": [{ "name": "a" }, { "name": "b" }],
        })
    );
    let payload: Value = serde_json::from_str(beta["metadata"]["annotations"][SPEC].as_str().unwrap()).unwrap();
    let saved = json!({ "pvcs": [{ "name": "p", "create": false }], "services": { "b": { "serviceName": "x" }, "gone": null } });
    assert_eq!(payload, json!({ "version": 1, "spec": saved }));
    assert_comes_back(&alpha);
}

#[test]
fn a_plain_graph_needs_no_payload() {
    let beta = beta(
        json!({ "type": "frontend", "podTemplate": { "spec": { "containers": [{ "name": "main", "image": "i" }] } } }),
    );
    let alpha = down(&beta);
    assert_eq!(alpha["metadata"], json!({ "name": "g" }));
    assert_comes_back(&alpha);
}

#[test]
fn the_order_of_components() {
    let graph = |names: &[&str]| {
        let list: Vec<Value> = names.iter().map(|name| json!({ "name": name, "replicas": 1 })).collect();
        object(ApiVersion::V1Beta1, "DynamoGraphDeployment", &json!({ "components": list }))
    };
    let names = |graph: &Value| -> Vec<String> {
        graph["spec"]["components"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    for order in [&["a", "b", "c"], &["c", "a", "b"]] {
        assert_comes_back(&graph(order));
    }
    let mut edited = down(&graph(&["c", "a", "b"]));
    edited["spec"]["services"].as_object_mut().unwrap().remove("a");
    edited["spec"]["services"]["aa"] = json!({});
    assert_eq!(names(&up(&edited)), ["c", "b", "aa"]);
}

#[test]
fn statuses() {
    let spec = json!({});
    let status = |names: Value| {
        let mut graph = object(ApiVersion::V1Alpha1, "DynamoGraphDeployment", &spec);
        graph["status"] = json!({ "state": "pending", "services": { "a": names } });
        graph
    };
    for (alpha, names) in [
        (json!({ "componentName": "y", "componentNames": ["x", "y"] }), json!(["x", "y"])),
        (json!({ "componentName": "x", "componentNames": ["x", "y"] }), json!(["x", "y"])),
        (json!({ "componentName": "x" }), json!(["x"])),
    ] {
        let alpha = status(alpha);
        assert_eq!(
            up(&alpha)["status"],
            json!({ "state": "pending", "components": { "a": { "componentNames": names } } })
        );
        assert_comes_back(&alpha);
        let mut edited = up(&alpha);
        edited["status"]["components"]["a"]["componentNames"] = json!(["z"]);
        assert_eq!(down(&edited)["status"]["services"]["a"], json!({ "componentName": "z", "componentNames": ["z"] }));
    }
    let mut rollout = object(ApiVersion::V1Beta1, "DynamoGraphDeployment", &spec);
    rollout["status"] = json!({ "rollingUpdate": { "phase": "Pending", "updatedComponents": ["a"] } });
    assert_eq!(down(&rollout)["status"]["rollingUpdate"], json!({ "phase": "Pending", "updatedServices": ["a"] }));
    assert_comes_back(&rollout);
}

#[test]
fn a_state_that_says_nothing_is_left_out() {
    let mut graph = object(ApiVersion::V1Alpha1, "DynamoGraphDeployment", &json!({}));
    assert_eq!(up(&graph).get("status"), None);
    graph["status"] = json!({ "state": "" });
    assert_eq!(up(&graph)["status"], json!({}));
    graph["apiVersion"] = json!("nvidia.com/v1beta1");
    assert_eq!(down(&graph)["status"], json!({}));
}

#[test]
fn a_component_takes_the_name_of_its_object() {
    let alone = object(ApiVersion::V1Alpha1, "DynamoComponentDeployment", &json!({}));
    let beta = up(&alone);
    assert_eq!(beta["spec"], json!({ "name": "g" }));
    let marker = r#"{"rawJSON":[{"nil":true,"path":"serviceName"}],"spec":{},"version":1}"#;
    assert_eq!(beta["metadata"]["annotations"]["nvidia.com/dcd-spec"], marker);
    assert_comes_back(&alone);
    let mut renamed = beta;
    renamed["spec"]["name"] = json!("other");
    assert_eq!(down(&renamed)["spec"], json!({ "serviceName": "other" }));
}

#[test]
fn the_status_of_a_component() {
    let mut alone = object(ApiVersion::V1Alpha1, "DynamoComponentDeployment", &json!({ "serviceName": "a" }));
    alone["status"] =
        json!({ "conditions": [], "podSelector": { "a": "b" }, "service": { "componentName": "x", "replicas": 1 } });
    let beta = up(&alone);
    assert_eq!(beta["status"], json!({ "conditions": [], "component": { "componentNames": ["x"], "replicas": 1 } }));
    let saved = r#"{"podSelector":{"a":"b"},"service":{"componentName":"x"}}"#;
    assert_eq!(beta["metadata"]["annotations"]["nvidia.com/dcd-status"], saved);
    assert_comes_back(&alone);
}

/// As the upstream operator wrote it: with the zero values that Go adds, and quantities in their shortest form.
#[test]
fn an_object_stored_by_the_reference() {
    let saved = r#"{"version":1,"spec":{"resources":{"requests":{"cpu":"1000m"}},"envs":[{"name":"A","value":"1"}],"envFromSecret":"s","extraPodSpec":{"mainContainer":{"name":"","env":[{"name":"B","value":"2"}],"resources":{}}}},"rawJSON":[{"path":"serviceName","nil":true}]}"#;
    let mut stored = object(
        ApiVersion::V1Beta1,
        "DynamoComponentDeployment",
        &json!({ "name": "g", "podTemplate": { "spec": { "containers": [{
            "name": "main", "image": "i", "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
            "envFrom": [{ "secretRef": { "name": "s" } }], "resources": { "requests": { "cpu": "1" } },
        }] } } }),
    );
    stored["metadata"]["annotations"] = json!({ "nvidia.com/dcd-spec": saved });
    assert_eq!(
        down(&stored)["spec"],
        json!({
            "resources": { "requests": { "cpu": "1000m" } }, "envs": [{ "name": "A", "value": "1" }], "envFromSecret": "s",
            "extraPodSpec": { "mainContainer": { "image": "i", "env": [{ "name": "B", "value": "2" }] } },
        })
    );
    assert_eq!(up(&down(&stored))["spec"], stored["spec"]);
}
