//! Objects that a graph with an endpoint picker gets, and their removal.

use api_types::external::{DestinationRule, InferencePool};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{Harness, graph};

fn with_picker(name: &str) -> Value {
    graph(name, |g| {
        g["spec"]["components"][0]["type"] = json!("epp");
        g["spec"]["components"][0]["eppConfig"] = json!({ "config": {
            "plugins": [{ "type": "picker" }],
            "schedulingProfiles": [{ "name": "default", "plugins": [{ "pluginRef": "picker" }] }] } });
    })
}

#[tokio::test]
async fn pool_and_configuration_come_with_the_picker_are_repaired_and_go_with_it() {
    let mut harness = Harness::without_controller("picker", false).await;
    harness.settings().service_mesh.provider = "istio".to_owned();
    harness.start();
    harness.apply(&with_picker("chat")).await;
    harness.ready("chat").await;
    let pool = harness.until("chat-pool", "there", |_: &InferencePool| true).await;
    assert_eq!(pool.spec.endpoint_picker_ref.name, "chat-frontend");
    let file =
        |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["epp-config-dynamo.yaml"].contains("picker"));
    harness.until("chat-epp-config", "there", file).await;
    let rule = harness.until("chat-frontend", "there", |_: &DestinationRule| true).await;
    assert!(rule.spec.host.starts_with("chat-frontend."), "{}", rule.spec.host);

    // The upstream operator notices no change of an object that has no generation.
    let emptied = json!({ "data": { "epp-config-dynamo.yaml": "" } });
    let maps = harness.api::<ConfigMap>();
    maps.patch("chat-epp-config", &Default::default(), &kube::api::Patch::Merge(emptied)).await.unwrap();
    harness.until("chat-epp-config", "repaired", file).await;
    harness.api::<InferencePool>().delete("chat-pool", &DeleteParams::default()).await.unwrap();
    harness.until("chat-pool", "made again", |_: &InferencePool| true).await;

    // An ordinary frontend needs neither. Workers that a gateway chooses are labelled, so they change revision first.
    harness.edit("chat", &json!({ "spec": { "components": graph("chat", |_| {})["spec"]["components"] } })).await;
    harness.ready("chat").await;
    harness.gone::<InferencePool>("chat-pool").await;
    harness.gone::<ConfigMap>("chat-epp-config").await;
    harness.gone::<DestinationRule>("chat-frontend").await;
}

/// The upstream operator deletes some objects by name alone.
#[tokio::test]
async fn an_object_of_another_owner_is_neither_changed_nor_deleted() {
    let harness = Harness::new("foreign-pool").await;
    let theirs: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "chat-epp-config", "labels": { "nvidia.com/dynamo-graph-deployment-name": "chat" } },
        "data": { "mine": "yes" } }))
    .unwrap();
    harness.api().create(&PostParams::default(), &theirs).await.unwrap();
    harness.apply(&with_picker("chat")).await;
    let reported = |g: &api_types::v1beta1::DynamoGraphDeployment| {
        let conditions = g.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|c| c.reason == "NameTaken" && c.message.contains("chat-epp-config"))
    };
    harness.until("chat", "reported by name", reported).await;
    harness.apply(&graph("chat", |_| {})).await;
    harness.ready("chat").await;
    let left: ConfigMap = harness.api().get("chat-epp-config").await.unwrap();
    assert_eq!(left.data, theirs.data);
}
