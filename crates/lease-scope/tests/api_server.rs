//! Installs that compete for a namespace, as tasks of this process, on a real API server.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use controller_kit::{
    apply::STEP_TIMEOUT,
    context::{Context, Readiness, Shutdown},
    metrics::Metrics,
    scope::{Fence, MARKER_LEASE, OWNER_ANNOTATION, RELEASING_ANNOTATION},
    settings::{self, OperatorConfiguration},
    store::Scope,
};
use k8s_openapi::{
    api::{apps::v1::Deployment, coordination::v1::Lease},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use lease_scope::Config;
use serde_json::json;
use test_cluster::{TestNamespace, wait};
use tokio::task::JoinHandle;

const LIMIT: Duration = Duration::from_secs(40);
/// A marker's duration; long enough for a busy machine to renew in time.
const SECONDS: u64 = 6;

struct Install {
    readiness: Readiness,
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

async fn namespace(prefix: &str) -> TestNamespace {
    TestNamespace::new(test_cluster::shared(&[]).await.unwrap(), prefix).await.unwrap()
}

/// Starts the process of an install that consists of the Deployments with the label `install: <owner>`.
fn install(namespace: &TestNamespace, owner: &str) -> Install {
    let head = format!("apiVersion: {}\nkind: {}\n", settings::API_VERSION, settings::KIND);
    let scope = format!("{{leaseDuration: {SECONDS}s, leaseRenewInterval: 2s, owner: {owner}}}");
    let settings = settings::parse(&format!("{head}namespace: {{scope: {scope}}}\n")).unwrap().0;
    let (readiness, shutdown) = (Readiness::default(), Shutdown::manual());
    let context = Context {
        name: lease_scope::NAME,
        client: namespace.client(),
        settings: Arc::new(settings),
        scope: Scope::Namespace(namespace.name().to_owned()),
        fence: Fence::unfenced(),
        readiness: readiness.clone(),
        metrics: Metrics::new(),
        shutdown: shutdown.clone(),
        notifier: None,
        concurrency: 1,
    };
    let config =
        Config { install_namespace: None, siblings: format!("install={owner}"), operator_version: "1.5.0".to_owned() };
    let task = tokio::spawn(async move { lease_scope::run(context, config).await.unwrap() });
    Install { readiness, shutdown, task }
}

/// A Deployment that becomes available on the fake nodes.
async fn deploy(namespace: &TestNamespace, owner: &str) {
    let deployment = json!({
        "metadata": {"name": format!("controller-of-{owner}"), "labels": {"install": owner}},
        "spec": {
            "selector": {"matchLabels": {"app": owner}},
            "template": {
                "metadata": {"labels": {"app": owner}},
                "spec": {"containers": [{"name": "main", "image": "example.com/controller:1"}]},
            },
        },
    });
    let api = Api::<Deployment>::namespaced(namespace.client(), namespace.name());
    api.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
}

async fn marker(namespace: &TestNamespace) -> Option<Lease> {
    Api::<Lease>::namespaced(namespace.client(), namespace.name()).get_opt(MARKER_LEASE).await.unwrap()
}

async fn owner(namespace: &TestNamespace) -> Option<String> {
    marker(namespace).await.and_then(|lease| lease.annotations().get(OWNER_ANNOTATION).cloned())
}

async fn until_owned_by(namespace: &TestNamespace, expected: Option<&str>) {
    let what = format!("the marker belongs to {expected:?}");
    wait::until(what, LIMIT, async || (owner(namespace).await.as_deref() == expected).then_some(())).await.unwrap();
}

#[tokio::test]
async fn an_install_takes_its_namespace_when_it_is_complete_and_leaves_it_to_its_successor() {
    let namespace = namespace("lease").await;
    let first = install(&namespace, "first");
    wait::until("it waits for its siblings", LIMIT, async || first.readiness.missing()).await.unwrap();
    assert!(marker(&namespace).await.is_none(), "half an install has taken a namespace");
    deploy(&namespace, "first").await;
    until_owned_by(&namespace, Some("first")).await;
    let taken = marker(&namespace).await.unwrap().spec.unwrap();
    assert_eq!(taken.holder_identity.as_deref(), Some("namespace-restricted-operator-1.5.0"));
    wait::until("it is ready", LIMIT, async || first.readiness.missing().is_none().then_some(())).await.unwrap();

    let renewed = async || {
        let now = marker(&namespace).await?.spec?;
        (now.renew_time != taken.renew_time && now.acquire_time == taken.acquire_time).then_some(())
    };
    wait::until("it is renewed", LIMIT, renewed).await.unwrap();

    // Its pod is replaced, and no other install takes the namespace.
    first.shutdown.request();
    first.task.await.unwrap();
    let left = marker(&namespace).await.unwrap().spec.unwrap();
    let second = install(&namespace, "first");
    let renewed = async || {
        let now = marker(&namespace).await?.spec?;
        (now.renew_time != left.renew_time && now.acquire_time == left.acquire_time).then_some(())
    };
    wait::until("its successor renews it", LIMIT, renewed).await.unwrap();
    wait::until("it is ready", LIMIT, async || second.readiness.missing().is_none().then_some(())).await.unwrap();
}

/// Found defect: an orderly end deleted the marker, and the cluster-wide operator wrote beside requests that were on
/// their way.
#[tokio::test]
async fn an_install_that_goes_stops_its_processes_before_it_gives_the_namespace_back() {
    let namespace = namespace("lease-goes").await;
    deploy(&namespace, "first").await;
    let first = install(&namespace, "first");
    until_owned_by(&namespace, Some("first")).await;
    let sibling = sibling(&namespace, "first").await;
    wait::until("its sibling acts", LIMIT, async || sibling.may_act(namespace.name()).ok()).await.unwrap();
    let deployments = Api::<Deployment>::namespaced(namespace.client(), namespace.name());
    deployments.delete("controller-of-first", &DeleteParams::default()).await.unwrap();
    let gone = async || deployments.get_opt("controller-of-first").await.unwrap().is_none().then_some(());
    wait::until("its Deployment is gone", LIMIT, gone).await.unwrap();

    first.shutdown.request();
    wait::until("its sibling stops", LIMIT, async || sibling.may_act(namespace.name()).err()).await.unwrap();
    let stopped = Instant::now();
    let kept = marker(&namespace).await.expect("it keeps others out meanwhile");
    assert_eq!(kept.annotations().get(RELEASING_ANNOTATION).map(String::as_str), Some("true"));
    first.task.await.unwrap();
    assert!(marker(&namespace).await.is_none(), "the namespace is given back");
    assert!(stopped.elapsed() >= STEP_TIMEOUT, "requests of the sibling may be on their way");
}

#[tokio::test]
async fn of_two_replicas_one_renews_and_the_other_takes_over_before_the_marker_expires() {
    let namespace = namespace("lease-replicas").await;
    deploy(&namespace, "first").await;
    let replicas = [install(&namespace, "first"), install(&namespace, "first")];
    for replica in &replicas {
        wait::until("it is ready", LIMIT, async || replica.readiness.missing().is_none().then_some(())).await.unwrap();
    }
    let outsider = Fence::new(&Scope::Cluster, &settings("another"));
    outsider.follow(namespace.client(), &Scope::Cluster);
    wait::until("others keep out", LIMIT, async || outsider.is_taken(namespace.name()).then_some(())).await.unwrap();
    // Whichever of them renews it: both have ended, and one has a successor without their state.
    let [mut ends, mut stays] = replicas;
    for _ in 0..2 {
        ends.task.abort();
        let left = marker(&namespace).await.unwrap().spec.unwrap().renew_time;
        let renewed = async || {
            assert!(outsider.is_taken(namespace.name()), "the marker has lapsed");
            (marker(&namespace).await?.spec?.renew_time != left).then_some(())
        };
        wait::until("the other one renews it", LIMIT, renewed).await.unwrap();
        assert_eq!(stays.readiness.missing(), None);
        (ends, stays) = (stays, install(&namespace, "first"));
        let is_ready = async || stays.readiness.missing().is_none().then_some(());
        wait::until("the new one is ready", LIMIT, is_ready).await.unwrap();
    }
}

#[tokio::test]
async fn a_second_claimant_waits_until_the_first_is_gone_or_dead() {
    let namespace = namespace("lease-two").await;
    deploy(&namespace, "first").await;
    deploy(&namespace, "second").await;
    let first = install(&namespace, "first");
    until_owned_by(&namespace, Some("first")).await;
    let before = marker(&namespace).await.unwrap().spec.unwrap().renew_time;
    let second = install(&namespace, "second");
    // Two renewals later, the second has had many chances.
    let renewed = async || (marker(&namespace).await?.spec?.renew_time > before).then_some(());
    wait::until("the first renews", LIMIT, renewed).await.unwrap();
    assert_eq!(owner(&namespace).await.as_deref(), Some("first"));
    assert!(second.readiness.missing().is_some(), "who waits is not ready");

    // The first ends without releasing its Lease.
    first.task.abort();
    until_owned_by(&namespace, Some("second")).await;
    wait::until("it is ready", LIMIT, async || second.readiness.missing().is_none().then_some(())).await.unwrap();
}

fn settings(owner: &str) -> OperatorConfiguration {
    let head = format!("apiVersion: {}\nkind: {}\n", settings::API_VERSION, settings::KIND);
    settings::parse(&format!("{head}namespace: {{scope: {{owner: {owner}}}}}\n")).unwrap().0
}

/// The fence by which another process of the install follows the marker.
async fn sibling(namespace: &TestNamespace, owner: &str) -> Fence {
    let scope = Scope::Namespace(namespace.name().to_owned());
    let fence = Fence::new(&scope, &settings(owner));
    fence.follow(namespace.client(), &scope);
    fence.known().await;
    fence
}

/// The Go operator takes or renews the marker: it looks at no holder, and leaves annotations as they are.
async fn renewed_by_go(namespace: &TestNamespace) {
    let api = Api::<Lease>::namespaced(namespace.client(), namespace.name());
    wait::until("the Go operator writes the marker", LIMIT, async || {
        let mut lease = api.get(MARKER_LEASE).await.map_err(|error| error.to_string())?;
        let spec = lease.spec.as_mut().unwrap();
        spec.holder_identity = Some("namespace-restricted-operator-1.5.0".to_owned());
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        api.replace(MARKER_LEASE, &PostParams::default(), &lease).await.map_err(|error| error.to_string())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_install_stops_when_a_go_operator_takes_its_marker() {
    let namespace = namespace("lease-go").await;
    deploy(&namespace, "first").await;
    let first = install(&namespace, "first");
    until_owned_by(&namespace, Some("first")).await;
    wait::until("it is ready", LIMIT, async || first.readiness.missing().is_none().then_some(())).await.unwrap();
    let sibling = sibling(&namespace, "first").await;
    let acts = || sibling.may_act(namespace.name()).is_ok();
    wait::until("its sibling acts", LIMIT, async || acts().then_some(())).await.unwrap();

    // Again and again, as it does: no install takes the marker from it.
    wait::until("the install waits", LIMIT, async || {
        renewed_by_go(&namespace).await;
        first.readiness.missing()
    })
    .await
    .unwrap();
    wait::until("its sibling does not act", LIMIT, async || {
        renewed_by_go(&namespace).await;
        (!acts()).then_some(())
    })
    .await
    .unwrap();
}
