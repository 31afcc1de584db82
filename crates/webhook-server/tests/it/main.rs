//! The webhook server as a process, called by a real API server.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;

#[path = "../support/conformance_kit.rs"]
mod conformance_kit;

mod certificates;
mod client_certificates;
mod dynamo_namespaces;
mod exposure;
mod hostile;
mod kubectl;
mod legacy_manifests;
mod lookups;
mod managers;
mod manifests;
mod mpi_key;
mod removals;
mod requests;
mod round_trips;
mod surroundings;
mod users;
mod versions;

use common::{Install, Replica, start_cluster};
use test_cluster::TestNamespace;
use tokio::sync::OnceCell;

/// The install that converts for all tests, in the namespace that its certificates are made for.
struct Harness {
    install: Install,
    replica: Replica,
}

async fn harness() -> &'static Harness {
    static HARNESS: OnceCell<Harness> = OnceCell::const_new();
    HARNESS
        .get_or_init(|| async {
            let front = test_cluster::free_port().unwrap();
            let cluster = start_cluster("operator", front).await;
            let install = Install::new(cluster, "operator", front).await;
            install.configure(None).await;
            install.start_crds().await;
            let replica = install.start().await;
            install.until_answering("default", "v1alpha1").await;
            Harness { install, replica }
        })
        .await
}

/// A namespace for one test, on the control plane of all.
async fn namespace(prefix: &str) -> TestNamespace {
    TestNamespace::new(harness().await.install.cluster, prefix).await.unwrap()
}

/// An install of a test's own. The API server sends it objects of its own namespace, beside the one of all tests.
async fn own_install(namespace: &TestNamespace) -> Install {
    let install =
        Install::new(harness().await.install.cluster, namespace.name(), test_cluster::free_port().unwrap()).await;
    install.configure(Some(namespace.name())).await;
    install
}
