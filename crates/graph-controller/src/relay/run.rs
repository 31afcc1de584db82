//! The loop of the relay.

use std::path::{Path, PathBuf};
use std::time::Duration;

use controller_kit::read::read;
use controller_kit::store::Packed;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::Api;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::apply::{HandOver, HandOverError, Recipient};
use super::{CONFIG_FILE, Report, STATUS_FILE, ending, progress};
use crate::request::decide::job::PROFILER;

/// How often the profiler is looked at.
const ROUND: Duration = Duration::from_secs(10);
/// How long after the profiler's end its files may be missing: a volume may show them late.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the profiler is, and for whom it works.
#[derive(Clone, Debug, clap::Args)]
pub struct RelayArgs {
    /// Folder in which the profiler leaves its output
    #[arg(long, value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Name of the request
    #[arg(long, value_name = "NAME")]
    pub request: String,
    /// Namespace of the request
    #[arg(long, value_name = "NAMESPACE")]
    pub request_namespace: String,
    /// Uid of the request
    #[arg(long, value_name = "UID")]
    pub request_uid: String,
    /// Name of this pod; a pod's host is called like the pod
    #[arg(long, value_name = "NAME", env = "HOSTNAME")]
    pub pod: String,
}

/// Why a relay gives up.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The profiler ended and did not say how.
    #[error("{} says neither success nor failure {}s after the profiler's end; see the profiler's log", path.display(), PATIENCE.as_secs())]
    NoEnd {
        /// The status file.
        path: PathBuf,
    },
    /// What it said could not be handed over.
    #[error(transparent)]
    HandOver(#[from] HandOverError),
}

/// Relays until the profiler has ended and its end is told.
///
/// # Errors
/// The profiler does not say how it ended, or nobody takes what it said.
pub async fn run(client: Client, args: RelayArgs) -> Result<(), RelayError> {
    let recipient = Recipient {
        name: args.request.clone(),
        namespace: args.request_namespace.clone(),
        uid: args.request_uid.clone(),
    };
    let relay = Relay { output: HandOver::new(client.clone(), recipient), client, args };
    let mut told = Report::Nothing;
    loop {
        let ended = relay.has_ended().await;
        let now = progress(&relay.file(STATUS_FILE).await.unwrap_or_default());
        if let Report::Progress(data) = &now
            && now != told
        {
            match relay.output.tell(data).await {
                Ok(()) => told = now,
                Err(error) => warn!(%error, "trying again"),
            }
        }
        if ended {
            return relay.tell_end().await;
        }
        sleep(ROUND).await;
    }
}

struct Relay {
    client: Client,
    output: HandOver,
    args: RelayArgs,
}

impl Relay {
    async fn file(&self, name: &str) -> Option<String> {
        tokio::fs::read_to_string(self.path(name)).await.ok()
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(&self.args.folder).join(name)
    }

    /// Whether the profiler's container has ended. An API server that does not answer will do so later.
    async fn has_ended(&self) -> bool {
        let pods: Api<Packed<Pod>> = Api::namespaced(self.client.clone(), &self.args.request_namespace);
        let pod = match read(|| format!("look at pod {}", self.args.pod), pods.get(&self.args.pod)).await {
            Ok(pod) => pod,
            Err(error) => {
                warn!(%error, "looking again");
                return false;
            }
        };
        let status = pod.unpack().ok().and_then(|pod| pod.status);
        let containers = status.and_then(|status| status.container_statuses).unwrap_or_default();
        let state = containers.into_iter().find(|container| container.name == PROFILER).and_then(|it| it.state);
        state.is_some_and(|state| state.terminated.is_some())
    }

    async fn tell_end(&self) -> Result<(), RelayError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.file(STATUS_FILE).await.unwrap_or_default();
            let mut failure = RelayError::NoEnd { path: self.path(STATUS_FILE) };
            if let Report::Final(data) = ending(&status, self.file(CONFIG_FILE).await.as_deref()) {
                match self.output.tell(&data).await {
                    Ok(()) => {
                        info!("the profiler's end is told");
                        return Ok(());
                    }
                    Err(error) => failure = error.into(),
                }
            }
            if Instant::now() >= deadline {
                return Err(failure);
            }
            sleep(Duration::from_secs(2)).await;
        }
    }
}
