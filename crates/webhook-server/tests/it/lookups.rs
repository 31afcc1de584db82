//! Lookups of the rules in the cluster, on a control plane that serves Grove and PodSnapshots.

use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use test_cluster::{Cluster, TestNamespace, open_definition, wait};

use crate::common::{Install, LIMIT, address, graphs, objects, start_cluster};

/// An install for the whole cluster, and the objects of its requests.
async fn install() -> Install {
    let front = test_cluster::free_port().unwrap();
    let cluster = start_cluster("operator", front).await;
    let mut topologies = open_definition("grove.io", "v1alpha1", "ClusterTopologyBinding", "clustertopologybindings");
    topologies["spec"]["scope"] = json!("Cluster");
    let pod_snapshots = open_definition(api_types::GROUP, "v1alpha1", "PodSnapshot", "podsnapshots");
    cluster.install_crds(&[topologies, pod_snapshots]).await.unwrap();
    let install = Install::new(cluster, "operator", front).await;
    install.configure(None).await;
    install.start_crds().await;
    let configuration = json!({ "checkpoint": { "enabled": true } });
    let replica = install.start_at(address(front), Some(&configuration)).await;
    install.until_ready(&replica).await;
    install.until_answering("default", "v1beta1").await;
    install
}

/// Returns the server's answer to a graph on Grove in a domain of a topology.
async fn placed(namespace: &TestNamespace, topology: &str, domain: &str) -> Result<(), String> {
    let (api, mut graph) = graphs(namespace.client(), namespace.name(), "v1beta1");
    graph.metadata.name = Some("chat".to_owned());
    let main = json!({ "name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0" });
    graph.data = json!({ "spec": {
        "topologyConstraint": { "clusterTopologyName": topology, "packDomain": domain },
        "components": [{ "name": "c", "type": "worker", "podTemplate": { "spec": { "containers": [main] } } }],
    } });
    let params = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&params, &graph).await.map(drop).map_err(|error| error.to_string())
}

async fn topologies(cluster: &Cluster, namespace: &TestNamespace) {
    let fabric = json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "metadata": { "name": "fabric" },
        "spec": { "levels": [{ "domain": "zone" }, { "domain": "rack" }] },
    });
    cluster.apply(&[fabric]).await.unwrap();
    assert_eq!(placed(namespace, "fabric", "rack").await, Ok(()));
    let refused = placed(namespace, "fabric", "row").await.unwrap_err();
    assert!(refused.contains("is no domain of ClusterTopologyBinding"), "{refused}");
    let refused = placed(namespace, "another", "rack").await.unwrap_err();
    assert!(refused.contains("there is no ClusterTopologyBinding of that name"), "{refused}");
}

/// Makes a checkpoint that is ready, and the agent that keeps it.
async fn checkpoint(namespace: &TestNamespace) {
    let container = json!({ "name": "main", "image": "registry.example/vllm:1.5.0", "command": ["engine"] });
    let warm: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint", "metadata": { "name": "warm" },
        "spec": {
            "identity": { "model": "m", "backendFramework": "vllm" },
            "job": { "podTemplateSpec": { "spec": { "containers": [container] } } },
        },
    }))
    .unwrap();
    let checkpoints = objects(namespace, "DynamoCheckpoint", "v1alpha1");
    checkpoints.create(&PostParams::default(), &warm).await.unwrap();
    let ready = Patch::Merge(json!({ "status": { "phase": "Ready", "checkpointID": "abc" } }));
    checkpoints.patch_status("warm", &PatchParams::default(), &ready).await.unwrap();
    let agent: DaemonSet = serde_json::from_value(json!({
        "metadata": { "name": "agent", "labels": { "app.kubernetes.io/component": "snapshot-agent" } },
        "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": {
                "containers": [{ "name": "agent", "image": "registry.example/agent:1",
                    "volumeMounts": [{ "name": "checkpoints", "mountPath": "/images" }] }],
                "volumes": [{ "name": "checkpoints", "persistentVolumeClaim": { "claimName": "images" } }] } } },
    }))
    .unwrap();
    let agents: Api<DaemonSet> = Api::namespaced(namespace.client(), namespace.name());
    agents.create(&PostParams::default(), &agent).await.unwrap();
}

/// A pod that is to start from the checkpoint, as the server leaves it.
async fn candidate(namespace: &TestNamespace) -> Value {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "decode",
            "labels": {
                "nvidia.com/dynamo-component": "decode", "nvidia.com/dynamo-namespace": "team-llama",
                "nvidia.com/selector": "llama-decode",
            },
            "annotations": {
                "nvidia.com/dynamo-checkpoint-restore-candidate": "true",
                "nvidia.com/dynamo-checkpoint-name": "warm",
                "nvidia.com/dynamo-checkpoint-startup-policy": "Immediate",
                "nvidia.com/snapshot-target-containers": "main",
            },
        },
        "spec": { "containers": [{ "name": "main", "image": "vllm:1.5.0" }] },
    }))
    .unwrap();
    let pods: Api<Pod> = Api::namespaced(namespace.client(), namespace.name());
    let params = PostParams { dry_run: true, ..PostParams::default() };
    // The namespace's account is not made by the webhook server.
    let create = async || pods.create(&params, &pod).await.map_err(|error| error.to_string());
    serde_json::to_value(wait::until("the pod to be taken", LIMIT, create).await.unwrap()).unwrap()
}

/// Without a right the topology could not be read, and the pod would start cold.
#[tokio::test]
async fn topologies_checkpoints_and_agents_are_read_with_the_rights_of_the_server() {
    let install = install().await;
    let namespace = TestNamespace::new(install.cluster, "lookups").await.unwrap();
    topologies(install.cluster, &namespace).await;
    checkpoint(&namespace).await;
    let pod = candidate(&namespace).await;
    assert_eq!(pod["metadata"]["labels"]["nvidia.com/snapshot-checkpoint-id"], "abc", "{pod}");
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    assert!(volumes.iter().any(|volume| volume["persistentVolumeClaim"]["claimName"] == "images"), "{volumes:?}");
}
