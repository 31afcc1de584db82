//! The status of an image build: computed from what was done, never from what was wished.

use api_types::{
    conditions::{self, image_build as reason},
    v1alpha1::DynamoComponentStatus,
};
use controller_kit::conditions::{Progress, Status, find, is_true, set_condition, set_progress};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::decide::{Observed, Stage};

/// The whole status.
pub fn status(
    live: &DynamoComponentStatus,
    generation: Option<i64>,
    observed: &Observed,
    stage: &Stage,
    now: Timestamp,
) -> DynamoComponentStatus {
    let mut all = live.conditions.clone();
    let image = observed.image.as_deref().unwrap_or_default();
    let mut set = |type_, value: Status, reason: &str, message: &str| {
        set_condition(&mut all, type_, value, reason, message, generation, now);
    };
    let plain = reason::RECONCILING;
    if let Some(Ok(exists)) = observed.exists {
        set(reason::CHECKED, Status::from(exists), plain, image);
    }
    let (building, exists) = match stage {
        Stage::Building { active: true, .. } => (Status::True, Status::False),
        Stage::Building { active: false, .. } | Stage::Queued(_) => (Status::Unknown, Status::False),
        Stage::Available => (Status::False, Status::True),
        Stage::Failed { .. } => (Status::False, Status::False),
        Stage::Mistaken(_) | Stage::Unreachable(_) | Stage::Blocked(_) => (Status::False, Status::Unknown),
    };
    let why = reason_of(stage);
    let job = if observed.job.is_some() { observed.job_name.as_str() } else { "" };
    match stage {
        // Remembered for as long as the image is wanted: by which Job it was built.
        Stage::Available if job.is_empty() => {
            if !is_true(&live.conditions, reason::EXISTS) {
                set(reason::BUILDING, building, plain, "");
            }
        }
        Stage::Failed { message, .. } => set(reason::BUILDING, building, why, message),
        Stage::Building { trouble: Some(trouble), .. } => {
            set(reason::BUILDING, building, why, &format!("Job {job}: {}", trouble.message));
        }
        _ => set(reason::BUILDING, building, plain, job),
    }
    set(reason::EXISTS, exists, plain, image);
    let (available, message) = match stage {
        Stage::Available => (Status::True, String::new()),
        Stage::Building { trouble: None, .. } => (Status::Unknown, format!("building {image}")),
        Stage::Building { trouble: Some(trouble), .. } => {
            (Status::Unknown, format!("building {image}; {}", trouble.message))
        }
        Stage::Queued(message) | Stage::Unreachable(message) => (Status::Unknown, message.clone()),
        Stage::Mistaken(message) | Stage::Blocked(message) | Stage::Failed { message, .. } => {
            (Status::False, message.clone())
        }
    };
    set(reason::AVAILABLE, available, why, &message);
    let ready = Status::from(*stage == Stage::Available);
    set(conditions::READY, ready, why, &message);
    set_progress(&mut all, &progress(stage, message), generation, now);
    DynamoComponentStatus { observed_generation: generation, conditions: all }
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
    let stuck = Progress::Stuck { reason: reason::INVALID.to_owned(), message: message.to_owned() };
    set_progress(&mut all, &stuck, generation, now);
    DynamoComponentStatus { observed_generation: generation, conditions: all }
}

fn reason_of(stage: &Stage) -> &'static str {
    match stage {
        Stage::Building { trouble: Some(trouble), .. } => trouble.cause.reason(),
        Stage::Available | Stage::Building { trouble: None, .. } => reason::RECONCILING,
        Stage::Queued(_) => reason::QUEUED,
        Stage::Unreachable(_) => reason::UNREACHABLE,
        Stage::Mistaken(_) => reason::INVALID,
        Stage::Blocked(_) => reason::BLOCKED,
        Stage::Failed { late: true, .. } => reason::TIMEOUT,
        Stage::Failed { late: false, .. } => reason::BUILD_FAILED,
    }
}

fn progress(stage: &Stage, message: String) -> Progress {
    let reason = reason_of(stage).to_owned();
    match stage {
        Stage::Available => Progress::Current,
        Stage::Building { .. } | Stage::Queued(_) | Stage::Unreachable(_) => Progress::Working { reason, message },
        Stage::Mistaken(_) | Stage::Blocked(_) | Stage::Failed { .. } => Progress::Stuck { reason, message },
    }
}

/// Whether an image of this name was told to exist.
pub fn is_known(live: &DynamoComponentStatus, image: &str) -> bool {
    told(&live.conditions, reason::EXISTS).is_some_and(|told| told.status == "True" && told.message == image)
}

/// Whether the registry was the one that told of an image of this name.
pub fn was_found(live: &DynamoComponentStatus, image: &str) -> bool {
    told(&live.conditions, reason::CHECKED).is_some_and(|told| told.status == "True" && told.message == image)
}

/// Whether the image that is known was built by this Job.
pub fn was_built_by(live: &DynamoComponentStatus, job: &str) -> bool {
    told(&live.conditions, reason::BUILDING).is_some_and(|told| told.status == "False" && told.message == job)
}

fn told<'a>(all: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    find(all, type_)
}

#[cfg(test)]
mod tests {
    use controller_kit::pods::JobWaits;
    use workload::{Cause, Diagnosis};

    use super::{super::decide::Hindrance, *};

    fn observed(exists: Option<Result<bool, Hindrance>>) -> Observed {
        Observed {
            image: Ok("r/i:t".to_owned()),
            exists,
            job_name: "j".to_owned(),
            job: None,
            other_jobs: Vec::new(),
            rendered: None,
            log: None,
            waits: JobWaits::default(),
        }
    }

    fn told(stage: &Stage, exists: Option<Result<bool, Hindrance>>) -> DynamoComponentStatus {
        status(&DynamoComponentStatus::default(), Some(2), &observed(exists), stage, Timestamp::UNIX_EPOCH)
    }

    fn one(status: &DynamoComponentStatus, type_: &str) -> String {
        let found = find(&status.conditions, type_).unwrap();
        format!("{} {} {}", found.status, found.reason, found.message)
    }

    /// Components find the image's name in the message.
    #[test]
    fn the_message_of_a_true_condition_is_the_image() {
        let done = told(&Stage::Available, Some(Ok(true)));
        assert_eq!(one(&done, reason::EXISTS), "True Reconciling r/i:t");
        assert_eq!(one(&done, reason::CHECKED), "True Reconciling r/i:t");
        assert_eq!(one(&done, conditions::READY), "True Reconciling ");
        assert!(is_known(&done, "r/i:t") && !is_known(&done, "r/i:u"));
        assert_eq!(done.observed_generation, Some(2));
    }

    /// A component whose spec could not be read had no status at all.
    #[test]
    fn a_spec_that_cannot_be_read_is_reported() {
        let before = told(&Stage::Available, Some(Ok(true)));
        let status = unreadable(&before, Some(3), "spec.imageBuildTimeout: invalid", Timestamp::UNIX_EPOCH);
        assert_eq!(one(&status, conditions::READY), "False InvalidSpec spec.imageBuildTimeout: invalid");
        assert_eq!(one(&status, conditions::STALLED), "True InvalidSpec spec.imageBuildTimeout: invalid");
        assert!(is_known(&status, "r/i:t"), "what was built is not forgotten");
        assert_eq!(status.observed_generation, Some(3));
    }

    #[test]
    fn a_failed_build_is_false_and_not_unknown() {
        let failed = told(&Stage::Failed { late: true, message: "Job j: late".to_owned() }, None);
        assert_eq!(one(&failed, reason::BUILDING), "False Timeout Job j: late");
        assert_eq!(one(&failed, reason::AVAILABLE), "False Timeout Job j: late");
        assert_eq!(one(&failed, conditions::STALLED), "True Timeout Job j: late");
    }

    #[test]
    fn what_the_pod_of_a_build_waits_for_is_told() {
        let message = "pod j-1: container builder: image r/engine:1 cannot be pulled: not found".to_owned();
        let trouble = Some(Diagnosis { cause: Cause::ImagePull, message: message.clone() });
        let mut building = observed(None);
        building.job = Some(Default::default());
        let stage = Stage::Building { active: true, trouble };
        let waits = status(&DynamoComponentStatus::default(), None, &building, &stage, Timestamp::UNIX_EPOCH);
        assert_eq!(one(&waits, reason::BUILDING), format!("True ImagePullFailed Job j: {message}"));
        let told = format!("ImagePullFailed building r/i:t; {message}");
        assert_eq!(one(&waits, reason::AVAILABLE), format!("Unknown {told}"));
        assert_eq!(one(&waits, conditions::READY), format!("False {told}"));
        assert_eq!(one(&waits, conditions::RECONCILING), format!("True {told}"));
        let stage = Stage::Building { active: true, trouble: None };
        let runs = status(&waits, None, &building, &stage, Timestamp::UNIX_EPOCH);
        assert_eq!(one(&runs, reason::BUILDING), "True Reconciling j");
        assert_eq!(one(&runs, reason::AVAILABLE), "Unknown Reconciling building r/i:t");
    }

    #[test]
    fn the_job_that_built_is_remembered() {
        let mut built = observed(None);
        built.job = Some(Default::default());
        let first = status(&DynamoComponentStatus::default(), None, &built, &Stage::Available, Timestamp::UNIX_EPOCH);
        assert!(was_built_by(&first, "j"));
        let later = status(&first, None, &observed(None), &Stage::Available, Timestamp::UNIX_EPOCH);
        assert!(was_built_by(&later, "j"));
        assert_eq!(first, later);
    }
}
