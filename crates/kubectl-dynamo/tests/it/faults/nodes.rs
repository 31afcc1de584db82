//! Nodes and scheduling. The scheduler is the real one; it judges nodes whose facts the test sets.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::fault::{Fault, Step, fault, main, on_own_node, pod};

const POD: &str = "Pod/chat-decode-";

const OWN_NODE: Step = Step::Do(|team| Box::pin(team.make_node("110")));

pub fn rows() -> Vec<Fault> {
    vec![
        fault("too few GPUs", "workers with more GPUs than a node has")
            .edit(|graph| main(graph)["resources"]["limits"]["nvidia.com/gpu"] = json!("64"))
            .is("NoGpu", POD, "Insufficient nvidia.com/gpu", "add nodes with GPUs"),
        fault("too little memory", "workers with more memory than a node has")
            .edit(|graph| main(graph)["resources"]["limits"]["memory"] = json!("2Ti"))
            .is("NoMemory", POD, "Insufficient memory", "lower the memory request"),
        fault("too few CPUs", "workers with more CPUs than a node has")
            .edit(|graph| main(graph)["resources"]["limits"]["cpu"] = json!("128"))
            .is("NoCpu", POD, "Insufficient cpu", "lower the CPU request"),
        fault("node selector", "a nodeSelector that no node fits")
            .edit(|graph| pod(graph)["nodeSelector"] = json!({ "gpu-model": "h300" }))
            .is("NodeSelector", POD, "node affinity/selector", "correct nodeSelector"),
        fault("taint", "a taint NoExecute on the node of the workers")
            .before(OWN_NODE)
            .graph(on_own_node)
            .step(Step::Do(|team| {
                let taints = json!([{ "key": "pool", "value": team.namespace, "effect": "NoSchedule" },
                    { "key": "maintenance", "value": "true", "effect": "NoExecute" }]);
                Box::pin(async move { team.edit_node(&json!({ "spec": { "taints": taints } })).await })
            }))
            .is("Taint", POD, "untolerated taint", "add a toleration"),
        fault("node cordoned", "the node of the workers is cordoned, and they are deleted")
            .before(OWN_NODE)
            .graph(on_own_node)
            .step(Step::Do(|team| {
                Box::pin(async move { team.edit_node(&json!({ "spec": { "unschedulable": true } })).await })
            }))
            .step(Step::Restart)
            .is("NodesCordoned", POD, "unschedulable", "uncordon"),
        fault("too many pods", "more workers than the kubelet of the node allows")
            .before(Step::Do(|team| Box::pin(team.make_node("1"))))
            .graph(on_own_node)
            .edit(|graph| graph["spec"]["components"][0]["replicas"] = json!(2))
            .is("TooManyPods", POD, "Too many pods", "add nodes"),
        fault("host port taken", "two workers with one host port on one node")
            .before(OWN_NODE)
            .graph(|graph| {
                on_own_node(graph);
                main(graph)["ports"] = json!([{ "name": "debug", "containerPort": 5678, "hostPort": 5678 }]);
            })
            .edit(|graph| graph["spec"]["components"][0]["replicas"] = json!(2))
            .is("PortTaken", POD, "free ports", "another host port"),
        fault("topology spread", "a spread over racks, and nodes without a label for their rack")
            .edit(|graph| {
                pod(graph)["topologySpreadConstraints"] = json!([{ "maxSkew": 1, "topologyKey": "example.com/rack",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": { "matchLabels": { "nvidia.com/dynamo-component": "decode" } } }]);
            })
            .is("TopologySpread", POD, "topology spread constraints", "topologySpreadConstraints"),
        fault("anti-affinity", "two workers, of which only one may be in the cluster")
            .graph(|graph| {
                let own = json!({ "matchLabels": { "nvidia.com/dynamo-component": "decode" } });
                let term = json!([{ "topologyKey": "kubernetes.io/os", "labelSelector": own }]);
                pod(graph)["affinity"] =
                    json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term } });
            })
            .edit(|graph| graph["spec"]["components"][0]["replicas"] = json!(2))
            .is("AntiAffinity", POD, "anti-affinity", "relax the anti-affinity"),
        fault("node lost", "the node of the workers is no longer ready")
            .before(OWN_NODE)
            .graph(on_own_node)
            .step(Step::Do(|team| {
                Box::pin(async move { team.harness.report_of_node(&team.node(), "Ready", "False").await })
            }))
            .is("NodeLost", "Node/fault-", "is not ready", "start the node again"),
        fault("evicted from a full disk", "the node of the workers has disk pressure and evicts them")
            .before(OWN_NODE)
            .graph(on_own_node)
            .step(Step::Do(|team| {
                Box::pin(async move {
                    team.harness.report_of_node(&team.node(), "DiskPressure", "True").await;
                    let evicted = json!({ "status": { "phase": "Failed", "reason": "Evicted",
                        "message": "The node was low on resource: ephemeral-storage. Threshold quantity: 107374182400, \
                                    available: 91268055040. " } });
                    let pods = team.api::<Pod>();
                    for pod in pods.list(&ListParams::default()).await.unwrap() {
                        let name = pod.metadata.name.unwrap();
                        let patch = Patch::Merge(&evicted);
                        pods.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
                    }
                })
            }))
            .is("NodePressure", "Node/fault-", "DiskPressure", "free disk space"),
    ]
}
