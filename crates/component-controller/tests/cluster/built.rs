//! Components whose image is built from an archive, on their own: the legacy API.

use api_types::{
    conversion::{ApiVersion, convert},
    v1alpha1::DynamoComponent,
    v1beta1::DynamoComponentDeployment,
};
use controller_kit::conditions::find;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::PersistentVolumeClaim};
use serde_json::json;
use test_cluster::wait;

use crate::harness::{Harness, LIMIT};

/// Defect of the legacy operator: a component that was there before its image was never reconciled again.
#[tokio::test]
async fn a_component_on_its_own_waits_for_its_image() {
    let harness = Harness::new("images-alone").await;
    let alone = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponentDeployment", "metadata": { "name": "chat" },
        "spec": { "serviceName": "Frontend", "dynamoComponent": "chat:v1", "dynamoTag": "graphs.chat:Frontend",
            "pvc": { "create": true, "size": "1Gi", "volumeAccessMode": "ReadWriteOnce", "mountPoint": "/data" } },
    });
    harness.apply::<DynamoComponentDeployment>(&convert(alone, ApiVersion::V1Beta1).unwrap()).await;
    let look = || async {
        let found: DynamoComponentDeployment = harness.api().get("chat").await.map_err(|error| error.to_string())?;
        let conditions = found.status.map(|status| status.conditions).unwrap_or_default();
        let said = find(&conditions, "Available").map(|c| c.message.clone()).unwrap_or_default();
        if said.contains("DynamoComponent chat--v1") { Ok(()) } else { Err(said) }
    };
    wait::until("the component to say what it waits for", LIMIT, look).await.unwrap();
    assert!(harness.api::<Deployment>().get_opt("chat").await.unwrap().is_none());

    let build = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponent",
        "metadata": { "name": "chat--v1", "annotations": { "nvidia.com/force-build-image": "true" } },
        "spec": { "dynamoComponent": "chat:v1", "image": "r.example/chat:v1", "downloadUrl": "http://store.example/chat.tar" },
    });
    harness.apply::<DynamoComponent>(&build).await;
    let look = || async {
        harness.api::<Deployment>().get_opt("chat").await.map_err(|error| error.to_string())?.ok_or("none".to_owned())
    };
    let made = wait::until("the Deployment", LIMIT, look).await.unwrap();
    let pod = made.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.containers[0].image.as_deref(), Some("r.example/chat:v1"));
    assert!(pod.volumes.unwrap().iter().any(|volume| volume.name == "chat"));
    assert!(harness.api::<PersistentVolumeClaim>().get_opt("chat").await.unwrap().is_some());
}
