//! The Leases of the members on the API server.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use tokio::time::timeout;
use tracing::warn;

use super::{LeaseAnswer, LeaseRequest, LeaseTarget, assignment::Assignment, member::Record};
use crate::lease::hold;

/// Annotation of the elected Lease: who owns what.
pub const ASSIGNMENT: &str = "operator.dynamo/shards";

/// Annotation of a member Lease: the last epoch that its holder has acknowledged.
const ACKNOWLEDGED: &str = "operator.dynamo/acknowledged";

/// Label of a member Lease: the program.
const CONTROLLER: &str = "operator.dynamo/controller";

/// One request; well below the time after which a member stops.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The Leases of one controller.
#[derive(Clone)]
pub(super) struct Leases {
    api: Api<Lease>,
    program: &'static str,
    /// Name of the elected Lease.
    elected: String,
}

/// Result of a request, and the Lease after it.
pub(super) struct LeaseDone {
    pub(super) target: LeaseTarget,
    pub(super) started: Instant,
    pub(super) answer: LeaseAnswer,
    pub(super) lease: Option<Lease>,
}

impl Leases {
    pub(super) fn new(client: Client, namespace: &str, program: &'static str, elected: String) -> Self {
        Self { api: Api::namespaced(client, namespace), program, elected }
    }

    /// Name of a Lease.
    pub(super) fn name(&self, target: LeaseTarget) -> String {
        match target {
            LeaseTarget::Elected => self.elected.clone(),
            LeaseTarget::Slot(number) => format!("{}-member-{number}", self.elected),
        }
    }

    /// Sends a request. `known` is the Lease as it was seen last; a write keeps what others have put into it.
    pub(super) async fn send(self, request: LeaseRequest, known: Option<Lease>) -> LeaseDone {
        let (target, started) = (request.target(), Instant::now());
        let outcome = timeout(REQUEST_TIMEOUT, self.exchange(request, known)).await;
        let (answer, lease) = match outcome {
            Ok(Ok(done)) => done,
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => (LeaseAnswer::Conflict, None),
            Ok(Err(error)) => {
                warn!(lease = self.name(target), %error, "failed to read or write the Lease; trying again");
                (LeaseAnswer::Unknown, None)
            }
            Err(_) => {
                let seconds = REQUEST_TIMEOUT.as_secs();
                warn!(lease = self.name(target), seconds, "the API server did not answer in time; trying again");
                (LeaseAnswer::Unknown, None)
            }
        };
        LeaseDone { target, started, answer, lease }
    }

    async fn exchange(
        &self,
        request: LeaseRequest,
        known: Option<Lease>,
    ) -> Result<(LeaseAnswer, Option<Lease>), kube::Error> {
        let name = self.name(request.target());
        match request {
            LeaseRequest::Read(_) => {
                let lease = self.api.get_opt(&name).await?;
                Ok((LeaseAnswer::Found(lease.as_ref().map(record)), lease))
            }
            LeaseRequest::Write { target, replaces, holder, acknowledged, assignment } => {
                let base = known.filter(|lease| replaces == Some(version(lease)));
                let lease = match (replaces, base) {
                    (None, _) => self.made(target, Lease::default()),
                    (Some(_), Some(base)) => self.made(target, base),
                    // It has changed in the meantime.
                    (Some(_), None) => return Ok((LeaseAnswer::Conflict, None)),
                };
                let lease = filled(lease, target, holder, acknowledged, assignment);
                let written = match replaces {
                    None => self.api.create(&PostParams::default(), &lease).await?,
                    Some(_) => self.api.replace(&name, &PostParams::default(), &lease).await?,
                };
                Ok((LeaseAnswer::Written(record(&written)), Some(written)))
            }
        }
    }

    fn made(&self, target: LeaseTarget, mut lease: Lease) -> Lease {
        if lease.metadata.name.is_none() {
            lease.metadata = ObjectMeta { name: Some(self.name(target)), ..ObjectMeta::default() };
        }
        if matches!(target, LeaseTarget::Slot(_)) {
            lease.labels_mut().insert(CONTROLLER.to_owned(), self.program.to_owned());
        }
        lease
    }
}

/// A Lease with a new holder, or a renewal.
fn filled(
    mut lease: Lease,
    target: LeaseTarget,
    holder: String,
    acknowledged: u64,
    assignment: Option<Assignment>,
) -> Lease {
    let annotations = lease.annotations_mut();
    match target {
        LeaseTarget::Slot(_) => {
            annotations.insert(ACKNOWLEDGED.to_owned(), acknowledged.to_string());
        }
        LeaseTarget::Elected => match assignment.and_then(|assignment| serde_json::to_string(&assignment).ok()) {
            Some(text) => drop(annotations.insert(ASSIGNMENT.to_owned(), text)),
            None => drop(annotations.remove(ASSIGNMENT)),
        },
    }
    hold(&mut lease, &holder);
    lease
}

/// Returns the content of a Lease. An assignment that cannot be read counts as none.
pub(super) fn record(lease: &Lease) -> Record {
    let annotation = |name: &str| lease.annotations().get(name);
    Record {
        holder: lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default(),
        version: version(lease),
        acknowledged: annotation(ACKNOWLEDGED).and_then(|text| text.parse().ok()).unwrap_or_default(),
        assignment: annotation(ASSIGNMENT)
            .and_then(|text| serde_json::from_str::<Assignment>(text).ok())
            .filter(Assignment::is_complete),
    }
}

fn version(lease: &Lease) -> u64 {
    lease.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}
