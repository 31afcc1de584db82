//! Causes in workloads: pods that the API server rejects, and rollouts that are paused.

use status_view::pods::component_of;

use super::{
    chain,
    model::{Cause, Observed, Weight, Workload},
    rules::{self, REJECTIONS},
};

/// Kinds that create pods or groups of pods.
const CREATORS: [&str; 5] = ["ReplicaSet", "StatefulSet", "LeaderWorkerSet", "Job", "PodClique"];

/// Causes of all workloads.
pub fn causes(observed: &Observed) -> Vec<Cause> {
    observed.workloads.iter().flat_map(|workload| of_workload(observed, workload)).collect()
}

fn of_workload(observed: &Observed, workload: &Workload) -> Vec<Cause> {
    let chain = || chain::to_workload(observed, &workload.kind, &workload.name, workload.component.as_deref());
    let mut causes = Vec::new();
    if workload.paused {
        causes.push(Cause {
            code: "WorkloadPaused".to_owned(),
            weight: Weight::Blocks,
            chain: chain(),
            others: 0,
            cause: format!("{} {} is paused: its pods are not changed", workload.kind, workload.name),
            evidence: Vec::new(),
            remedy: format!("kubectl rollout resume {}/{}", workload.kind.to_lowercase(), workload.name),
        });
    }
    if let Some((object, message)) = rejection(observed, workload) {
        let rule = rules::matching(REJECTIONS, &message);
        let mut evidence = Vec::new();
        if rule.is_some_and(|rule| rule.code == "QuotaExceeded") {
            let full = observed
                .quotas
                .iter()
                .filter(|(quota, resource, ..)| message.contains(quota) && message.contains(resource));
            evidence.extend(full.map(|(quota, resource, used, hard)| {
                format!("ResourceQuota {quota}: {used} of {hard} {resource} are used")
            }));
        }
        causes.push(Cause {
            code: rule.map_or("PodsRefused", |rule| rule.code).to_owned(),
            weight: Weight::Blocks,
            chain: chain(),
            others: 0,
            cause: format!("{object} cannot create pods: {message}"),
            evidence,
            remedy: rule
                .map_or("change what the API server rejects, as the message says", |rule| rule.remedy)
                .to_owned(),
        });
    }
    causes
}

/// The object that cannot create pods, and the words of the API server.
fn rejection(observed: &Observed, workload: &Workload) -> Option<(String, String)> {
    let own = format!("{} {}", workload.kind, workload.name);
    if let Some(message) = workload.failures.first() {
        return Some((own, message.clone()));
    }
    // Replicas that are there were created; a warning about them is of the past.
    let pods = observed.pods.iter().filter(|pod| component_of(pod) == workload.component.as_deref()).count();
    if i32::try_from(pods).unwrap_or(i32::MAX) >= workload.desired.max(1) {
        return None;
    }
    let is_part = |name: &str| {
        name == workload.name || name.strip_prefix(&workload.name).is_some_and(|rest| rest.starts_with('-'))
    };
    let mut warnings =
        observed.warnings.iter().filter(|one| one.reason == "FailedCreate" && CREATORS.contains(&one.kind.as_str()));
    let warning = warnings.find(|one| is_part(&one.name))?;
    Some((format!("{} {}", warning.kind, warning.name), warning.message.clone()))
}
