//! What the API server fills in, and what it does not.

use crate::server::{COMPONENTS, GRAPHS, Server, graph, graph_of};
use serde_json::{Value, json};

#[tokio::test]
async fn optional_sections_get_their_defaults() {
    let server = Server::new().await;
    let cases = [
        (json!({ "multinode": {} }), json!({ "multinode": { "nodeCount": 2 } })),
        (
            json!({ "type": "worker", "experimental": { "gpuMemoryService": {}, "failover": {} } }),
            json!({ "type": "worker", "experimental": {
                "gpuMemoryService": { "mode": "IntraPod", "deviceClassName": "gpu.nvidia.com" },
                "failover": { "mode": "IntraPod", "numShadows": 1 },
            } }),
        ),
        (
            json!({ "experimental": { "checkpoint": { "enabled": true } } }),
            json!({ "experimental": { "checkpoint": {
                "enabled": true,
                "startupPolicy": "Immediate",
                "deletionPolicy": "Delete",
                "targetContainerName": "main",
            } } }),
        ),
        (
            json!({ "podTemplate": { "spec": { "containers": [
                { "name": "main", "ports": [{ "containerPort": 8000 }], "envFrom": [{ "secretRef": {} }] },
            ] } } }),
            json!({ "podTemplate": { "spec": { "containers": [{
                "name": "main",
                "ports": [{ "containerPort": 8000, "protocol": "TCP" }],
                "envFrom": [{ "secretRef": { "name": "" } }],
            }] } } }),
        ),
    ];
    for (given, stored) in cases {
        let answer = server.try_create(GRAPHS, &graph_of("defaults", &given)).await.granted();
        assert_eq!(answer["spec"], graph_of("defaults", &stored)["spec"]);
    }
}

#[tokio::test]
async fn a_restart_is_sequential_unless_it_says_otherwise() {
    let server = Server::new().await;
    server.create(GRAPHS, &graph_of("restarted", &json!({}))).await.granted();
    let restart = json!({ "spec": { "restart": { "id": "1", "strategy": {} } } });
    let stored = server.patch("restarted", &restart).await.granted();
    assert_eq!(stored["spec"]["restart"], json!({ "id": "1", "strategy": { "type": "Sequential" } }));
}

#[tokio::test]
async fn nothing_else_appears() {
    let server = Server::new().await;
    let spec = json!({
        "components": [
            {
                "name": "Frontend",
                "type": "frontend",
                "podTemplate": {
                    "metadata": { "labels": { "a": "b" } },
                    "spec": {
                        "containers": [{
                            "name": "main",
                            "image": "dynamo:1.5.0",
                            "resources": { "limits": { "nvidia.com/gpu": 1 } },
                            "startupProbe": { "httpGet": { "path": "/live", "port": "http" } },
                            "lifecycle": {},
                        }],
                        "securityContext": {},
                        "volumes": [{ "name": "disk", "azureDisk": {
                            "diskName": "d", "diskURI": "u", "fsType": "xfs", "readOnly": true,
                        } }],
                    },
                },
            },
            { "name": "plain" },
        ],
        "experimental": {},
    });
    let stored = server.try_create(GRAPHS, &graph("plain", &spec)).await.granted();
    assert_eq!(stored["spec"], spec);
    assert_eq!(stored.get("status"), None);
}

#[tokio::test]
async fn a_component_on_its_own_needs_no_name_and_has_no_fields_of_graphs() {
    let server = Server::new().await;
    let component = |spec: &Value| {
        json!({
            "apiVersion": "nvidia.com/v1beta1",
            "kind": "DynamoComponentDeployment",
            "metadata": { "name": "alone" },
            "spec": spec,
        })
    };
    let spec = json!({ "type": "worker", "backendFramework": "sglang" });
    let stored = server.try_create(COMPONENTS, &component(&spec)).await.granted();
    assert_eq!(stored["spec"], spec);
    for field in ["spec.providerOverride", "spec.multinode.leader", "spec.multinode.worker"] {
        let spec = json!({
            "providerOverride": { "apiVersion": "grove.io/v1alpha1", "value": {} },
            "multinode": { "leader": {}, "worker": {} },
        });
        let answer = server.try_create(COMPONENTS, &component(&spec)).await;
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains(&format!("unknown field \"{field}\"")), "{message}");
    }
}
