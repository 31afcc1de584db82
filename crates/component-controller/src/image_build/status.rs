//! Computes the status of an image build from what was applied, never from what is desired.

use api_types::{
    conditions::{self, image_build as reason},
    v1alpha1::DynamoComponentStatus,
};
use controller_kit::conditions::{Progress, Status, is_true, set_condition, set_progress};
use jiff::Timestamp;

use super::model::{BuildPhase, ImageBuildObserved, ImageBuildObstacle};

/// Computes the whole status.
pub fn status(observed: &ImageBuildObserved, phase: &BuildPhase, now: Timestamp) -> DynamoComponentStatus {
    let live = observed.component.status.clone().unwrap_or_default();
    let generation = observed.component.metadata.generation;
    let mut all = live.conditions.clone();
    let image = observed.image.as_deref().unwrap_or_default();
    let mut set = |type_, value: Status, reason: &str, message: &str| {
        set_condition(&mut all, type_, value, reason, message, generation, now);
    };
    let plain = reason::RECONCILING;
    if let Some(Ok(exists)) = observed.exists {
        set(reason::CHECKED, Status::from(exists), plain, image);
    }
    match &observed.manifest.outcome {
        Some(Ok(_)) => set(reason::MANIFEST_READ, Status::True, plain, ""),
        Some(Err(obstacle)) => {
            set(reason::MANIFEST_READ, Status::False, reason_of_obstacle(obstacle), obstacle.message());
        }
        None => {}
    }
    let (building, exists) = match phase {
        BuildPhase::Building { active: true, .. } => (Status::True, Status::False),
        BuildPhase::Building { active: false, .. } | BuildPhase::Queued(_) => (Status::Unknown, Status::False),
        BuildPhase::Available => (Status::False, Status::True),
        BuildPhase::Failed { .. } => (Status::False, Status::False),
        BuildPhase::Obstructed(_) => (Status::False, Status::Unknown),
    };
    let why = reason_of(phase);
    let job = if observed.job.is_some() { observed.job_name.as_str() } else { "" };
    match phase {
        // The Job that built the image stays recorded.
        BuildPhase::Available if job.is_empty() => {
            if !is_true(&live.conditions, reason::EXISTS) {
                set(reason::BUILDING, building, plain, "");
            }
        }
        BuildPhase::Failed { message, .. } => set(reason::BUILDING, building, why, message),
        BuildPhase::Building { diagnosis: Some(diagnosis), .. } => {
            set(reason::BUILDING, building, why, &format!("Job {job}: {}", diagnosis.message));
        }
        _ => set(reason::BUILDING, building, plain, job),
    }
    set(reason::EXISTS, exists, plain, image);
    let progress = progress(phase, image);
    let (available, message) = match &progress {
        Progress::Current => (Status::True, ""),
        Progress::Working { message, .. } => (Status::Unknown, message.as_str()),
        Progress::Stuck { message, .. } => (Status::False, message.as_str()),
    };
    set(reason::AVAILABLE, available, why, message);
    let ready = Status::from(*phase == BuildPhase::Available);
    set(conditions::READY, ready, why, message);
    set_progress(&mut all, &progress, generation, now);
    let manifest = observed.manifest.outcome.clone().and_then(Result::ok).or_else(|| live.manifest.clone());
    DynamoComponentStatus { observed_generation: generation, conditions: all, manifest }
}

/// The status of a component whose spec cannot be read.
pub fn unreadable(
    live: &DynamoComponentStatus,
    generation: Option<i64>,
    message: &str,
    now: Timestamp,
) -> DynamoComponentStatus {
    let mut all = live.conditions.clone();
    for type_ in [reason::AVAILABLE, conditions::READY] {
        set_condition(&mut all, type_, Status::False, reason::INVALID, message, generation, now);
    }
    let stuck = Progress::stuck(reason::INVALID, message);
    set_progress(&mut all, &stuck, generation, now);
    DynamoComponentStatus { observed_generation: generation, conditions: all, manifest: live.manifest.clone() }
}

fn reason_of(phase: &BuildPhase) -> &'static str {
    match phase {
        BuildPhase::Building { diagnosis: Some(diagnosis), .. } => diagnosis.cause.reason(),
        BuildPhase::Available | BuildPhase::Building { diagnosis: None, .. } => reason::RECONCILING,
        BuildPhase::Queued(_) => reason::QUEUED,
        BuildPhase::Obstructed(obstacle) => reason_of_obstacle(obstacle),
        BuildPhase::Failed { late: true, .. } => reason::TIMEOUT,
        BuildPhase::Failed { late: false, .. } => reason::BUILD_FAILED,
    }
}

fn reason_of_obstacle(obstacle: &ImageBuildObstacle) -> &'static str {
    match obstacle {
        ImageBuildObstacle::Invalid(_) => reason::INVALID,
        ImageBuildObstacle::Blocked(_) => reason::BLOCKED,
        ImageBuildObstacle::Unreachable(_) => reason::UNREACHABLE,
    }
}

fn progress(phase: &BuildPhase, image: &str) -> Progress {
    let reason = reason_of(phase);
    match phase {
        BuildPhase::Available => Progress::Current,
        BuildPhase::Building { diagnosis: None, .. } => Progress::working(reason, format!("building {image}")),
        BuildPhase::Building { diagnosis: Some(diagnosis), .. } => {
            Progress::working(reason, format!("building {image}; {}", diagnosis.message))
        }
        BuildPhase::Queued(message) | BuildPhase::Obstructed(ImageBuildObstacle::Unreachable(message)) => {
            Progress::working(reason, message)
        }
        BuildPhase::Obstructed(ImageBuildObstacle::Invalid(message) | ImageBuildObstacle::Blocked(message))
        | BuildPhase::Failed { message, .. } => Progress::stuck(reason, message),
    }
}

#[cfg(test)]
mod tests {
    use api_types::v1alpha1::DynamoComponent;
    use controller_kit::{conditions::find, pods::JobWaits};
    use rendering::{PodCause, PodDiagnosis};

    use super::*;
    use crate::image_build::image::{is_known, was_built_by};

    fn observed(exists: Option<Result<bool, ImageBuildObstacle>>) -> ImageBuildObserved {
        ImageBuildObserved {
            component: DynamoComponent::new("c", Default::default()),
            image: Ok("r/i:t".to_owned()),
            exists,
            manifest: Default::default(),
            job_name: "j".to_owned(),
            job: None,
            other_jobs: Vec::new(),
            rendered: None,
            log: None,
            waits: JobWaits::default(),
        }
    }

    fn status_of(phase: &BuildPhase, exists: Option<Result<bool, ImageBuildObstacle>>) -> DynamoComponentStatus {
        let mut observed = observed(exists);
        observed.component.metadata.generation = Some(2);
        status(&observed, phase, Timestamp::UNIX_EPOCH)
    }

    fn one(status: &DynamoComponentStatus, type_: &str) -> String {
        let found = find(&status.conditions, type_).unwrap();
        format!("{} {} {}", found.status, found.reason, found.message)
    }

    /// Components find the image's name in the message.
    #[test]
    fn the_message_of_a_true_condition_is_the_image() {
        let done = status_of(&BuildPhase::Available, Some(Ok(true)));
        assert_eq!(one(&done, reason::EXISTS), "True Reconciling r/i:t");
        assert_eq!(one(&done, reason::CHECKED), "True Reconciling r/i:t");
        assert_eq!(one(&done, conditions::READY), "True Reconciling ");
        assert!(is_known(&done, "r/i:t") && !is_known(&done, "r/i:u"));
        assert_eq!(done.observed_generation, Some(2));
    }

    /// A component whose spec could not be read had no status at all.
    #[test]
    fn a_spec_that_cannot_be_read_is_reported() {
        let before = status_of(&BuildPhase::Available, Some(Ok(true)));
        let status = unreadable(&before, Some(3), "spec.imageBuildTimeout: invalid", Timestamp::UNIX_EPOCH);
        assert_eq!(one(&status, conditions::READY), "False InvalidSpec spec.imageBuildTimeout: invalid");
        assert_eq!(one(&status, conditions::STALLED), "True InvalidSpec spec.imageBuildTimeout: invalid");
        assert!(is_known(&status, "r/i:t"), "the built image stays recorded");
        assert_eq!(status.observed_generation, Some(3));
    }

    #[test]
    fn a_failed_build_is_false_and_not_unknown() {
        let failed = status_of(&BuildPhase::Failed { late: true, message: "Job j: late".to_owned() }, None);
        assert_eq!(one(&failed, reason::BUILDING), "False Timeout Job j: late");
        assert_eq!(one(&failed, reason::AVAILABLE), "False Timeout Job j: late");
        assert_eq!(one(&failed, conditions::STALLED), "True Timeout Job j: late");
    }

    #[test]
    fn the_diagnosis_of_a_pod_is_reported() {
        let message = "pod j-1: container builder: image r/engine:1 cannot be pulled: not found".to_owned();
        let diagnosis = Some(PodDiagnosis { cause: PodCause::ImagePull, message: message.clone() });
        let mut building = observed(None);
        building.job = Some(Default::default());
        let phase = BuildPhase::Building { active: true, diagnosis };
        let waits = status(&building, &phase, Timestamp::UNIX_EPOCH);
        assert_eq!(one(&waits, reason::BUILDING), format!("True ImagePullFailed Job j: {message}"));
        let text = format!("ImagePullFailed building r/i:t; {message}");
        assert_eq!(one(&waits, reason::AVAILABLE), format!("Unknown {text}"));
        assert_eq!(one(&waits, conditions::READY), format!("False {text}"));
        assert_eq!(one(&waits, conditions::RECONCILING), format!("True {text}"));
        let phase = BuildPhase::Building { active: true, diagnosis: None };
        building.component.status = Some(waits);
        let runs = status(&building, &phase, Timestamp::UNIX_EPOCH);
        assert_eq!(one(&runs, reason::BUILDING), "True Reconciling j");
        assert_eq!(one(&runs, reason::AVAILABLE), "Unknown Reconciling building r/i:t");
    }

    #[test]
    fn the_job_that_built_the_image_is_recorded() {
        let mut built = observed(None);
        built.job = Some(Default::default());
        let first = status(&built, &BuildPhase::Available, Timestamp::UNIX_EPOCH);
        assert!(was_built_by(&first, "j"));
        let mut known = observed(None);
        known.component.status = Some(first.clone());
        let later = status(&known, &BuildPhase::Available, Timestamp::UNIX_EPOCH);
        assert!(was_built_by(&later, "j"));
        assert_eq!(first, later);
    }
}
