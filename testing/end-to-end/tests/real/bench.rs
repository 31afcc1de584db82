//! A control plane with software of another project, our webhook server, and a namespace with our controllers for each
//! test.

use std::{path::PathBuf, process::Command, time::Duration};

use end_to_end::{BoxError, Harness, Operators};
use serde_json::Value;
use test_cluster::{Cluster, Options, Place, Process, Program, Signal, assets::Tool, free_port};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::{admission, graph_log::GraphLog, is_full, pod_log::PodLog, program};

const NODES: u16 = 8;
/// Without it, a machine that builds and tests at the same time may take so many times as long.
const SLACK: u32 = 4;

/// A time limit of the documentation.
pub fn limit(seconds: u64) -> Duration {
    Duration::from_secs(seconds) * if is_full() { 1 } else { SLACK }
}

/// A program of another project that runs pods for a graph.
pub trait Software {
    /// Its name in messages, and that of its process.
    const NAME: &'static str;
    /// Pods that a replica of the workers consists of.
    const PODS: usize;
    /// Replicas that may be missing while it replaces pods.
    const MISSING: usize;

    /// Pods that serve throughout a rollout.
    fn least(replicas: usize) -> usize {
        (replicas - Self::MISSING) * Self::PODS
    }

    /// The program; `None` where it cannot be had, which is printed.
    fn executable() -> Result<Option<PathBuf>, BoxError>;
    /// Its CustomResourceDefinitions.
    fn definitions() -> Result<Vec<Value>, BoxError>;
    /// Its webhook configurations. Where they point is [`Place::redirect`]'s.
    fn webhooks() -> Result<Vec<Value>, BoxError>;
    /// Returns its program.
    fn start(executable: PathBuf, place: &Place) -> Result<Program, BoxError>;
    /// The smallest object that its webhooks are called for.
    fn probe() -> Value;
    /// Returns the fields of a graph's workers beside name, type, image and replicas.
    fn workers() -> Value;
}

/// A control plane with its software, used by one test at a time.
pub struct Bench {
    pub cluster: &'static Cluster,
    kstatus: PathBuf,
    controllers: PathBuf,
    software: Program,
    probe: Value,
}

/// The bench of a project; `None` where its program cannot be had.
pub type Shared = OnceCell<Option<Mutex<Bench>>>;

impl Bench {
    async fn start<S: Software>() -> Result<Option<Mutex<Self>>, BoxError> {
        let Some(kstatus) = program(Tool::Kstatus)? else { return Ok(None) };
        let Some(executable) = S::executable()? else { return Ok(None) };
        let (definitions, mut webhooks) = (S::definitions()?, S::webhooks()?);
        let port = free_port()?;
        let ours = api_types::crds::all_converted_by(&admission::service(port).parse()?)?;
        let mut crds = ours.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
        crds.extend(definitions);
        // Ends with the process.
        let cluster = Cluster::start(Options { crds, ..Options::with_nodes(NODES) }).await?;
        let cluster: &'static Cluster = Box::leak(Box::new(cluster));
        let controllers = admission::account(cluster, admission::CONTROLLERS).await?;
        admission::start(cluster, port).await?;
        let place = Place::new(cluster, S::NAME)?;
        webhooks.iter_mut().for_each(|configuration| place.redirect(configuration));
        cluster.apply(&webhooks).await?;
        let software = S::start(executable, &place)?;
        let this = Self { cluster, kstatus, controllers, software, probe: S::probe() };
        this.start_software().await?;
        Ok(Some(Mutex::new(this)))
    }

    /// Starts the software, or lets it go on. Returns when its webhooks answer.
    pub async fn start_software(&self) -> Result<(), BoxError> {
        match self.cluster.process(&self.software.name) {
            Some(process) => signal(process, "-CONT")?,
            None => drop(self.cluster.run(&self.software).await?),
        }
        admission::answering(self.cluster, &self.probe).await.map_err(|error| {
            let log = std::fs::read_to_string(self.cluster.log(&self.software.name)).unwrap_or_default();
            format!("{error}; log of {}:\n{log}", self.software.name).into()
        })
    }

    /// Stops the software as a node does that is cut off: connections are accepted, and there is no answer.
    /// Nothing happens where it does not run.
    pub fn freeze_software(&self) -> Result<(), BoxError> {
        self.cluster.process(&self.software.name).map_or(Ok(()), |process| signal(process, "-STOP"))
    }

    /// Kills the software. Its webhook configurations stay.
    pub async fn kill_software(&self) -> Result<(), BoxError> {
        Ok(self.cluster.stop_program(&self.software.name, Signal::Kill).await?)
    }
}

fn signal(process: Process, signal: &str) -> Result<(), BoxError> {
    let status = Command::new("kill").args([signal, &process.pid.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(format!("kill {signal}: {status}").into()) }
}

/// What one test has: the bench, and a namespace with our controllers.
pub struct TestSetup {
    pub bench: MutexGuard<'static, Bench>,
    pub harness: Harness,
    pub operators: Operators,
    pub pods: PodLog,
    graphs: GraphLog,
}

impl TestSetup {
    /// Waits for the bench; `None` where the software cannot be had.
    pub async fn new<S: Software>(shared: &'static Shared, name: &str) -> Result<Option<Self>, BoxError> {
        let Some(bench) = shared.get_or_try_init(Bench::start::<S>).await? else { return Ok(None) };
        let bench = bench.lock().await;
        // The test before may have failed without it.
        bench.start_software().await?;
        let harness = Harness::on(bench.cluster, name).await?;
        let operators = Operators::start(&harness, &bench.controllers, &bench.controllers).await?;
        let (pods, graphs) = (PodLog::start(&harness), GraphLog::start(&harness));
        Ok(Some(Self { bench, harness, operators, pods, graphs }))
    }

    /// Returns the kstatus of a graph.
    pub async fn kstatus(&self, graph: &str) -> Result<String, BoxError> {
        self.graphs.kstatus(&self.bench.kstatus, graph).await
    }

    /// Checks every state that graphs had.
    pub fn end(self) -> Result<(), BoxError> {
        self.graphs.check(&self.bench.kstatus)
    }
}
