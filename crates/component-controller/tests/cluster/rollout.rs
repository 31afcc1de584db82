//! From a component to ready pods, and staying there.

use api_types::v1beta1::{ComponentKind, DynamoComponentDeployment};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service},
};
use kube::{
    Api, Resource,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use test_cluster::wait;

use crate::harness::{Harness, LIMIT, NAME_OF_COMPONENT, component, condition};

#[tokio::test]
async fn a_component_becomes_ready_with_few_writes() {
    let harness = Harness::new("ready").await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    let ready = harness.until_ready().await;
    for (type_, status) in
        [("DynamoComponentReady", "True"), ("Ready", "True"), ("Reconciling", "False"), ("Stalled", "False")]
    {
        assert_eq!(condition(&ready, type_).unwrap().0, status, "{type_}");
    }
    let counted = ["resource_type=\"DynamoComponentDeployment\"", "status=\"ready\""];
    let look = async || Some(()).filter(|()| harness.counter_of("resources_total", &counted) == 1);
    wait::until("the component to be counted", LIMIT, look).await.unwrap();
    assert_eq!(condition(&ready, "ImagePullSecretsFound"), None);
    let counts = ready.status.unwrap().component.unwrap();
    assert_eq!(counts.component_kind, ComponentKind::Deployment);
    assert_eq!(counts.component_names, [NAME_OF_COMPONENT]);
    assert_eq!(counts.runtime_namespace, Some(format!("{}-{NAME_OF_COMPONENT}", harness.namespace)));
    assert_eq!((counts.replicas, counts.updated_replicas), (1, 1));
    assert_eq!((counts.ready_replicas, counts.available_replicas), (Some(1), Some(1)));
    assert_eq!((harness.writes_of("Deployment"), harness.writes_of("Service")), (1, 1));
    assert!(harness.status_writes() <= 3, "{} status writes", harness.status_writes());
    assert_eq!(harness.service().await.spec.unwrap().ports.unwrap()[0].port, 9090);
    let name = format!("{}/{NAME_OF_COMPONENT}", harness.namespace);
    harness.until_recorded(&[format!("Created created Service {name} and Deployment {name}")]).await;
}

/// Found defect: a component that is new has the default status, and counted as an old one.
#[tokio::test]
async fn the_creation_of_a_component_of_a_graph_has_no_events() {
    let mut harness = Harness::without_controller("quiet").await;
    let owner = json!({ "metadata": { "name": "owner" } });
    let owner: ConfigMap =
        harness.api().create(&PostParams::default(), &serde_json::from_value(owner).unwrap()).await.unwrap();
    let mut owned = component();
    owned["metadata"]["ownerReferences"] = json!([owner.controller_owner_ref(&()).unwrap()]);
    harness.apply::<DynamoComponentDeployment>(&owned).await;
    harness.start();
    harness.until_ready().await;
    owned["spec"]["replicas"] = json!(2);
    harness.apply::<DynamoComponentDeployment>(&owned).await;
    harness.until_ready().await;
    let name = format!("{}/{NAME_OF_COMPONENT}", harness.namespace);
    harness.until_recorded(&[format!("Updated updated Deployment {name}, now at generation 2")]).await;
}

#[tokio::test]
async fn applying_the_same_again_writes_nothing() {
    let harness = Harness::new("again").await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.until_ready().await;
    let versions = async || {
        let (deployment, service) = (harness.deployment().await, harness.service().await);
        [deployment.metadata.resource_version, service.metadata.resource_version]
    };
    let (before, status_writes) = (versions().await, harness.status_writes());
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.until_reconciled().await;
    harness.until_reconciled().await;
    assert_eq!(versions().await, before);
    assert_eq!((harness.writes_of("Deployment"), harness.writes_of("Service")), (1, 1));
    assert_eq!(harness.status_writes(), status_writes);
}

#[tokio::test]
async fn a_restart_of_the_controller_writes_nothing() {
    let mut harness = Harness::new("restart").await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.until_ready().await;
    harness.stop().await;
    let (writes, reconciles) = (harness.counter("api_writes_total"), harness.counter("reconcile_total"));
    harness.start();
    harness.until_reconciled().await;
    assert!(harness.counter("reconcile_total") > reconciles);
    assert_eq!(harness.counter("api_writes_total"), writes);
}

#[tokio::test]
async fn drift_is_repaired_and_what_others_add_stays() {
    let harness = Harness::new("drift").await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.until_ready().await;
    let note =
        json!({ "metadata": { "labels": { "example.com/team": "x" }, "annotations": { "example.com/note": "y" } } });
    harness.edit::<Deployment>(&note).await;
    harness.edit::<Deployment>(&json!({ "spec": { "replicas": 3 } })).await;
    let deployment =
        harness.until("back at one replica", |d: &Deployment| d.spec.as_ref().unwrap().replicas == Some(1)).await;
    assert_eq!(deployment.metadata.labels.unwrap()["example.com/team"], "x");
    assert_eq!(deployment.metadata.annotations.unwrap()["example.com/note"], "y");

    harness.edit::<Service>(&json!({ "spec": { "selector": { "nvidia.com/dynamo-component": "Other" } } })).await;
    harness
        .until("selecting again", |s: &Service| {
            s.spec.as_ref().unwrap().selector.as_ref().unwrap()["nvidia.com/dynamo-component"] == "Worker"
        })
        .await;

    let deployments: Api<Deployment> = harness.api();
    let old = harness.deployment().await;
    deployments.delete(NAME_OF_COMPONENT, &DeleteParams::background()).await.unwrap();
    harness.until("made again", |d: &Deployment| d.metadata.uid != old.metadata.uid).await;
    harness.until_ready().await;
}

#[tokio::test]
async fn zero_replicas_are_a_normal_state() {
    let harness = Harness::new("zero").await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.until_ready().await;
    let mut none = component();
    none["spec"]["replicas"] = json!(0);
    harness.apply::<DynamoComponentDeployment>(&none).await;
    harness
        .until("ready without pods", |c: &DynamoComponentDeployment| {
            crate::harness::is_current(c)
                && condition(c, "Available").is_some_and(|found| found.0 == "True")
                && c.status.as_ref().and_then(|s| s.component.as_ref()).is_some_and(|counts| counts.replicas == 0)
        })
        .await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    let ready = harness.until_ready().await;
    assert_eq!(ready.status.unwrap().component.unwrap().available_replicas, Some(1));
}

#[tokio::test]
async fn a_change_of_the_spec_rolls_the_deployment_once() {
    let harness = Harness::new("change").await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.until_ready().await;
    let before = harness.deployment().await.metadata.generation.unwrap();
    let mut changed = component();
    changed["spec"]["podTemplate"]["spec"]["containers"][0]["args"] = json!(["-m", "dynamo.vllm", "--model", "other"]);
    harness.apply::<DynamoComponentDeployment>(&changed).await;
    let ready = harness.until_ready().await;
    assert_eq!(ready.status.unwrap().observed_generation, Some(2));
    let deployment = harness.deployment().await;
    assert_eq!(deployment.metadata.generation, Some(before + 1));
    let status = deployment.status.unwrap();
    assert_eq!((status.updated_replicas, status.replicas), (Some(1), Some(1)));
}
