//! Views of one graph in the middle of a rollout.

use serde_json::json;

use super::*;
use crate::diagnosis::ObservedWorkload;

const NOW: &str = "2026-01-01T01:00:00Z";

fn component(name: &str, component: &str, role: &str, revision: &str, created: &str, ready: i32) -> serde_json::Value {
    let labels = if revision.is_empty() { json!({}) } else { json!({ "nvidia.com/dynamo-worker-hash": revision }) };
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
        "metadata": {
            "name": name, "namespace": "team", "generation": 1, "creationTimestamp": created,
            "labels": labels,
        },
        "spec": {
            "name": component, "type": role, "replicas": 2,
            "podTemplate": { "spec": { "containers": [{ "name": "main", "image": format!("r/engine:{revision}") }] } },
        },
        "status": {
            "observedGeneration": 1,
            "component": {
                "componentKind": "Deployment", "replicas": 2, "updatedReplicas": 2, "readyReplicas": ready,
            },
            "conditions": [{
                "type": "Ready", "status": if ready == 2 { "True" } else { "False" }, "reason": "ComponentNotReady",
                "message": "", "lastTransitionTime": created,
            }],
        },
    })
}

fn pod(name: &str, component: &str, ready: bool) -> serde_json::Value {
    json!({
        "metadata": { "name": name, "labels": { "nvidia.com/selector": component } },
        "spec": {
            "nodeName": "n1",
            "containers": [{ "name": "main", "resources": { "limits": { "nvidia.com/gpu": "2" } } }],
        },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
        },
    })
}

fn family() -> Family {
    let counts = |updated: i32, ready: i32| {
        json!({
            "componentKind": "Deployment", "replicas": 3, "updatedReplicas": updated, "readyReplicas": ready,
        })
    };
    let graph = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {
            "name": "chat", "namespace": "team", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": { "components": [
            { "name": "Frontend", "type": "frontend" },
            { "name": "decode", "type": "decode", "replicas": 2, "podTemplate": { "spec": { "containers": [
                { "name": "main", "resources": { "limits": { "nvidia.com/gpu": "2" } } },
            ] } } },
        ] },
        "status": {
            "state": "pending", "observedGeneration": 2,
            "components": { "Frontend": counts(1, 1), "decode": counts(1, 2) },
            "rollingUpdate": { "phase": "InProgress" },
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "rolling_update_in_progress",
                "message": "Rolling update in progress", "lastTransitionTime": "2026-01-01T00:30:00Z",
            }],
        },
    });
    let components = [
        component("chat-frontend", "Frontend", "frontend", "", "2026-01-01T00:00:00Z", 2),
        component("chat-decode-new", "decode", "decode", "new", "2026-01-01T00:58:30Z", 0),
        component("chat-decode-old", "decode", "decode", "old", "2026-01-01T00:00:00Z", 2),
    ];
    let workload = |name: &str| ObservedWorkload {
        kind: "Deployment".to_owned(),
        name: name.to_owned(),
        component: Some(name.to_owned()),
        desired: 2,
        ..ObservedWorkload::default()
    };
    Family {
        graph: serde_json::from_value(graph).unwrap(),
        components: components.map(|one| serde_json::from_value(one).unwrap()).to_vec(),
        workloads: ["chat-frontend", "chat-decode-new", "chat-decode-old"].map(workload).to_vec(),
        adapters: Vec::new(),
        pods: [
            pod("f-1", "chat-frontend", true),
            pod("new-1", "chat-decode-new", false),
            pod("old-1", "chat-decode-old", true),
        ]
        .map(|one| serde_json::from_value(one).unwrap())
        .to_vec(),
    }
}

#[test]
fn a_tree_has_every_object_once_under_its_parent() {
    let expected = "\
DynamoGraphDeployment/chat  not ready (rolling_update_in_progress)
├─ DynamoComponentDeployment/chat-frontend  Frontend, ready
│  └─ Deployment/chat-frontend  2 desired
│     └─ Pod/f-1  Running, ready on n1
├─ DynamoComponentDeployment/chat-decode-new  decode, not ready (ComponentNotReady)
│  └─ Deployment/chat-decode-new  2 desired
│     └─ Pod/new-1  Running, not ready on n1
└─ DynamoComponentDeployment/chat-decode-old  decode, ready
   └─ Deployment/chat-decode-old  2 desired
      └─ Pod/old-1  Running, ready on n1
";
    let root = tree(&family());
    assert_eq!(tree_text(&root), expected);
    assert_eq!(root.names().len(), 10);
}

#[test]
fn pods_without_a_component_are_under_their_owner() {
    let mut family = family();
    family.components.clear();
    family.workloads.clear();
    let owner = json!([{
        "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "chat-0-decode", "uid": "u", "controller": true,
    }]);
    family.pods.truncate(1);
    family.pods[0].metadata.owner_references = serde_json::from_value(owner).unwrap();
    let names = tree(&family).names();
    assert_eq!(names, ["dynamographdeployment/chat", "podclique/chat-0-decode", "pod/f-1"]);
}

#[test]
fn revisions_are_listed_from_the_oldest_to_the_newest() {
    let expected = "\
REVISION   AGE   READY   COMPONENTS   IMAGES
old        60m   2/2     decode=2     r/engine:old
new        90s   0/2     decode=2     r/engine:new
";
    assert_eq!(history_table(&history(&family()), NOW.parse().unwrap()), expected);
}

#[test]
fn replaced_revisions_come_before_the_live_ones() {
    let entry = |revision: &str, minute: u32| {
        json!({
            "revision": revision, "created": format!("2026-01-01T00:{minute:02}:00Z"),
            "images": [format!("r/engine:{revision}")],
        })
    };
    // A revision that is live again is none that was replaced.
    let listed = json!([entry("two", 30), entry("one", 10), entry("old", 5)]).to_string();
    let mut family = family();
    let annotations = &mut family.components[1].metadata.annotations;
    annotations.get_or_insert_default().insert("operator.dynamo/previous-revisions".to_owned(), listed);
    let expected = "\
REVISION   AGE   READY   COMPONENTS   IMAGES
one        50m   -       -            r/engine:one
two        30m   -       -            r/engine:two
old        60m   2/2     decode=2     r/engine:old
new        90s   0/2     decode=2     r/engine:new
";
    let revisions = history(&family);
    assert_eq!(history_table(&revisions, NOW.parse().unwrap()), expected);
    let first = json!({
        "revision": "one", "live": false, "created": "2026-01-01T00:10:00Z", "components": [], "ready": 0,
        "desired": 0, "images": ["r/engine:one"],
    });
    assert_eq!(json!(revisions[0]), first);
}

#[test]
fn graphs_are_listed_with_what_they_request() {
    let graphs = [summary(&family().graph)];
    let now = NOW.parse().unwrap();
    assert_eq!(
        list_table(&graphs, false, false, now),
        "NAME   STATE     COMPONENTS   GPUS   AGE\nchat   pending   2/2          4      60m\n"
    );
    assert_eq!(
        list_table(&graphs, true, true, now),
        "NAMESPACE   NAME   STATE     COMPONENTS   GPUS   AGE   REASON\n\
         team        chat   pending   2/2          4      60m   rolling_update_in_progress\n"
    );
}

#[test]
fn ages_are_as_kubectl_has_them() {
    let now = NOW.parse().unwrap();
    for (since, text) in [
        (Some("2026-01-01T00:59:15Z"), "45s"),
        (Some("2026-01-01T01:00:05Z"), "0s"),
        (Some("2026-01-01T00:00:00Z"), "60m"),
        (Some("2025-12-31T20:00:00Z"), "5h"),
        (Some("2025-12-25T01:00:00Z"), "7d"),
        (None, "-"),
    ] {
        assert_eq!(age(now, since.map(|since| since.parse().unwrap())), text);
    }
}
