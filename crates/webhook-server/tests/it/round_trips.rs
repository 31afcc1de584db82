//! Real objects, and odd ones, through the server in both versions.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use test_cluster::TestNamespace;

use crate::{
    common::{objects, stored},
    conformance_kit::documents,
    namespace,
    versions::{VERSIONS, other},
};

const KINDS: [&str; 3] = ["DynamoGraphDeployment", "DynamoComponentDeployment", "DynamoGraphDeploymentRequest"];

/// Every way back leaves the object as it is: `kubectl replace` and `kubectl apply --server-side` of what was read, in
/// either version.
async fn assert_unmoved(namespace: &TestNamespace, kind: &str, name: &str, what: &str) {
    let generation = stored(&objects(namespace, kind, "v1beta1"), name).await.metadata.generation;
    for version in VERSIONS {
        let api = objects(namespace, kind, version);
        let live = api.get(name).await.unwrap();
        let replaced = api.replace(name, &PostParams::default(), &live).await.unwrap();
        assert_eq!(replaced, live, "{what} replaced in {version}");
        let mut manifest = live.clone();
        manifest.metadata = kube::api::ObjectMeta {
            name: live.metadata.name.clone(),
            annotations: live.metadata.annotations.clone(),
            labels: live.metadata.labels.clone(),
            ..Default::default()
        };
        manifest.data.as_object_mut().unwrap().remove("status");
        let params = PatchParams::apply("user").force();
        let applied = api.patch(name, &params, &Patch::Apply(&manifest)).await.unwrap();
        assert_eq!(applied.data, live.data, "{what} applied in {version}");
        assert_eq!(applied.metadata.generation, generation, "{what} applied in {version}");
    }
}

/// All inputs of the kit that the reference admits, through the process as it is installed.
#[tokio::test]
async fn inputs_of_the_kit_read_in_either_version_and_sent_back_stay_as_they_are() {
    let Some(kit) = test_cluster::conformance_kit() else { return };
    let namespace = namespace("kit").await;
    let mut cases: Vec<_> =
        std::fs::read_dir(kit.join("expected/base")).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let (mut admitted, mut refused) = (0, 0);
    for case in cases {
        let expected: Value = serde_json::from_str(&std::fs::read_to_string(&case).unwrap()).unwrap();
        let example = expected["example"].as_str().unwrap();
        let text = std::fs::read_to_string(kit.join("input").join(example)).unwrap();
        for mut document in documents(&text, namespace.name()) {
            let kind = document["kind"].as_str().unwrap().to_owned();
            if !KINDS.contains(&kind.as_str()) {
                continue;
            }
            let version = document["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            let was_admitted = expected["applied"].as_array().unwrap().iter().any(|outcome| {
                outcome["ok"] == true
                    && outcome["kind"] == document["kind"]
                    && outcome["name"] == document["metadata"]["name"]
            });
            let name = format!("kit-{}", admitted + refused);
            document["metadata"]["name"] = json!(name);
            let object: DynamicObject = serde_json::from_value(document).unwrap();
            match objects(&namespace, &kind, &version).create(&PostParams::default(), &object).await {
                Ok(_) => {
                    admitted += 1;
                    assert_unmoved(&namespace, &kind, &name, example).await;
                }
                Err(error) => {
                    refused += 1;
                    // The API server of the reference's recording had the gateway's API.
                    let pool = error.to_string().contains("inference.networking.k8s.io");
                    assert!(!was_admitted || pool, "{example} {kind}: {error}");
                }
            }
        }
    }
    println!("{admitted} admitted and unmoved, {refused} refused");
    assert!(admitted > 100, "{admitted} admitted, {refused} refused");
}

/// Hazard of `v1alpha1`: it takes types and counts that `v1beta1` has no word for. Storage is not checked after a
/// conversion, so what comes out must be valid, or the object could not be written in `v1beta1` any more.
#[tokio::test]
async fn values_that_only_v1alpha1_takes_can_be_written_in_both_versions() {
    let namespace = namespace("odd").await;
    let main = json!({ "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0" });
    let service =
        json!({ "componentType": "main", "subComponentType": "decode", "extraPodSpec": { "mainContainer": main } });
    let graph = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": { "name": "chat" },
        "spec": { "services": { "Odd": service } },
    });
    let kind = "DynamoGraphDeployment";
    let alpha = objects(&namespace, kind, "v1alpha1");
    alpha.create(&PostParams::default(), &serde_json::from_value(graph).unwrap()).await.unwrap();
    assert_unmoved(&namespace, kind, "chat", "type main").await;
    let beta = objects(&namespace, kind, "v1beta1");
    let component = &beta.get("chat").await.unwrap().data["spec"]["components"][0];
    assert!(component.get("type").is_none_or(|kind| kind != "main"), "{component:#}");
    // The user of v1beta1 edits the very component.
    let patch = json!([{ "op": "replace", "path": "/spec/components/0/replicas", "value": 3 }]);
    let patch: Patch<Value> = Patch::Json(serde_json::from_value(patch).unwrap());
    beta.patch("chat", &PatchParams::default(), &patch).await.unwrap();
    let service = &alpha.get("chat").await.unwrap().data["spec"]["services"]["Odd"];
    assert_eq!((&service["componentType"], &service["replicas"]), (&json!("main"), &json!(3)));
}

/// Hazard of `v1beta1`: the schema does not require the name of a component on its own, and an object with
/// `generateName` has none yet when defaults are filled in.
#[tokio::test]
async fn components_with_generated_names_are_admitted_and_can_be_changed() {
    let namespace = namespace("generated").await;
    let main = json!({ "name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0" });
    let kind = "DynamoComponentDeployment";
    for version in VERSIONS {
        let spec = match version {
            "v1alpha1" => {
                let image = json!({ "image": main["image"] });
                json!({ "componentType": "worker", "extraPodSpec": { "mainContainer": image } })
            }
            _ => json!({ "type": "worker", "podTemplate": { "spec": { "containers": [main] } } }),
        };
        let object = json!({
            "apiVersion": format!("nvidia.com/{version}"), "kind": kind,
            "metadata": { "generateName": "decode-" }, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let created = objects(&namespace, kind, version).create(&PostParams::default(), &object).await.unwrap();
        let name = created.metadata.name.unwrap();
        assert_unmoved(&namespace, kind, &name, "a generated name").await;
        let patch = Patch::Merge(json!({ "spec": { "replicas": 2 } }));
        let other = objects(&namespace, kind, other(version));
        let changed = other.patch(&name, &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(changed.data["spec"]["replicas"], 2);
    }
}
