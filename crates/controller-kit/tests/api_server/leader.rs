//! Leader election between replicas that are tasks of this process.

use std::{convert::Infallible, sync::Arc, time::Duration};

use controller_kit::{
    context::{Context, GRACE, Readiness, Shutdown},
    leader::lead,
    lease::Ended,
    metrics::Metrics,
    scope::Fence,
    settings,
    store::Scope,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use test_cluster::TestNamespace;
use tokio::{sync::mpsc, task::JoinHandle};

const LEASE: &str = "kit-leader.dynamo.nvidia.com";
/// A retry period and a request, on a busy machine; less than a Lease is valid.
const SOON: Duration = Duration::from_secs(12);
const LIMIT: Duration = Duration::from_secs(60);
/// The name of a replica whose work does not end.
const STUCK: &str = "stuck";

struct Replica {
    shutdown: Shutdown,
    readiness: Readiness,
    task: JoinHandle<Result<(), Ended<Infallible>>>,
}

/// Starts a replica whose work is to say its name and to wait for the end.
fn replica(namespace: &TestNamespace, name: &'static str, leads: &mpsc::UnboundedSender<&'static str>) -> Replica {
    let text = format!(
        "apiVersion: {}\nkind: {}\nleaderElection: {{enabled: true, namespace: {}}}\n",
        settings::API_VERSION,
        settings::KIND,
        namespace.name()
    );
    let (settings, warnings) = settings::parse(&text).unwrap();
    assert!(warnings.is_empty());
    let (shutdown, readiness) = (Shutdown::manual(), Readiness::default());
    let context = Context {
        name: "kit-leader",
        client: namespace.client(),
        settings: Arc::new(settings),
        scope: Scope::Cluster,
        fence: Fence::unfenced(),
        readiness: readiness.clone(),
        metrics: Metrics::new(),
        shutdown: shutdown.clone(),
        notifier: None,
        concurrency: 1,
    };
    let leads = leads.clone();
    let work = async move |context: Context| {
        leads.send(name).unwrap();
        if name == STUCK {
            std::future::pending::<()>().await;
        }
        context.shutdown.requested().await;
        Ok(())
    };
    Replica { shutdown, readiness, task: tokio::spawn(lead(context, work)) }
}

async fn next(leaders: &mut mpsc::UnboundedReceiver<&'static str>, limit: Duration) -> &'static str {
    tokio::time::timeout(limit, leaders.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn one_replica_leads_and_the_next_takes_over_when_it_stops() {
    let namespace = super::Bench::new("leader").await.namespace;
    let (sender, mut leaders) = mpsc::unbounded_channel();
    let first = replica(&namespace, "first", &sender);
    assert_eq!(next(&mut leaders, LIMIT).await, "first");
    let second = replica(&namespace, "second", &sender);
    let waits = test_cluster::wait::until("the second replica is ready", LIMIT, async || {
        second.readiness.missing().is_none().then_some(())
    });
    waits.await.unwrap();
    assert!(leaders.try_recv().is_err(), "two replicas lead");

    first.shutdown.request();
    first.task.await.unwrap().unwrap();
    assert_eq!(next(&mut leaders, SOON).await, "second", "a lease that was given back is free at once");
    second.shutdown.request();
    second.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_leader_that_cannot_stop_gives_its_lease_back_nevertheless() {
    let namespace = super::Bench::new("leader-stuck").await.namespace;
    let (sender, mut leaders) = mpsc::unbounded_channel();
    let stuck = replica(&namespace, STUCK, &sender);
    assert_eq!(next(&mut leaders, LIMIT).await, STUCK);
    stuck.shutdown.request();
    tokio::time::timeout(GRACE, stuck.task).await.unwrap().unwrap().unwrap();
    let api = Api::<Lease>::namespaced(namespace.client(), namespace.name());
    let holder = api.get(LEASE).await.unwrap().spec.unwrap().holder_identity;
    assert_eq!(holder.unwrap_or_default(), "");
}

#[tokio::test]
async fn a_leader_whose_lease_was_taken_ends() {
    let namespace = super::Bench::new("leader-lost").await.namespace;
    let (sender, mut leaders) = mpsc::unbounded_channel();
    let replica = replica(&namespace, "only", &sender);
    next(&mut leaders, LIMIT).await;
    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "another-process"}}));
    let api = Api::<Lease>::namespaced(namespace.client(), namespace.name());
    api.patch(LEASE, &PatchParams::default(), &taken).await.unwrap();
    let ended = tokio::time::timeout(LIMIT, replica.task).await.unwrap().unwrap();
    assert!(matches!(ended, Err(Ended::Lost { .. })), "{ended:?}");
    let lease = api.get(LEASE).await.unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some("another-process"), "it took the lease of another");
}
