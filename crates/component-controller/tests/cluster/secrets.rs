//! Image pull secrets: named ones that are missing, and others that are found by registry.

use api_types::v1beta1::DynamoComponentDeployment;
use component_controller::access::ACCESS;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use serde_json::{Value, json};

use crate::harness::{Harness, component, condition};

const FOUND: &str = "ImagePullSecretsFound";

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": r#"{"auths":{"registry.example.com":{"auth":"eDp5"}}}"# },
    })
}

fn pull_secrets(deployment: &Deployment) -> Vec<String> {
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    pod.image_pull_secrets.iter().flatten().map(|reference| reference.name.clone()).collect()
}

#[tokio::test]
async fn a_missing_secret_is_reported_until_it_appears() {
    let harness = Harness::new("missing").await;
    let mut naming = component();
    naming["spec"]["podTemplate"]["spec"]["imagePullSecrets"] = json!([{ "name": "later" }]);
    harness.apply::<DynamoComponentDeployment>(&naming).await;
    let missing = harness.until_condition(FOUND, "False", "SecretMissing").await;
    let message = condition(&missing, FOUND).unwrap().2;
    assert!(message.contains("later") && message.contains("imagePullSecrets"), "{message}");
    harness.until_ready().await;
    let before = harness.deployment().await;
    assert_eq!(pull_secrets(&before), ["later"]);

    harness.apply::<Secret>(&secret("later")).await;
    harness.until_condition(FOUND, "True", "AllFound").await;
    assert_eq!(harness.deployment().await.metadata.generation, before.metadata.generation);
}

#[tokio::test]
async fn a_named_secret_of_another_type_is_found() {
    let harness = Harness::new("type").await;
    let opaque = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "opaque" } });
    harness.apply::<Secret>(&opaque).await;
    let mut naming = component();
    naming["spec"]["podTemplate"]["spec"]["imagePullSecrets"] = json!([{ "name": "opaque" }]);
    harness.apply::<DynamoComponentDeployment>(&naming).await;
    harness.until_condition(FOUND, "True", "AllFound").await;
}

#[tokio::test]
async fn secrets_are_found_by_registry_and_later_ones_roll_nothing() {
    let mut harness = Harness::without_controller("found").await;
    harness.apply::<Secret>(&secret("one")).await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.start();
    harness.until_ready().await;
    let before = harness.deployment().await;
    assert_eq!(pull_secrets(&before), ["one"]);

    harness.apply::<Secret>(&secret("two")).await;
    // A restart sees both at once, and still does not change what runs.
    harness.stop().await;
    harness.start();
    harness.until_reconciled().await;
    let after = harness.deployment().await;
    assert_eq!((pull_secrets(&after), after.metadata.generation), (vec!["one".to_owned()], before.metadata.generation));

    let mut changed = component();
    changed["spec"]["podTemplate"]["spec"]["containers"][0]["args"] = json!(["-m", "dynamo.vllm", "--model", "other"]);
    harness.apply::<DynamoComponentDeployment>(&changed).await;
    harness.until("up to date", |d: &Deployment| pull_secrets(d) == ["one", "two"]).await;
}

#[tokio::test]
async fn without_the_right_to_see_secrets_everything_else_goes_on() {
    let rights: Vec<_> = ACCESS.iter().filter(|right| right.resource != "secrets").copied().collect();
    let mut harness = Harness::with_rights("blind", &rights).await;
    harness.start();
    harness.apply::<Secret>(&secret("one")).await;
    let mut naming = component();
    naming["spec"]["podTemplate"]["spec"]["imagePullSecrets"] = json!([{ "name": "not-to-be-seen" }]);
    harness.apply::<DynamoComponentDeployment>(&naming).await;
    let ready = harness.until_ready().await;
    assert_eq!(condition(&ready, FOUND).unwrap().0, "True", "what cannot be seen is not reported as missing");
    assert_eq!(pull_secrets(&harness.deployment().await), ["not-to-be-seen"]);
}
