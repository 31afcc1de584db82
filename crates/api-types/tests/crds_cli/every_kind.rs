//! Objects of every kind that an earlier release stored, migrated with the rights of the chart.

use std::time::Duration;

use api_types::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    ResourceExt,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::{converter::Converter, serve::Harness};

/// A version of the earlier release. Ours does not have it.
const UNKNOWN: &str = "v0alpha1";
const KNOWN: &str = "v1alpha1";
const LIMIT: Duration = Duration::from_secs(90);

/// The definitions of the earlier release: kinds of which ours has one version are stored in another one.
fn earlier() -> Vec<Value> {
    let mut definitions = crds::all().unwrap();
    for crd in &mut definitions {
        crd.spec.conversion = None;
        let is_converted = crd.spec.versions.len() > 1;
        crd.spec.versions.retain(|version| version.name == KNOWN);
        let known = &mut crd.spec.versions[0];
        (known.deprecated, known.deprecation_warning, known.storage) = (None, None, is_converted);
        let unknown = crd.spec.versions[0].clone();
        crd.spec.versions.push(unknown);
        let unknown = &mut crd.spec.versions[1];
        (unknown.name, unknown.storage) = (UNKNOWN.to_owned(), !is_converted);
    }
    definitions.iter().map(|crd| json!(crd)).collect()
}

/// The smallest spec of a kind in v1alpha1.
fn spec(kind: &str) -> Value {
    match kind {
        "DynamoCheckpoint" => json!({
            "identity": { "model": "m", "backendFramework": "vllm" }, "job": { "podTemplateSpec": {} },
        }),
        "DynamoComponent" => json!({ "dynamoComponent": "chat:v1" }),
        "DynamoComponentDeployment" => json!({ "componentType": "main" }),
        "DynamoGraphDeployment" => json!({ "services": { "Worker": { "componentType": "main" } } }),
        "DynamoGraphDeploymentRequest" => {
            json!({ "model": "m", "backend": "vllm", "profilingConfig": { "profilerImage": "p" } })
        }
        "DynamoGraphDeploymentScalingAdapter" => {
            json!({ "replicas": 1, "dgdRef": { "name": "g", "serviceName": "Worker" } })
        }
        "DynamoModel" => json!({ "modelName": "m", "baseModelName": "b", "modelType": "base" }),
        "DynamoWorkerMetadata" => json!({ "data": {} }),
        _ => panic!("a spec for {kind} is missing"),
    }
}

/// Whether all objects of a definition are stored in our version, and no entry of managed fields is of the unknown one.
async fn migrated(harness: &Harness, ours: &CustomResourceDefinition) -> Result<(), String> {
    let stored = ours.spec.versions.iter().find(|version| version.storage).unwrap().name.clone();
    let kind = GroupVersionKind::gvk(api_types::GROUP, &stored, &ours.spec.names.kind);
    let live = harness.definitions.get_status(&ours.name_any()).await.unwrap().status.unwrap().stored_versions.unwrap();
    if live != [stored] {
        return Err(format!("{}: {live:?}", ours.name_any()));
    }
    let resource = ApiResource::from_gvk_with_plural(&kind, &ours.spec.names.plural);
    let api: Api<DynamicObject> = Api::namespaced_with(harness.cluster.client().unwrap(), "default", &resource);
    let objects = api.list_metadata(&ListParams::default()).await.unwrap().items;
    let is_unknown = |version: &Option<String>| version.as_ref().is_some_and(|version| version.ends_with(UNKNOWN));
    let left = objects.iter().flat_map(|object| object.managed_fields()).any(|entry| is_unknown(&entry.api_version));
    if objects.len() == 2 && !left { Ok(()) } else { Err(format!("{objects:?}")) }
}

#[tokio::test]
async fn objects_of_every_kind_are_stored_anew_in_the_version_of_today() {
    let harness = Harness::start(earlier()).await;
    let client = harness.cluster.client().unwrap();
    let ours = crds::all().unwrap();
    let object = |kind: &str, version: &str| {
        json!({
            "apiVersion": format!("{}/{version}", api_types::GROUP), "kind": kind,
            "metadata": { "name": version, "namespace": "default" }, "spec": spec(kind),
        })
    };
    for crd in &ours {
        let kind = &crd.spec.names.kind;
        harness.cluster.apply(&[object(kind, UNKNOWN), object(kind, KNOWN)]).await.unwrap();
        let unserved = json!([{ "op": "replace", "path": "/spec/versions/1/served", "value": false }]);
        let unserved = Patch::Json::<()>(serde_json::from_value(unserved).unwrap());
        harness.definitions.patch(&crd.name_any(), &PatchParams::default(), &unserved).await.unwrap();
    }

    let converter = Converter::start();
    converter.expose(&client).await;
    harness.publish(&converter.bundle()).await;
    let mut served = harness.serve(&converter, &[]);
    for crd in &ours {
        let look = async || migrated(&harness, crd).await.map_err(|why| format!("{why}\n{}", served.log()));
        wait::until("the objects to be migrated", LIMIT, look).await.unwrap();
    }
    assert!(served.runs());
}
