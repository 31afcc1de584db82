//! Scenarios for every workload provider of a graph.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use api_types::{
    conditions::{READY, RECONCILING, WEBHOOK_UNAVAILABLE},
    v1beta1::DynamoGraphDeployment,
};
use end_to_end::BoxError;
use serde_json::{Value, json};
use test_cluster::wait;

use crate::{
    bench::{Shared, Software, TestSetup, limit},
    is_full, skipped,
};

/// The component whose pods are counted.
pub const WORKERS: &str = "Decode";
/// The component that never changes.
pub const FRONTEND: &str = "Frontend";
/// Name of the graph.
pub const GRAPH: &str = "chat";
/// Its workers.
pub const REPLICAS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(180);
/// Once a graph is ready, its pods are as it says, but for what a watch lags behind.
const LAG: Duration = Duration::from_secs(2);
/// Seconds until a webhook that does not answer is a condition.
const REPORTED: u64 = 5;
/// The same of one that accepts connections: the API server waits 10 s for it.
const REPORTED_LATE: u64 = 20;
/// Seconds until work goes on after its return.
const RECOVERED: u64 = 20;
/// Seconds until a stuck rollout says why.
const EXPLAINED: u64 = 10;

/// A graph with a frontend, and workers of such an image.
pub fn graph<S: Software>(name: &str, tag: &str, replicas: usize) -> Value {
    let pod = |image: String, args: Value| json!({ "spec": { "containers": [{ "name": "main", "image": image, "args": args }] } });
    let mut workers = json!({
        "name": WORKERS, "type": "decode", "replicas": replicas,
        "podTemplate": pod(format!("registry.example/decode:{tag}"), json!(["exec python3 -m dynamo.vllm"])),
    });
    for (key, value) in S::workers().as_object().into_iter().flatten() {
        workers[key] = value.clone();
    }
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": { "name": name },
        "spec": { "backendFramework": "vllm", "components": [
            { "name": FRONTEND, "type": "frontend", "replicas": 1,
              "podTemplate": pod("registry.example/frontend:1.0.0".to_owned(), json!([])) },
            workers,
        ] },
    })
}

/// The same, whose workers fit on no node.
pub fn stuck<S: Software>(name: &str, tag: &str, replicas: usize) -> Value {
    let mut graph = graph::<S>(name, tag, replicas);
    graph["spec"]["components"][1]["podTemplate"]["spec"]["nodeSelector"] = json!({ "no": "such-node" });
    graph
}

impl TestSetup {
    /// Waits until a graph is ready in the present generation, and checks that kstatus agrees.
    pub async fn settled(&self, graph: &str) -> Result<DynamoGraphDeployment, BoxError> {
        let ready = self.harness.ready(graph).await?;
        let status = self.kstatus(graph).await?;
        assert!(status.starts_with("Current "), "{status}");
        Ok(ready)
    }

    /// Waits until all workers have this image, and as many replicas exist as there should be.
    pub async fn all_workers_run<S: Software>(&self, tag: &str) -> Result<(), BoxError> {
        let image = format!("registry.example/decode:{tag}");
        let probe = async || {
            let images = self.pods.images(WORKERS);
            let done = images.len() == REPLICAS * S::PODS && images.iter().all(|one| *one == image);
            if done { Ok(()) } else { Err(format!("{images:?}")) }
        };
        Ok(wait::until(format!("workers with tag {tag} alone"), LAG, probe).await?)
    }

    /// Makes a graph and waits until it runs. Returns the frontend's pods.
    pub async fn run<S: Software>(&self) -> Result<BTreeSet<String>, BoxError> {
        self.harness.apply(&graph::<S>(GRAPH, "1.0.0", REPLICAS)).await?;
        self.settled(GRAPH).await?;
        self.all_workers_run::<S>("1.0.0").await?;
        assert_eq!(self.pods.made(WORKERS), REPLICAS * S::PODS);
        let probe = async || Some(self.pods.of(FRONTEND)).filter(|pods| pods.len() == 1);
        Ok(wait::until("the frontend", PATIENCE, probe).await?)
    }

    /// Waits until a worker with this image exists.
    async fn some_worker_runs(&self, tag: &str) -> Result<(), BoxError> {
        let image = format!("registry.example/decode:{tag}");
        let probe = async || self.pods.images(WORKERS).contains(&image).then_some(());
        Ok(wait::until(format!("a worker with tag {tag}"), PATIENCE, probe).await?)
    }

    /// Waits until `Reconciling` of the present generation is true for a reason, and `Ready` is false. Returns the
    /// message.
    async fn reported(&self, name: &str, reason: &str, limit: Duration) -> Result<String, BoxError> {
        let api = self.harness.api::<DynamoGraphDeployment>();
        let probe = async || {
            let graph = api.get(name).await.map_err(|error| error.to_string())?;
            let status = graph.status.unwrap_or_default();
            let find = |type_: &str, value: &str| {
                status.conditions.iter().find(|one| one.type_ == type_ && one.status == value)
            };
            let current = status.observed_generation == graph.metadata.generation;
            let why = find(RECONCILING, "True").filter(|one| current && one.reason == reason);
            match (why, find(READY, "False")) {
                (Some(why), Some(_)) => Ok(why.message.clone()),
                _ => Err(serde_json::to_string(&status).unwrap_or_default()),
            }
        };
        let begin = Instant::now();
        let message = wait::until(format!("{name}: {reason}"), limit, probe).await?;
        println!("{reason} after {:.1} s: {message}", begin.elapsed().as_secs_f64());
        let status = self.kstatus(name).await?;
        assert!(status.starts_with("InProgress "), "{status}");
        Ok(message)
    }

    /// Waits until `Reconciling` no longer has this reason.
    async fn no_longer(&self, name: &str, reason: &str, limit: Duration) -> Result<(), BoxError> {
        let api = self.harness.api::<DynamoGraphDeployment>();
        let probe = async || {
            let graph = api.get(name).await.map_err(|error| error.to_string())?;
            let conditions = graph.status.map(|status| status.conditions).unwrap_or_default();
            let still = conditions.iter().find(|one| one.type_ == RECONCILING && one.reason == reason);
            still.map_or(Ok(()), |one| Err(one.message.clone()))
        };
        let begin = Instant::now();
        wait::until(format!("{name} without {reason}"), limit, probe).await?;
        println!("no {reason} after {:.1} s", begin.elapsed().as_secs_f64());
        Ok(())
    }

    /// As many workers served throughout as the software allows.
    fn served_throughout<S: Software>(&self) {
        let least = S::least(REPLICAS);
        assert!(self.pods.fewest() >= least, "{} of {least} pods served", self.pods.fewest());
    }
}

/// Creation, no replicas and as many as before, another image. No pod is replaced that need not be.
pub async fn life<S: Software>(shared: &'static Shared) -> Result<(), BoxError> {
    let Some(setup) = TestSetup::new::<S>(shared, "life").await? else { return Ok(()) };
    let frontend = setup.run::<S>().await?;

    setup.harness.apply(&graph::<S>(GRAPH, "1.0.0", 0)).await?;
    let none = setup.settled(GRAPH).await?;
    assert_eq!(none.status.and_then(|status| Some(status.components.get(WORKERS)?.replicas)), Some(0));
    let gone = async || setup.pods.of(WORKERS).is_empty().then_some(());
    wait::until("the pods to be gone", LAG, gone).await?;
    setup.harness.apply(&graph::<S>(GRAPH, "1.0.0", REPLICAS)).await?;
    setup.settled(GRAPH).await?;
    setup.all_workers_run::<S>("1.0.0").await?;
    assert_eq!(setup.pods.made(WORKERS), 2 * REPLICAS * S::PODS);

    setup.pods.mark();
    setup.harness.apply(&graph::<S>(GRAPH, "2.0.0", REPLICAS)).await?;
    setup.settled(GRAPH).await?;
    setup.all_workers_run::<S>("2.0.0").await?;
    setup.served_throughout::<S>();
    assert_eq!(setup.pods.made(WORKERS), 3 * REPLICAS * S::PODS, "each pod is replaced once");
    assert_eq!(setup.pods.of(FRONTEND), frontend, "the frontend did not change");
    setup.end()
}

/// Webhooks that do not answer are a condition within 5 s; what serves stays; work goes on within 20 s of their return.
pub async fn webhooks_away<S: Software>(shared: &'static Shared) -> Result<(), BoxError> {
    let Some(setup) = TestSetup::new::<S>(shared, "webhooks").await? else { return Ok(()) };
    setup.run::<S>().await?;
    let before = setup.pods.of(WORKERS);

    setup.bench.kill_software().await?;
    setup.harness.apply(&graph::<S>(GRAPH, "2.0.0", REPLICAS)).await?;
    let message = setup.reported(GRAPH, WEBHOOK_UNAVAILABLE, limit(REPORTED)).await?;
    assert!(message.contains("failed calling webhook"), "{message}");
    setup.harness.apply(&graph::<S>("late", "1.0.0", REPLICAS)).await?;
    setup.reported("late", WEBHOOK_UNAVAILABLE, limit(REPORTED)).await?;
    // Back to what runs: the webhooks are not needed for that.
    setup.harness.apply(&graph::<S>(GRAPH, "1.0.0", REPLICAS)).await?;
    setup.settled(GRAPH).await?;
    assert_eq!(setup.pods.of(WORKERS), before, "what serves stays");

    setup.harness.apply(&graph::<S>(GRAPH, "2.0.0", REPLICAS)).await?;
    setup.reported(GRAPH, WEBHOOK_UNAVAILABLE, limit(REPORTED)).await?;
    setup.bench.start_software().await?;
    for name in [GRAPH, "late"] {
        setup.no_longer(name, WEBHOOK_UNAVAILABLE, limit(RECOVERED)).await?;
    }
    setup.settled(GRAPH).await?;
    setup.settled("late").await?;
    setup.end()
}

/// Webhooks that accept connections and do not answer are a condition, too.
pub async fn webhooks_hang<S: Software>(shared: &'static Shared) -> Result<(), BoxError> {
    if !is_full() {
        skipped(&format!("webhooks that hang with {}", S::NAME), "DYNAMO_REAL_SOFTWARE is not `full`");
        return Ok(());
    }
    let Some(setup) = TestSetup::new::<S>(shared, "hang").await? else { return Ok(()) };
    setup.run::<S>().await?;
    let before = setup.pods.of(WORKERS);
    setup.bench.freeze_software()?;
    setup.harness.apply(&graph::<S>(GRAPH, "2.0.0", REPLICAS)).await?;
    let message = setup.reported(GRAPH, WEBHOOK_UNAVAILABLE, limit(REPORTED_LATE)).await?;
    assert!(message.contains("failed calling webhook"), "{message}");
    assert_eq!(setup.pods.of(WORKERS), before, "what serves stays");
    setup.bench.start_software().await?;
    setup.no_longer(GRAPH, WEBHOOK_UNAVAILABLE, limit(RECOVERED)).await?;
    setup.settled(GRAPH).await?;
    setup.all_workers_run::<S>("2.0.0").await?;
    setup.end()
}

/// A rollout that cannot end says why within 10 s, takes no more capacity than it must, and goes back to the same pods.
pub async fn stuck_rollout<S: Software>(shared: &'static Shared) -> Result<(), BoxError> {
    if !is_full() {
        skipped(&format!("a stuck rollout with {}", S::NAME), "DYNAMO_REAL_SOFTWARE is not `full`");
        return Ok(());
    }
    let Some(setup) = TestSetup::new::<S>(shared, "stuck").await? else { return Ok(()) };
    setup.run::<S>().await?;
    let before = setup.pods.of(WORKERS);
    setup.pods.mark();

    setup.harness.apply(&stuck::<S>(GRAPH, "2.0.0", REPLICAS)).await?;
    let message = setup.reported(GRAPH, "Unschedulable", limit(EXPLAINED)).await?;
    assert!(message.to_lowercase().contains(&WORKERS.to_lowercase()), "{message}");
    assert!(message.contains("pod chat-") && message.contains("nodes are available"), "{message}");

    setup.harness.apply(&graph::<S>(GRAPH, "1.0.0", REPLICAS)).await?;
    setup.settled(GRAPH).await?;
    setup.all_workers_run::<S>("1.0.0").await?;
    setup.served_throughout::<S>();
    let kept = setup.pods.of(WORKERS).intersection(&before).count();
    assert!(kept >= S::least(REPLICAS), "{kept} of {before:?} are left");
    setup.end()
}

/// Our controllers, and then the other side, die in the middle of a rollout, which ends all the same.
pub async fn deaths<S: Software>(shared: &'static Shared) -> Result<(), BoxError> {
    if !is_full() {
        skipped(&format!("deaths with {}", S::NAME), "DYNAMO_REAL_SOFTWARE is not `full`");
        return Ok(());
    }
    let Some(setup) = TestSetup::new::<S>(shared, "deaths").await? else { return Ok(()) };
    let frontend = setup.run::<S>().await?;
    setup.pods.mark();

    setup.harness.apply(&graph::<S>(GRAPH, "2.0.0", REPLICAS)).await?;
    setup.some_worker_runs("2.0.0").await?;
    setup.operators.stop().await?;
    setup.operators.start_again().await?;
    setup.settled(GRAPH).await?;
    setup.all_workers_run::<S>("2.0.0").await?;

    setup.harness.apply(&graph::<S>(GRAPH, "3.0.0", REPLICAS)).await?;
    setup.some_worker_runs("3.0.0").await?;
    setup.bench.kill_software().await?;
    setup.bench.start_software().await?;
    setup.settled(GRAPH).await?;
    setup.all_workers_run::<S>("3.0.0").await?;
    setup.served_throughout::<S>();
    assert_eq!(setup.pods.made(WORKERS), 3 * REPLICAS * S::PODS, "each pod is replaced once in each rollout");
    assert_eq!(setup.pods.of(FRONTEND), frontend, "the frontend did not change");
    setup.end()
}
