//! Kinds whose CRD comes and goes while the controller runs.

use controller_kit::store::{Scope, ServedApi, watch_if_served};
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, CustomResource, ResourceExt,
    api::{ApiResource, DeleteParams, PostParams},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;
use test_cluster::{TestNamespace, wait};

/// Longer than it takes until an API that was missing is asked for again.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize)]
#[kube(group = "optional.example", version = "v1", kind = "Gadget", namespaced, schema = "disabled")]
struct GadgetSpec {}

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": { "name": "gadgets.optional.example" },
        "spec": {
            "group": "optional.example", "scope": "Namespaced",
            "names": { "kind": "Gadget", "plural": "gadgets", "singular": "gadget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn an_api_that_comes_later_is_watched_and_one_that_goes_leaves_an_empty_store() {
    let namespace = TestNamespace::new(test_cluster::shared(&[]).await.unwrap(), "optional").await.unwrap();
    let client = namespace.client();
    let scope = Scope::Namespace(namespace.name().to_owned());
    let (store, mut watch) = watch_if_served::<Gadget>(client.clone(), &scope, None);
    tokio::spawn(async move { while watch.next().await.is_some() {} });
    let api = ServedApi::new(client.clone(), ApiResource::erase::<Gadget>(&()));

    store.wait_until_ready().await;
    assert!(!store.is_served() && store.is_empty());
    assert!(!api.is_served().await.unwrap());

    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    let gadgets = Api::<Gadget>::namespaced(client, namespace.name());
    let create = async || {
        let gadget = Gadget::new("g", GadgetSpec {});
        gadgets.create(&PostParams::default(), &gadget).await.map_err(|error| error.to_string())
    };
    wait::until("the API to be served", PATIENCE, create).await.unwrap();
    let look = async || match (store.is_served(), store.all()) {
        (true, all) if all.iter().map(|gadget| gadget.name_any()).eq(["g".to_owned()]) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    wait::until("the object to be cached", PATIENCE, look).await.unwrap();
    let asked = async || api.is_served().await.unwrap().then_some(()).ok_or_else(|| "not served".to_owned());
    wait::until("the answer to be known", PATIENCE, asked).await.unwrap();

    definitions.delete("gadgets.optional.example", &DeleteParams::default()).await.unwrap();
    let gone = async || {
        let left = (store.is_served(), store.len());
        (left == (false, 0)).then_some(()).ok_or_else(|| format!("{left:?}"))
    };
    wait::until("the store to be empty", PATIENCE, gone).await.unwrap();
}
