//! Caches, loop and applier together: a small controller that gives every labelled ConfigMap a Secret.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use controller_kit::{
    apply::{Applier, Desired, RequestError},
    context::{Context, Readiness, Shutdown},
    controller::{Action, Controller, owner_key},
    scope::Fence,
    settings::OperatorConfiguration,
    store::{self, Key, Packed, Scope, Store, WatchSource},
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use test_cluster::wait;

use crate::Bench;

const LIMIT: Duration = Duration::from_secs(30);

async fn reconcile(
    applier: Applier,
    secrets: Store<Packed<Secret>>,
    root: Arc<Packed<ConfigMap>>,
) -> Result<Action, RequestError> {
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": root.name_any(), "uid": root.uid(), "controller": true,
    });
    let metadata = json!({
        "name": root.name_any(), "namespace": root.namespace(), "ownerReferences": [owner], "labels": { "kit": "child" },
    });
    let secret: Secret = serde_json::from_value(json!({ "metadata": metadata, "data": { "k": "dg==" } })).unwrap();
    let desired = Desired::of(&secret, &root.uid().unwrap())?;
    let live = secrets.get(&Key::of(&secret)).map(|secret| secret.value());
    applier.apply(&desired, live.as_ref()).await?;
    Ok(Action::AwaitChange)
}

struct Running {
    bench: Bench,
    secrets: Store<Packed<Secret>>,
    reconciles: Arc<AtomicUsize>,
    shutdown: Shutdown,
    readiness: Readiness,
    task: tokio::task::JoinHandle<()>,
}

async fn start(prefix: &str) -> Running {
    let bench = Bench::new(prefix).await;
    let (client, scope) = (bench.namespace.client(), Scope::Namespace(bench.namespace.name().to_owned()));
    let source = WatchSource::all(client.clone(), &scope);
    let (_, roots) = store::watch::<ConfigMap>(&source, Some("kit=root"));
    let (secrets, watch) = store::watch::<Secret>(&source, Some("kit=child"));
    let applier = bench.with_caches(vec![Arc::new(secrets.clone())]);
    let (shutdown, readiness, reconciles) = (Shutdown::manual(), Readiness::default(), Arc::<AtomicUsize>::default());
    let context = Context {
        name: crate::MANAGER,
        client,
        settings: Arc::new(OperatorConfiguration::default()),
        scope,
        fence: Fence::unfenced(),
        readiness: readiness.clone(),
        metrics: bench.metrics.clone(),
        shutdown: shutdown.clone(),
        notifier: None,
        concurrency: NonZeroUsize::new(4).unwrap().get(),
    };
    let (store, count) = (secrets.clone(), Arc::clone(&reconciles));
    let task = tokio::spawn(async move {
        let writer = applier.clone();
        Controller::new(roots)
            .writes_with(&applier)
            .triggered_by(watch, |secret| owner_key::<ConfigMap, _>(secret).into_iter().collect())
            .run(&context, move |root| {
                count.fetch_add(1, Ordering::SeqCst);
                reconcile(writer.clone(), store.clone(), root)
            })
            .await;
    });
    Running { bench, secrets, reconciles, shutdown, readiness, task }
}

impl Running {
    async fn root(&self, name: &str) -> ConfigMap {
        let root = json!({ "metadata": { "name": name, "labels": { "kit": "root" } } });
        self.bench.api().create(&PostParams::default(), &serde_json::from_value(root).unwrap()).await.unwrap()
    }

    /// Waits until the child on the API server has another uid than `not`.
    async fn child(&self, name: &str, not: Option<&str>) -> Secret {
        let api = self.bench.api::<Secret>();
        wait::until(format!("Secret {name}"), LIMIT, async || {
            let found = api.get_opt(name).await.map_err(|e| e.to_string())?.ok_or("none")?;
            if found.uid().as_deref() == not { Err("still the old one".to_owned()) } else { Ok(found) }
        })
        .await
        .unwrap()
    }
}

#[tokio::test]
async fn children_appear_come_back_and_are_not_written_again() {
    let running = start("loop").await;
    for name in ["a", "b", "c"] {
        running.root(name).await;
    }
    let first = running.child("a", None).await;
    running.child("b", None).await;
    running.child("c", None).await;
    assert_eq!(running.readiness.missing(), None);

    running.bench.api::<Secret>().delete("a", &DeleteParams::default()).await.unwrap();
    let second = running.child("a", first.uid().as_deref()).await;
    running.bench.meddle::<Secret>("a", json!({ "data": { "k": "eA==" } })).await;
    wait::until("drift to be repaired", LIMIT, async || {
        let found = running.bench.api::<Secret>().get("a").await.map_err(|e| e.to_string())?;
        let data = serde_json::to_value(&found.data).unwrap();
        if data == json!({ "k": "dg==" }) { Ok(()) } else { Err(data.to_string()) }
    })
    .await
    .unwrap();
    let kept = running.bench.api::<Secret>().get("a").await.unwrap();
    assert_eq!(kept.uid(), second.uid());

    // Exactly the writes that were needed: three children, one of them twice, one repair.
    wait::until("the cache to show the last write", LIMIT, async || {
        let key = Key::new(running.bench.namespace.name(), "a");
        let seen = running.secrets.get(&key).and_then(|secret| secret.metadata.resource_version.clone());
        (seen == kept.resource_version()).then_some(())
    })
    .await
    .unwrap();
    // The cache may be quicker than the answer that is counted.
    let text = wait::until("the repair to be counted", LIMIT, async || {
        let text = running.bench.metrics.text();
        let counted = text.contains("api_writes_total{verb=\"update\",kind=\"Secret\"");
        if counted { Ok(text) } else { Err(text) }
    });
    let text = text.await.unwrap();
    assert!(text.contains("api_writes_total{verb=\"create\",kind=\"Secret\",accepted=\"true\"} 4\n"), "{text}");
    assert!(text.contains("api_writes_total{verb=\"update\",kind=\"Secret\",accepted=\"true\"} 1\n"), "{text}");
    assert!(!text.contains("accepted=\"false\""), "{text}");

    running.shutdown.request();
    tokio::time::timeout(LIMIT, running.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn children_are_found_by_owner_and_their_bodies_are_kept() {
    let running = start("index").await;
    let root = running.root("a").await;
    running.child("a", None).await;
    let children = wait::until("the child in the cache", LIMIT, async || {
        let children = running.secrets.children_of(&root.uid().unwrap());
        (children.len() == 1).then_some(children)
    })
    .await
    .unwrap();
    assert_eq!(children[0].value()["data"], json!({ "k": "dg==" }));
    assert_eq!(children[0].value()["kind"], "Secret");
    assert!(children[0].meta().managed_fields.is_none());
    assert!(running.reconciles.load(Ordering::SeqCst) >= 1);
    running.shutdown.request();
    running.task.await.unwrap();
}
