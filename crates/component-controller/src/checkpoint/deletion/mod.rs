//! A checkpoint that is being deleted: what it kept is removed, as far as that can be done. Its deletion never waits for ever.

use std::collections::BTreeMap;

use api_types::{annotations, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use workload::{JobEnd, checkpoint::render_cleanup_job};

use super::{decide::living, observe::Observed};

/// How long removal is tried.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// What a deletion needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Cleanup {
    /// What is captured goes first: it would go on to write what is being removed.
    Stop(Vec<Job>),
    /// The Job that removes what was kept.
    Start(Box<Job>),
    /// It runs.
    Wait,
    /// It failed, or is left over from another checkpoint: it goes, and another one comes.
    Retry(Box<Job>),
    /// Nothing more can be done.
    Done {
        /// The Job that has done it, or shall no longer try.
        finished: Option<Box<Job>>,
        /// What is left behind, and why; `None` if nothing is.
        left: Option<String>,
    },
}

/// Decides on a checkpoint that is being deleted. Only what a graph made removes what it kept: a checkpoint that a user wrote
/// may be one of several for the same artifact. What has an elder of its identifier has kept nothing, and what the elder keeps stays.
pub fn clean_up(observed: &Observed, now: Timestamp) -> Cleanup {
    let metadata = &observed.checkpoint.metadata;
    let automatic = metadata.annotations.as_ref().and_then(|all| all.get(annotations::AUTO_CHECKPOINT));
    if automatic.map(String::as_str) != Some(labels::TRUE) || observed.elder.is_some() {
        return Cleanup::Done { finished: None, left: None };
    }
    let left = |why: String| Cleanup::Done { finished: None, left: Some(left_behind(observed, &why)) };
    let Some(storage) = observed.place.storage() else {
        return left(observed.place.hindrance(&observed.namespace).unwrap_or_default());
    };
    let image = observed.settings.as_ref().map(|settings| settings.cleanup_image.as_str()).unwrap_or_default();
    let Some(mut job) = render_cleanup_job(&observed.checkpoint, &observed.id, storage, image) else {
        return left("its identifier is not the name of a folder".to_owned());
    };
    // Without an owner: a deletion in the foreground removes children before their work is done.
    job.metadata.annotations = Some(BTreeMap::from([(annotations::CLEANUP_FOR.to_owned(), observed.uid.clone())]));
    let captures = living(observed.job.iter().chain(&observed.other_jobs));
    if !is_late(observed, now) && (observed.is_captured || !captures.is_empty()) {
        return Cleanup::Stop(captures);
    }
    let Some(live) = &observed.cleanup else {
        return if is_late(observed, now) {
            left("it could not be removed in time".to_owned())
        } else {
            Cleanup::Start(Box::new(job))
        };
    };
    if live.metadata.labels.as_ref().and_then(|all| all.get(labels::CHECKPOINT_ID)) != Some(&observed.id) {
        let name = live.metadata.name.as_deref().unwrap_or_default();
        return left(format!("Job {name} belongs to somebody else"));
    }
    let mine = live.metadata.annotations.as_ref().and_then(|all| all.get(annotations::CLEANUP_FOR));
    let mine = mine.is_some_and(|uid| *uid == observed.uid);
    match (ended(live), mine) {
        (Some(true), true) => Cleanup::Done { finished: Some(Box::new(live.clone())), left: None },
        (None, _) if !is_late(observed, now) => Cleanup::Wait,
        (Some(_), _) if !is_late(observed, now) => Cleanup::Retry(Box::new(live.clone())),
        _ => {
            let name = live.metadata.name.as_deref().unwrap_or_default();
            let left = left_behind(observed, &format!("Job {name} did not remove it in time"));
            // It must not go on: another checkpoint of this identifier may come.
            Cleanup::Done { finished: Some(Box::new(live.clone())), left: Some(left) }
        }
    }
}

/// The API server makes no Job any more, because the namespace goes as well.
pub fn without_namespace(observed: &Observed) -> Cleanup {
    let why = format!("namespace {} is being deleted, and nothing can run in it any more", observed.namespace);
    Cleanup::Done { finished: None, left: Some(left_behind(observed, &why)) }
}

fn left_behind(observed: &Observed, why: &str) -> String {
    format!("artifact {}: {why}", observed.id)
}

/// When to look again although nothing may have told.
pub fn patience(observed: &Observed, now: Timestamp) -> Option<SignedDuration> {
    let since = observed.checkpoint.metadata.deletion_timestamp.as_ref()?.0;
    Some((PATIENCE - now.duration_since(since)).max(SignedDuration::from_secs(1)))
}

fn is_late(observed: &Observed, now: Timestamp) -> bool {
    let since = observed.checkpoint.metadata.deletion_timestamp.as_ref();
    since.is_some_and(|since| now.duration_since(since.0) > PATIENCE)
}

/// Whether a Job ended well; `None` if it has not ended.
fn ended(job: &Job) -> Option<bool> {
    let well = JobEnd::Complete.of(job).map(|_| true);
    well.or_else(|| JobEnd::Failed.of(job).map(|_| false))
}

#[cfg(test)]
mod tests;
