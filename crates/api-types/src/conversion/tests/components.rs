//! Each field of a component.

use super::*;

/// Subject of a row, a service in v1alpha1, and its form in v1beta1.
type Row = (&'static str, Value, Value);

fn rows() -> Vec<Row> {
    [plain_fields(), mounts_and_resources(), environment_and_probes(), pods()].concat()
}

/// A component whose main container has these fields.
fn main(mut fields: Value) -> Value {
    fields["name"] = json!("main");
    json!({ "podTemplate": { "spec": { "containers": [fields] } } })
}

fn probe(port: i32) -> Value {
    json!({ "httpGet": { "port": port } })
}

fn plain_fields() -> Vec<Row> {
    vec![
        ("the same", json!({ "replicas": 0, "minAvailable": 1 }), json!({ "replicas": 0, "minAvailable": 1 })),
        ("type", json!({ "componentType": "worker" }), json!({ "type": "worker" })),
        ("part", json!({ "componentType": "worker", "subComponentType": "decode" }), json!({ "type": "decode" })),
        ("odd part", json!({ "componentType": "worker", "subComponentType": "x" }), json!({ "type": "worker" })),
        ("odd type", json!({ "componentType": "main" }), json!({})),
        ("part of an odd type", json!({ "componentType": "main", "subComponentType": "decode" }), json!({})),
        ("memory", json!({ "sharedMemory": { "size": "8Gi" } }), json!({ "sharedMemorySize": "8Gi" })),
        ("no memory", json!({ "sharedMemory": { "disabled": true, "size": "0" } }), json!({ "sharedMemorySize": "0" })),
        (
            "no memory, sized",
            json!({ "sharedMemory": { "disabled": true, "size": "1Gi" } }),
            json!({ "sharedMemorySize": "0" }),
        ),
        ("zero memory", json!({ "sharedMemory": { "size": "0Gi" } }), json!({})),
        ("adapter", json!({ "scalingAdapter": { "enabled": true } }), json!({ "scalingAdapter": {} })),
        ("adapter off", json!({ "scalingAdapter": {} }), json!({})),
        (
            "gms",
            json!({ "gpuMemoryService": { "enabled": true, "mode": "interPod" }, "failover": { "enabled": true, "numShadows": 3 } }),
            json!({ "experimental": { "gpuMemoryService": { "mode": "InterPod" }, "failover": { "numShadows": 3 } } }),
        ),
        ("gms off", json!({ "gpuMemoryService": { "enabled": false }, "failover": { "enabled": false } }), json!({})),
        (
            "checkpoint",
            json!({ "checkpoint": { "enabled": false } }),
            json!({ "experimental": { "checkpoint": { "enabled": false } } }),
        ),
        (
            "only in v1alpha1",
            json!({ "ingress": { "enabled": true }, "autoscaling": {}, "annotations": { "a": "b" }, "labels": {}, "dynamoNamespace": "n" }),
            json!({}),
        ),
    ]
}

fn mounts_and_resources() -> Vec<Row> {
    vec![
        (
            "cache",
            json!({ "volumeMounts": [{ "name": "c", "mountPoint": "/c", "useAsCompilationCache": true }] }),
            json!({ "compilationCache": { "pvcName": "c", "mountPath": "/c" } }),
        ),
        (
            "mounts",
            json!({ "volumeMounts": [{ "name": "d", "mountPoint": "/d" }, { "name": "c", "useAsCompilationCache": true }],
                    "extraPodSpec": { "mainContainer": { "volumeMounts": [{ "name": "d", "mountPath": "/e", "readOnly": true }] } } }),
            {
                let mut beta = main(json!({ "volumeMounts": [
                    { "name": "d", "mountPath": "/e", "readOnly": true }, { "name": "d", "mountPath": "/d" }, { "name": "c", "mountPath": "" },
                ] }));
                beta["compilationCache"] = json!({ "pvcName": "c" });
                beta
            },
        ),
        (
            "resources",
            json!({ "resources": { "limits": { "cpu": "1", "gpu": "2", "custom": { "x/y": "3" }, "memory": "lots" }, "claims": [{ "name": "c" }] } }),
            main(
                json!({ "resources": { "limits": { "cpu": "1", "nvidia.com/gpu": "2", "x/y": "3" }, "claims": [{ "name": "c" }] } }),
            ),
        ),
        (
            "gpu type",
            json!({ "resources": { "requests": { "gpu": "2", "gpuType": "x/gpu" } } }),
            main(json!({ "resources": { "requests": { "x/gpu": "2" } } })),
        ),
        (
            "resources in both places",
            json!({ "resources": { "limits": { "cpu": "1", "memory": "1Gi" } }, "extraPodSpec": { "mainContainer": { "resources": { "limits": { "cpu": "2" } } } } }),
            main(json!({ "resources": { "limits": { "cpu": "2", "memory": "1Gi" } } })),
        ),
        (
            "env",
            json!({ "envs": [{ "name": "A", "value": "1" }, { "name": "B", "value": "1" }],
                    "extraPodSpec": { "mainContainer": { "env": [{ "name": "C", "value": "2" }, { "name": "A", "value": "2" }] } } }),
            main(
                json!({ "env": [{ "name": "A", "value": "2" }, { "name": "B", "value": "1" }, { "name": "C", "value": "2" }] }),
            ),
        ),
    ]
}

fn environment_and_probes() -> Vec<Row> {
    vec![
        ("secret", json!({ "envFromSecret": "s" }), main(json!({ "envFrom": [{ "secretRef": { "name": "s" } }] }))),
        (
            "secret below",
            json!({ "envFromSecret": "s", "extraPodSpec": { "mainContainer": { "envFrom": [{ "configMapRef": { "name": "m" } }] } } }),
            main(json!({ "envFrom": [{ "configMapRef": { "name": "m" } }] })),
        ),
        (
            "probes of one kind",
            json!({ "livenessProbe": { "httpGet": { "port": 1 }, "periodSeconds": 5 }, "extraPodSpec": { "mainContainer": { "livenessProbe": probe(2) } } }),
            main(json!({ "livenessProbe": { "httpGet": { "port": 2 }, "periodSeconds": 5 } })),
        ),
        (
            "probes of two kinds have one handler",
            json!({ "livenessProbe": { "httpGet": { "port": 1 }, "periodSeconds": 5 }, "extraPodSpec": { "mainContainer": { "livenessProbe": { "exec": { "command": ["x"] } } } } }),
            main(json!({ "livenessProbe": { "exec": { "command": ["x"] }, "periodSeconds": 5 } })),
        ),
        (
            "a probe without handler over one with",
            json!({ "readinessProbe": probe(1), "extraPodSpec": { "mainContainer": { "readinessProbe": { "periodSeconds": 9 } } } }),
            main(json!({ "readinessProbe": { "httpGet": { "port": 1 }, "periodSeconds": 9 } })),
        ),
    ]
}

fn pods() -> Vec<Row> {
    vec![
        (
            "the rest of the pod",
            json!({ "extraPodSpec": { "hostIPC": true, "mainContainer": { "name": "mine", "image": "i", "startupProbe": probe(1) },
                                      "containers": [{ "name": "z" }, { "name": "b", "image": "j" }] },
                    "extraPodMetadata": { "labels": { "a": "b" }, "annotations": {} } }),
            json!({ "podTemplate": { "metadata": { "labels": { "a": "b" } }, "spec": { "hostIPC": true, "containers": [
                { "name": "main", "image": "i", "startupProbe": probe(1) }, { "name": "z" }, { "name": "b", "image": "j" },
            ] } } }),
        ),
        (
            "a container called main is the main container",
            json!({ "extraPodSpec": { "containers": [{ "name": "b" }, { "name": "main", "image": "i" }] } }),
            json!({ "podTemplate": { "spec": { "containers": [{ "name": "main", "image": "i" }, { "name": "b" }] } } }),
        ),
        (
            "a container called main beside the main container",
            json!({ "extraPodSpec": { "mainContainer": { "image": "i" }, "containers": [{ "name": "main", "image": "j" }] } }),
            main(json!({ "image": "i" })),
        ),
        (
            "sidecar",
            json!({ "frontendSidecar": { "image": "i", "args": ["a"], "envs": [{ "name": "A" }], "envFromSecret": "s" } }),
            json!({ "frontendSidecar": "sidecar-frontend", "podTemplate": { "spec": { "containers": [
                { "name": "main" },
                { "name": "sidecar-frontend", "image": "i", "args": ["a"], "env": [{ "name": "A" }], "envFrom": [{ "secretRef": { "name": "s" } }] },
            ] } } }),
        ),
        (
            "sidecar, twice",
            json!({ "frontendSidecar": { "image": "i" }, "extraPodSpec": { "containers": [{ "name": "sidecar-frontend", "image": "j" }] } }),
            json!({ "frontendSidecar": "sidecar-frontend", "podTemplate": { "spec": { "containers": [
                { "name": "main" }, { "name": "sidecar-frontend", "image": "j" },
            ] } } }),
        ),
        (
            "empty parts",
            json!({ "extraPodSpec": {}, "envs": [], "resources": null, "volumeMounts": [{}] }),
            main(json!({ "volumeMounts": [{ "name": null, "mountPath": "" }] })),
        ),
        (
            "wrong types",
            json!({ "extraPodSpec": 1, "envs": {}, "sharedMemory": [], "componentType": 3, "checkpoint": "x" }),
            json!({}),
        ),
    ]
}

#[test]
fn alpha_to_beta() {
    for (what, service, expected) in rows() {
        assert_eq!(component(&up(&alpha(&service))), expected, "{what}");
    }
}

#[test]
fn alpha_comes_back() {
    for (_, service, _) in rows() {
        assert_comes_back(&alpha(&service));
        let mut alone = object(ApiVersion::V1Alpha1, "DynamoComponentDeployment", &service);
        assert_comes_back(&alone);
        alone["spec"]["backendFramework"] = json!("vllm");
        alone["spec"]["serviceName"] = json!("other");
        assert_comes_back(&alone);
    }
}

#[test]
fn beta_comes_back() {
    let more = [
        json!({ "experimental": {} }),
        json!({ "experimental": { "grove": { "forceScalingGroup": true } } }),
        json!({ "experimental": { "grove": {}, "checkpoint": { "enabled": true } } }),
        json!({ "type": "main" }),
        json!({ "sharedMemorySize": 0 }),
        json!({ "podTemplate": {} }),
        json!({ "podTemplate": { "spec": {} } }),
        json!({ "podTemplate": { "spec": { "containers": [] } } }),
        json!({ "podTemplate": { "metadata": { "name": "n", "finalizers": ["f"] }, "spec": { "containers": [{ "name": "main" }] } } }),
        json!({ "podTemplate": { "spec": { "containers": [{ "name": "b", "image": "i" }, { "name": "main", "image": "j" }] } } }),
        json!({ "podTemplate": { "spec": { "containers": [{ "name": "b", "image": "i" }], "nodeSelector": {} } } }),
        json!({ "podTemplate": { "spec": { "containers": [{ "name": "main" }, { "name": "main", "image": "i" }, {}] } } }),
        json!({ "podTemplate": { "spec": { "containers": [{ "name": "main", "stdin": false, "command": [], "resources": { "limits": { "cpu": 1 } } }] } } }),
        json!({ "compilationCache": { "pvcName": "c", "mountPath": "/c" }, "podTemplate": { "spec": { "containers": [{ "name": "main", "image": "i" }] } } }),
        json!({ "compilationCache": { "pvcName": "c" }, "podTemplate": { "spec": { "containers": [{ "name": "x", "image": "i" }] } } }),
        json!({ "compilationCache": { "pvcName": "c", "mountPath": "/c" }, "podTemplate": { "spec": { "containers": [{ "name": "main", "volumeMounts": [
            { "name": "d", "mountPath": "/d", "subPath": "s" }, { "name": "c", "mountPath": "/c", "readOnly": true }, { "name": "d", "mountPath": "/d" },
        ] }] } } }),
        json!({ "frontendSidecar": "x", "podTemplate": { "spec": { "containers": [{ "name": "main" }, { "name": "x", "image": "i" }] } } }),
        json!({ "frontendSidecar": "sidecar-frontend" }),
    ];
    for component in rows().into_iter().map(|(_, _, beta)| beta).chain(more) {
        assert_comes_back(&beta(component.clone()));
        assert_comes_back(&object(ApiVersion::V1Beta1, "DynamoComponentDeployment", &component));
        let mut named = component;
        named["name"] = json!("n");
        assert_comes_back(&object(ApiVersion::V1Beta1, "DynamoComponentDeployment", &named));
    }
}
