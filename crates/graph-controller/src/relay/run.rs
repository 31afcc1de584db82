//! The loop of the relay: hands over the profiler's reports in a ConfigMap that belongs to the request.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use api_types::{names, owner, v1beta1::DynamoGraphDeploymentRequest};
use controller_kit::{
    apply::{Applier, ApplyOutcome, Desired, RequestError},
    failure::Class,
    metrics::Metrics,
    request::read,
    store::Packed,
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Client, api::Api};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::{CONFIG_FILE, STATUS_FILE, ending, progress};
use crate::request::plan::{generated::tracking_labels, overrides::PROFILER};

/// Interval of the checks of the profiler.
const ROUND: Duration = Duration::from_secs(10);
/// Time after the profiler's end for which its files may be missing: a volume may show them late.
const PATIENCE: Duration = Duration::from_secs(120);

/// Pauses between two attempts: the first, and the longest.
const RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// State of the profiler, and its request.
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

/// Reason for the failure of a relay.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The profiler ended and did not say how.
    #[error("{} has neither success nor failure {}s after the profiler's end; see the profiler's log", path.display(), PATIENCE.as_secs())]
    NoEnd {
        /// The status file.
        path: PathBuf,
    },
    /// The API server refused its report, or the name is taken by a foreign object, which was not touched.
    #[error(transparent)]
    Write(#[from] RequestError),
    /// An object of an earlier request has to go first.
    #[error("ConfigMap {name} is in the way: {reason}")]
    InTheWay {
        /// The ConfigMap.
        name: String,
        /// Reason for the wait.
        reason: String,
    },
}

impl RelayError {
    /// Whether the answer stays the same unless an object changes.
    fn is_lasting(&self) -> bool {
        matches!(self, Self::Write(error) if matches!(error.class(), Class::Invalid | Class::Foreign))
    }
}

/// Relays until the profiler has ended and its end is reported.
///
/// # Errors
/// The profiler does not report its end, or the API server rejects the report.
pub async fn run(client: Client, args: RelayArgs) -> Result<(), RelayError> {
    let relay = Relay::new(client, args);
    let mut reported = None;
    loop {
        let ended = relay.has_ended().await;
        let now = progress(&relay.file(STATUS_FILE).await.unwrap_or_default());
        if let Some(data) = &now
            && now != reported
        {
            match relay.publish(data).await {
                Ok(()) => reported = now,
                Err(error) => warn!(%error, "trying again"),
            }
        }
        if ended {
            let data = relay.end().await?;
            hand_over(async || relay.publish(&data).await).await?;
            info!("handed over the end of the profiler");
            return Ok(());
        }
        sleep(ROUND).await;
    }
}

/// Field manager of the ConfigMap.
const MANAGER: &str = "dynamo-output-relay";

/// Copies what a profiler says into the ConfigMap of its request.
pub struct Relay {
    client: Client,
    applier: Applier,
    args: RelayArgs,
}

impl Relay {
    /// Reads and writes through `client`.
    pub fn new(client: Client, args: RelayArgs) -> Self {
        let applier = Applier::new(client.clone(), MANAGER, Metrics::new(), Vec::new());
        Self { client, applier, args }
    }

    async fn file(&self, name: &str) -> Option<String> {
        tokio::fs::read_to_string(self.path(name)).await.ok()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.args.folder.join(name)
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

    /// Returns the data that the profiler left behind, as soon as all of it exists.
    async fn end(&self) -> Result<BTreeMap<String, String>, RelayError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.file(STATUS_FILE).await.unwrap_or_default();
            if let Some(data) = ending(&status, self.file(CONFIG_FILE).await.as_deref()) {
                return Ok(data);
            }
            if Instant::now() >= deadline {
                return Err(RelayError::NoEnd { path: self.path(STATUS_FILE) });
            }
            sleep(RETRY).await;
        }
    }

    /// Writes `data` and nothing else into the request's ConfigMap, and makes it if it is missing.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the name is taken by an object that is not the request's; otherwise what the API server
    /// answered.
    pub async fn publish(&self, data: &BTreeMap<String, String>) -> Result<(), RelayError> {
        let desired = Desired::of(&self.config_map(data), &self.args.request_uid)?;
        let live = self.applier.find::<ConfigMap>(&desired.id().namespace, &desired.id().name).await?;
        match self.applier.apply(&desired, live.as_ref()).await? {
            ApplyOutcome::Waiting { reason } => Err(RelayError::InTheWay { name: desired.id().name.clone(), reason }),
            ApplyOutcome::Created(_) | ApplyOutcome::Updated(_) | ApplyOutcome::Unchanged => Ok(()),
        }
    }

    fn config_map(&self, data: &BTreeMap<String, String>) -> ConfigMap {
        let RelayArgs { request: name, request_namespace: namespace, request_uid: uid, .. } = &self.args;
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(names::profiling_output(name)),
                namespace: Some(namespace.clone()),
                labels: Some(tracking_labels(name, namespace)),
                owner_references: Some(vec![owner::controller::<DynamoGraphDeploymentRequest>(name, uid)]),
                ..ObjectMeta::default()
            },
            data: Some(data.clone()),
            ..ConfigMap::default()
        }
    }
}

/// Tries until the output is taken: what was profiled for hours exists nowhere else. Failures that end by themselves,
/// or when a right or a quota is given, are tried again until the pod is ended; content that is refused and a name that
/// is taken, for [`PATIENCE`].
async fn hand_over(mut write: impl AsyncFnMut() -> Result<(), RelayError>) -> Result<(), RelayError> {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = RETRY;
    loop {
        let Err(error) = write().await else { return Ok(()) };
        if error.is_lasting() && Instant::now() >= deadline {
            return Err(error);
        }
        warn!(%error, "failed to hand over the end of the profiler; trying again");
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_RETRY);
    }
}

#[cfg(test)]
mod tests {
    use controller_kit::apply::{ObjectId, RequestError};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::Status;

    use super::*;

    fn answer(code: u16, reason: &str) -> RelayError {
        let object = ObjectId::named::<ConfigMap>("team-a", "dgdr-output-chat");
        let source = kube::Error::Api(Status::failure("x", reason).with_code(code).boxed()).into();
        RelayError::Write(RequestError::Api { action: "apply", object, source })
    }

    /// Defect: an API server that did not answer for two minutes cost a profile of hours.
    #[tokio::test(start_paused = true)]
    async fn a_profile_outlives_a_long_outage_of_the_api_server() {
        for (code, reason) in [(503, "ServiceUnavailable"), (403, "Forbidden"), (500, "InternalError")] {
            let begin = Instant::now();
            let outage = Duration::from_secs(3600);
            let write = async || if begin.elapsed() < outage { Err(answer(code, reason)) } else { Ok(()) };
            hand_over(write).await.unwrap();
            assert!(begin.elapsed() < outage + LONGEST_RETRY, "{code}: tried again soon after the outage");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn content_that_is_refused_ends_the_relay() {
        let begin = Instant::now();
        assert!(hand_over(async || Err(answer(422, "Invalid"))).await.is_err());
        assert!(begin.elapsed() >= PATIENCE);
    }
}
