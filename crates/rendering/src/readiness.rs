//! Readiness and replica counts of live workloads, and how a Job ended.

use api_types::v1beta1::{ComponentKind, ComponentReplicaStatus};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentCondition, DeploymentStatus},
        batch::v1::{Job, JobCondition},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use thiserror::Error;

/// Reason why a workload is not ready; the first that applies, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotReady {
    /// It is paused.
    #[error("it is paused")]
    Paused,
    /// Its status is of an older spec.
    #[error("its controller has not yet seen the latest spec")]
    NotObserved,
    /// Replicas of the current template are missing.
    #[error("{updated} of {desired} have the latest template")]
    Updating {
        /// Replicas of the current template.
        updated: i32,
        /// Desired replicas.
        desired: i32,
    },
    /// Replicas are not available.
    #[error("{available} of {desired} are available")]
    Unavailable {
        /// Available replicas.
        available: i32,
        /// Desired replicas.
        desired: i32,
    },
    /// Replicas are there that are not desired any more.
    #[error("{extra} that are no longer desired are still there")]
    Surplus {
        /// Replicas above the desired count.
        extra: i32,
    },
    /// The counts are right, but Kubernetes does not call the workload available.
    #[error("it has no condition Available=True yet")]
    NoAvailableCondition,
}

/// A workload of a component: a Deployment or a LeaderWorkerSet.
pub trait WorkloadObject {
    /// Metadata of the object.
    fn object_meta(&self) -> &ObjectMeta;
    /// The templates of its pods.
    fn templates(&self) -> Vec<&PodTemplateSpec>;
    /// The templates of its pods, mutable.
    fn templates_mut(&mut self) -> Vec<&mut PodTemplateSpec>;
    /// Desired replicas.
    fn desired_replicas(&self) -> i32;
    /// `status.observedGeneration`, if the kind has one.
    fn observed_generation(&self) -> Option<i64>;
    /// Whether its pods serve, or have served; also when they fail later.
    fn has_served(&self) -> bool;
    /// Whether it is paused. Not every kind can be.
    fn is_paused(&self) -> bool {
        false
    }
    /// Whether its status is of the latest spec.
    fn is_observed(&self) -> bool;
    /// Whether it has the condition `Available`.
    fn is_available(&self) -> bool;
    /// Its replica counts, as the component's status states them.
    fn replica_status(&self, runtime_namespace: String) -> ComponentReplicaStatus;

    /// Reason why not all desired replicas serve with the latest template; `None` if they do, and no others are left.
    fn why_not_ready(&self) -> Option<NotReady> {
        let desired = self.desired_replicas();
        let counts = self.replica_status(String::new());
        // Not every kind counts available replicas.
        let available = counts.available_replicas.or(counts.ready_replicas).unwrap_or(0);
        if self.is_paused() {
            Some(NotReady::Paused)
        } else if !self.is_observed() {
            Some(NotReady::NotObserved)
        } else if counts.updated_replicas < desired {
            Some(NotReady::Updating { updated: counts.updated_replicas, desired })
        } else if available < desired {
            Some(NotReady::Unavailable { available, desired })
        } else if counts.replicas != desired {
            Some(NotReady::Surplus { extra: counts.replicas - desired })
        } else if desired > 0 && !self.is_available() {
            Some(NotReady::NoAvailableCondition)
        } else {
            None
        }
    }
}

impl WorkloadObject for Deployment {
    fn object_meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn templates(&self) -> Vec<&PodTemplateSpec> {
        self.spec.iter().map(|spec| &spec.template).collect()
    }

    fn templates_mut(&mut self) -> Vec<&mut PodTemplateSpec> {
        self.spec.iter_mut().map(|spec| &mut spec.template).collect()
    }

    fn desired_replicas(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn observed_generation(&self) -> Option<i64> {
        self.status.as_ref().and_then(|status| status.observed_generation)
    }

    /// The end of a rollout shows in the conditions.
    fn has_served(&self) -> bool {
        let has_rolled_out = |condition: &DeploymentCondition| {
            condition.type_ == "Progressing" && condition.reason.as_deref() == Some("NewReplicaSetAvailable")
        };
        let available = self.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
        available > 0 || self.is_available() || conditions(self).any(has_rolled_out)
    }

    fn is_paused(&self) -> bool {
        self.spec.as_ref().and_then(|spec| spec.paused) == Some(true)
    }

    fn is_observed(&self) -> bool {
        self.observed_generation().unwrap_or(0) >= self.metadata.generation.unwrap_or(0)
    }

    fn is_available(&self) -> bool {
        conditions(self).any(|condition| condition.type_ == "Available" && condition.status == "True")
    }

    fn replica_status(&self, runtime_namespace: String) -> ComponentReplicaStatus {
        let none = DeploymentStatus::default();
        let status = self.status.as_ref().unwrap_or(&none);
        ComponentReplicaStatus {
            component_kind: ComponentKind::Deployment,
            component_names: self.metadata.name.iter().cloned().collect(),
            runtime_namespace: Some(runtime_namespace),
            replicas: status.replicas.unwrap_or(0),
            updated_replicas: status.updated_replicas.unwrap_or(0),
            ready_replicas: Some(status.ready_replicas.unwrap_or(0)),
            available_replicas: Some(status.available_replicas.unwrap_or(0)),
            scheduled_replicas: None,
        }
    }
}

fn conditions(deployment: &Deployment) -> impl Iterator<Item = &DeploymentCondition> {
    deployment.status.iter().flat_map(|status| status.conditions.iter().flatten())
}

/// Possible end of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// The required number of pods succeeded.
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
    use k8s_openapi::api::apps::v1::DeploymentSpec;

    use super::*;

    /// 2 desired at generation 3, and everything in order.
    fn ready() -> Deployment {
        let mut deployment = Deployment::default();
        deployment.metadata.generation = Some(3);
        deployment.spec = Some(DeploymentSpec { replicas: Some(2), ..DeploymentSpec::default() });
        deployment.status = Some(DeploymentStatus {
            observed_generation: Some(3),
            replicas: Some(2),
            updated_replicas: Some(2),
            ready_replicas: Some(2),
            available_replicas: Some(2),
            conditions: Some(vec![DeploymentCondition {
                type_: "Available".to_owned(),
                status: "True".to_owned(),
                ..DeploymentCondition::default()
            }]),
            ..DeploymentStatus::default()
        });
        deployment
    }

    fn with(change: impl FnOnce(&mut DeploymentSpec, &mut DeploymentStatus)) -> Option<NotReady> {
        let mut deployment = ready();
        change(deployment.spec.as_mut().unwrap(), deployment.status.as_mut().unwrap());
        deployment.why_not_ready()
    }

    #[test]
    fn every_way_of_not_being_ready_has_its_reason() {
        assert_eq!(with(|_, _| {}), None);
        assert_eq!(with(|spec, _| spec.paused = Some(true)), Some(NotReady::Paused));
        assert_eq!(with(|_, status| status.observed_generation = Some(2)), Some(NotReady::NotObserved));
        assert_eq!(
            with(|_, status| status.updated_replicas = None),
            Some(NotReady::Updating { updated: 0, desired: 2 })
        );
        assert_eq!(
            with(|_, status| status.available_replicas = Some(1)),
            Some(NotReady::Unavailable { available: 1, desired: 2 })
        );
        assert_eq!(with(|_, status| status.replicas = Some(3)), Some(NotReady::Surplus { extra: 1 }));
        assert_eq!(with(|_, status| status.conditions = None), Some(NotReady::NoAvailableCondition));
        assert_eq!(Deployment::default().why_not_ready(), Some(NotReady::Updating { updated: 0, desired: 1 }));
    }

    #[test]
    fn zero_is_ready_once_the_last_pod_is_gone() {
        let at_zero = |edit: fn(&mut DeploymentStatus)| {
            let mut deployment = ready();
            let generation = deployment.metadata.generation;
            deployment.spec.as_mut().unwrap().replicas = Some(0);
            let mut status = DeploymentStatus { observed_generation: generation, ..DeploymentStatus::default() };
            edit(&mut status);
            deployment.status = Some(status);
            deployment.why_not_ready()
        };
        assert_eq!(at_zero(|_| {}), None);
        assert_eq!(at_zero(|status| status.observed_generation = None), Some(NotReady::NotObserved));
        assert_eq!(at_zero(|status| status.replicas = Some(2)), Some(NotReady::Surplus { extra: 2 }));
    }

    #[test]
    fn counts_that_the_server_leaves_out_are_zero() {
        let status = Deployment::default().replica_status("ns-graph".to_owned());
        assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (0, Some(0), Some(0)));
        assert_eq!(ready().replica_status(String::new()).available_replicas, Some(2));
    }
}

#[cfg(test)]
mod job_end_tests {
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
