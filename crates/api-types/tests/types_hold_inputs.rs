//! Reading a real graph into our types and writing it again loses no field.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod support;

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use serde_json::{Value, json};

/// Whether a field is one that the types fill in, as the API server would.
fn is_default(difference: &support::Difference) -> bool {
    let defaults = [
        (".experimental.gpuMemoryService.mode", json!("IntraPod")),
        (".experimental.gpuMemoryService.deviceClassName", json!("gpu.nvidia.com")),
        (".experimental.failover.mode", json!("IntraPod")),
        (".experimental.failover.numShadows", json!(1)),
        (".experimental.checkpoint.startupPolicy", json!("Immediate")),
        (".experimental.checkpoint.deletionPolicy", json!("Delete")),
        (".restart.strategy.type", json!("Sequential")),
    ];
    difference.given.is_none()
        && defaults
            .iter()
            .any(|(path, value)| difference.path.ends_with(path) && difference.kept.as_ref() == Some(value))
}

fn assert_holds<T: serde::Serialize + serde::de::DeserializeOwned>(origin: &str, given: &Value) {
    let typed: T = serde_json::from_value(given.clone()).unwrap_or_else(|error| panic!("{origin}: {error}"));
    let mut lost = support::differences(&given["spec"], &json!(typed)["spec"]);
    lost.retain(|difference| !is_default(difference));
    assert_eq!(lost, [], "{origin}");
}

#[test]
fn graphs() {
    for input in support::inputs("v1beta1", "DynamoGraphDeployment") {
        assert_holds::<DynamoGraphDeployment>(&input.origin, &input.object);
    }
}

#[test]
fn components_on_their_own() {
    for input in support::inputs("v1beta1", "DynamoComponentDeployment") {
        assert_holds::<DynamoComponentDeployment>(&input.origin, &input.object);
    }
}

/// Every field that the schema of a component has, filled in.
#[test]
fn a_component_with_everything() {
    let everything = json!({
        "name": "all",
        "type": "decode",
        "providerOverride": { "apiVersion": "grove.io/v1alpha1", "target": "PodCliqueSet", "value": { "a": 1 } },
        "runtimeVersionOverride": "1.5.0",
        "globalDynamoNamespace": true,
        "podTemplate": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "main" }] } },
        "replicas": 3,
        "minAvailable": 2,
        "multinode": {
            "nodeCount": 4,
            "leader": { "providerOverride": { "apiVersion": "grove.io/v1alpha1", "value": {} } },
            "worker": {},
        },
        "sharedMemorySize": "8Gi",
        "modelRef": { "name": "m", "revision": "r" },
        "scalingAdapter": {},
        "eppConfig": {
            "configMapRef": { "name": "n", "key": "k", "optional": true },
            "config": {
                "apiVersion": "v1", "kind": "C", "featureGates": ["f"], "unknown": { "kept": [1] },
                "plugins": [{ "name": "n", "type": "t", "parameters": [1, "a"] }],
                "schedulingProfiles": [{ "name": "n", "plugins": [{ "pluginRef": "n", "weight": 2 }] }],
                "saturationDetector": {
                    "queueDepthThreshold": 1, "kvCacheUtilThreshold": 0.5, "metricsStalenessThreshold": "200ms",
                },
            },
        },
        "frontendSidecar": "f",
        "compilationCache": { "pvcName": "p", "mountPath": "/c" },
        "topologyConstraint": { "packDomain": "rack" },
        "experimental": {
            "gpuMemoryService": {
                "mode": "InterPod", "deviceClassName": "d", "extraClientContainers": ["c"],
                "extraClientPods": [{ "name": "p", "podTemplate": { "spec": {} } }],
            },
            "failover": { "mode": "InterPod", "numShadows": 1 },
            "grove": { "forceScalingGroup": false },
            "checkpoint": {
                "enabled": true, "mode": "Auto", "startupPolicy": "WaitForCheckpoint", "deletionPolicy": "Retain",
                "checkpointRef": "r", "targetContainerName": "t",
                "identity": {
                    "model": "m", "backendFramework": "vllm", "dynamoVersion": "1", "tensorParallelSize": 2,
                    "pipelineParallelSize": 3, "dtype": "fp8", "maxModelLen": 4, "extraParameters": { "a": "b" },
                },
                "job": { "gmsClientContainers": ["g"], "podTemplate": { "spec": { "any": "thing" } } },
            },
        },
    });
    assert_holds::<DynamoGraphDeployment>(
        "graph",
        &json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": { "name": "g" },
            "spec": {
                "annotations": { "a": "b" }, "labels": { "c": "d" }, "priorityClassName": "p",
                "components": [everything],
                "env": [{ "name": "E", "value": "" }], "backendFramework": "trtllm",
                "restart": { "id": "1", "strategy": { "type": "Parallel", "order": ["all"] } },
                "topologyConstraint": { "clusterTopologyName": "t", "packDomain": "zone" },
                "experimental": { "kvTransferPolicy": {
                    "clusterTopologyName": "t", "labelKey": "l", "domain": "rack",
                    "enforcement": "preferred", "preferredWeight": 0.5,
                } },
            },
        }),
    );
    let mut alone = everything;
    alone["backendFramework"] = json!("vllm");
    assert_holds::<DynamoComponentDeployment>(
        "component",
        &json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment", "metadata": { "name": "c" },
            "spec": alone,
        }),
    );
}
