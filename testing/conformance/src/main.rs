//! `cargo xtask conformance`: applies the inputs of the conformance kit to our controllers on a fresh control plane,
//! and compares what comes out with what the reference made of them.

mod apis;
mod batch;
mod compare;
mod conformance_kit;
mod input;
mod play;
mod quiet;
mod record;
mod report;
mod server;

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, ensure};
use batch::Batch;
use clap::Parser;
use conformance_kit::{Case, ConformanceKit, Selection};
use local_operator::OperatorArgs;
use quiet::Movement;
use report::Report;
use serde_json::Value;
use server::Server;
use test_cluster::{Cluster, Controllers, Options, open_definition};

/// Cases that run at the same time.
const BATCH: usize = 64;
/// For what cannot be done here, as opposed to cases that differ.
const NOT_AVAILABLE: u8 = 2;
/// Everything of Kubernetes that a record depends on. Deployments stay as they are: their status is played.
const CONTROLLERS: [&str; 3] = ["garbage-collector-controller", "namespace-controller", "serviceaccount-controller"];

/// Compares what our controllers generate with what the upstream operator does, for the inputs of the conformance kit.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask conformance", bin_name = "cargo xtask conformance")]
struct Args {
    /// APIs in the cluster for multi-node components
    #[arg(long, value_enum, default_value_t = Mode::Base)]
    mode: Mode,
    /// File with the names of the cases to run, one on each line [default: all of the mode]
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
    /// Only cases whose whole name matches; `*` matches any characters, `?` one
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// Only cases with this in their name, and all of their differences
    #[arg(long, value_name = "PART")]
    show: Option<String>,
    /// Count the differences by the field they are in, over all cases
    #[arg(long)]
    by_field: bool,
    /// Time without a change that counts as the end, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1500)]
    settle: u64,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(code) => code,
        Err(error) => {
            // Not by returning it from main, which adds a back trace when the environment enables those of panics.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Nothing: single-node components only
    Base,
    /// The Grove API
    Grove,
    /// The LeaderWorkerSet and Volcano APIs
    Lws,
    /// The APIs of the snapshot operator, and checkpoints switched on
    Ckpt,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Grove => "grove",
            Self::Lws => "lws",
            Self::Ckpt => "ckpt",
        }
    }
}

/// Runs the cases.
///
/// # Errors
/// They cannot be run.
async fn run(args: &Args) -> Result<ExitCode> {
    let definitions = match apis::definitions(args.mode) {
        Ok(definitions) => definitions,
        Err(why) => {
            eprintln!("mode {} is not available here: {why:#}", args.mode.name());
            return Ok(ExitCode::from(NOT_AVAILABLE));
        }
    };
    let kit = ConformanceKit::find()?;
    let selection = Selection { list: args.cases.clone(), only: args.only.clone(), part: args.show.clone() };
    let cases = kit.cases(args.mode.name(), &selection)?;
    ensure!(!cases.is_empty(), "no case is selected");
    let records = record_all(args, definitions, &cases).await?;
    let mut report = Report::default();
    for (case, record) in cases.iter().zip(&records) {
        report.add(&case.name, compare::compare(&case.expected, record));
    }
    print!("{}", report.text(args.show.is_some(), args.by_field));
    Ok(if report.all_equal() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all cases on a control plane of their own. Gives a record for each, in their order, and leaves them as files
/// too.
async fn record_all(args: &Args, definitions: Vec<Value>, cases: &[Case]) -> Result<Vec<Value>> {
    let binaries = args.operator.build()?;
    let controllers = Controllers::Only(CONTROLLERS.map(str::to_owned).into());
    let mut crds = binaries.crds()?;
    crds.push(open_definition("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools"));
    crds.extend(definitions);
    let cluster = Cluster::start(Options { controllers, crds, ..Options::default() }).await?;
    let operator = args.operator.clone().with_checkpoints(args.mode == Mode::Ckpt);
    let operators = operator.start(&cluster, &binaries).await?;
    let server = Server::discover(cluster.client()?).await?;
    let mut movement = Movement::watch(&server, Duration::from_millis(args.settle));
    let folder = repository::root().join("target/conformance").join(args.mode.name());
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut records = Vec::new();
    for part in cases.chunks(BATCH) {
        let batch = Batch { server: &server, mode: args.mode.name(), cases: part };
        for (case, record) in part.iter().zip(batch.run(&mut movement).await?) {
            let path = folder.join(format!("{}.json", case.name));
            fs::write(&path, format!("{record:#}\n")).with_context(|| format!("cannot write {}", path.display()))?;
            records.push(record);
        }
        operators.iter().try_for_each(|operator| operator.check(&cluster))?;
        eprintln!("{} of {} cases done", records.len(), cases.len());
    }
    cluster.stop().await?;
    Ok(records)
}
