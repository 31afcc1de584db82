//! The fence of a process, from real Leases.

use std::time::Duration;

use controller_kit::{
    scope::{Excluded, Fence, HOLDER_PREFIX, MARKER_LEASE, OWNER_ANNOTATION, Released},
    settings::{self, OperatorConfiguration},
    store::Scope,
};
use futures::StreamExt;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::ConfigMap},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, Patch, PatchParams},
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use test_cluster::{TestNamespace, wait};
use tower::buffer::BufferLayer;

const LIMIT: Duration = Duration::from_secs(60);

fn owned_by(owner: &str) -> OperatorConfiguration {
    let head = format!("apiVersion: {}\nkind: {}\n", settings::API_VERSION, settings::KIND);
    settings::parse(&format!("{head}namespace: {{scope: {{owner: {owner:?}}}}}\n")).unwrap().0
}

/// Writes or renews the marker of the namespace.
async fn mark(namespace: &TestNamespace, owner: Option<&str>, seconds: u32) {
    let annotations = owner.map(|owner| json!({OWNER_ANNOTATION: owner}));
    let now = MicroTime(Timestamp::now());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": MARKER_LEASE, "annotations": annotations},
        "spec": {"holderIdentity": format!("{HOLDER_PREFIX}1.5.0"), "leaseDurationSeconds": seconds, "renewTime": now},
    });
    leases(namespace).patch(MARKER_LEASE, &PatchParams::apply("test").force(), &Patch::Apply(lease)).await.unwrap();
}

fn leases(namespace: &TestNamespace) -> Api<Lease> {
    Api::namespaced(namespace.client(), namespace.name())
}

async fn until(what: &str, fence: &Fence, namespace: &str, expected: impl Fn(&Result<(), Excluded>) -> bool) {
    wait::until(what, LIMIT, async || expected(&fence.may_act(namespace)).then_some(())).await.unwrap();
}

/// A client with the fence in it, as processes have it.
async fn fenced(fence: &Fence) -> Client {
    let access = test_cluster::shared(&[]).await.unwrap();
    let kubeconfig = Kubeconfig::read_from(access.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    ClientBuilder::try_from(config).unwrap().with_layer(&BufferLayer::new(16)).with_layer(fence).build()
}

#[tokio::test]
async fn a_cluster_wide_process_leaves_a_marked_namespace_alone_until_the_marker_is_gone() {
    let namespace = super::Bench::new("scope").await.namespace;
    let fence = Fence::new(&Scope::Cluster, &OperatorConfiguration::default());
    assert_eq!(fence.may_act(namespace.name()), Err(Excluded::Unknown), "nothing is known before the first list");
    fence.follow(namespace.client(), &Scope::Cluster);
    fence.known().await;
    fence.may_act(namespace.name()).unwrap();

    let mut released = fence.released();
    mark(&namespace, None, 30).await;
    until("the marker keeps us out", &fence, namespace.name(), |r| matches!(r, Err(Excluded::Marked { .. }))).await;
    let maps = Api::<ConfigMap>::namespaced(fenced(&fence).await, namespace.name());
    let error = maps.delete("parent", &DeleteParams::default()).await.unwrap_err();
    assert!(format!("{error:?}").contains("Marked"), "{error:?}");
    maps.get("parent").await.unwrap();

    leases(&namespace).delete(MARKER_LEASE, &DeleteParams::default()).await.unwrap();
    let next = tokio::time::timeout(LIMIT, released.next()).await.unwrap();
    assert_eq!(next, Some(Released::Namespace(namespace.name().to_owned())));
    maps.delete("parent", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_marker_that_is_not_renewed_expires() {
    let namespace = super::Bench::new("scope-expiry").await.namespace;
    let fence = Fence::new(&Scope::Cluster, &OperatorConfiguration::default());
    let mut released = fence.released();
    mark(&namespace, Some("another install"), 5).await;
    fence.follow(namespace.client(), &Scope::Cluster);
    until("the marker keeps us out", &fence, namespace.name(), |r| matches!(r, Err(Excluded::Marked { .. }))).await;
    let own = async { while released.next().await != Some(Released::Namespace(namespace.name().to_owned())) {} };
    tokio::time::timeout(LIMIT, own).await.unwrap();
    fence.may_act(namespace.name()).unwrap();
}

#[tokio::test]
async fn a_member_acts_only_while_its_own_install_holds_the_marker() {
    let namespace = super::Bench::new("scope-member").await.namespace;
    let scope = Scope::Namespace(namespace.name().to_owned());
    let fence = Fence::new(&scope, &owned_by("install-1"));
    fence.follow(namespace.client(), &scope);
    fence.known().await;
    assert!(matches!(fence.may_act(namespace.name()), Err(Excluded::NotHeld { .. })));
    assert!(fence.is_open(namespace.name()) && !fence.is_open("elsewhere"));
    let mut released = fence.released();
    mark(&namespace, Some("install-2"), 30).await;
    mark(&namespace, Some("install-1"), 30).await;
    let next = tokio::time::timeout(LIMIT, released.next()).await.unwrap();
    assert_eq!(next, Some(Released::Namespace(namespace.name().to_owned())));
    fence.may_act(namespace.name()).unwrap();
    mark(&namespace, Some("install-2"), 30).await;
    until("another install took it", &fence, namespace.name(), Result::is_err).await;
}
