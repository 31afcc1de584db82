//! The Service of a base model, which all who serve the model share.

use api_types::v1beta1::DynamoComponentDeployment;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::harness::{Harness, LIMIT, component};

/// Names of the owners, the one that controls it marked.
fn owners(service: &Service) -> Vec<String> {
    let mark = |controls: bool| if controls { "*" } else { "" };
    let owners = service.owner_references().iter();
    let mut owners: Vec<_> = owners.map(|o| format!("{}{}", o.name, mark(o.controller == Some(true)))).collect();
    owners.sort();
    owners
}

fn worker(name: &str, serves: bool) -> Value {
    let mut object = component();
    object["metadata"]["name"] = json!(format!("worker-{name}"));
    if serves {
        object["spec"]["modelRef"] = json!({ "name": "org/model" });
    }
    object["spec"]["replicas"] = json!(0);
    object
}

/// In the reference it goes with the revision that made it.
#[tokio::test]
async fn the_service_of_a_model_outlives_each_but_the_last_of_those_who_serve_it() {
    let harness = Harness::new("models").await;
    let (services, components) = (harness.api::<Service>(), harness.api::<DynamoComponentDeployment>());
    let name = api_types::names::model_service("org/model");
    let owned_by = async |expected: &[&str]| {
        let look = async || match services.get_opt(&name).await.unwrap() {
            Some(service) if owners(&service) == expected => Ok(service),
            other => Err(format!("{:?}", other.as_ref().map(owners))),
        };
        wait::until(format!("{name} to belong to {expected:?}"), LIMIT, look).await.unwrap()
    };
    // Each of them serves it, no longer, and again.
    let steps: [(&str, bool, &[&str]); 7] = [
        ("a", true, &["worker-a*"]),
        ("b", true, &["worker-a*", "worker-b"]),
        ("b", false, &["worker-a*"]),
        ("b", true, &["worker-a*", "worker-b"]),
        ("a", false, &["worker-b*"]),
        ("a", true, &["worker-a", "worker-b*"]),
        ("b", false, &["worker-a*"]),
    ];
    for (worker_name, serves, expected) in steps {
        harness.apply::<DynamoComponentDeployment>(&worker(worker_name, serves)).await;
        owned_by(expected).await;
    }
    let gone = async || services.get_opt(&name).await.unwrap().is_none().then_some(()).ok_or("it is there");
    harness.apply::<DynamoComponentDeployment>(&worker("a", false)).await;
    wait::until("the Service to go with the last one that serves the model", LIMIT, gone).await.unwrap();

    for (worker_name, expected) in [("a", &["worker-a*"][..]), ("b", &["worker-a*", "worker-b"])] {
        harness.apply::<DynamoComponentDeployment>(&worker(worker_name, true)).await;
        owned_by(expected).await;
    }
    let first = services.get(&name).await.unwrap();
    assert_eq!(first.annotations()["nvidia.com/dynamo-base-model"], "org/model");

    components.delete("worker-a", &DeleteParams::background()).await.unwrap();
    let kept = owned_by(&["worker-b*"]).await;
    assert_eq!(kept.metadata.uid, first.metadata.uid, "it was there all the time");

    components.delete("worker-b", &DeleteParams::background()).await.unwrap();
    wait::until("the Service to go with the last of them", LIMIT, gone).await.unwrap();
}

/// Server-side apply leaves an owner reference that another manager has set.
#[tokio::test]
async fn a_service_that_the_upstream_operator_made_is_released_too() {
    let harness = Harness::new("models-upstream").await;
    let (services, components) = (harness.api::<Service>(), harness.api::<DynamoComponentDeployment>());
    harness.apply::<DynamoComponentDeployment>(&worker("a", false)).await;
    let mut service = rendering::render_model_service(&harness.namespace, "org/model");
    service.metadata.owner_references =
        components.get("worker-a").await.unwrap().controller_owner_ref(&()).map(|owner| vec![owner]);
    let upstream = PostParams { field_manager: Some("manager".to_owned()), ..PostParams::default() };
    services.create(&upstream, &service).await.unwrap();
    let owned_by = async |expected: &[&str]| {
        let look = async || match services.get(&api_types::names::model_service("org/model")).await.unwrap() {
            service if owners(&service) == expected => Ok(()),
            other => Err(format!("{:?}", owners(&other))),
        };
        wait::until(format!("the Service to belong to {expected:?}"), LIMIT, look).await.unwrap();
    };
    harness.apply::<DynamoComponentDeployment>(&worker("a", true)).await;
    harness.apply::<DynamoComponentDeployment>(&worker("b", true)).await;
    owned_by(&["worker-a*", "worker-b"]).await;
    harness.apply::<DynamoComponentDeployment>(&worker("a", false)).await;
    owned_by(&["worker-b*"]).await;
}
