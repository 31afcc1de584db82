//! An object that is nested deeper than it can be read.

use std::{future::ready, time::Duration};

use controller_kit::store::{self, Key, Scope, WatchSource};
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResource,
    api::{DeleteParams, PostParams},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use test_cluster::{TestNamespace, wait};

const LIMIT: Duration = Duration::from_secs(60);

#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize)]
#[kube(group = "deep.example", version = "v1", kind = "Deep", namespaced, schema = "disabled")]
struct DeepSpec {}

async fn serve(client: &Client) {
    let definition = json!({
        "metadata": { "name": "deeps.deep.example" },
        "spec": {
            "group": "deep.example", "scope": "Namespaced",
            "names": { "kind": "Deep", "plural": "deeps", "singular": "deep" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    });
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
}

async fn create(client: &Client, namespace: &str, name: &str, levels: usize) -> kube::Result<()> {
    let spec = format!("{}{}", "{\"a\":".repeat(levels) + "1", "}".repeat(levels));
    let body =
        format!(r#"{{"apiVersion":"deep.example/v1","kind":"Deep","metadata":{{"name":"{name}"}},"spec":{spec}}}"#);
    let uri = format!("/apis/deep.example/v1/namespaces/{namespace}/deeps");
    let request = http::Request::post(uri).header("content-type", "application/json").body(body.into_bytes()).unwrap();
    client.request_text(request).await.map(drop)
}

/// Found defect: serde_json refuses what is nested deeper than 128 levels. Such an object kept a cache from ever
/// completing, and its deletion was not noticed.
#[tokio::test]
async fn an_object_that_is_nested_too_deeply_holds_up_no_cache() {
    let namespace = TestNamespace::new(test_cluster::shared(&[]).await.unwrap(), "deep").await.unwrap();
    let client = namespace.client();
    serve(&client).await;
    let made = async || create(&client, namespace.name(), "deep", 400).await.map_err(|error| error.to_string());
    wait::until("the kind to be served", LIMIT, made).await.unwrap();
    create(&client, namespace.name(), "flat", 1).await.unwrap();

    let scope = Scope::Namespace(namespace.name().to_owned());
    let (deeps, watch) = store::watch::<Deep>(&WatchSource::all(client.clone(), &scope), None);
    tokio::spawn(watch.for_each(|_| ready(())));
    tokio::time::timeout(LIMIT, deeps.wait_until_ready()).await.expect("the cache is complete");
    let (deep, flat) = (Key::new(namespace.name(), "deep"), Key::new(namespace.name(), "flat"));
    assert!(deeps.get(&flat).unwrap().unpack().is_ok());
    let message = deeps.get(&deep).unwrap().unpack().unwrap_err().to_string();
    assert!(message.contains("nested deeper than"), "{message}");

    let api = Api::<Deep>::namespaced(client.clone(), namespace.name());
    api.delete("flat", &DeleteParams::default()).await.unwrap();
    let uri = format!("/apis/deep.example/v1/namespaces/{}/deeps/deep", namespace.name());
    client.request_text(http::Request::delete(uri).body(Vec::new()).unwrap()).await.unwrap();
    wait::until("the deletions to be seen", LIMIT, async || deeps.is_empty().then_some(())).await.unwrap();
}
