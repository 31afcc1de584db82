//! Replicas that share namespaces, as tasks of this process.

use std::{convert::Infallible, sync::Arc, time::Duration};

use controller_kit::{
    context::{Context, Readiness, Shutdown},
    lease::Ended,
    metrics::Metrics,
    scope::Fence,
    settings,
    shards::share,
    store::Scope,
};
use test_cluster::{TestNamespace, wait};
use tokio::task::JoinHandle;

const LIMIT: Duration = Duration::from_secs(60);
/// An orderly end on a busy machine; much less than a Lease is valid.
const SOON: Duration = Duration::from_secs(8);
const NAMESPACES: usize = 64;

struct Replica {
    fence: Fence,
    shutdown: Shutdown,
    task: JoinHandle<Result<(), Ended<Infallible>>>,
}

impl Replica {
    /// Starts a replica whose caches are complete at once.
    fn start(namespace: &TestNamespace) -> Self {
        let text = format!(
            "apiVersion: {}\nkind: {}\nleaderElection: {{enabled: true, shards: true, namespace: {}}}\n",
            settings::API_VERSION,
            settings::KIND,
            namespace.name()
        );
        let (settings, warnings) = settings::parse(&text).unwrap();
        assert!(warnings.is_empty());
        let (fence, shutdown) = (Fence::unfenced().sharded(), Shutdown::manual());
        let context = Context {
            name: "kit-shards",
            client: namespace.client(),
            settings: Arc::new(settings),
            scope: Scope::Cluster,
            fence: fence.clone(),
            readiness: Readiness::default(),
            metrics: Metrics::new(),
            shutdown: shutdown.clone(),
            notifier: None,
            concurrency: 1,
        };
        let work = async move |context: Context| {
            context.readiness.gate("caches").open();
            context.shutdown.requested().await;
            Ok(())
        };
        Self { fence, shutdown, task: tokio::spawn(share(context, work)) }
    }

    async fn stop(self) {
        self.shutdown.request();
        self.task.await.unwrap().unwrap();
    }
}

/// Waits until each namespace has an owner, and each replica some. Never has one two.
async fn until_shared(replicas: &[&Replica], limit: Duration) {
    let look = async || {
        let acts = |replica: &Replica, number| replica.fence.may_act(&format!("team-{number}")).is_ok();
        let mut counts = vec![0; replicas.len()];
        for number in 0..NAMESPACES {
            let owners: Vec<_> = (0..replicas.len()).filter(|index| acts(replicas[*index], number)).collect();
            assert!(owners.len() < 2, "{owners:?} act in team-{number}");
            if let Some(owner) = owners.first() {
                counts[*owner] += 1;
            }
        }
        let is_shared = counts.iter().sum::<usize>() == NAMESPACES && counts.iter().all(|count| *count > 0);
        if is_shared { Ok(()) } else { Err(format!("{counts:?}")) }
    };
    wait::until("namespaces to be shared", limit, look).await.unwrap();
}

#[tokio::test]
async fn replicas_share_namespaces_and_take_over_those_of_one_that_ends() {
    let namespace = super::Bench::new("shards").await.namespace;
    let first = Replica::start(&namespace);
    until_shared(&[&first], LIMIT).await;
    let second = Replica::start(&namespace);
    until_shared(&[&first, &second], LIMIT).await;
    let third = Replica::start(&namespace);
    until_shared(&[&first, &second, &third], LIMIT).await;
    // The elected one ends.
    first.stop().await;
    until_shared(&[&second, &third], SOON).await;
    // One ends without releasing its Lease.
    second.task.abort();
    until_shared(&[&third], LIMIT).await;
    third.stop().await;
}
