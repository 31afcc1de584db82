//! What a live workload lacks until all its desired replicas serve.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use rendering::{NotReady, Readiness, Workload};

use crate::component::model::{LiveWorkload, WorkloadKind};

/// What is missing until all desired replicas serve; `None` if nothing is.
///
/// Failed conditions of a Deployment (a quota, an admission policy, the progress deadline) are included: they show the
/// cause of missing pods.
pub(super) fn shortfall(live: &LiveWorkload) -> Option<String> {
    let workload = live.get();
    let Readiness::NotReady(reason) = workload.readiness() else { return None };
    let name = workload.object_meta().name.as_deref().unwrap_or_default();
    let what = match reason {
        NotReady::Updating { .. } | NotReady::Unavailable { .. } => counts(live),
        // Of a new workload, the same message until its first pod exists, so that it is written only once.
        NotReady::NotObserved if workload.observed_generation().unwrap_or_default() == 0 => counts(live),
        other => other.to_string(),
    };
    let failures = match live {
        LiveWorkload::Deployment(deployment) => {
            failures(deployment).map(|failure| format!("; {failure}")).collect::<String>()
        }
        LiveWorkload::LeaderWorkerSet(_) => String::new(),
    };
    Some(format!("{} {name}: {what}{failures}", live.kind()))
}

fn counts(live: &LiveWorkload) -> String {
    let workload: &dyn Workload = live.get();
    let counts = workload.replica_status(String::new());
    let serving = counts.available_replicas.or(counts.ready_replicas).unwrap_or_default();
    let unit = match live.kind() {
        WorkloadKind::LeaderWorkerSet => "groups of pods are ready",
        WorkloadKind::Deployment => "pods are available",
    };
    format!(
        "{serving} of {} desired {unit}, {} have the latest template",
        workload.desired_replicas(),
        counts.updated_replicas
    )
}

/// Whether the API server rejects pods of a workload.
pub(super) fn pods_are_rejected(live: &LiveWorkload) -> bool {
    let LiveWorkload::Deployment(deployment) = live else { return false };
    let mut all = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.any(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True")
}

/// Failed conditions of a Deployment.
fn failures(deployment: &Deployment) -> impl Iterator<Item = String> {
    let all = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.filter(|condition| is_failure(condition)).map(|condition| {
        let reason = condition.reason.as_deref().unwrap_or(&condition.type_);
        let message = condition.message.as_deref().unwrap_or_default();
        format!("{reason}: {message}")
    })
}

fn is_failure(condition: &DeploymentCondition) -> bool {
    matches!(
        (condition.type_.as_str(), condition.status.as_str()),
        ("ReplicaFailure", "True") | ("Progressing", "False")
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{DeploymentSpec, DeploymentStatus};

    use super::*;

    fn deployment(observed: i64, status: DeploymentStatus) -> LiveWorkload {
        let mut deployment = Deployment::default();
        deployment.metadata.name = Some("w".into());
        deployment.metadata.generation = Some(2);
        deployment.spec = Some(DeploymentSpec { replicas: Some(2), ..DeploymentSpec::default() });
        deployment.status = Some(DeploymentStatus { observed_generation: Some(observed), ..status });
        LiveWorkload::Deployment(Box::new(deployment))
    }

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> DeploymentCondition {
        DeploymentCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            ..DeploymentCondition::default()
        }
    }

    #[test]
    fn the_message_of_a_new_deployment_is_constant_until_its_first_pod_exists() {
        let unseen = shortfall(&deployment(0, DeploymentStatus::default()));
        let seen = shortfall(&deployment(2, DeploymentStatus::default()));
        assert_eq!(unseen, seen);
        assert_eq!(seen.unwrap(), "Deployment w: 0 of 2 desired pods are available, 0 have the latest template");
    }

    #[test]
    fn counts_of_an_older_spec_do_not_count() {
        let status = DeploymentStatus {
            replicas: Some(2),
            updated_replicas: Some(2),
            ready_replicas: Some(2),
            available_replicas: Some(2),
            conditions: Some(vec![condition("Available", "True", "", "")]),
            ..DeploymentStatus::default()
        };
        assert_eq!(shortfall(&deployment(2, status.clone())), None);
        let message = shortfall(&deployment(1, status)).unwrap();
        assert_eq!(message, "Deployment w: its controller has not yet seen the latest spec");
    }

    #[test]
    fn pods_that_a_quota_rejects_differ_from_slow_pods() {
        let with =
            |condition| deployment(2, DeploymentStatus { conditions: Some(vec![condition]), ..Default::default() });
        assert!(pods_are_rejected(&with(condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota"))));
        assert!(!pods_are_rejected(&with(condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out"))));
    }

    #[test]
    fn failed_conditions_of_a_deployment_are_included() {
        let status = DeploymentStatus {
            replicas: Some(1),
            updated_replicas: Some(1),
            conditions: Some(vec![
                condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out"),
                condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota: gpus"),
                condition("Available", "False", "MinimumReplicasUnavailable", "no"),
            ]),
            ..DeploymentStatus::default()
        };
        assert_eq!(
            shortfall(&deployment(2, status)).unwrap(),
            "Deployment w: 0 of 2 desired pods are available, 1 have the latest template; \
             ProgressDeadlineExceeded: timed out; FailedCreate: exceeded quota: gpus"
        );
    }

    /// A standalone component may name an account that only graphs create.
    #[test]
    fn a_missing_service_account_is_named() {
        let words =
            "pods \"w-1\" is forbidden: error looking up service account team/w-k8s-service-discovery: not found";
        let status = DeploymentStatus {
            conditions: Some(vec![condition("ReplicaFailure", "True", "FailedCreate", words)]),
            ..DeploymentStatus::default()
        };
        let message = shortfall(&deployment(1, status)).unwrap();
        assert!(message.contains("service account team/w-k8s-service-discovery"), "{message}");
    }
}
