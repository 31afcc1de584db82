//! The watch cache of a held API server grows old, and catches up when it is released.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    api::{GetParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use test_cluster::{Cluster, Options, wait};

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_watch_cache_of_a_held_server_grows_old() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let held = cluster.held_apiserver().await.unwrap();
    let kubeconfig = Kubeconfig::read_from(held.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let (current, old) =
        (Api::<Namespace>::all(cluster.client().unwrap()), Api::all(Client::try_from(config).unwrap()));
    let create = async |name: &str| {
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        current.create(&PostParams::default(), &namespace).await.unwrap();
    };
    let in_cache = async |name: &str| -> Option<Namespace> {
        old.get_with(name, &GetParams::any())
            .await
            .map(Some)
            .or_else(|error| match error {
                kube::Error::Api(status) if status.code == 404 => Ok(None),
                error => Err(error),
            })
            .unwrap()
    };
    create("before").await;
    wait::until("the cache has the first namespace", LIMIT, async || in_cache("before").await).await.unwrap();

    held.hold();
    create("meanwhile").await;
    let written = old.get("meanwhile").await;
    assert!(written.is_ok(), "a read past the cache is current: {written:?}");
    let seen: Option<Namespace> = in_cache("meanwhile").await;
    assert!(seen.is_none(), "the cache is held");

    held.release();
    wait::until("the cache has both namespaces", LIMIT, async || in_cache("meanwhile").await).await.unwrap();
    cluster.stop().await.unwrap();
}
