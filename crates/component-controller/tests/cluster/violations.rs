//! Specs that cannot be used: a clear condition, and what runs keeps running.

use api_types::v1beta1::DynamoComponentDeployment;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration, apps::v1::Deployment, core::v1::ResourceQuota,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::harness::{Harness, LIMIT, component, condition};

const BAD_SURGE: &str = "a few";

fn invalid() -> Value {
    let mut invalid = component();
    invalid["spec"]["podTemplate"]["metadata"] =
        json!({ "annotations": { "nvidia.com/deployment-rolling-update-max-surge": BAD_SURGE } });
    invalid
}

#[tokio::test]
async fn a_violation_is_reported_and_nothing_is_created() {
    let harness = Harness::new("violation").await;
    harness.apply::<DynamoComponentDeployment>(&invalid()).await;
    let stalled = harness.until_condition("Stalled", "True", "InvalidSpec").await;
    assert_eq!(stalled.status.as_ref().unwrap().observed_generation, Some(1));
    let message = condition(&stalled, "Ready").unwrap().2;
    for part in ["spec.podTemplate.metadata.annotations", "max-surge", BAD_SURGE, "25%"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert_eq!(harness.api::<Deployment>().list(&ListParams::default()).await.unwrap().items, []);
    harness.until_recorded(&[format!("InvalidSpec {message}")]).await;

    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.until_ready().await;
}

#[tokio::test]
async fn a_violation_in_an_update_leaves_the_workload_running() {
    let harness = Harness::new("update").await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.until_ready().await;
    let before = harness.deployment().await.metadata.resource_version;
    harness.apply::<DynamoComponentDeployment>(&invalid()).await;
    let stalled = harness.until_condition("Stalled", "True", "InvalidSpec").await;
    assert_eq!(condition(&stalled, "Available").unwrap().0, "False");
    assert_eq!(stalled.status.unwrap().component.unwrap().available_replicas, Some(1), "it still serves");
    assert_eq!(harness.deployment().await.metadata.resource_version, before);
}

#[tokio::test]
async fn what_the_api_server_rejects_is_reported_with_its_message() {
    let harness = Harness::new("rejected").await;
    let mut rejected = component();
    let main = &mut rejected["spec"]["podTemplate"]["spec"]["containers"][0];
    main["volumeMounts"] = json!([{ "name": "Not_A_Name", "mountPath": "relative:path" }]);
    harness.apply::<DynamoComponentDeployment>(&rejected).await;
    let stalled = harness.until_condition("Stalled", "True", "InvalidSpec").await;
    let message = condition(&stalled, "Stalled").unwrap().2;
    assert!(message.contains("volumeMounts") || message.contains("volumes"), "{message}");
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.until_ready().await;
}

#[tokio::test]
async fn a_quota_is_reported_with_the_message_of_the_deployment() {
    let harness = Harness::new("quota").await;
    harness.quota(json!({ "pods": "0" })).await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness
        .until("waiting for the quota", |c: &DynamoComponentDeployment| {
            condition(c, "Ready").is_some_and(|found| found.0 == "False" && found.2.contains("exceeded quota: none"))
                && condition(c, "Stalled").is_some_and(|found| found.0 == "False")
        })
        .await;
}

/// Found defect: a webhook that does not answer was taken for an API server that is away, and the component had no
/// status at all.
#[tokio::test]
async fn a_webhook_that_does_not_answer_holds_up_neither_the_workload_nor_the_status() {
    let mut harness = Harness::without_controller("webhook").await;
    let name = format!("{}.example.com", harness.namespace);
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": name },
        "webhooks": [{
            "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "timeoutSeconds": 2,
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": harness.namespace } },
            "clientConfig": { "service": { "namespace": harness.namespace, "name": "no-server" } },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"] }],
        }],
    });
    let all: Api<ValidatingWebhookConfiguration> = Api::all(harness.client.clone());
    all.create(&PostParams::default(), &serde_json::from_value(configuration).unwrap()).await.unwrap();
    harness.start();
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    let reported = harness.until_condition("Reconciling", "True", "WebhookUnavailable").await;
    assert_eq!(reported.status.as_ref().unwrap().observed_generation, Some(1));
    for (type_, expected) in [("Reconciling", "True"), ("Ready", "False"), ("Stalled", "False")] {
        let (status, _, message) = condition(&reported, type_).unwrap();
        assert_eq!(status, expected, "{type_}");
        assert!(type_ == "Stalled" || message.contains("failed calling webhook"), "{type_}: {message}");
    }
    let serves = |c: &DynamoComponentDeployment| {
        let counts = c.status.as_ref().and_then(|status| status.component.as_ref());
        counts.is_some_and(|counts| counts.available_replicas == Some(1))
    };
    harness.until("serving without its Service", serves).await;
    all.delete(&name, &DeleteParams::default()).await.unwrap();
    harness.until_ready().await;
}

impl Harness {
    /// Sets the quota `none` of the namespace, and waits until it counts if it is new.
    pub async fn quota(&self, hard: Value) {
        let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "none" },
            "spec": { "hard": hard } });
        self.apply::<ResourceQuota>(&quota).await;
        let look = async || self.api::<ResourceQuota>().get("none").await.ok()?.status?.used;
        wait::until("the quota to count", LIMIT, look).await.unwrap();
    }
}
