//! `autoscaling` of v1alpha1, as the documents of the legacy API have it.

use api_types::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter as Adapter};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::harness::{Harness, condition, graph};

/// A graph whose v1alpha1 form has `autoscaling` for its worker. The API server of the tests calls no conversion
/// webhook, so the graph is applied as that webhook stores it.
fn autoscaled(name: &str, autoscaling: &Value) -> Value {
    let alpha = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": { "name": name },
        "spec": { "services": { "Decode": { "autoscaling": autoscaling } } },
    });
    let beta = api_types::conversion::convert(alpha, api_types::conversion::ApiVersion::V1Beta1).unwrap();
    graph(name, |graph| graph["metadata"]["annotations"] = beta["metadata"]["annotations"].clone())
}

fn rules() -> Value {
    json!({ "enabled": true, "minReplicas": 1, "maxReplicas": 5,
        "behavior": { "scaleDown": { "stabilizationWindowSeconds": 60 } },
        "metrics": [{ "type": "Resource",
            "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 60 } } }] })
}

fn has(count: i32) -> impl Fn(&DynamoGraphDeployment) -> bool {
    move |graph| graph.spec.components.iter().any(|c| c.name == "Decode" && c.replicas == Some(count))
}

#[tokio::test]
async fn an_autoscaler_is_there_as_long_as_the_field_and_its_count_stays() {
    let harness = Harness::new("autoscaling").await;
    let graph = harness.apply(&autoscaled("chat", &rules())).await;
    harness.ready("chat").await;
    let autoscaler = harness.until("chat-decode", "there", |_: &HorizontalPodAutoscaler| true).await;
    let owner = &autoscaler.owner_references()[0];
    assert_eq!((&owner.uid, owner.controller), (graph.metadata.uid.as_ref().unwrap(), Some(true)));
    let spec = serde_json::to_value(&autoscaler.spec).unwrap();
    let target = json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentScalingAdapter",
        "name": "chat-decode" });
    assert_eq!(spec["scaleTargetRef"], target);
    assert_eq!([&spec["minReplicas"], &spec["maxReplicas"]], [1, 5]);
    assert_eq!(spec["metrics"], rules()["metrics"]);
    assert_eq!(spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"], 60);

    let scale = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    harness.api::<Adapter>().patch_scale("chat-decode", &PatchParams::default(), &scale).await.unwrap();
    harness.until("chat", "scaled", has(3)).await;
    harness.ready("chat").await;
    // The user's manifest says one replica.
    harness.apply(&autoscaled("chat", &rules())).await;
    harness.until("chat", "scaled again", has(3)).await;
    harness.until_reconciled("chat").await;
    assert_eq!(harness.api::<Adapter>().get("chat-decode").await.unwrap().spec.replicas, 3);
    assert_eq!(harness.component("chat", "Decode").await.spec.component.replicas, Some(3));
    let after = harness.api::<HorizontalPodAutoscaler>().get("chat-decode").await.unwrap();
    let managers = after.metadata.managed_fields.iter().flatten().filter(|entry| entry.subresource.is_none());
    let managers: Vec<_> = managers.filter_map(|entry| entry.manager.as_deref()).collect();
    assert_eq!(managers, [graph_controller::NAME], "no other client writes the spec");

    let without = json!({ "metadata": { "annotations": { "nvidia.com/dgd-spec": null } } });
    harness.edit("chat", &without).await;
    harness.gone::<HorizontalPodAutoscaler>("chat-decode").await;
    harness.gone::<Adapter>("chat-decode").await;
    harness
        .edit(
            "chat",
            &json!({ "metadata": { "annotations": autoscaled("chat", &rules())["metadata"]["annotations"] } }),
        )
        .await;
    harness.until("chat-decode", "there again", |_: &HorizontalPodAutoscaler| true).await;
    let mut off = rules();
    off["enabled"] = json!(false);
    harness
        .edit("chat", &json!({ "metadata": { "annotations": autoscaled("chat", &off)["metadata"]["annotations"] } }))
        .await;
    harness.gone::<HorizontalPodAutoscaler>("chat-decode").await;
}

/// The webhook server refuses these; where it is away, a condition names the autoscaler.
#[tokio::test]
async fn rules_that_the_api_server_rejects_are_a_condition_and_the_rest_goes_on() {
    let harness = Harness::new("rules").await;
    let mut wrong = rules();
    wrong["minReplicas"] = json!(9);
    harness.apply(&autoscaled("chat", &wrong)).await;
    let is_stalled = |graph: &DynamoGraphDeployment| {
        let stalled = condition(graph, "Stalled", "True");
        stalled.is_some_and(|c| c.message.contains("HorizontalPodAutoscaler") && c.message.contains("maxReplicas"))
    };
    harness.until("chat", "stalled", is_stalled).await;
    assert_eq!(harness.components("chat").await.len(), 2);
    harness
        .edit(
            "chat",
            &json!({ "metadata": { "annotations": autoscaled("chat", &rules())["metadata"]["annotations"] } }),
        )
        .await;
    harness.ready("chat").await;
    harness.until("chat-decode", "there", |_: &HorizontalPodAutoscaler| true).await;
}
