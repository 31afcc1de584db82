//! Graphs whose image is built from an archive: the legacy API.

use std::path::Path;

use api_types::{
    conversion::{ApiVersion, convert},
    v1alpha1::DynamoComponent,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::harness::Harness;

const INSECURE: &str = "nvidia.com/docker-registry-insecure";

fn graph(version: &str) -> Value {
    let tag = "graphs.agg:Frontend";
    let alpha = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": { "name": "chat" },
        "spec": { "dynamoComponent": format!("agg:{version}"), "envs": [{ "name": "A", "value": "graph" }], "services": {
            "Frontend": { "dynamoTag": tag, "envs": [{ "name": "B", "value": "own" }] },
            "Worker": { "dynamoTag": tag, "componentType": "worker", "replicas": 2,
                "pvc": { "size": "1Gi", "mountPath": "/data" } },
        } },
    });
    convert(alpha, ApiVersion::V1Beta1).unwrap()
}

/// Says of a build what the component controller says of it.
async fn set_conditions(harness: &Harness, name: &str, available: (&str, &str, &str), exists: (&str, &str)) {
    let build = harness.until(name, "there", |_: &DynamoComponent| true).await;
    let condition = |type_: &str, (status, reason, message): (&str, &str, &str)| {
        json!({ "type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2025-07-01T00:00:00Z" })
    };
    let conditions = [
        condition("DynamoComponentAvailable", available),
        condition("ImageExists", (exists.0, "Reconciling", exists.1)),
    ];
    let status = json!({ "status": { "observedGeneration": build.metadata.generation, "conditions": conditions } });
    let api = harness.api::<DynamoComponent>();
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

async fn is_there(harness: &Harness, version: &str) {
    let image = format!("registry.example.com/agg:{version}");
    set_conditions(harness, &format!("agg--{version}"), ("True", "Reconciling", ""), ("True", &image)).await;
}

/// Waits until the graph says that it waits for its image, and why.
async fn until_reported(harness: &Harness, why: &str) -> DynamoGraphDeployment {
    let fits = |graph: &DynamoGraphDeployment| {
        let conditions = graph.status.iter().flat_map(|status| &status.conditions);
        let mut ready = conditions.filter(|c| c.type_ == "Ready" && c.observed_generation == graph.metadata.generation);
        ready.any(|c| c.reason == "dynamoComponent_is_not_ready" && c.message.contains(why))
    };
    harness.until("chat", &format!("waiting: {why}"), fits).await
}

fn specs(components: &[DynamoComponentDeployment]) -> Vec<(String, Option<i64>)> {
    let mut all: Vec<_> = components.iter().map(|d| (d.name_any(), d.metadata.generation)).collect();
    all.sort();
    all
}

fn image(d: &DynamoComponentDeployment) -> Option<&str> {
    d.spec.component.main_container()?.image.as_deref()
}

#[tokio::test]
async fn a_graph_rolls_when_its_new_image_is_there_and_not_before() {
    let harness = Harness::new("built").await;
    let uid = harness.apply(&graph("v1")).await.uid();
    until_reported(&harness, "agg--v1").await;
    let build = harness.until("agg--v1", "made", |_: &DynamoComponent| true).await;
    assert_eq!(
        (build.spec.dynamo_component.as_str(), build.owner_references()[0].uid.clone()),
        ("agg:v1", uid.unwrap())
    );
    assert!(harness.components("chat").await.is_empty());

    is_there(&harness, "v1").await;
    harness.ready("chat").await;
    let first = harness.components("chat").await;
    assert!(first.len() == 2 && first.iter().all(|d| image(d) == Some("registry.example.com/agg:v1")));
    harness.edit("chat", &json!({ "metadata": { "annotations": { INSECURE: "true" } } })).await;
    let reported = |build: &DynamoComponent| build.annotations().get(INSECURE).is_some_and(|value| value == "true");
    harness.until("agg--v1", "configured for the registry's protocol", reported).await;
    let claim: PersistentVolumeClaim = harness.api().get("chat-worker").await.unwrap();

    harness.apply(&graph("v2")).await;
    until_reported(&harness, "agg--v2").await;
    set_conditions(
        &harness,
        "agg--v2",
        ("False", "BuildFailed", "Job j failed; the end of the log: E404"),
        ("False", "agg:v2"),
    )
    .await;
    let waits = until_reported(&harness, "the end of the log: E404").await;
    let conditions = &waits.status.unwrap().conditions;
    assert!(conditions.iter().any(|c| c.type_ == "Stalled" && c.status == "True" && c.reason == "BuildFailed"));
    harness.until_reconciled("chat").await;
    assert_eq!(specs(&harness.components("chat").await), specs(&first), "components that serve stay as they are");

    is_there(&harness, "v2").await;
    harness.ready("chat").await;
    let second = harness.components("chat").await;
    assert!(second.len() == 2 && second.iter().all(|d| image(d) == Some("registry.example.com/agg:v2")));
    harness.gone::<DynamoComponent>("agg--v1").await;
    let kept: PersistentVolumeClaim = harness.api().get("chat-worker").await.unwrap();
    assert_eq!((kept.uid(), harness.writes_of("PersistentVolumeClaim")), (claim.uid(), 1));
}

/// Defect: the graphs of the document of the legacy API were refused: they do not say what their services run, and name
/// the place of a volume by another name.
#[tokio::test]
async fn the_graphs_of_the_legacy_document_run_by_the_manifest_of_their_archive() {
    for (name, services, running) in [
        ("disagg", ["Frontend", "PrefillWorker", "Processor", "Router", "VllmWorker"].as_slice(), 4),
        ("llm-agg", ["Frontend", "Processor", "VllmWorker"].as_slice(), 3),
    ] {
        let harness = Harness::new("legacy-document").await;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../deploy/examples/2025/{name}.yaml"));
        let alpha: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        harness.apply(&convert(alpha, ApiVersion::V1Beta1).unwrap()).await;
        let build = "frontend--jh2o6dqzpsgfued4";
        let needs_manifest =
            |build: &DynamoComponent| build.annotations().contains_key("nvidia.com/read-archive-manifest");
        let generation = harness.until(build, "annotated for its manifest", needs_manifest).await.metadata.generation;
        let condition = |type_: &str, message: &str| {
            json!({ "type": type_, "status": "True", "reason": "Reconciling", "message": message,
                "observedGeneration": generation, "lastTransitionTime": "2025-07-01T00:00:00Z" })
        };
        let listed: Vec<Value> = services.iter().map(|name| json!({ "name": name, "workers": 1 })).collect();
        let conditions = [
            condition("DynamoComponentAvailable", ""),
            condition("ImageExists", "registry.example.com/frontend:v1"),
            condition("ManifestRead", ""),
        ];
        let manifest = json!({ "dynamoTag": "graphs.disagg:Frontend", "services": listed });
        let status = json!({ "observedGeneration": generation, "manifest": manifest, "conditions": conditions });
        let api = harness.api::<DynamoComponent>();
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(build, &PatchParams::default(), &patch).await.unwrap();
        harness.ready(name).await;
        let components = harness.components(name).await;
        let mut names: Vec<_> = components.iter().map(|d| d.spec.component.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, services);
        let replicas: i32 = components.iter().map(|d| d.spec.component.desired_replicas()).sum();
        assert_eq!(replicas, running);
        for component in &components {
            let main = component.spec.component.main_container().unwrap();
            let start = format!("--service-name {} graphs.disagg:Frontend", component.spec.component.name);
            assert!(main.args.as_ref().unwrap()[0].contains(&start), "{:?}", main.args);
        }
        if name == "llm-agg" {
            let claim: PersistentVolumeClaim = harness.api().get("vllm-model-storage").await.unwrap();
            let spec = claim.spec.unwrap();
            assert_eq!(spec.access_modes.unwrap(), ["ReadWriteOnce"]);
            assert_eq!(spec.resources.unwrap().requests.unwrap()["storage"].0, "100Gi");
            let worker = components.iter().find(|d| d.spec.component.name == "VllmWorker").unwrap();
            let mounts = worker.spec.component.main_container().unwrap().volume_mounts.as_ref().unwrap();
            assert_eq!((mounts[0].name.as_str(), mounts[0].mount_path.as_str()), ("vllm-model-storage", "/models"));
        }
    }
}
