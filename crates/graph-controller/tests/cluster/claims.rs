//! Storage that graphs of v1alpha1 name, and GPUs that the processes of a pod share.

use api_types::{
    conversion::{ApiVersion, convert},
    names,
    v1beta1::DynamoGraphDeployment,
};
use k8s_openapi::api::{core::v1::PersistentVolumeClaim, resource::v1::ResourceClaimTemplate};
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::harness::{self, Harness};

fn graph(pvcs: Value) -> Value {
    let alpha = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": { "name": "chat" },
        "spec": { "pvcs": pvcs, "services": { "Frontend": { "componentType": "frontend", "replicas": 1,
            "extraPodSpec": { "mainContainer": { "image": "registry.example.com/frontend:1.5.0" } } } } },
    });
    convert(alpha, ApiVersion::V1Beta1).unwrap()
}

fn mentions(graph: &DynamoGraphDeployment, text: &str) -> bool {
    let conditions = graph.status.iter().flat_map(|status| &status.conditions);
    conditions.filter(|c| c.type_ == "Ready").any(|c| c.message.contains(text))
}

#[tokio::test]
async fn claims_are_made_once_and_never_touched_again() {
    let harness = Harness::new("claims").await;
    let claim = json!({ "name": "cache", "create": true, "storageClass": "fast", "size": "1Gi",
        "volumeAccessMode": "ReadWriteMany" });
    let uid = harness.apply(&graph(json!([claim, { "name": "models" }]))).await.uid();
    let made = harness.until("cache", "made", |_: &PersistentVolumeClaim| true).await;
    assert_eq!(made.owner_references()[0].uid, uid.unwrap());
    harness
        .until("chat", "waiting", |g| mentions(g, "PersistentVolumeClaim") && mentions(g, "/models: it does not exist"))
        .await;

    let mut theirs = made.clone();
    theirs.metadata = kube::api::ObjectMeta { name: Some("models".to_owned()), ..Default::default() };
    harness.api().create(&PostParams::default(), &theirs).await.unwrap();
    harness.until("chat", "past the claims", |g| !mentions(g, "it does not exist")).await;

    // Neither another size nor another list reaches a claim that exists.
    harness
        .apply(&graph(json!([{ "name": "models", "create": true, "size": "5Gi", "volumeAccessMode": "ReadOnlyMany" }])))
        .await;
    harness.ready("chat").await;
    harness.until_reconciled("chat").await;
    for name in ["cache", "models"] {
        let live: PersistentVolumeClaim = harness.api().get(name).await.unwrap();
        assert_eq!(live.spec, made.spec, "{name}");
    }
    assert_eq!(harness.writes_of("PersistentVolumeClaim"), 1);
}

#[tokio::test]
async fn the_template_of_shared_gpus_comes_and_goes_with_the_sharing() {
    let harness = Harness::new("shared-gpus").await;
    let graph = |shared: bool| {
        harness::graph("chat", |g| {
            let decode = &mut g["spec"]["components"][1];
            let main = &mut decode["podTemplate"]["spec"]["containers"][0];
            main["resources"] = json!({ "limits": { "nvidia.com/gpu": "2" } });
            if shared {
                let service = json!({ "mode": "IntraPod", "deviceClassName": "gpus" });
                decode["experimental"] = json!({ "gpuMemoryService": service });
            }
        })
    };
    harness.apply(&graph(true)).await;
    let name = names::gpu_claim_template("chat", "Decode");
    let template = harness.until(&name, "made", |_: &ResourceClaimTemplate| true).await;
    let request = &template.spec.spec.devices.unwrap().requests.unwrap()[0];
    let exactly = request.exactly.as_ref().unwrap();
    assert_eq!((exactly.device_class_name.as_str(), exactly.count), ("gpus", Some(2)));
    harness.ready("chat").await;

    harness.apply(&graph(false)).await;
    harness.ready("chat").await;
    harness.gone::<ResourceClaimTemplate>(&name).await;
}
