//! How a Job ended.

use k8s_openapi::api::batch::v1::{Job, JobCondition};

/// How a Job can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// As many pods succeeded as it wants.
    Complete,
    /// Retries or time are used up.
    Failed,
}

impl JobEnd {
    /// The condition of a Job that has ended in this way; its message may say why.
    #[must_use]
    pub fn of(self, job: &Job) -> Option<&JobCondition> {
        let type_ = match self {
            Self::Complete => "Complete",
            Self::Failed => "Failed",
        };
        let conditions = job.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::{Job, JobStatus};

    use super::{JobCondition, JobEnd};

    #[test]
    fn only_a_true_condition_of_that_type_is_an_end() {
        let job = |type_: &str, status: &str| {
            let condition =
                JobCondition { type_: type_.to_owned(), status: status.to_owned(), ..JobCondition::default() };
            Job {
                status: Some(JobStatus { conditions: Some(vec![condition]), ..JobStatus::default() }),
                ..Job::default()
            }
        };
        assert!(JobEnd::Complete.of(&Job::default()).is_none());
        assert!(JobEnd::Complete.of(&job("Complete", "True")).is_some());
        assert!(JobEnd::Complete.of(&job("Complete", "False")).is_none());
        assert!(JobEnd::Complete.of(&job("Failed", "True")).is_none());
        assert!(JobEnd::Failed.of(&job("Failed", "True")).is_some());
        assert!(JobEnd::Failed.of(&job("FailureTarget", "True")).is_none());
    }
}
