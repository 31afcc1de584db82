//! An API server that does not stream what there is at first, as those of Kubernetes 1.30, 1.31 and 1.33.

use std::{future::ready, time::Duration};

use controller_kit::store::{self, Key, Scope, WatchSource};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use serde_json::json;
use test_cluster::{Cluster, Controllers, Options, wait};

const LIMIT: Duration = Duration::from_secs(60);

async fn create(maps: &Api<ConfigMap>, name: &str) {
    let map = json!({ "metadata": { "name": name, "labels": { "kit": "listed" } } });
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
}

#[tokio::test]
async fn what_there_is_is_listed_where_it_is_not_streamed() {
    let apiserver_args = vec!["--feature-gates=WatchList=false".to_owned()];
    let options = Options { controllers: Controllers::Off, apiserver_args, ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let client = cluster.client().unwrap();
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    create(&maps, "before").await;

    let source = WatchSource::all(client.clone(), &Scope::Namespace("default".to_owned()));
    let (whole, whole_watch) = store::watch::<ConfigMap>(&source, Some("kit=listed"));
    let (metadata, metadata_watch) = store::watch_metadata::<ConfigMap>(&source, Some("kit=listed"), None);
    tokio::spawn(whole_watch.for_each(|_| ready(())));
    tokio::spawn(metadata_watch.for_each(|_| ready(())));
    let complete = async { futures::join!(whole.wait_until_ready(), metadata.wait_until_ready()) };
    tokio::time::timeout(LIMIT, complete).await.expect("the caches are complete");
    let before = Key::new("default", "before");
    assert_eq!(whole.get(&before).unwrap().value()["kind"], "ConfigMap");
    assert!(metadata.get(&before).is_some());

    create(&maps, "after").await;
    let after = Key::new("default", "after");
    let seen = async || (whole.get(&after).is_some() && metadata.get(&after).is_some()).then_some(());
    wait::until("what came later is seen", LIMIT, seen).await.unwrap();
    cluster.stop().await.unwrap();
}
