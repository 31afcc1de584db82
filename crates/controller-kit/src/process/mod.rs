//! One process: flags, logs, client, servers for health and metrics, signals.

mod args;
mod authorization;
mod connection;
mod credentials;
mod memory;
mod server;

use std::{future::Future, io::IsTerminal, num::NonZero, process::ExitCode, sync::Arc, time::Duration};

use kube::Client;
use tower::BoxError;
use tracing::{error, info, warn};
use tracing_subscriber::{
    filter::{ParseError, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

pub use self::args::CommonArgs;
use self::authorization::Authorizer;
use crate::{
    context::{Context, GRACE, Readiness, Shutdown},
    leader,
    metrics::Metrics,
    notifications::{Notifier, ReceiverError},
    scope::Fence,
    settings::{self, LogFormat, OperatorConfiguration},
    shards,
    store::Scope,
};

/// Exit code for flags, files or credentials that cannot work.
const USAGE: u8 = 2;

/// Least and most worker threads: with one, a long computation would hold up the probes; what more than these could do,
/// the API server bounds.
const WORKERS: (usize, usize) = (2, 8);

/// Reason why a process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration file.
    #[error(transparent)]
    Settings(#[from] settings::SettingsError),
    /// The log filter.
    #[error("log filter {filter:?}: {problem}; use for example \"info,kube=warn\"")]
    LogFilter {
        /// As given.
        filter: String,
        /// Description of the error.
        problem: String,
    },
    /// The log level.
    #[error(transparent)]
    LogLevel(#[from] args::UnknownLevel),
    /// The API server and the credentials.
    #[error("no usable Kubernetes credentials: {0}; set --kubeconfig or run in a pod with a ServiceAccount")]
    Credentials(String),
    /// A client cannot be made from the credentials.
    #[error("cannot make a Kubernetes client: {0}")]
    Client(#[source] Box<kube::Error>),
    /// The servers for health and metrics.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// As given.
        address: std::net::SocketAddr,
        /// Reason.
        source: std::io::Error,
    },
    /// The certificate for metrics.
    #[error("cannot serve metrics over TLS: {0}")]
    Tls(#[source] BoxError),
    /// A receiver of notifications.
    #[error(transparent)]
    Receiver(#[from] ReceiverError),
    /// The operating system.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

/// Runs a process from its flags to its exit code: 0 after an orderly end, 1 if `start` failed or did not end within
/// `grace` after a signal, 2 if flags, files or credentials cannot work.
///
/// `name` is the user agent and the field manager of all writes; it must not change between releases. All replicas act;
/// see [`run_elected`].
pub fn run_within<F, Fut, E>(grace: Duration, name: &'static str, args: &CommonArgs, start: F) -> ExitCode
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    run_process(ProcessKind { grace, reconciles: false }, name, args, start)
}

/// Mode of a process.
#[derive(Clone, Copy)]
struct ProcessKind {
    /// Time to end.
    grace: Duration,
    /// Whether it reconciles objects: its replicas exclude each other, and receivers are notified.
    reconciles: bool,
}

fn run_process<F, Fut, E>(process: ProcessKind, name: &'static str, args: &CommonArgs, start: F) -> ExitCode
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    // Counts the CPUs that the process may use, and the CPU limit of its container.
    let workers = workers(std::thread::available_parallelism().map_or(1, NonZero::get));
    let outcome = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let outcome = outcome.map(|runtime| {
        let outcome = runtime.block_on(Box::pin(serve(process, name, args, start)));
        // Whatever still runs has been given its time.
        runtime.shutdown_background();
        outcome
    });
    exit_code(name, outcome.map_err(StartError::from).flatten())
}

/// Worker threads for so many CPUs.
fn workers(cpus: usize) -> usize {
    cpus.clamp(WORKERS.0, WORKERS.1)
}

/// [`run_within`] [`GRACE`], for a program whose replicas exclude each other, where the configuration switches leader
/// election on: one of them acts, and `start` runs while this process leads; or they share the namespaces, and `start`
/// runs at once.
pub fn run_elected<F, Fut, E>(name: &'static str, args: &CommonArgs, start: F) -> ExitCode
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    // The futures of a program are large, and each that contains another would copy it.
    let start = |context| Box::pin(start(context));
    run_process(ProcessKind { grace: GRACE, reconciles: true }, name, args, async |context: Context| {
        if context.fence.shard().is_some() {
            shards::share(context, start).await
        } else {
            leader::lead(context, start).await
        }
    })
}

/// Runs a program of the operator that is no controller and ends by itself: 0 if `work` is done, 1 if it failed, 2 if
/// flags or credentials cannot work. It has a client and logs, and no servers. A signal ends it at once.
pub fn run_tool<F, Fut, E>(name: &'static str, args: &CommonArgs, work: F) -> ExitCode
where
    F: FnOnce(Client) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let start = async {
        init_logs(args, &OperatorConfiguration::default())?;
        let client = install_client(name, args).await?;
        Ok(match work(client).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, "failed");
                ExitCode::FAILURE
            }
        })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    exit_code(name, runtime.map_err(StartError::from).and_then(|runtime| runtime.block_on(start)))
}

/// Reports an error where logging may not be set up yet.
#[allow(clippy::print_stderr, reason = "the last words of a process that has no log yet")]
fn exit_code(name: &str, outcome: Result<ExitCode, StartError>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("{name}: {error}");
        ExitCode::from(USAGE)
    })
}

async fn serve<F, Fut, E>(
    process: ProcessKind,
    name: &'static str,
    args: &CommonArgs,
    start: F,
) -> Result<ExitCode, StartError>
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let shutdown = Shutdown::on_signals()?;
    let (mut settings, warnings) = match &args.config {
        Some(path) => settings::load(path)?,
        None => (OperatorConfiguration::default(), Vec::new()),
    };
    args.overrule(&mut settings);
    init_logs(args, &settings)?;
    for warning in warnings {
        warn!(%warning, "configuration");
    }
    // Fails only if a provider is installed already, which then is the one to use.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let scope = scope(args, &settings);
    let fence = Fence::new(&scope, &settings);
    let election = &settings.leader_election;
    let fence = if process.reconciles && election.enabled && election.shards { fence.sharded() } else { fence };
    let client = client(name, args, &fence).await?;
    let (readiness, metrics) = (Readiness::default(), Metrics::new());
    memory::follow(&metrics);
    let protection = if settings.server.metrics.secure {
        let authorizer = Authorizer::new(install_client(name, args).await?);
        Some((server::acceptor().map_err(StartError::Tls)?, authorizer))
    } else {
        None
    };
    server::start(args.health_address, args.metrics_address, &readiness, &metrics, protection).await?;
    fence.follow(client.clone(), &scope);
    info!(name, version = env!("CARGO_PKG_VERSION"), ?scope, "starting");
    let notifier = match process.reconciles {
        true => Notifier::new(name, &settings.notifications, &metrics)?,
        false => None,
    };
    let context = Context {
        name,
        client,
        notifier,
        settings: Arc::new(settings),
        scope,
        fence,
        readiness,
        metrics,
        shutdown: shutdown.clone(),
        concurrency: args.concurrency.get(),
    };
    Ok(until_done(Box::pin(start(context)), &shutdown, process.grace).await)
}

/// The deadline is ours alone: nothing that the controllers do or wait for can prolong it.
async fn until_done<E: std::fmt::Display>(
    work: impl Future<Output = Result<(), E>>,
    shutdown: &Shutdown,
    grace: Duration,
) -> ExitCode {
    tokio::select! {
        outcome = work => match outcome {
            Ok(()) => {
                info!("stopped");
                ExitCode::SUCCESS
            }
            Err(error) => {
                error!(%error, "failed");
                ExitCode::FAILURE
            }
        },
        () = shutdown.deadline(grace) => {
            warn!(seconds = grace.as_secs(), "did not stop in time; giving up what still runs");
            ExitCode::FAILURE
        }
    }
}

fn scope(args: &CommonArgs, settings: &OperatorConfiguration) -> Scope {
    let namespace = args.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    match namespace.or(settings.restricted_namespace()) {
        Some(namespace) => Scope::Namespace(namespace.to_owned()),
        None => Scope::Cluster,
    }
}

fn init_logs(args: &CommonArgs, settings: &OperatorConfiguration) -> Result<(), StartError> {
    let levels = levels(args.filter(settings)?)?;
    let subscriber = tracing_subscriber::registry().with(levels);
    let lines = tracing_subscriber::fmt::layer().log_internal_errors(true).with_writer(std::io::stderr);
    // Fails only if a subscriber is installed already, as in tests.
    let _ = match args.log_format.unwrap_or(settings.logging.format) {
        LogFormat::Json => subscriber.with(lines.json().flatten_event(true)).try_init(),
        LogFormat::Text => subscriber.with(lines.with_ansi(std::io::stderr().is_terminal())).try_init(),
    };
    Ok(())
}

/// Levels by target, and one without a target for all others.
fn levels(filter: &str) -> Result<Targets, StartError> {
    let invalid = |problem: String| StartError::LogFilter { filter: filter.to_owned(), problem };
    let parts: Vec<&str> = filter.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.iter().any(|part| part.contains('[')) {
        return Err(invalid("filters by spans and their fields are not supported".to_owned()));
    }
    parts.join(",").parse().map_err(|error: ParseError| invalid(error.to_string()))
}

async fn client(name: &str, args: &CommonArgs, fence: &Fence) -> Result<Client, StartError> {
    let credentials = |error: &dyn std::fmt::Display| StartError::Credentials(error.to_string());
    let named = args.kubeconfig.as_deref();
    let mut config = credentials::credentials(named).await.map_err(|error| credentials(&error))?;
    let agent = format!("{name}/{}", env!("CARGO_PKG_VERSION"));
    let agent = http::HeaderValue::try_from(agent).map_err(|e| credentials(&e))?;
    config.headers.push((http::header::USER_AGENT, agent));
    let builder = connection::client_builder(&config, fence).map_err(|error| StartError::Client(Box::new(error)))?;
    Ok(builder.build())
}

/// A client that no fence keeps from anything: for what belongs to the install itself, such as its certificates, and
/// not to the namespaces that it serves.
///
/// # Errors
/// If the credentials cannot be used.
pub async fn install_client(name: &str, args: &CommonArgs) -> Result<Client, StartError> {
    client(name, args, &Fence::unfenced()).await
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, process::ExitCode, time::Duration};

    use tokio::time::Instant;

    use super::{GRACE, Shutdown, levels, until_done, workers};

    #[test]
    fn threads_follow_the_cpu_limit() {
        let found = [1, 2, 3, 8, 64].map(workers);
        assert_eq!(found, [2, 2, 3, 8, 8]);
    }

    #[test]
    fn a_log_filter_has_levels_by_target() {
        for (filter, expected) in [
            ("info", "info"),
            ("info,", "info"),
            ("info, kube=warn", "kube=warn,info"),
            ("warn,hyper=off", "hyper=off,warn"),
            ("kube=warn", "kube=warn"),
        ] {
            assert_eq!(levels(filter).unwrap(), expected.parse().unwrap(), "{filter}");
        }
        for filter in ["info,kube=loud", "[reconcile]=debug", "controller_kit[reconcile{name=a}]=debug"] {
            assert!(levels(filter).unwrap_err().to_string().contains(filter), "{filter}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_stop_is_given_up_at_the_deadline() {
        let shutdown = Shutdown::manual();
        let (start, request) = (Instant::now(), shutdown.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(100)).await;
            request.request();
        });
        let code = until_done(std::future::pending::<Result<(), Infallible>>(), &shutdown, GRACE).await;
        assert_eq!(code, ExitCode::FAILURE);
        assert_eq!(start.elapsed(), Duration::from_secs(100) + GRACE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_outcome_of_the_work_is_the_exit_code() {
        let shutdown = Shutdown::manual();
        assert_eq!(until_done(async { Ok::<_, Infallible>(()) }, &shutdown, GRACE).await, ExitCode::SUCCESS);
        assert_eq!(until_done(async { Err("broken") }, &shutdown, GRACE).await, ExitCode::FAILURE);
    }
}
