//! A restart that a user requests, on live objects.

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, RestartPhase};
use kube::ResourceExt;
use serde_json::json;

use crate::harness::{Harness, graph};

fn mark(d: &DynamoComponentDeployment) -> Option<&str> {
    let metadata = d.spec.component.pod_template.as_ref()?.metadata.as_ref()?;
    metadata.annotations.as_ref()?.get("nvidia.com/restartAt").map(String::as_str)
}

fn phase(graph: &DynamoGraphDeployment) -> Option<RestartPhase> {
    graph.status.as_ref()?.restart.as_ref()?.phase.clone()
}

#[tokio::test]
async fn components_restart_one_after_the_other_in_place() {
    let harness = Harness::new("restart").await;
    harness.apply(&graph("chat", |_| {})).await;
    harness.ready("chat").await;
    let (decode, frontend) = (harness.component("chat", "Decode").await, harness.component("chat", "Frontend").await);

    harness.edit("chat", &json!({ "spec": { "restart": { "id": "monday" } } })).await;
    let reported = |d: &DynamoComponentDeployment| mark(d) == Some("monday");
    let restarting = harness.until(&decode.name_any(), "reported", reported).await;
    harness.until("chat", "restarting", |g: &DynamoGraphDeployment| phase(g) == Some(RestartPhase::Restarting)).await;
    assert_eq!(mark(&harness.component("chat", "Frontend").await), None, "one after the other");

    harness.serve(&restarting).await;
    harness.until(&frontend.name_any(), "reported", reported).await;
    let done = harness.ready("chat").await;
    assert_eq!(phase(&done), Some(RestartPhase::Completed));
    let all = harness.components("chat").await;
    assert_eq!(all.len(), 2, "no new revision");
    assert!(all.iter().all(|d| d.metadata.uid == decode.metadata.uid || d.metadata.uid == frontend.metadata.uid));

    // Reverting the request, or editing something else, starts no pod anew.
    harness.edit("chat", &json!({ "spec": { "restart": null, "labels": { "team": "a" } } })).await;
    harness
        .until(&frontend.name_any(), "edited", |d: &DynamoComponentDeployment| {
            let template = d.spec.component.pod_template.as_ref().and_then(|t| t.metadata.as_ref());
            template.and_then(|m| m.labels.as_ref()).is_some_and(|labels| labels.contains_key("team"))
        })
        .await;
    assert_eq!(mark(&harness.component("chat", "Frontend").await), Some("monday"));
}
