//! The conversion webhook, on a control plane of its own: without it, no client can list graphs of the older version.

use std::time::Duration;

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use kubectl_dynamo::CommandOutcome;
use serde_json::{Value, json};
use test_cluster::{Cluster, Controllers, Options, wait};

use crate::{definitions, plugin};

const LIMIT: Duration = Duration::from_secs(60);
const GRAPHS: &str = "dynamographdeployments.nvidia.com";

/// The definitions, of which that of graphs stores this version.
fn storing(version: &str) -> Vec<Value> {
    let mut all = definitions::own();
    let graphs = all.iter_mut().find(|one| one["metadata"]["name"] == GRAPHS).unwrap();
    for one in graphs["spec"]["versions"].as_array_mut().unwrap() {
        one["storage"] = json!(one["name"] == version);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversion_webhook_that_is_away_is_named() {
    let crds = storing("v1alpha1");
    let cluster = Cluster::start(Options { controllers: Controllers::Off, crds, ..Options::default() }).await.unwrap();
    let client = cluster.client().unwrap();
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("nvidia.com", "v1alpha1", "DynamoGraphDeployment"),
        "dynamographdeployments",
    );
    let graphs: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
    let graph = serde_json::from_value(json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": { "name": "chat" }, "spec": { "services": { "web": { "componentType": "frontend" } } } }))
    .unwrap();
    graphs.create(&PostParams::default(), &graph).await.unwrap();
    let definitions = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        "customresourcedefinitions",
    );
    let definitions: Api<DynamicObject> = Api::all_with(client, &definitions);
    let new = storing("v1beta1").into_iter().find(|one| one["metadata"]["name"] == GRAPHS).unwrap();
    let patch = Patch::Merge(json!({ "spec": { "versions": new["spec"]["versions"] } }));
    definitions.patch(GRAPHS, &PatchParams::default(), &patch).await.unwrap();
    let look = async || {
        let args = ["why", "chat", "--output", "json"];
        let (outcome, text) =
            plugin::command(cluster.kubeconfig(), "default", &args).await.map_err(|e| e.to_string())?;
        let diagnosis: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if diagnosis["causes"][0]["code"] == "ConversionDown" { Ok((outcome, diagnosis)) } else { Err(text) }
    };
    let (outcome, diagnosis) = wait::until("the cause", LIMIT, look).await.unwrap();
    let cause = &diagnosis["causes"][0];
    assert_eq!(outcome, CommandOutcome::Unwell);
    assert_eq!(cause["chain"], json!([{ "kind": "DynamoGraphDeployment", "name": "chat" }]));
    assert!(cause["cause"].as_str().unwrap().contains("conversion webhook for nvidia.com/v1alpha1"), "{cause}");
    assert!(cause["remedy"].as_str().unwrap().contains("webhook server"), "{cause}");
}
