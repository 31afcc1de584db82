//! Topology labels of workers that exchange key-value caches.

use k8s_openapi::api::{
    core::v1::{Node, Pod},
    events::v1::Event,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::harness::{Harness, LIMIT, graph};

fn worker(name: &str, node: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "labels": { "nvidia.com/dynamo-graph-deployment-name": "chat", "nvidia.com/dynamo-component": "Decode",
                "nvidia.com/dynamo-component-type": "decode" },
            "annotations": { "nvidia.com/topology-label-key": "example.com/zone" },
        },
        "spec": { "nodeName": node, "automountServiceAccountToken": false,
            "containers": [{ "name": "main", "image": "registry.example.com/decode:1" }] },
    })
}

async fn make(harness: &Harness, pod: Value) {
    let pod: Pod = serde_json::from_value(pod).unwrap();
    // The namespace's account is not made by the controller.
    let look = async || harness.api().create(&PostParams::default(), &pod).await.map_err(|error| error.to_string());
    wait::until("the pod to be taken", LIMIT, look).await.unwrap();
}

/// Waits until these pods have an event each, and no other has.
async fn reported(harness: &Harness, pods: &[&str]) {
    let events: Api<Event> = harness.api();
    let look = async || {
        let all = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let reported = all.iter().filter(|event| event.reason.as_deref() == Some("TopologyLabelMissing"));
        let mut reported: Vec<_> = reported.filter_map(|event| event.regarding.as_ref()?.name.clone()).collect();
        reported.sort();
        if reported == pods { Ok(()) } else { Err(format!("{reported:?}")) }
    };
    wait::until(format!("one event for each of {pods:?}"), LIMIT, look).await.unwrap();
}

#[tokio::test]
async fn pods_get_the_label_of_their_node_and_a_node_without_it_is_reported_and_read_again() {
    let mut harness = Harness::new("topology").await;
    harness.grant_everywhere("", "nodes").await;
    let (here, nowhere) = (format!("{}-here", harness.namespace), format!("{}-nowhere", harness.namespace));
    let nodes: Api<Node> = Api::all(harness.client.clone());
    for (name, labels) in [(&here, json!({ "example.com/zone": "a" })), (&nowhere, json!({}))] {
        let node = json!({ "metadata": { "name": name, "labels": labels } });
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }
    make(&harness, worker("before", &here)).await;
    harness
        .apply(&graph("chat", |g| {
            g["spec"]["experimental"] =
                json!({ "kvTransferPolicy": { "labelKey": "example.com/zone", "domain": "zone" } });
        }))
        .await;
    let zone = |pod: &Pod| pod.labels().get("example.com/zone").is_some_and(|zone| zone == "a");
    harness.until("before", "labelled", zone).await;
    make(&harness, worker("lost", &nowhere)).await;
    make(&harness, worker("after", &here)).await;
    harness.until("after", "labelled", zone).await;
    reported(&harness, &["lost"]).await;
    // Another process does not say it again, and finds those that have come meanwhile.
    harness.restart();
    make(&harness, worker("latest", &here)).await;
    harness.until("latest", "labelled", zone).await;
    make(&harness, worker("lost-too", &nowhere)).await;
    reported(&harness, &["lost", "lost-too"]).await;
    // Nodes are not watched; this one is read again, and no second event is recorded.
    let label = json!({ "metadata": { "labels": { "example.com/zone": "a" } } });
    nodes.patch(&nowhere, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    harness.until("lost-too", "labelled", zone).await;
    reported(&harness, &["lost", "lost-too"]).await;
    for name in [here, nowhere] {
        nodes.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
    }
}
