//! Defaults that the API server sets, and those that it does not set.

use std::{collections::BTreeSet, path::Path};

use http::Method;
use serde_json::{Value, json};

use crate::server::{COMPONENTS, GRAPHS, Server, definitions, graph, graph_of, plural};

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
    let first = json!({ "observedGeneration": -1, "conditions": [], "state": "initializing" });
    assert_eq!(stored["status"], first);
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

/// One object of each kind with conditions, in each version. No controller runs.
#[tokio::test]
async fn a_new_object_shows_that_no_controller_has_reconciled_it() {
    let server = Server::new().await;
    let main = json!({ "containers": [{ "name": "main", "image": "i" }] });
    let checkpoint = json!({
        "identity": { "model": "m", "backendFramework": "vllm" }, "job": { "podTemplateSpec": { "spec": main } },
    });
    let alpha_request = json!({ "model": "m", "backend": "vllm", "profilingConfig": { "profilerImage": "p" } });
    let table = [
        ("v1beta1", "DynamoGraphDeployment", json!({ "components": [{ "name": "a" }] })),
        ("v1alpha1", "DynamoGraphDeployment", json!({ "services": { "a": {} } })),
        ("v1beta1", "DynamoComponentDeployment", json!({ "type": "worker" })),
        ("v1alpha1", "DynamoComponentDeployment", json!({ "componentType": "worker" })),
        ("v1beta1", "DynamoGraphDeploymentRequest", json!({ "model": "m", "backend": "vllm", "image": "i" })),
        ("v1alpha1", "DynamoGraphDeploymentRequest", alpha_request),
        ("v1alpha1", "DynamoModel", json!({ "modelName": "m", "baseModelName": "m", "modelType": "base" })),
        ("v1alpha1", "DynamoCheckpoint", checkpoint),
        ("v1alpha1", "DynamoComponent", json!({ "dynamoComponent": "a:1" })),
    ];
    for (version, kind, spec) in table {
        let collection = server.collection_in(version, &format!("{}s", kind.to_lowercase()));
        let name = format!("first-{}-{version}", kind.to_lowercase());
        let object = json!({
            "apiVersion": format!("nvidia.com/{version}"), "kind": kind, "metadata": { "name": name }, "spec": spec,
        });
        let path = format!("{collection}?fieldValidation=Strict");
        server.send(Method::POST, &path, "application/json", &object).await.granted();
        let path = format!("{collection}/{name}");
        let stored = server.get(&path).await.granted();
        assert_eq!(stored["status"]["observedGeneration"], -1, "{kind} {version}: {}", stored["status"]);
        assert_eq!(stored["metadata"].get("annotations"), None, "{kind} {version}");
        // The status is valid in the version of the request: a label can be added.
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        server.send(Method::PATCH, &path, "application/merge-patch+json", &label).await.granted();
    }
}

/// There is an example of each kind, and the API server accepts it without a warning.
#[tokio::test]
async fn the_examples_of_the_repository_are_valid() {
    let server = Server::new().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples");
    let mut kinds = BTreeSet::new();
    for file in [folder.clone(), folder.join("2025")].iter().flat_map(|it| std::fs::read_dir(it).unwrap()) {
        let file = file.unwrap().path();
        if file.is_dir() {
            continue;
        }
        for text in std::fs::read_to_string(&file).unwrap().split("\n---\n") {
            let object: Value = serde_saphyr::from_str(text).unwrap();
            let (kind, version) = (object["kind"].as_str().unwrap(), object["apiVersion"].as_str().unwrap());
            let Some(version) = version.strip_prefix("nvidia.com/") else { continue };
            let collection = server.collection_in(version, &plural(kind));
            let path = format!("{collection}?fieldValidation=Strict&dryRun=All");
            server.send(Method::POST, &path, "application/json", &object).await.granted();
            kinds.insert(kind.to_owned());
        }
    }
    let all = definitions().into_iter().map(|crd| crd["spec"]["names"]["kind"].as_str().unwrap().to_owned());
    // Workers write these themselves.
    let missing: Vec<String> = all.filter(|kind| kind != "DynamoWorkerMetadata" && !kinds.contains(kind)).collect();
    assert_eq!(missing, [""; 0]);
}
