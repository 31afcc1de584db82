//! Tests of objects that the API server rejects by itself, with the field at fault.

use serde_json::{Value, json};

use crate::server::{Answer, GRAPHS, Server, graph, graph_of};

/// Description of the violation, the `spec`, the field at fault, and a part of the message.
type Case = (&'static str, Value, &'static str, &'static str);

fn assert_refused(what: &str, answer: &Answer, field: &str, message: &str) {
    assert_eq!(answer.code, 422, "{what}: {answer:?}");
    let causes = answer.causes();
    assert!(causes.iter().any(|(f, m)| f == field && m.contains(message)), "{what}: {causes:#?}");
}

#[tokio::test]
async fn violations_in_the_graph() {
    let many: Vec<Value> = (0..26).map(|i| json!({ "name": format!("c{i}") })).collect();
    let policy = |policy: Value| json!({ "experimental": { "kvTransferPolicy": policy } });
    let prefix = "abcdefg.".repeat(32);
    let cases: [Case; 10] = [
        (
            "two endpoint pickers",
            json!({ "components": [{ "name": "a", "type": "epp" }, { "name": "b", "type": "epp" }] }),
            "spec.components",
            "only one component of type epp",
        ),
        (
            "names equal but for case",
            json!({ "components": [{ "name": "Worker" }, { "name": "worker" }] }),
            "spec.components",
            "same name",
        ),
        (
            "the same name twice",
            json!({ "components": [{ "name": "a" }, { "name": "a" }] }),
            "spec.components[1]",
            "Duplicate",
        ),
        ("26 components", json!({ "components": many }), "spec.components", "must have at most 25 items"),
        ("no name", json!({ "components": [{ "type": "worker" }] }), "spec.components[0].name", "Required"),
        ("restart at creation", json!({ "restart": { "id": "1" } }), "spec", "restart cannot be set when"),
        ("unknown framework", json!({ "backendFramework": "tgi" }), "spec.backendFramework", "Unsupported value"),
        (
            "two sources of topology",
            policy(json!({ "domain": "rack", "labelKey": "a", "clusterTopologyName": "b" })),
            "spec.experimental.kvTransferPolicy",
            "exactly one of labelKey and clusterTopologyName",
        ),
        (
            "preferred without weight",
            policy(json!({ "domain": "rack", "labelKey": "a", "enforcement": "preferred" })),
            "spec.experimental.kvTransferPolicy",
            "needs a preferredWeight",
        ),
        (
            "label key with a long prefix",
            policy(json!({ "domain": "rack", "labelKey": format!("{}/a", prefix.trim_end_matches('.')) })),
            "spec.experimental.kvTransferPolicy.labelKey",
            "before the slash",
        ),
    ];
    let server = Server::new().await;
    for (what, spec, field, message) in cases {
        assert_refused(what, &server.try_create(GRAPHS, &graph("wrong", &spec)).await, field, message);
    }
}

#[tokio::test]
async fn violations_in_a_component() {
    const CHECKPOINT: &str = "spec.components[0].experimental.checkpoint";
    const MEMORY: &str = "spec.components[0].experimental.gpuMemoryService";
    let cases: [Case; 12] = [
        ("name with a dot", json!({ "name": "a.b" }), "spec.components[0].name", "should match"),
        ("unknown type", json!({ "type": "main" }), "spec.components[0].type", "Unsupported value"),
        ("quantity", json!({ "sharedMemorySize": "8 GB" }), "spec.components[0].sharedMemorySize", "should match"),
        (
            "version",
            json!({ "runtimeVersionOverride": "1.5" }),
            "spec.components[0].runtimeVersionOverride",
            "should match",
        ),
        ("replicas", json!({ "replicas": -1 }), "spec.components[0].replicas", "greater than or equal to 0"),
        (
            "one node",
            json!({ "multinode": { "nodeCount": 1 } }),
            "spec.components[0].multinode.nodeCount",
            "than or equal to 2",
        ),
        (
            "eppConfig on a worker",
            json!({ "type": "worker", "eppConfig": { "configMapRef": { "key": "k" } } }),
            "spec.components[0]",
            "only for components of type epp",
        ),
        (
            "empty eppConfig",
            json!({ "type": "epp", "eppConfig": {} }),
            "spec.components[0].eppConfig",
            "exactly one of",
        ),
        ("more than there are", json!({ "minAvailable": 2 }), "spec.components[0]", "cannot be more than replicas"),
        (
            "job and reference",
            json!({ "experimental": { "checkpoint": { "enabled": true, "checkpointRef": "c", "job": {} } } }),
            CHECKPOINT,
            "cannot be set together with checkpointRef",
        ),
        (
            "reserved",
            json!({ "experimental": { "gpuMemoryService": {
                "mode": "InterPod", "extraClientPods": [{ "name": "a", "podTemplate": {} }],
            } } }),
            MEMORY,
            "reserved",
        ),
        (
            "containers between pods",
            json!({ "experimental": { "gpuMemoryService": { "mode": "InterPod", "extraClientContainers": ["a"] } } }),
            MEMORY,
            "only for mode IntraPod",
        ),
    ];
    let server = Server::new().await;
    for (what, fields, field, message) in cases {
        assert_refused(what, &server.try_create(GRAPHS, &graph_of("wrong", &fields)).await, field, message);
    }
}

#[tokio::test]
async fn violations_in_a_pod_template() {
    const POD: &str = "spec.components[0].podTemplate";
    let spec = |spec: Value| json!({ "podTemplate": { "spec": spec } });
    let main = json!({ "name": "main" });
    let annotation = json!({ "nvidia.com/vllm-distributed-executor-backend": "gloo" });
    let cases: [(&str, Value, String, &str); 7] = [
        (
            "sidecar without image",
            spec(json!({ "containers": [main, { "name": "proxy" }] })),
            format!("{POD}.spec.containers[1]"),
            "other than main needs an image",
        ),
        (
            "init container with an empty image",
            spec(json!({ "containers": [main], "initContainers": [{ "name": "main", "image": "" }] })),
            format!("{POD}.spec.initContainers[0]"),
            "needs an image",
        ),
        (
            "unknown executor",
            json!({ "podTemplate": { "metadata": { "annotations": annotation } } }),
            format!("{POD}.metadata.annotations"),
            "must be mp or ray",
        ),
        (
            "quantity of a container",
            spec(json!({ "containers": [{ "name": "main", "resources": { "limits": { "memory": "lots" } } }] })),
            format!("{POD}.spec.containers[0].resources.limits.memory"),
            "should match",
        ),
        ("no containers", spec(json!({ "nodeSelector": { "a": "b" } })), format!("{POD}.spec.containers"), "Required"),
        (
            "type of a field",
            spec(json!({ "containers": [main], "nodeSelector": { "a": true } })),
            format!("{POD}.spec.nodeSelector.a"),
            "must be of type string",
        ),
        (
            "the same container twice",
            spec(json!({ "containers": [main, main] })),
            format!("{POD}.spec.containers[1]"),
            "Duplicate",
        ),
    ];
    let server = Server::new().await;
    for (what, fields, field, message) in cases {
        assert_refused(what, &server.try_create(GRAPHS, &graph_of("wrong", &fields)).await, &field, message);
    }
}

#[tokio::test]
async fn the_least_replicas_of_a_gang_stay_as_they_are() {
    let server = Server::new().await;
    let with = |fields: Value| graph_of("gang", &fields)["spec"].clone();
    let gang = graph_of("gang", &json!({ "replicas": 3, "minAvailable": 2 }));
    server.create(GRAPHS, &gang).await.granted();
    for (what, fields) in
        [("changed", json!({ "replicas": 3, "minAvailable": 1 })), ("removed", json!({ "replicas": 3 }))]
    {
        let answer = server.patch("gang", &json!({ "spec": with(fields) })).await;
        assert_refused(what, &answer, "spec.components[0]", "minAvailable cannot be changed");
    }
    let off = json!({ "spec": with(json!({ "replicas": 0, "minAvailable": 2 })) });
    server.patch("gang", &off).await.granted();
}

/// Placeholders and odd but legal input that must not be refused.
#[tokio::test]
async fn what_is_unusual_is_not_wrong() {
    let server = Server::new().await;
    let main = json!({ "name": "main" });
    let cases = [
        json!({ "components": [] }),
        json!({ "components": [{ "name": "A1-b" }, { "name": "untyped", "replicas": 0, "minAvailable": 4 }] }),
        json!({ "components": [{ "name": "a", "sharedMemorySize": 0 }, { "name": "b", "sharedMemorySize": "1e3" }] }),
        json!({ "components": [{ "name": "a", "podTemplate": { "spec": {
            "containers": [main, { "name": "s", "image": "i" }],
        } } }] }),
        json!({ "components": [{ "name": "a", "type": "epp", "eppConfig": { "config": {
            "plugins": [{ "type": "p", "parameters": { "any": [1, "two", { "three": true }] } }],
            "schedulingProfiles": [],
            "dataLayer": { "of": "another version" },
        } } }] }),
        json!({ "components": [{ "name": "a", "podTemplate": { "metadata": { "annotations": {
            "nvidia.com/vllm-distributed-executor-backend": "Ray",
        } } } }] }),
    ];
    for spec in cases {
        let answer = server.try_create(GRAPHS, &graph("unusual", &spec)).await;
        assert_eq!(answer.warnings, Vec::<String>::new());
        assert_eq!(answer.granted()["spec"], spec);
    }
}
