//! Graphs: specs, names, rollouts, APIs of other projects, and deletion.

use api_types::v1beta1::DynamoGraphDeployment;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    fault::{Fault, Step, another_image, fault},
    harness::graph,
    kubelet::Report,
};

const GRAPH: &str = "DynamoGraphDeployment/chat";

fn keep(graph: &mut Value) {
    graph["metadata"]["finalizers"] = json!(["example.com/keep"]);
}

fn component(name: &str, more: &Value) -> Value {
    let mut component = graph()["spec"]["components"][0].take();
    component["name"] = json!(name);
    component.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    component
}

fn add(graph: &mut Value, component: Value) {
    graph["spec"]["components"].as_array_mut().unwrap().push(component);
}

pub fn rows() -> Vec<Fault> {
    of_specs().into_iter().chain(of_rollouts()).chain(of_deletions()).collect()
}

fn of_specs() -> Vec<Fault> {
    vec![
        fault("spec invalid", "a surge that is no number")
            .edit(|graph| {
                graph["spec"]["components"][0]["podTemplate"]["metadata"] =
                    json!({ "annotations": { "nvidia.com/deployment-rolling-update-max-surge": "many" } });
            })
            .is("InvalidSpec", GRAPH, "max-surge", "change the field"),
        fault("neither LeaderWorkerSet nor Grove", "workers that span nodes, in a cluster with neither API")
            .edit(|graph| {
                let mut spanning = component("prefill", &json!({ "type": "prefill", "multinode": { "nodeCount": 2 } }));
                spanning["podTemplate"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!("1");
                add(graph, spanning);
            })
            .is("ApiMissing", GRAPH, "prefill", "install LeaderWorkerSet"),
        fault("Grove absent", "a graph that selects Grove, in a cluster without it")
            .without_graph("chat")
            .step(Step::Do(|team| {
                Box::pin(async move {
                    let mut on_grove = graph();
                    on_grove["metadata"]["annotations"] = json!({ "nvidia.com/workload-provider": "grove" });
                    team.apply_graph(&on_grove).await;
                })
            }))
            .is("ApiMissing", GRAPH, "Grove", "install Grove"),
        fault("name taken", "a Service of another owner that has the name of a component")
            .apply(json!({ "apiVersion": "v1", "kind": "Service",
                "metadata": { "name": "chat-web", "namespace": "NAMESPACE" }, "spec": { "ports": [{ "port": 80 }] } }))
            .edit(|graph| add(graph, component("web", &json!({ "type": "frontend" }))))
            .is("NameTaken", "DynamoComponentDeployment/chat-web", "chat-web", "rename the component"),
        fault("device claim missing", "a resource claim that does not exist")
            .edit(|graph| {
                let spec = &mut graph["spec"]["components"][0]["podTemplate"]["spec"];
                spec["resourceClaims"] = json!([{ "name": "gpus", "resourceClaimName": "gpus" }]);
                spec["containers"][0]["resources"]["claims"] = json!([{ "name": "gpus" }]);
            })
            .is("DeviceClaimMissing", "ResourceClaim/gpus", "does not exist", "create the ResourceClaim"),
    ]
}

fn of_rollouts() -> Vec<Fault> {
    vec![
        fault("Deployment paused", "kubectl rollout pause of a Deployment, and another image")
            .graph(|graph| graph["spec"]["components"][0]["type"] = json!("frontend"))
            .step(Step::Do(|team| {
                Box::pin(async move {
                    let deployments = team.api::<Deployment>();
                    let pause = json!({ "spec": { "paused": true } });
                    for found in deployments.list(&ListParams::default()).await.unwrap() {
                        let name = found.metadata.name.unwrap();
                        deployments.patch(&name, &PatchParams::default(), &Patch::Merge(&pause)).await.unwrap();
                    }
                })
            }))
            .edit(another_image)
            .is("WorkloadPaused", "Deployment/chat-decode", "is paused", "kubectl rollout resume deployment/"),
        fault("rollout paused", "another image while the rollout is paused")
            .edit(|graph| {
                graph["metadata"]["annotations"] = json!({ "operator.dynamo/rollout": "paused" });
                another_image(graph);
            })
            .is("RolloutPaused", GRAPH, "paused", "kubectl dynamo rollout resume"),
        fault("rollout held at a step", "another image while the new revision may have one of two workers")
            .graph(|graph| graph["spec"]["components"][0]["replicas"] = json!(2))
            .edit(|graph| {
                graph["metadata"]["annotations"] = json!({ "operator.dynamo/rollout-step": "1" });
                another_image(graph);
            })
            .is("RolloutHeld", GRAPH, "decode", "kubectl dynamo rollout step"),
        fault("rollout undone", "an image that is missing, and a progress deadline of five seconds")
            .step(Step::Nodes(Report::pull("{image}: not found")))
            .edit(|graph| {
                graph["metadata"]["annotations"] = json!({ "operator.dynamo/progress-deadline": "5s" });
                another_image(graph);
            })
            .is(
                "RolloutUndone",
                GRAPH,
                "No worker of the new revision became available",
                "correct the spec of the workers",
            ),
    ]
}

fn of_deletions() -> Vec<Fault> {
    vec![
        fault("deletion waits for a finalizer", "the deletion of a graph with a finalizer of another controller")
            .graph(keep)
            .step(Step::Do(|team| {
                Box::pin(async move {
                    let graphs = team.api::<DynamoGraphDeployment>();
                    graphs.delete("chat", &DeleteParams::default()).await.unwrap();
                })
            }))
            .is("Deleted", GRAPH, "example.com/keep", "removes example.com/keep"),
        fault("namespace terminating", "the deletion of the namespace of a graph")
            .graph(keep)
            .step(Step::Do(|team| {
                Box::pin(async move {
                    let namespaces: Api<Namespace> = Api::all(team.client.clone());
                    namespaces.delete(&team.namespace, &DeleteParams::default()).await.unwrap();
                })
            }))
            .is("NamespaceTerminating", "Namespace/fault-", "is being deleted", "another namespace"),
    ]
}
