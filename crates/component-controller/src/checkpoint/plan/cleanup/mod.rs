//! Plans the deletion of a checkpoint: its artifact is removed by a Job, within a deadline.

use std::collections::BTreeMap;

use api_types::{annotations, labels};
use jiff::Timestamp;
use rendering::{JobEnd, checkpoint::render_cleanup_job};

use crate::checkpoint::{
    model::{CheckpointObserved, Cleanup, left_behind},
    plan::not_deleted,
    requeue::cleanup_is_late,
};

/// Plans the next step of a deletion. Only the artifact of a checkpoint that a graph created is removed: a checkpoint
/// of a user may be one of several for the same artifact. A checkpoint with an elder of its identifier has no artifact;
/// that of the elder stays.
pub fn plan(observed: &CheckpointObserved, now: Timestamp) -> Cleanup {
    let metadata = &observed.checkpoint.metadata;
    let automatic = metadata.annotations.as_ref().and_then(|all| all.get(annotations::AUTO_CHECKPOINT));
    if automatic.map(String::as_str) != Some(labels::TRUE) || observed.elder.is_some() {
        return Cleanup::Done { finished: None, left: None };
    }
    let left = |why: String| Cleanup::Done { finished: None, left: Some(left_behind(observed, &why)) };
    let Some(storage) = observed.location.storage() else {
        return left(observed.location.hindrance(&observed.namespace).unwrap_or_default());
    };
    let image = observed.config.as_ref().map(|config| config.cleanup_image.as_str()).unwrap_or_default();
    let Some(mut job) = render_cleanup_job(&observed.checkpoint, &observed.id, storage, image) else {
        return left("its identifier is not the name of a folder".to_owned());
    };
    // Without an owner: a foreground deletion would remove the Job before it has ended.
    job.metadata.annotations = Some(BTreeMap::from([(annotations::CLEANUP_FOR.to_owned(), observed.uid.clone())]));
    let late = cleanup_is_late(observed, now);
    let captures = not_deleted(observed.job.iter().chain(&observed.other_jobs));
    if !late && (observed.is_captured || !captures.is_empty()) {
        return Cleanup::Stop(captures);
    }
    let Some(live) = &observed.cleanup else {
        return if late { left("it could not be removed in time".to_owned()) } else { Cleanup::Start(Box::new(job)) };
    };
    let name = live.metadata.name.as_deref().unwrap_or_default();
    if live.metadata.labels.as_ref().and_then(|all| all.get(labels::CHECKPOINT_ID)) != Some(&observed.id) {
        return left(format!("Job {name} has another owner"));
    }
    let mine = live.metadata.annotations.as_ref().and_then(|all| all.get(annotations::CLEANUP_FOR));
    let mine = mine.is_some_and(|uid| *uid == observed.uid);
    let succeeded = JobEnd::Complete.of(live).is_some();
    if succeeded && mine {
        Cleanup::Done { finished: Some(Box::new(live.clone())), left: None }
    } else if late {
        let left = left_behind(observed, &format!("Job {name} did not remove it in time"));
        // It must not continue: another checkpoint of this identifier may be created.
        Cleanup::Done { finished: Some(Box::new(live.clone())), left: Some(left) }
    } else if succeeded || JobEnd::Failed.of(live).is_some() {
        Cleanup::Retry(Box::new(live.clone()))
    } else {
        Cleanup::Wait
    }
}

#[cfg(test)]
mod tests;
