//! What a live workload still lacks, in words that somebody can act on.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use workload::{NotReady, Readiness, Workload};

use super::workload::{LiveWorkload, WorkloadKind};

/// What is missing until all wanted replicas serve; `None` if nothing is.
///
/// What the Deployment controller itself complains about (a quota, an admission policy, the progress deadline) comes
/// with it: that is where the cause of missing pods shows.
pub fn shortfall(live: &LiveWorkload) -> Option<String> {
    let workload = live.get();
    let Readiness::NotReady(reason) = workload.readiness() else { return None };
    let name = workload.object_meta().name.as_deref().unwrap_or_default();
    let what = match reason {
        NotReady::Updating { .. } | NotReady::Unavailable { .. } => counts(live),
        // A new workload: the same words until its first pod exists, that they need to be written only once.
        NotReady::NotObserved if workload.observed_generation().unwrap_or_default() == 0 => counts(live),
        other => other.to_string(),
    };
    let complaints = match live {
        LiveWorkload::Deployment(deployment) => {
            complaints(deployment).map(|complaint| format!("; {complaint}")).collect::<String>()
        }
        LiveWorkload::LeaderWorkerSet(_) => String::new(),
    };
    Some(format!("{} {name}: {what}{complaints}", live.kind()))
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
        "{serving} of {} wanted {unit}, {} have the latest template",
        workload.desired_replicas(),
        counts.updated_replicas
    )
}

/// Whether the API server takes no more pods of a workload.
pub fn refuses_pods(live: &LiveWorkload) -> bool {
    let LiveWorkload::Deployment(deployment) = live else { return false };
    let mut all = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.any(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True")
}

/// Conditions by which the Deployment controller says that it cannot go on as it should.
fn complaints(deployment: &Deployment) -> impl Iterator<Item = String> {
    let all = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.filter(|condition| is_complaint(condition)).map(|condition| {
        let reason = condition.reason.as_deref().unwrap_or(&condition.type_);
        let message = condition.message.as_deref().unwrap_or_default();
        format!("{reason}: {message}")
    })
}

fn is_complaint(condition: &DeploymentCondition) -> bool {
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
    fn a_new_deployment_says_the_same_until_its_first_pod_exists() {
        let unseen = shortfall(&deployment(0, DeploymentStatus::default()));
        let seen = shortfall(&deployment(2, DeploymentStatus::default()));
        assert_eq!(unseen, seen);
        assert_eq!(seen.unwrap(), "Deployment w: 0 of 2 wanted pods are available, 0 have the latest template");
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
    fn pods_that_a_quota_refuses_are_told_from_pods_that_come_slowly() {
        let with =
            |condition| deployment(2, DeploymentStatus { conditions: Some(vec![condition]), ..Default::default() });
        assert!(refuses_pods(&with(condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota"))));
        assert!(!refuses_pods(&with(condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out"))));
    }

    #[test]
    fn what_the_deployment_complains_about_is_passed_on() {
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
            "Deployment w: 0 of 2 wanted pods are available, 1 have the latest template; \
             ProgressDeadlineExceeded: timed out; FailedCreate: exceeded quota: gpus"
        );
    }

    /// component.md §7.6: a component on its own runs under an account that only graphs make, and nobody said so.
    #[test]
    fn an_account_that_nobody_made_is_named() {
        let words =
            "pods \"w-1\" is forbidden: error looking up service account team/w-k8s-service-discovery: not found";
        let status = DeploymentStatus {
            conditions: Some(vec![condition("ReplicaFailure", "True", "FailedCreate", words)]),
            ..DeploymentStatus::default()
        };
        let told = shortfall(&deployment(1, status)).unwrap();
        assert!(told.contains("service account team/w-k8s-service-discovery"), "{told}");
    }
}
