//! A controller that dies at any of its writes, in the middle of a rollout of three revisions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use end_to_end::{BoxError, COMPONENT_CONTROLLER, Cut, GRAPH_CONTROLLER, Harness, KillingProxy, Operators, harness};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{ResourceExt, api::ListParams};
use test_cluster::wait;
use tokio::task::JoinHandle;

use crate::graphs::disaggregated;

const PREFILL: i32 = 2;
const DECODE: i32 = 4;
const PATIENCE: Duration = Duration::from_secs(300);

/// Returns the inventory of an undisturbed run, which is the expected result. The result must not depend on which
/// controller died at which time.
async fn undisturbed() -> Result<Vec<String>, BoxError> {
    let harness = harness("undisturbed").await?;
    let _operators = Operators::of(&harness).await?;
    for tag in ["1.0.0", "2.0.0", "3.0.0"] {
        harness.apply(&disaggregated("chat", tag, PREFILL, DECODE)).await?;
        harness.ready("chat").await?;
    }
    anonymous(&harness).await
}

/// The inventory without revision suffixes, which depend on the namespace, once the garbage collector has removed what
/// belonged to components that are gone: each component has a Deployment and a Service.
async fn anonymous(harness: &Harness) -> Result<Vec<String>, BoxError> {
    let collected = async || {
        let lines = harness.inventory().await.map_err(|e| e.to_string())?;
        let [components, deployments, services] = ["Component ", "Deployment ", "Service "]
            .map(|kind| lines.iter().filter(|line| line.starts_with(kind)).count());
        if deployments == components && services == components { Ok(lines) } else { Err(lines.join(", ")) }
    };
    let inventory = wait::until("one Deployment and Service of each component", PATIENCE, collected).await?;
    let suffixes: Vec<String> = harness
        .components()
        .await?
        .iter()
        .filter_map(|d| d.labels().get("nvidia.com/dynamo-worker-hash").cloned())
        .collect();
    let hide = |line: String| suffixes.iter().fold(line, |l, s| l.replace(s, "<revision>"));
    Ok(inventory.into_iter().map(hide).collect())
}

/// Watches the capacity of the decode workers for as long as it runs, from the moment that they are all there.
struct CapacityGuard {
    stop: Arc<AtomicBool>,
    lowest: JoinHandle<Result<i32, BoxError>>,
}

impl CapacityGuard {
    fn start(harness: &Harness) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, api) = (Arc::clone(&stop), harness.api::<Deployment>());
        let lowest = tokio::spawn(async move {
            let mut lowest = i32::MAX;
            while !stopped.load(Ordering::SeqCst) {
                let all = api.list(&ListParams::default().labels("nvidia.com/dynamo-component=Decode")).await?;
                let available = |d: &Deployment| d.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0);
                lowest = lowest.min(all.iter().map(available).sum());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(lowest)
        });
        Self { stop, lowest }
    }

    async fn lowest(self) -> Result<i32, BoxError> {
        self.stop.store(true, Ordering::SeqCst);
        self.lowest.await?
    }
}

/// Rolls three revisions, the third while the second is still coming up, with controllers that die at their writes.
async fn roll_with(name: &str, killed: &[&str], cut: Cut) -> Result<(), BoxError> {
    let harness = harness(name).await?;
    let mut proxies = Vec::new();
    for binary in killed {
        proxies.push(KillingProxy::start(&harness, binary, cut).await?);
    }
    harness.apply(&disaggregated("chat", "1.0.0", PREFILL, DECODE)).await?;
    harness.ready("chat").await?;

    let guard = CapacityGuard::start(&harness);
    harness.apply(&disaggregated("chat", "2.0.0", PREFILL, DECODE)).await?;
    harness.condition("chat", "Ready", "False", "rolling_update_in_progress").await?;
    harness.apply(&disaggregated("chat", "3.0.0", PREFILL, DECODE)).await?;
    harness.ready("chat").await?;
    let lowest = guard.lowest().await?;

    for proxy in &proxies {
        assert!(proxy.kills() >= 8, "only {} kills: the cut points were not walked", proxy.kills());
    }
    // A quarter of four may be missing.
    assert!(lowest >= DECODE - 1, "only {lowest} of {DECODE} decode workers were available");
    assert_eq!(anonymous(&harness).await?, undisturbed().await?);
    Ok(())
}

#[tokio::test]
async fn killed_after_every_write() -> Result<(), BoxError> {
    roll_with("killed-after", &[GRAPH_CONTROLLER, COMPONENT_CONTROLLER], Cut::After).await
}

#[tokio::test]
async fn killed_before_every_write() -> Result<(), BoxError> {
    roll_with("killed-before", &[GRAPH_CONTROLLER, COMPONENT_CONTROLLER], Cut::Before).await
}
