//! Tests of graphs of the legacy API.

mod manifest;

use api_types::{
    conversion::{ApiVersion, convert},
    v1beta1::DynamoComponentDeployment,
};
use serde_json::{Value, json};

use super::*;
use crate::graph::{
    fixtures::{NOW, graph_with, live, observed, settings, valid},
    model::{GraphObserved, GraphPlan},
    plan::plan,
    validate::validate,
};

pub(super) fn graph(spec: Value) -> DynamoGraphDeployment {
    let alpha = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": { "name": "chat", "namespace": "team-a", "uid": "graph-uid", "generation": 1,
            "annotations": { "nvidia.com/docker-registry-insecure": "true", "example.com/mine": "1" } },
        "spec": spec,
    });
    serde_json::from_value(convert(alpha, ApiVersion::V1Beta1).unwrap()).unwrap()
}

/// As users of the legacy API wrote it, with what the manifest would say.
pub(super) fn spec(version: &str) -> Value {
    json!({
        "dynamoComponent": format!("chat:{version}"),
        "envs": [{ "name": "B", "value": "graph" }, { "name": "A", "value": "graph" }],
        "services": {
            "Frontend": { "dynamoTag": "graphs.agg:Frontend", "replicas": 2, "envs": [{ "name": "B", "value": "own" }] },
            "Worker": { "dynamoTag": "graphs.agg:Frontend", "componentType": "worker",
                "pvc": { "create": true, "size": "1Gi", "mountPoint": "/data" } },
        },
    })
}

pub(super) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2025-07-01T00:00:00Z" })
}

fn built(version: &str, owner: &str, conditions: &[Value]) -> DynamoComponent {
    serde_json::from_value(json!({
        "metadata": { "name": format!("chat--{version}"), "namespace": "team-a", "generation": 1, "ownerReferences": [{
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "name": "x", "uid": owner, "controller": true }] },
        "spec": { "dynamoComponent": format!("chat:{version}") },
        "status": { "observedGeneration": 1, "conditions": conditions },
    }))
    .unwrap()
}

pub(super) fn ready(version: &str) -> DynamoComponent {
    let available = condition("DynamoComponentAvailable", "True", "Reconciling", "");
    let exists = condition("ImageExists", "True", "Reconciling", &format!("r.example/chat:{version}"));
    built(version, "graph-uid", &[available, exists])
}

fn building(version: &str) -> DynamoComponent {
    let available = condition("DynamoComponentAvailable", "Unknown", "Reconciling", "building it");
    built(version, "graph-uid", &[available, condition("ImageExists", "False", "Reconciling", "r.example/chat:x")])
}

pub(super) fn failed(version: &str) -> DynamoComponent {
    built(version, "graph-uid", &[condition("DynamoComponentAvailable", "False", "BuildFailed", "the log: E404")])
}

/// The plan, and what it was computed from.
pub(super) fn planned(
    graph: &DynamoGraphDeployment,
    build: Option<DynamoComponent>,
    components: Vec<DynamoComponentDeployment>,
) -> (GraphPlan, GraphObserved) {
    let (spec, legacy) = translate(graph, build.as_ref()).unwrap().unwrap();
    let mut seen = observed(graph, components);
    (seen.graph.spec, seen.legacy) = (spec, legacy);
    let plan = plan(&validate(&seen, settings()).unwrap(), &seen, NOW);
    (plan, seen)
}

pub(super) fn main_of<'a>(
    all: &'a [DynamoComponentDeployment],
    name: &str,
) -> &'a k8s_openapi::api::core::v1::Container {
    all.iter().find(|d| d.spec.component.name == name).unwrap().spec.component.main_container().unwrap()
}

fn images(all: &[DynamoComponentDeployment]) -> Vec<&str> {
    all.iter().map(|d| d.spec.component.main_container().unwrap().image.as_deref().unwrap()).collect()
}

#[test]
fn the_image_comes_first() {
    let (plan, seen) = planned(&graph(spec("v1")), None, vec![]);
    let build = plan.objects.build.unwrap();
    let expected = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponent",
        "metadata": { "name": "chat--v1", "namespace": "team-a", "labels": { labels::GRAPH: "chat" },
            "annotations": { "nvidia.com/docker-registry-insecure": "true" } },
        "spec": { "dynamoComponent": "chat:v1" },
    });
    assert_eq!(serde_json::to_value(build).unwrap(), expected);
    assert!(plan.components.is_empty());
    let obstacle = plan.obstacle.unwrap();
    assert_eq!(
        (obstacle.ready_reason, obstacle.progress),
        ("dynamoComponent_is_not_ready", ObstacleProgress::Reconciling("ImageAwaited"))
    );
    assert!(obstacle.message.contains("chat--v1"), "{}", obstacle.message);
    assert_eq!(Some(obstacle), seen.legacy.awaited);
}

#[test]
fn with_the_image_it_is_an_ordinary_graph() {
    let (plan, _) = planned(&graph(spec("v1")), Some(ready("v1")), vec![]);
    assert_eq!(plan.obstacle, None);
    assert_eq!(images(&plan.components), ["r.example/chat:v1"; 2]);
    let main = main_of(&plan.components, "Frontend");
    let env: Vec<_> = main.env.iter().flatten().map(|v| (v.name.as_str(), v.value.as_deref().unwrap())).collect();
    assert_eq!(env, [("A", "graph"), ("B", "own"), ("DYNAMO_PORT", "8000")], "the component wins");
    let frontend = &plan.components[0].spec.component;
    assert_eq!((frontend.desired_replicas(), frontend.type_.unwrap().as_str()), (2, "frontend"));
    let mounts = main_of(&plan.components, "Worker").volume_mounts.as_ref().unwrap();
    assert_eq!((mounts[0].name.as_str(), mounts[0].mount_path.as_str()), ("chat-worker", "/data"));
    let claims = plan.objects.volumes;
    assert_eq!(claims.len(), 1);
    assert_eq!((claims[0].name.as_str(), claims[0].make.is_some()), ("chat-worker", true));
}

/// As they come back from the API server.
fn serving(version: &str) -> Vec<DynamoComponentDeployment> {
    let (plan, _) = planned(&graph(spec(version)), Some(ready(version)), vec![]);
    plan.components.iter().map(|expected| live(expected, expected.spec.component.desired_replicas())).collect()
}

#[test]
fn nothing_rolls_before_the_new_image_is_there() {
    for build in [None, Some(building("v2")), Some(failed("v2"))] {
        let (plan, _) = planned(&graph(spec("v2")), build, serving("v1"));
        assert!(plan.components.is_empty() && plan.old.is_empty() && plan.delete.is_empty());
        assert!(plan.obstacle.is_some());
        assert_eq!(plan.objects.volumes.len(), 1, "claims stay");
    }
    let (plan, _) = planned(&graph(spec("v2")), Some(ready("v2")), serving("v1"));
    assert_eq!(images(&plan.components), ["r.example/chat:v2"; 2]);
    assert_eq!(images(&plan.old), ["r.example/chat:v1"], "the old worker is there until the new one serves");
    assert!(plan.rollout.in_progress());
}

#[test]
fn a_failed_build_is_reported_with_its_log() {
    let (plan, _) = planned(&graph(spec("v1")), Some(failed("v1")), vec![]);
    let obstacle = plan.obstacle.unwrap();
    assert_eq!(
        (obstacle.ready_reason, obstacle.progress),
        ("dynamoComponent_is_not_ready", ObstacleProgress::Stalled("BuildFailed"))
    );
    assert!(obstacle.message.ends_with("the log: E404"), "{}", obstacle.message);
}

#[test]
fn a_graph_that_waits_can_be_scaled() {
    let mut wider = spec("v2");
    wider["services"]["Worker"]["replicas"] = json!(3);
    let (plan, _) = planned(&graph(wider), Some(building("v2")), serving("v1"));
    assert_eq!(images(&plan.old), ["r.example/chat:v1"]);
    assert_eq!(plan.old[0].spec.component.replicas, Some(3));
    assert!(plan.components.is_empty() && plan.delete.is_empty());
}

#[test]
fn a_build_of_another_owner_is_used_as_it_is() {
    let mut theirs = ready("v1");
    theirs.metadata.owner_references = None;
    let (plan, _) = planned(&graph(spec("v1")), Some(theirs), vec![]);
    assert_eq!((plan.objects.build, images(&plan.components)), (None, vec!["r.example/chat:v1"; 2]));
}

#[test]
fn a_service_that_names_an_image_keeps_it() {
    let mut own = spec("v1");
    own["services"]["Worker"]["extraPodSpec"] = json!({ "mainContainer": { "image": "own:1" } });
    let (plan, _) = planned(&graph(own), Some(ready("v1")), vec![]);
    assert_eq!(main_of(&plan.components, "Worker").image.as_deref(), Some("own:1"));
    assert_eq!(main_of(&plan.components, "Worker").args, None);
}

#[test]
fn an_image_that_no_component_runs_is_not_built() {
    let mut own = spec("v1");
    for service in ["Frontend", "Worker"] {
        own["services"][service]["extraPodSpec"] = json!({ "mainContainer": { "image": "own:1" } });
    }
    let (_, legacy) = translate(&graph(own), None).unwrap().unwrap();
    assert!(legacy.build.is_none() && legacy.awaited.is_none());
}

#[test]
fn violations_are_reported_at_once_and_before_a_build() {
    let wrong = graph(json!({ "dynamoComponent": "chat", "services": { "A": { "pvc": { "create": true } } } }));
    let obstacle = translate(&wrong, None).unwrap_err();
    for field in ["spec.dynamoComponent", "spec.services[A].pvc.mountPoint"] {
        assert!(obstacle.message.contains(field), "{}", obstacle.message);
    }
    assert_eq!(obstacle.progress, ObstacleProgress::Stalled("InvalidSpec"));
}

#[test]
fn the_configuration_of_an_ordinary_graph_reaches_its_components() {
    let args = json!({ "workers": 3, "resources": { "cpu": "2", "gpu": "1" } });
    let config = json!({ "Frontend": { "port": 1 }, "Decode": { "ServiceArgs": args } }).to_string();
    let configured_with = |config: &str| {
        let mut graph = graph_with(|g| {
            g["spec"]["env"] = json!([{ "name": "DYN_DEPLOYMENT_CONFIG", "value": config }]);
            g["spec"]["components"][1]["replicas"] = Value::Null;
        });
        graph.spec = configured(&graph.spec)?.unwrap();
        Ok::<_, GraphObstacle>(graph)
    };
    let graph = configured_with(&config).unwrap();
    let plan = plan(&valid(&graph), &observed(&graph, vec![]), NOW);
    let worker = plan.components.iter().find(|d| d.spec.component.name == "Decode").unwrap();
    assert_eq!(worker.spec.component.replicas, Some(3));
    let amounts = json!({ "cpu": "2", "nvidia.com/gpu": "1" });
    let resources = json!(main_of(&plan.components, "Decode").resources);
    assert_eq!(resources, json!({ "limits": amounts, "requests": amounts }));
    let env = main_of(&plan.components, "Frontend").env.clone().unwrap();
    let reported =
        r#"{"Decode":{"ServiceArgs":{"resources":{"cpu":"2","gpu":"1"},"workers":3}},"Frontend":{"port":8000}}"#;
    assert_eq!(env[0].value.as_deref(), Some(reported));

    let field = "spec.components[Decode].podTemplate.spec.containers[main].env[DYN_DEPLOYMENT_CONFIG]";
    let obstacle = configured_with("{").unwrap_err();
    assert!(obstacle.message.contains(field), "{}", obstacle.message);
    assert_eq!(configured(&graph_with(|_| {}).spec), Ok(None));
}

#[test]
fn volumes_need_no_build_and_other_graphs_stay_as_they_are() {
    let service = json!({ "extraPodSpec": { "mainContainer": { "image": "own:1" } }, "componentType": "frontend" });
    let plain = graph(json!({ "services": { "F": service } }));
    assert_eq!(translate(&plain, None), Ok(None));
    let mut with_volume = service;
    with_volume["pvc"] = json!({ "name": "data", "mountPoint": "/data" });
    let (plan, _) = planned(&graph(json!({ "services": { "F": with_volume } })), None, vec![]);
    assert_eq!((plan.objects.build, plan.components.len()), (None, 1));
    assert_eq!((plan.objects.volumes[0].name.as_str(), &plan.objects.volumes[0].make), ("data", &None));
}
