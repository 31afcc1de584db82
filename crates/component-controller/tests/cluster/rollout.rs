//! From a component to ready pods, and staying there.

use api_types::v1beta1::{ComponentKind, DynamoComponentDeployment};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{Api, api::DeleteParams};
use serde_json::json;
use test_cluster::wait;

use crate::harness::{Harness, LIMIT, NAME_OF_COMPONENT, component, condition};

#[tokio::test]
async fn a_component_becomes_ready_with_few_writes() {
    let bed = Harness::new("ready").await;
    bed.apply::<DynamoComponentDeployment>(&component()).await;
    let ready = bed.until_ready().await;
    for (type_, status) in
        [("DynamoComponentReady", "True"), ("Ready", "True"), ("Reconciling", "False"), ("Stalled", "False")]
    {
        assert_eq!(condition(&ready, type_).unwrap().0, status, "{type_}");
    }
    let counted = ["resource_type=\"DynamoComponentDeployment\"", "status=\"ready\""];
    let look = async || Some(()).filter(|()| bed.counter_of("resources_total", &counted) == 1);
    wait::until("the component to be counted", LIMIT, look).await.unwrap();
    assert_eq!(condition(&ready, "ImagePullSecretsFound"), None);
    let counts = ready.status.unwrap().component.unwrap();
    assert_eq!(counts.component_kind, ComponentKind::Deployment);
    assert_eq!(counts.component_names, [NAME_OF_COMPONENT]);
    assert_eq!(counts.runtime_namespace, Some(format!("{}-{NAME_OF_COMPONENT}", bed.namespace)));
    assert_eq!((counts.replicas, counts.updated_replicas), (1, 1));
    assert_eq!((counts.ready_replicas, counts.available_replicas), (Some(1), Some(1)));
    assert_eq!((bed.writes_of("Deployment"), bed.writes_of("Service")), (1, 1));
    assert!(bed.status_writes() <= 3, "{} status writes", bed.status_writes());
    assert_eq!(bed.service().await.spec.unwrap().ports.unwrap()[0].port, 9090);
    let name = format!("{}/{NAME_OF_COMPONENT}", bed.namespace);
    bed.until_recorded(&[format!("Created created Service {name} and Deployment {name}")]).await;
}

#[tokio::test]
async fn applying_the_same_again_writes_nothing() {
    let bed = Harness::new("again").await;
    bed.apply::<DynamoComponentDeployment>(&component()).await;
    bed.until_ready().await;
    let versions = async || {
        let (deployment, service) = (bed.deployment().await, bed.service().await);
        [deployment.metadata.resource_version, service.metadata.resource_version]
    };
    let (before, status_writes) = (versions().await, bed.status_writes());
    bed.apply::<DynamoComponentDeployment>(&component()).await;
    bed.until_reconciled().await;
    bed.until_reconciled().await;
    assert_eq!(versions().await, before);
    assert_eq!((bed.writes_of("Deployment"), bed.writes_of("Service")), (1, 1));
    assert_eq!(bed.status_writes(), status_writes);
}

#[tokio::test]
async fn a_restart_of_the_controller_writes_nothing() {
    let mut bed = Harness::new("restart").await;
    bed.apply::<DynamoComponentDeployment>(&component()).await;
    bed.until_ready().await;
    bed.stop().await;
    let (writes, reconciles) = (bed.counter("api_writes_total"), bed.counter("reconcile_total"));
    bed.start();
    bed.until_reconciled().await;
    assert!(bed.counter("reconcile_total") > reconciles);
    assert_eq!(bed.counter("api_writes_total"), writes);
}

#[tokio::test]
async fn drift_is_repaired_and_what_others_add_stays() {
    let bed = Harness::new("drift").await;
    bed.apply::<DynamoComponentDeployment>(&component()).await;
    bed.until_ready().await;
    let note =
        json!({ "metadata": { "labels": { "example.com/team": "x" }, "annotations": { "example.com/note": "y" } } });
    bed.edit::<Deployment>(&note).await;
    bed.edit::<Deployment>(&json!({ "spec": { "replicas": 3 } })).await;
    let deployment =
        bed.until("back at one replica", |d: &Deployment| d.spec.as_ref().unwrap().replicas == Some(1)).await;
    assert_eq!(deployment.metadata.labels.unwrap()["example.com/team"], "x");
    assert_eq!(deployment.metadata.annotations.unwrap()["example.com/note"], "y");

    bed.edit::<Service>(&json!({ "spec": { "selector": { "nvidia.com/dynamo-component": "Other" } } })).await;
    bed.until("selecting again", |s: &Service| {
        s.spec.as_ref().unwrap().selector.as_ref().unwrap()["nvidia.com/dynamo-component"] == "Worker"
    })
    .await;

    let deployments: Api<Deployment> = bed.api();
    let old = bed.deployment().await;
    deployments.delete(NAME_OF_COMPONENT, &DeleteParams::background()).await.unwrap();
    bed.until("made again", |d: &Deployment| d.metadata.uid != old.metadata.uid).await;
    bed.until_ready().await;
}

#[tokio::test]
async fn zero_replicas_are_a_normal_state() {
    let bed = Harness::new("zero").await;
    bed.apply::<DynamoComponentDeployment>(&component()).await;
    bed.until_ready().await;
    let mut none = component();
    none["spec"]["replicas"] = json!(0);
    bed.apply::<DynamoComponentDeployment>(&none).await;
    bed.until("ready without pods", |c: &DynamoComponentDeployment| {
        crate::harness::is_current(c)
            && condition(c, "Available").is_some_and(|found| found.0 == "True")
            && c.status.as_ref().and_then(|s| s.component.as_ref()).is_some_and(|counts| counts.replicas == 0)
    })
    .await;
    bed.apply::<DynamoComponentDeployment>(&component()).await;
    let ready = bed.until_ready().await;
    assert_eq!(ready.status.unwrap().component.unwrap().available_replicas, Some(1));
}

#[tokio::test]
async fn a_change_of_the_spec_rolls_the_deployment_once() {
    let bed = Harness::new("change").await;
    bed.apply::<DynamoComponentDeployment>(&component()).await;
    bed.until_ready().await;
    let before = bed.deployment().await.metadata.generation.unwrap();
    let mut changed = component();
    changed["spec"]["podTemplate"]["spec"]["containers"][0]["args"] = json!(["-m", "dynamo.vllm", "--model", "other"]);
    bed.apply::<DynamoComponentDeployment>(&changed).await;
    let ready = bed.until_ready().await;
    assert_eq!(ready.status.unwrap().observed_generation, Some(2));
    let deployment = bed.deployment().await;
    assert_eq!(deployment.metadata.generation, Some(before + 1));
    let status = deployment.status.unwrap();
    assert_eq!((status.updated_replicas, status.replicas), (Some(1), Some(1)));
}
