//! The operator: its programs, its rights, and which install has a namespace.

use api_types::v1beta1::DynamoComponentDeployment;
use controller_kit::{
    access::{Access, Verb, role},
    settings::OperatorConfiguration,
};
use kube::Resource;
use serde_json::{Value, json};
use test_cluster::account;

use super::{
    fault::{Fault, Step, another_image, fault},
    harness::Team,
    kubelet::Report,
};

const GRAPH: &str = "DynamoGraphDeployment/chat";

/// Discovery by etcd: no roles are made for pods, which only an account with these rights could.
fn with_etcd(graph: &mut Value) {
    graph["metadata"]["annotations"] = json!({ "nvidia.com/dynamo-discovery-backend": "etcd" });
}

/// Gives a controller its rights in the namespace, but for writing the kinds that `is_withheld`.
async fn grant(team: &Team<'_>, name: &str, rights: &[Access], withheld: &str) {
    let reduced = |right: &Access| match right.resource == withheld {
        true => Access { verbs: Verb::CACHE, ..*right },
        false => *right,
    };
    let rights: Vec<Access> = rights.iter().map(reduced).collect();
    let role = role(name, Some(&team.namespace), &rights);
    team.harness.cluster.apply(&account(name, &team.namespace, role)).await.unwrap();
}

/// Starts an install for the namespace whose controllers have the rights of the chart.
async fn install(team: &Team<'_>) {
    team.mark().await;
    let cluster = &team.harness.cluster;
    grant(team, graph_controller::NAME, &graph_controller::access::rights(), "").await;
    grant(team, component_controller::NAME, component_controller::access::ACCESS, "").await;
    let mut clients = Vec::new();
    for name in [graph_controller::NAME, component_controller::NAME] {
        clients.push(cluster.client_for_token(&cluster.token(&team.namespace, name).await.unwrap()).unwrap());
    }
    team.controllers(OperatorConfiguration::default(), |all| {
        all.start_graphs(&clients[0]);
        all.start_components(&clients[1]);
    });
}

/// A Deployment of a program of the operator, as the chart makes it.
pub fn program(name: &str, namespace: &str) -> Value {
    let labels = json!({ "app.kubernetes.io/part-of": "dynamo-operator", "app.kubernetes.io/component": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": namespace, "labels": labels },
        "spec": { "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels },
            "spec": { "containers": [{ "name": "main", "image": "registry.example.com/operator:1" }] } } },
    })
}

pub fn rows() -> Vec<Fault> {
    vec![
        fault("rights of the graph controller", "a role without the right to write components")
            .before(Step::Do(|team| Box::pin(install(team))))
            .graph(with_etcd)
            .step(Step::Do(|team| {
                let withheld = DynamoComponentDeployment::plural(&());
                Box::pin(async move {
                    grant(team, graph_controller::NAME, &graph_controller::access::rights(), &withheld).await;
                })
            }))
            .edit(another_image)
            .is("RightMissing", GRAPH, "dynamocomponentdeployments", "helm upgrade"),
        fault("rights of the component controller", "a role without the right to write Deployments")
            .before(Step::Do(|team| Box::pin(install(team))))
            .graph(with_etcd)
            .step(Step::Do(|team| {
                let rights = component_controller::access::ACCESS;
                Box::pin(grant(team, component_controller::NAME, rights, "deployments"))
            }))
            .edit(another_image)
            .is("RightMissing", "DynamoComponentDeployment/chat-decode-", "deployments", "helm upgrade"),
        fault("operator down", "an install of the namespace whose programs crash")
            .before(Step::Do(|team| Box::pin(install(team))))
            .before(Step::Apply(json!([
                program("graph-controller", "NAMESPACE"),
                program("component-controller", "NAMESPACE"),
            ])))
            .graph(with_etcd)
            .pods(Report::ended("Error", 1, "", "error: no configuration\n"))
            .step(Step::Do(|team| Box::pin(async { team.stop_controllers() })))
            .edit(another_image)
            .is("OperatorDown", GRAPH, "0 of 1 pods are ready", "kubectl describe pods"),
        fault("namespace of another install", "a marker of an install that does not run")
            .step(Step::Do(|team| Box::pin(team.mark())))
            .step(Step::Do(|team| Box::pin(team.fenced())))
            .edit(another_image)
            .is("Fenced", GRAPH, "namespace-restricted operator", "restricted install"),
        fault("controller not installed", "a model, where no model controller is installed")
            .without_graph("dynamomodel/base")
            .apply(super::models::base())
            .is(
                "OperatorMissing",
                "DynamoModel/base",
                "model-controller is not installed",
                "install the operator's chart",
            ),
    ]
}
