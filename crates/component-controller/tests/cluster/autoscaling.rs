//! `autoscaling` of a standalone component.

use api_types::{
    conversion::{ApiVersion, convert},
    v1beta1::DynamoComponentDeployment,
};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::harness::{Harness, NAME_OF_COMPONENT, component};

/// The annotation by which conversion keeps `autoscaling`.
fn saved(enabled: bool) -> Value {
    let metrics = json!([{ "type": "Resource",
        "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 60 } } }]);
    let alpha = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponentDeployment",
        "metadata": { "name": NAME_OF_COMPONENT },
        "spec": { "autoscaling": { "enabled": enabled, "minReplicas": 1, "maxReplicas": 5, "metrics": metrics } },
    });
    convert(alpha, ApiVersion::V1Beta1).unwrap()["metadata"]["annotations"].clone()
}

fn autoscaled() -> Value {
    let mut component = component();
    component["metadata"]["annotations"] = saved(true);
    component
}

#[tokio::test]
async fn the_replicas_of_an_autoscaler_stay() {
    let harness = Harness::new("autoscaling").await;
    let owned_by = harness.apply::<DynamoComponentDeployment>(&autoscaled()).await.metadata.uid.unwrap();
    harness.until_ready().await;
    let autoscaler = harness.until("there", |_: &HorizontalPodAutoscaler| true).await;
    let (owner, target) = (&autoscaler.owner_references()[0], &autoscaler.spec.scale_target_ref);
    assert_eq!((&owner.uid, owner.controller), (&owned_by, Some(true)));
    assert_eq!((target.kind.as_str(), target.name.as_str()), ("Deployment", NAME_OF_COMPONENT));

    let scale = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    harness.api::<Deployment>().patch_scale(NAME_OF_COMPONENT, &PatchParams::default(), &scale).await.unwrap();
    let has_three = |d: &Deployment| d.spec.as_ref().and_then(|spec| spec.replicas) == Some(3);
    harness.until_ready().await;
    // A change of what the pods run keeps the count as well.
    let mut changed = autoscaled();
    changed["spec"]["podTemplate"]["spec"]["containers"][0]["image"] = json!("registry.example.com/worker:2");
    harness.apply::<DynamoComponentDeployment>(&changed).await;
    let is_changed = |d: &Deployment| {
        let pod = d.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        pod.is_some_and(|pod| pod.containers[0].image.as_deref() == Some("registry.example.com/worker:2"))
    };
    let deployment = harness.until("changed", is_changed).await;
    assert!(has_three(&deployment), "{deployment:?}");
    harness.until_ready().await;
    harness.until_reconciled().await;
    assert!(has_three(&harness.deployment().await));

    // Without replicas it is off: an autoscaler does not act.
    changed["spec"]["replicas"] = json!(0);
    harness.apply::<DynamoComponentDeployment>(&changed).await;
    harness.until("at zero", |d: &Deployment| d.spec.as_ref().and_then(|spec| spec.replicas) == Some(0)).await;
    changed["metadata"]["annotations"] = saved(false);
    changed["spec"]["replicas"] = json!(2);
    harness.apply::<DynamoComponentDeployment>(&changed).await;
    harness.gone::<HorizontalPodAutoscaler>().await;
    harness.until("as the user says", |d: &Deployment| d.spec.as_ref().and_then(|spec| spec.replicas) == Some(2)).await;
}
