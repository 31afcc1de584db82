//! Requests of a process to the API server when a cache begins, and after the version that it follows has expired.

use std::{
    future::ready,
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_kit::{
    scope::Fence,
    settings::OperatorConfiguration,
    store::{self, Key, Scope, WatchSource},
};
use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::ServiceAccount, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, CustomResource, api::PostParams, client::Body};
use serde::{Deserialize, Serialize};
use serde_json::json;
use test_cluster::{TestNamespace, wait};

const LIMIT: Duration = Duration::from_secs(60);

/// A kind that the API server has served since a moment ago: it has no version of before.
#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize)]
#[kube(group = "consistent.example", version = "v1", kind = "Recent", namespaced, schema = "disabled")]
struct RecentSpec {}

async fn serve(client: &Client) {
    let definition = json!({
        "metadata": { "name": "recents.consistent.example" },
        "spec": {
            "group": "consistent.example", "scope": "Namespaced",
            "names": { "kind": "Recent", "plural": "recents", "singular": "recent" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    });
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
}

/// Queries of the watches that passed through a client.
type Queries = Arc<Mutex<Vec<String>>>;

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// A client that notes watches, lets them last a second, and makes the first version that is resumed from one of long
/// ago.
fn noting(client: Client, queries: &Queries) -> Client {
    let (queries, mut aged) = (Arc::clone(queries), false);
    let send = move |mut request: http::Request<Body>| {
        let uri = request.uri().to_string();
        if let Some((path, query)) = uri.split_once('?')
            && parameter(query, "watch").is_some()
        {
            queries.lock().unwrap().push(query.to_owned());
            let mut query = query.replace("timeoutSeconds=120", "timeoutSeconds=1");
            if parameter(&query, "sendInitialEvents").is_none() && !std::mem::replace(&mut aged, true) {
                let version = parameter(&query, "resourceVersion").unwrap().to_owned();
                query = query.replace(&format!("resourceVersion={version}"), "resourceVersion=1");
            }
            *request.uri_mut() = format!("{path}?{query}").parse().unwrap();
        }
        let client = client.clone();
        async move { client.send(request).await }
    };
    Client::new(tower::service_fn(send), "default")
}

fn initial(queries: &Queries) -> Vec<String> {
    let queries = queries.lock().unwrap();
    queries.iter().filter(|query| parameter(query, "sendInitialEvents").is_some()).cloned().collect()
}

/// Found defect: the initial state was requested with `resourceVersion=0`, which an API server answers from its watch
/// cache, however old that is.
#[tokio::test]
async fn every_initial_state_is_a_consistent_read() {
    let namespace = TestNamespace::new(test_cluster::shared(&[]).await.unwrap(), "consistent").await.unwrap();
    let (scope, queries) = (Scope::Namespace(namespace.name().to_owned()), Queries::default());
    let client = noting(namespace.client(), &queries);
    serve(&namespace.client()).await;
    let (recents, watch) = store::watch::<Recent>(&WatchSource::all(client.clone(), &scope), None);
    tokio::spawn(watch.for_each(|_| ready(())));
    let again = async || (initial(&queries).len() > 1).then_some(()).ok_or_else(|| format!("{queries:?}"));
    wait::until("the expired watch to begin again", LIMIT, again).await.unwrap();
    let api = Api::<Recent>::namespaced(namespace.client(), namespace.name());
    api.create(&PostParams::default(), &Recent::new("later", RecentSpec {})).await.unwrap();
    let key = Key::new(namespace.name(), "later");
    wait::until("it to go on", LIMIT, async || recents.get(&key).map(drop)).await.unwrap();

    let (accounts, watch) =
        store::watch_metadata::<ServiceAccount>(&WatchSource::all(client.clone(), &scope), None, None);
    tokio::spawn(watch.for_each(|_| ready(())));
    let fence = Fence::new(&Scope::Cluster, &OperatorConfiguration::default());
    fence.follow(client, &Scope::Cluster);
    tokio::join!(accounts.wait_until_ready(), fence.known());

    let initial = initial(&queries);
    assert!(initial.len() >= 4, "{initial:?}");
    for query in initial {
        assert_eq!(parameter(&query, "resourceVersion"), Some(""), "{query}");
    }
}
