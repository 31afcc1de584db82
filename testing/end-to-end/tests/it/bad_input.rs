//! Violations in users' specs, and names that are taken: a clear message, nothing lost.

use api_types::v1beta1::DynamoGraphDeployment;
use end_to_end::{BoxError, Operators, harness};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::graphs::disaggregated;

fn refused(answer: Result<DynamoGraphDeployment, BoxError>) -> String {
    answer.map(|_| "accepted".to_owned()).unwrap_or_else(|e| e.to_string())
}

#[tokio::test]
async fn what_a_schema_can_check_is_refused_at_admission() -> Result<(), BoxError> {
    let harness = harness("admission").await?;
    let mut framework = disaggregated("chat", "1.0.0", 1, 1);
    framework["spec"]["backendFramework"] = json!("llamacpp");
    let message = refused(harness.apply(&framework).await);
    assert!(message.contains("spec.backendFramework") && message.contains("llamacpp"), "{message}");

    let mut quantity = disaggregated("chat", "1.0.0", 1, 1);
    quantity["spec"]["components"][1]["sharedMemorySize"] = json!("plenty");
    let message = refused(harness.apply(&quantity).await);
    assert!(message.contains("spec.components[1].sharedMemorySize"), "{message}");

    let mut quantity = disaggregated("chat", "1.0.0", 1, 1);
    quantity["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["resources"] =
        json!({ "limits": { "memory": "lots" } });
    let message = refused(harness.apply(&quantity).await);
    assert!(message.contains("spec.components[1].podTemplate.spec.containers[0].resources.limits.memory"), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_component_without_main_stalls_and_the_old_spec_keeps_serving() -> Result<(), BoxError> {
    let harness = harness("no-main").await?;
    let _operators = Operators::of(&harness).await?;
    harness.apply(&disaggregated("chat", "1.0.0", 1, 1)).await?;
    harness.ready("chat").await?;
    let before = harness.inventory().await?;

    let mut broken = disaggregated("chat", "2.0.0", 1, 1);
    broken["spec"]["components"][2]["podTemplate"]["spec"]["containers"][0]["name"] = json!("engine");
    harness.apply(&broken).await?;
    let message = harness.condition("chat", "Stalled", "True", "InvalidSpec").await?;
    assert!(message.contains("spec.components[Decode].podTemplate.spec.containers"), "{message}");
    assert_eq!(harness.inventory().await?, before, "nothing half-done");

    harness.apply(&disaggregated("chat", "2.0.0", 1, 1)).await?;
    harness.ready("chat").await?;
    Ok(())
}

#[tokio::test]
async fn a_missing_pull_secret_is_named_until_it_is_there() -> Result<(), BoxError> {
    let harness = harness("pull-secret").await?;
    let _operators = Operators::of(&harness).await?;
    let mut graph = disaggregated("chat", "1.0.0", 1, 1);
    graph["spec"]["components"][1]["podTemplate"]["spec"]["imagePullSecrets"] = json!([{ "name": "registry" }]);
    harness.apply(&graph).await?;
    let worker = async |status: &str| -> Result<String, BoxError> {
        let probe = async || {
            let all = harness.components().await.map_err(|e| e.to_string())?;
            let prefill = all.into_iter().find(|d| d.spec.component.name == "Prefill").ok_or("no component yet")?;
            let conditions = prefill.status.map(|s| s.conditions).unwrap_or_default();
            let found = conditions.iter().find(|c| c.type_ == "ImagePullSecretsFound" && c.status == status);
            found.map(|c| c.message.clone()).ok_or_else(|| format!("{conditions:?}"))
        };
        Ok(test_cluster::wait::until("the condition", std::time::Duration::from_secs(60), probe).await?)
    };
    let message = worker("False").await?;
    assert!(message.contains("registry"), "{message}");

    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": "registry" }, "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": "{\"auths\":{\"registry.example\":{\"auth\":\"eDp5\"}}}" }
    }))?;
    harness.api::<Secret>().create(&PostParams::default(), &secret).await?;
    worker("True").await?;
    Ok(())
}

/// A Deployment of another owner.
fn foreign(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "labels": { "app": "theirs" } },
        "spec": { "selector": { "matchLabels": { "app": "theirs" } }, "template": {
            "metadata": { "labels": { "app": "theirs" } },
            "spec": { "containers": [{ "name": "theirs", "image": "theirs:1" }] } } }
    })
}

#[tokio::test]
async fn a_foreign_deployment_of_the_name_is_never_touched() -> Result<(), BoxError> {
    let harness = harness("foreign").await?;
    let _operators = Operators::of(&harness).await?;
    let deployments = harness.api::<Deployment>();
    let theirs: Deployment = serde_json::from_value(foreign("chat-frontend"))?;
    let uid = deployments.create(&PostParams::default(), &theirs).await?.uid();

    harness.apply(&disaggregated("chat", "1.0.0", 1, 1)).await?;
    let message = harness.condition("chat", "Stalled", "True", "NameTaken").await?;
    assert!(message.contains("Deployment") && message.contains("chat-frontend"), "{message}");
    let live = deployments.get("chat-frontend").await?;
    assert_eq!(live.uid(), uid);
    assert_eq!(live.labels().get("app").map(String::as_str), Some("theirs"));
    assert!(live.owner_references().is_empty());

    deployments.delete("chat-frontend", &DeleteParams::background()).await?;
    harness.ready("chat").await?;
    Ok(())
}
