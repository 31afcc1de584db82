//! `cargo xtask up` and `cargo xtask down`: a real control plane with fake GPU nodes, our controllers, and a graph on
//! it.

mod detached;
mod follow;
mod manifests;
mod observe;

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
pub(crate) use detached::{DownArgs, down};
use follow::Follow;
use local_operator::{Binaries, OperatorArgs, Running};
use serde_json::Value;
use test_cluster::{Access, Cluster, Options};
use tokio::signal::unix::{SignalKind, signal};

/// As shells report a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// Arguments of `cargo xtask up`.
#[derive(Debug, clap::Args)]
pub(crate) struct UpArgs {
    /// Manifests to apply, a file or a folder: a graph and what it needs [default: deploy/examples/vllm-agg.yaml; nothing
    /// with --detach]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Namespace for what names none; made if missing
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// Tag for placeholders in images, such as `:my-tag` or `${IMAGE}`
    #[arg(long, value_name = "TAG")]
    set_image_tag: Option<String>,
    /// End when the graph is Ready, with 0, or after --timeout, with 1 and what it was waiting for
    #[arg(long, conflicts_with_all = ["detach", "watch"])]
    once: bool,
    /// Time limit of --once, for example 90, 90s or 2m
    #[arg(long, default_value = "120s", value_parser = duration)]
    timeout: Duration,
    /// Return when the controllers are ready; `cargo xtask down` ends it all
    #[arg(long, conflicts_with = "watch")]
    detach: bool,
    /// After an edit, build again and restart the controllers that have changed
    #[arg(long, conflicts_with = "operator")]
    watch: bool,
    /// Number of fake nodes, each with 8 GPUs
    #[arg(long, value_name = "N", default_value_t = 4, conflicts_with = "kubeconfig")]
    nodes: u16,
    /// A running cluster to use in place of one that is started here. Its API server must be on this machine's loopback,
    /// to reach the webhook server, and no operator may be installed. CRDs, the namespace of the operator and what was
    /// applied stay when the command ends
    #[arg(long, value_name = "FILE", conflicts_with_all = ["detach", "operator"])]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Brings the cluster up and follows the graph. Everything that was started ends with it, unless it is detached.
///
/// # Errors
/// It does not come up, or the graph cannot be applied.
pub(crate) async fn run(args: UpArgs) -> Result<ExitCode> {
    let args = UpArgs { operator: args.operator.with_legacy_store(), ..args };
    let file = match (&args.file, args.detach) {
        (Some(file), _) => Some(file.clone()),
        (None, false) => Some(repository::root().join("deploy/examples/vllm-agg.yaml")),
        (None, true) => None,
    };
    let objects = file.map(|file| manifests::read(&file, args.set_image_tag.as_deref())).transpose()?;
    if args.detach {
        detached::refuse_second().await?;
    }
    if let Some(kubeconfig) = &args.kubeconfig {
        check_running(kubeconfig).await?;
    }
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    // When a signal comes first, `work` is dropped, and with it the cluster and all that runs in it.
    let done = tokio::select! {
        done = work(&args, objects) => done,
        _ = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
        _ = terminate.recv() => Ok(ExitCode::from(INTERRUPTED)),
    };
    if let Some(kubeconfig) = &args.kubeconfig {
        let client = Access::from_kubeconfig(kubeconfig).await?.client()?;
        local_operator::withdraw(&client).await.context("cannot remove the webhooks from the cluster")?;
    }
    done
}

/// Fails where the operator cannot run beside the cluster, or must not.
async fn check_running(kubeconfig: &Path) -> Result<()> {
    let access = Access::from_kubeconfig(kubeconfig).await?;
    ensure!(
        access.is_local(),
        "the API server of {} is not on this machine, so it cannot reach the webhook server here; use `cargo xtask \
         tilt-up` for that cluster",
        kubeconfig.display()
    );
    local_operator::refuse_installed(&access.client()?).await
}

/// The cluster that the arguments specify.
async fn cluster(args: &UpArgs, options: Options) -> Result<Cluster> {
    let Some(kubeconfig) = &args.kubeconfig else {
        eprintln!("starting the control plane with {} nodes", args.nodes);
        return Ok(Cluster::start(options).await?);
    };
    let cluster = Cluster::beside(kubeconfig).await?;
    cluster.install_crds(&options.crds).await?;
    Ok(cluster)
}

/// Running cluster and operators.
struct Stack {
    cluster: Cluster,
    operators: Vec<Running>,
    binaries: Binaries,
}

async fn work(args: &UpArgs, objects: Option<Vec<Value>>) -> Result<ExitCode> {
    let options = Options::with_nodes(args.nodes);
    let binaries = if args.kubeconfig.is_some() { args.operator.build()? } else { build(&args.operator, &options)? };
    let options = Options { crds: binaries.crds()?, ..options };
    let cluster = cluster(args, options).await?;
    let operators = args.operator.start(&cluster, &binaries).await?;
    for operator in &operators {
        eprintln!(
            "{} is ready after {} ms; log: {}",
            operator.name(),
            operator.start.as_millis(),
            cluster.log(operator.name()).display()
        );
    }
    let stack = Stack { cluster, operators, binaries };
    let targets = match objects {
        Some(objects) => manifests::apply(&stack.cluster, &objects, &args.namespace).await?,
        None => Vec::new(),
    };
    if args.detach {
        return detached::leave(stack.cluster).await;
    }
    let clear = std::io::stdout().is_terminal();
    let mut follow = Follow::new(stack, targets, clear)?;
    if !args.once {
        return follow.for_ever(args.watch.then_some(&args.operator)).await;
    }
    let ready = follow.until_ready(args.timeout).await?;
    follow.end().await?;
    Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the controllers, and beside them the control plane.
fn build(operator: &OperatorArgs, options: &Options) -> Result<Binaries> {
    thread::scope(|scope| {
        let control_plane = scope.spawn(|| Cluster::build(options));
        let binaries = operator.build()?;
        control_plane.join().map_err(|_| anyhow!("the build of the control plane panicked"))??;
        Ok(binaries)
    })
}

/// Reads `90`, `90s` or `2m`.
fn duration(text: &str) -> Result<Duration> {
    let (number, factor) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    match number.parse::<u32>() {
        Ok(number) => Ok(Duration::from_secs(u64::from(number) * factor)),
        Err(_) => bail!("`{text}` is no duration such as 90, 90s or 2m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_seconds_or_minutes() {
        for (text, seconds) in
            [("90", Some(90)), ("90s", Some(90)), ("2m", Some(120)), ("2h", None), ("", None), ("-1s", None)]
        {
            assert_eq!(duration(text).ok().map(|duration| duration.as_secs()), seconds, "{text}");
        }
    }
}
