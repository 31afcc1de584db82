//! Kinds whose CRD comes and goes while the controller runs.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use controller_kit::store::{Scope, ServedApi, ServedApis, WatchSource, keep, watch, watch_if_served};
use futures::{StreamExt, stream::select_all};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResource, ResourceExt,
    api::{ApiResource, DeleteParams, PostParams},
    client::Body,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use test_cluster::{TestNamespace, open_definition, wait};

/// Longer than it takes until an API that was missing is requested again.
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
    let source = WatchSource::all(client.clone(), &Scope::Namespace(namespace.name().to_owned()));
    let apis = ServedApis::new(client.clone());
    let (store, mut watch) = watch_if_served::<Gadget>(&apis, &source, None, keep::any);
    tokio::spawn(async move { while watch.next().await.is_some() {} });
    let api = ServedApi::new(&apis, ApiResource::erase::<Gadget>(&()));

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
    // Without that, it might take minutes until the API is requested again.
    store.need();
    let look = async || match (store.is_served(), store.all()) {
        (true, all) if all.iter().map(|gadget| gadget.name_any()).eq(["g".to_owned()]) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    wait::until("the object to be cached", PATIENCE, look).await.unwrap();
    let probe = async || api.is_served().await.unwrap().then_some(()).ok_or_else(|| "not served".to_owned());
    wait::until("the answer to be known", PATIENCE, probe).await.unwrap();

    definitions.delete("gadgets.optional.example", &DeleteParams::default()).await.unwrap();
    let gone = async || {
        let left = (store.is_served(), store.len());
        (left == (false, 0)).then_some(()).ok_or_else(|| format!("{left:?}"))
    };
    wait::until("the store to be empty", PATIENCE, gone).await.unwrap();
}

/// A client that notes the paths of its requests.
fn noting(client: Client, paths: &Arc<Mutex<Vec<String>>>) -> Client {
    let paths = Arc::clone(paths);
    let send = move |request: http::Request<Body>| {
        paths.lock().unwrap().push(request.uri().path().to_owned());
        let client = client.clone();
        async move { client.send(request).await }
    };
    Client::new(tower::service_fn(send), "default")
}

#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize)]
#[kube(group = "late.example", version = "v1", kind = "Latecomer", namespaced, schema = "disabled")]
struct LatecomerSpec {}

/// A controller starts beside the program that applies its definitions.
#[tokio::test]
async fn a_kind_that_a_controller_needs_is_watched_soon_after_it_is_served() {
    let access = test_cluster::shared(&[]).await.unwrap();
    let namespace = TestNamespace::new(access, "late").await.unwrap();
    let source = WatchSource::all(namespace.client(), &Scope::Namespace(namespace.name().to_owned()));
    let (store, mut events) = watch::<Latecomer>(&source, None);
    let ended = tokio::spawn(async move { while events.next().await.is_some() {} });
    let pauses = Duration::from_secs(4);
    assert!(tokio::time::timeout(pauses, store.wait_until_ready()).await.is_err(), "the kind is not served");
    access.install_crds(&[open_definition("late.example", "v1", "Latecomer", "latecomers")]).await.unwrap();
    tokio::time::timeout(PATIENCE, store.wait_until_ready()).await.unwrap();
    assert!(!ended.is_finished());
}

/// Kinds of three groups that are not served.
macro_rules! missing {
    ($($module:ident: $kind:literal of $group:literal),+) => {
        $(mod $module {
            use super::{CustomResource, Deserialize, Serialize};
            #[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize)]
            #[kube(group = $group, version = "v1", kind = $kind, namespaced, schema = "disabled")]
            pub(super) struct AnySpec {}
        })+
    };
}

missing!(one: "One" of "one.example", two: "Two" of "two.example", three: "Three" of "three.example");

#[tokio::test]
async fn kinds_that_are_missing_are_looked_for_together() {
    let namespace = TestNamespace::new(test_cluster::shared(&[]).await.unwrap(), "missing").await.unwrap();
    let log = Arc::default();
    let paths_of = |log: &Arc<Mutex<Vec<String>>>| log.lock().unwrap().clone();
    let begin = Instant::now();
    let client = noting(namespace.client(), &log);
    let apis = ServedApis::new(client.clone());
    let source = WatchSource::all(client, &Scope::Namespace(namespace.name().to_owned()));
    let one = watch_if_served::<one::One>(&apis, &source, None, keep::any);
    let two = watch_if_served::<two::Two>(&apis, &source, None, keep::any);
    let three = watch_if_served::<three::Three>(&apis, &source, None, keep::any);
    let all = [one.1.map(drop).boxed(), two.1.map(drop).boxed(), three.1.map(drop).boxed()];
    tokio::spawn(async move { select_all(all).for_each(async |()| {}).await });
    tokio::join!(one.0.wait_until_ready(), two.0.wait_until_ready(), three.0.wait_until_ready());
    assert!(!one.0.is_served() && !two.0.is_served() && !three.0.is_served());
    let other = ServedApi::new(&apis, ApiResource::erase::<three::Three>(&()));
    assert!(!other.is_served().await.unwrap());
    let probe = async || {
        let paths = paths_of(&log);
        if paths.len() < 2 { Err(format!("{paths:?}")) } else { Ok(paths) }
    };
    let paths = wait::until("another look", PATIENCE, probe).await.unwrap();
    assert!(paths.iter().all(|path| path == "/apis"), "{paths:?}");
    let intervals = usize::try_from(begin.elapsed().as_secs() / 10).unwrap();
    assert!(paths.len() <= 1 + intervals, "{} looks in {:?}", paths.len(), begin.elapsed());

    // The next look would be due 20 s after the second.
    let known = paths_of(&log).len();
    one.0.need();
    let probe = async || (paths_of(&log).len() > known).then_some(()).ok_or("no request");
    wait::until("a look for what is needed", Duration::from_secs(15), probe).await.unwrap();
}
