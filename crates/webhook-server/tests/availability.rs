//! Replicas come and go behind a Service, and the API server continues to answer: no call fails where a replica is
//! signalled to stop, and where one is killed, calls succeed again by themselves.
//!
//! A short run by default. `DYNAMO_AVAILABILITY_SECONDS=300` makes it a long one, with a new CA at its end; that one
//! also comes into use under calls in the test of certificates.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use common::{CERTIFICATES, Install, LIMIT, Replica, address, graphs, start_cluster};
use kube::{
    Client, Config,
    api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use test_cluster::{Cluster, Signal, wait};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::AbortHandle,
    time::{MissedTickBehavior, interval, sleep, sleep_until},
};

const SECONDS: &str = "DYNAMO_AVAILABILITY_SECONDS";
const SHORT: u64 = 11;
/// One call in this time: 100 a second.
const PACE: Duration = Duration::from_millis(10);
/// Calls that may wait for their answers at the same time: a machine that is too slow gets fewer calls, and none that
/// waits until it is too late.
const WAITING: usize = 12;
/// Pause that the API server requests when it answers with 429.
const AGAIN: Duration = Duration::from_secs(1);
/// Between the ends of two replicas.
const BETWEEN_ENDS: Duration = Duration::from_secs(5);
/// The longest that a replica runs after the signal to stop.
const STOPPED: Duration = Duration::from_secs(150);
/// After how many calls without a failure the service counts as back.
const ENOUGH: usize = 100;

/// Simulation of a Service: new connections go to replicas that are ready, existing connections remain at their
/// replica. A connection to a replica that does not accept it is lost; no retry follows.
#[derive(Clone)]
struct Service(Arc<Mutex<Vec<SocketAddr>>>);

impl Service {
    async fn at(front: u16) -> Self {
        let this = Self(Arc::default());
        let (listener, backends) = (TcpListener::bind(address(front)).await.unwrap(), this.0.clone());
        tokio::spawn(async move {
            for turn in 0.. {
                let (mut client, _) = listener.accept().await.unwrap();
                let ready = backends.lock().unwrap().clone();
                if ready.is_empty() {
                    continue;
                }
                let backend = ready[turn % ready.len()];
                tokio::spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(backend).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        this
    }

    /// Looks after one replica until it is not ready any more: probes it, as a kubelet does.
    fn follow(&self, replica: &Replica) {
        let (backends, replica) = (self.0.clone(), replica.clone());
        tokio::spawn(async move {
            let mut ticks = interval(Duration::from_millis(100));
            loop {
                ticks.tick().await;
                let ready = replica.ready().await.is_ok();
                let mut backends = backends.lock().unwrap();
                let known = backends.iter().position(|backend| *backend == replica.webhook);
                match (ready, known) {
                    (true, None) => backends.push(replica.webhook),
                    (false, Some(index)) => {
                        backends.remove(index);
                        return;
                    }
                    _ => {}
                }
            }
        });
    }

    async fn until(&self, replica: &Replica, known: bool) {
        let there = async || (self.0.lock().unwrap().contains(&replica.webhook) == known).then_some(());
        wait::until("the Service to learn of a replica", LIMIT, there).await.unwrap();
    }
}

/// Calls that need admission, conversion, or both; what fails is not tried again.
struct Load {
    sender: AbortHandle,
    count: Arc<AtomicUsize>,
    failed: Arc<Mutex<Vec<String>>>,
    /// Calls since the last one that failed.
    in_a_row: Arc<AtomicUsize>,
    waiting: Arc<Semaphore>,
}

impl Load {
    fn start(alpha: &Api<DynamicObject>, beta: &Api<DynamicObject>) -> Self {
        let (count, failed, in_a_row) =
            (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let waiting = Arc::new(Semaphore::new(WAITING));
        let (counted, failures, row, slots) = (count.clone(), failed.clone(), in_a_row.clone(), waiting.clone());
        let (alpha, beta) = (alpha.clone(), beta.clone());
        let sender = tokio::spawn(async move {
            let mut ticks = interval(PACE);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for turn in 0.. {
                ticks.tick().await;
                let slot = slots.clone().acquire_owned().await.unwrap();
                let (alpha, beta) = (alpha.clone(), beta.clone());
                let (counted, failures, row) = (counted.clone(), failures.clone(), row.clone());
                tokio::spawn(async move {
                    let done = patiently(turn, &alpha, &beta).await;
                    counted.fetch_add(1, Ordering::Relaxed);
                    row.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = done {
                        row.store(0, Ordering::Relaxed);
                        failures.lock().unwrap().push(short(&error));
                    }
                    drop(slot);
                });
            }
        });
        Self { sender: sender.abort_handle(), count, failed, in_a_row, waiting }
    }

    /// Counts the failures by their text.
    fn failures(&self) -> BTreeMap<String, usize> {
        let mut failures = BTreeMap::new();
        for failure in &*self.failed.lock().unwrap() {
            *failures.entry(failure.clone()).or_default() += 1;
        }
        failures
    }

    fn assert_none_failed(&self, when: &str) {
        let count = self.count.load(Ordering::Relaxed);
        assert_eq!(self.failures(), BTreeMap::new(), "of {count} calls, {when}");
    }

    /// Sends no more calls, and returns how many there were and what failed.
    async fn end(self) -> (usize, Vec<String>) {
        self.sender.abort();
        let _answered = self.waiting.acquire_many(u32::try_from(WAITING).unwrap()).await.unwrap();
        let failed = std::mem::take(&mut *self.failed.lock().unwrap());
        (self.count.load(Ordering::Relaxed), failed)
    }
}

/// As all clients do, waits where the API server says that it fills its cache anew: it does when a definition has
/// changed.
async fn patiently(turn: usize, alpha: &Api<DynamicObject>, beta: &Api<DynamicObject>) -> Result<(), kube::Error> {
    loop {
        match call(turn, alpha, beta).await {
            Err(kube::Error::Api(status)) if status.code == 429 => sleep(AGAIN).await,
            done => return done,
        }
    }
}

async fn call(turn: usize, alpha: &Api<DynamicObject>, beta: &Api<DynamicObject>) -> Result<(), kube::Error> {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "turn": turn.to_string() } } }));
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    match turn % 4 {
        0 => alpha.patch("chat", &params, &patch).await.map(drop),
        1 => beta.patch("chat", &params, &patch).await.map(drop),
        2 => alpha.list(&ListParams::default()).await.map(drop),
        _ => alpha.get("chat").await.map(drop),
    }
}

fn short(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        other => other.to_string(),
    }
}

/// A client that hides no failure.
async fn client(cluster: &Cluster) -> Client {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    (config.default_retry, config.proxy_url) = (false, None);
    Client::try_from(config).unwrap()
}

struct Harness {
    install: Install,
    service: Service,
    replicas: Vec<Replica>,
    /// Those that got the signal to stop.
    stopping: Vec<Replica>,
    load: Load,
}

impl Harness {
    async fn start() -> Self {
        let front = test_cluster::free_port().unwrap();
        let cluster = start_cluster("operator", front).await;
        // As installed: API servers give up connections that they do not use after 90 s.
        let mut install = Install::new(cluster, "operator", front).await;
        install.idle_connection_seconds = 95;
        install.configure(None).await;
        install.start_crds().await;
        let service = Service::at(front).await;
        let mut replicas = Vec::new();
        for _ in 0..2 {
            let replica = install.start_beside().await;
            service.follow(&replica);
            service.until(&replica, true).await;
            replicas.push(replica);
        }
        for version in ["v1alpha1", "v1beta1"] {
            install.until_answering("default", version).await;
        }
        let client = client(cluster).await;
        let (alpha, _) = graphs(client.clone(), "default", "v1alpha1");
        let (beta, mut graph) = graphs(client, "default", "v1beta1");
        let main = json!({ "name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0" });
        let frontend =
            json!({ "name": "Frontend", "type": "frontend", "podTemplate": { "spec": { "containers": [main] } } });
        graph.metadata.name = Some("chat".to_owned());
        graph.data = json!({ "spec": { "components": [frontend] } });
        beta.create(&PostParams::default(), &graph).await.unwrap();
        Self { install, service, replicas, stopping: Vec::new(), load: Load::start(&alpha, &beta) }
    }

    /// The oldest replica is deleted as a pod is: it gets the signal to stop, and another one starts at the same time.
    async fn replace_one(&mut self) {
        let old = self.replicas.remove(0);
        self.install.send_stop(&old);
        self.stopping.push(old);
        self.start_one().await;
    }

    async fn start_one(&mut self) {
        let new = self.install.start_beside().await;
        self.service.follow(&new);
        self.service.until(&new, true).await;
        self.replicas.push(new);
    }

    /// A new CA is made, and comes into use.
    async fn rotate(&self) {
        let (install, old) = (&self.install, self.install.stored("tls.crt").await);
        let unsigned = Patch::Merge(json!({ "data": { "ca.key": null } }));
        install.secrets().patch(CERTIFICATES, &PatchParams::default(), &unsigned).await.unwrap();
        let served = async || {
            let tail = |replica| install.log(replica).lines().rev().take(8).collect::<Vec<_>>().join("\n");
            let twice = |replica| install.log(replica).matches("serving a new certificate").count() > 1;
            let done = install.stored("tls.crt").await != old && self.replicas.iter().all(twice);
            if done { Ok(()) } else { Err(self.replicas.iter().map(tail).collect::<Vec<_>>().join("\n\n")) }
        };
        wait::until("all replicas to serve the new certificate", LIMIT, served).await.unwrap();
        self.until_answered().await;
    }

    /// Those that got the signal to stop have ended by themselves.
    async fn all_stopped(&self) {
        let done = async || {
            let left = self.stopping.iter().filter(|replica| self.install.runs(replica)).count();
            if left == 0 { Ok(()) } else { Err(format!("{left} still run")) }
        };
        wait::until("the replicas to end", STOPPED, done).await.unwrap();
        assert!(self.stopping.iter().all(|replica| self.install.log(replica).contains("stopped")));
    }

    async fn until_answered(&self) {
        self.load.in_a_row.store(0, Ordering::Relaxed);
        let enough = async || {
            let row = self.load.in_a_row.load(Ordering::Relaxed);
            if row >= ENOUGH { Ok(()) } else { Err(format!("{row}; {:?}", self.load.failures())) }
        };
        wait::until(format!("{ENOUGH} answers in a row"), LIMIT, enough).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_replicas_are_replaced_and_killed_ones_cost_a_moment() {
    let long: Option<u64> = std::env::var(SECONDS).ok().map(|text| text.parse().unwrap());
    let mut harness = Harness::start().await;
    let (begin, mut ended) = (Instant::now(), 0);
    let end = begin + Duration::from_secs(long.unwrap_or(SHORT));
    while Instant::now() < end {
        let next = tokio::time::Instant::now() + BETWEEN_ENDS;
        harness.replace_one().await;
        ended += 1;
        sleep_until(next).await;
    }
    harness.until_answered().await;
    harness.load.assert_none_failed(&format!("while {ended} replicas got the signal to stop"));
    if long.is_some() {
        harness.rotate().await;
        harness.load.assert_none_failed("while a new CA came into use");
        harness.all_stopped().await;
    }
    harness.load.assert_none_failed("while connections were given up");

    let killed_at = harness.load.count.load(Ordering::Relaxed);
    let took = begin.elapsed();
    // The machine of one is lost: its open requests are lost with it, the others are not.
    let dead = harness.replicas.remove(0);
    harness.install.stop(&dead, Signal::Kill).await;
    harness.service.until(&dead, false).await;
    harness.until_answered().await;
    harness.start_one().await;
    harness.until_answered().await;
    let (count, failed) = harness.load.end().await;
    println!("{ended} replicas stopped: 0 of {killed_at} calls failed, in {took:?}");
    println!("1 replica killed: {} of {} calls failed", failed.len(), count - killed_at);
}
