//! I/O out: carries a decision on a checkpoint out, in an order that has a reason.

use api_types::{conditions::checkpoint as reason, names};
use controller_kit::{
    apply::{self, Applier, Desired, ObjectId, Outcome},
    failure::Class,
    read::Interruption,
};
use k8s_openapi::api::batch::v1::Job;
use kube::Resource;
use serde::Serialize;
use workload::checkpoint::artifact_version;

use super::{
    decide::{Decision, POD, Stage},
    deletion::{Cleanup, without_namespace},
    observe::Observed,
};

/// What became of a decision.
#[derive(Debug, PartialEq)]
pub struct Acted {
    /// Where the checkpoint stands.
    pub stage: Stage,
    /// What was made, in order.
    pub made: Vec<ObjectId>,
    /// Whether the API server refused an object.
    pub refused: bool,
}

/// Carries a decision out. The claim comes before the pod that mounts it, deletions come last.
///
/// # Errors
/// What goes away by itself.
pub async fn apply(applier: &Applier, observed: &Observed, decision: Decision) -> Result<Acted, Interruption> {
    let mut acted = Acted { stage: decision.stage, made: Vec::new(), refused: false };
    if let Stage::Failed { reason: reason::JOB_DELETED | reason::JOB_DELETED_EARLY, .. } = acted.stage
        && job_exists(applier, observed).await?
    {
        // The cache is behind; a checkpoint must not be given up on its word.
        acted.stage = Stage::Capturing { waits: POD.to_owned(), stalled: None };
        return Ok(acted);
    }
    let mut blocked = None;
    if let Some(claim) = &decision.make_claim
        && let Err(error) = make(applier, claim, observed, &mut acted).await
    {
        blocked = claim_refused(error)?;
        acted.refused = blocked.is_some();
    }
    // The next look tries again.
    let job = decision.make_job.as_ref().filter(|_| blocked.is_none());
    acted.stage = blocked.unwrap_or(acted.stage);
    if let Some(job) = job {
        match make(applier, job, observed, &mut acted).await {
            Ok(()) => {}
            Err(error) => (acted.stage, acted.refused) = (job_refused(error)?, true),
        }
    }
    if let Some(capture) = &decision.make_capture {
        match make(applier, capture, observed, &mut acted).await {
            Ok(()) => {}
            Err(error) => (acted.stage, acted.refused) = (capture_refused(error)?, true),
        }
    }
    if let Some(capture) = &decision.delete_capture {
        applier.delete(capture, &observed.uid).await?;
    }
    for job in &decision.delete_jobs {
        applier.delete(job, &observed.uid).await?;
    }
    Ok(acted)
}

/// Carries out what a deletion needs, and returns what came of it: where no Job can be made any more, that is the end.
///
/// # Errors
/// What the API server answered.
pub async fn clean_up(applier: &Applier, observed: &Observed, cleanup: Cleanup) -> Result<Cleanup, Interruption> {
    match &cleanup {
        Cleanup::Start(job) => match applier.apply(&Desired::of(job.as_ref(), &observed.uid)?, None).await {
            Err(error) if error.is_not_found() => return Ok(without_namespace(observed)),
            Err(error) if error.class() == Class::Foreign => {}
            other => drop(other?),
        },
        Cleanup::Stop(jobs) => {
            for job in jobs {
                applier.delete(job, &observed.uid).await?;
            }
        }
        Cleanup::Retry(job) | Cleanup::Done { finished: Some(job), .. } => {
            applier.delete(job.as_ref(), &observed.uid).await?;
        }
        Cleanup::Done { finished: None, .. } | Cleanup::Wait => {}
    }
    Ok(cleanup)
}

async fn job_exists(applier: &Applier, observed: &Observed) -> Result<bool, Interruption> {
    let name = names::checkpoint_job(&observed.id, artifact_version(&observed.checkpoint));
    Ok(applier.find::<Job>(&observed.namespace, &name).await?.is_some())
}

async fn make<K>(applier: &Applier, object: &K, observed: &Observed, acted: &mut Acted) -> Result<(), apply::Error>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let desired = Desired::of(object, &observed.uid)?;
    if let Outcome::Created(_) = applier.apply(&desired, None).await? {
        acted.made.push(desired.id().clone());
    }
    Ok(())
}

fn claim_refused(error: apply::Error) -> Result<Option<Stage>, Interruption> {
    let message = error.to_string();
    match error.class() {
        // Somebody made one meanwhile.
        Class::Foreign => Ok(None),
        Class::Invalid => Ok(Some(Stage::Blocked { reason: reason::NO_STORAGE, message })),
        Class::Forbidden => Ok(Some(Stage::Blocked { reason: reason::FORBIDDEN, message })),
        Class::Webhook => Ok(Some(Stage::Waiting(message))),
        Class::Transient => Err(error.into()),
    }
}

fn job_refused(error: apply::Error) -> Result<Stage, Interruption> {
    let message = error.to_string();
    match error.class() {
        Class::Foreign => Ok(Stage::Blocked { reason: reason::NAME_TAKEN, message }),
        Class::Invalid => Ok(Stage::Mistaken { reason: reason::INVALID_SPEC, message }),
        Class::Forbidden => Ok(Stage::Blocked { reason: reason::FORBIDDEN, message }),
        Class::Webhook => Ok(Stage::Waiting(message)),
        Class::Transient => Err(error.into()),
    }
}

fn capture_refused(error: apply::Error) -> Result<Stage, Interruption> {
    let message = error.to_string();
    match error.class() {
        Class::Foreign => Ok(Stage::Failed { reason: reason::CAPTURE_NAME_TAKEN, message }),
        Class::Invalid => Ok(Stage::Failed { reason: reason::CAPTURE_REFUSED, message }),
        Class::Forbidden => Ok(Stage::Capturing { waits: message, stalled: Some(reason::FORBIDDEN) }),
        Class::Webhook => Ok(Stage::Capturing { waits: message, stalled: None }),
        Class::Transient => Err(error.into()),
    }
}
