//! Causes in workloads: pods that the API server rejects, paused rollouts, and operations in progress.
//!
//! Operations in progress are rollouts, restarts, and components without replicas.

use api_types::v1beta1::{RestartPhase, RollingUpdatePhase};
use status_view::pods::component_of;

use super::{
    model::{Cause, DiagnosisInputs, ObservedWorkload, Weight},
    rules,
    rules::REJECTIONS,
};
use crate::diagnosis;

/// Kinds that create pods or groups of pods.
const CREATORS: [&str; 5] = ["ReplicaSet", "StatefulSet", "LeaderWorkerSet", "Job", "PodClique"];

/// Causes of all workloads.
pub fn causes(observed: &DiagnosisInputs) -> Vec<Cause> {
    observed.workloads.iter().flat_map(|workload| of_workload(observed, workload)).collect()
}

fn of_workload(observed: &DiagnosisInputs, workload: &ObservedWorkload) -> Vec<Cause> {
    let chain = || diagnosis::to_workload(observed, &workload.kind, &workload.name, workload.component.as_deref());
    let mut causes = Vec::new();
    if workload.paused {
        let text = format!("{} {} is paused: its pods are not changed", workload.kind, workload.name);
        let remedy = format!("kubectl rollout resume {}/{}", workload.kind.to_lowercase(), workload.name);
        causes.push(Cause::new("WorkloadPaused", Weight::Blocks, chain(), text, remedy));
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
        let code = rule.map_or("PodsRefused", |rule| rule.code);
        let text = format!("{object} cannot create pods: {message}");
        let remedy = rule.map_or("change what the API server rejects, as the message says", |rule| rule.remedy);
        causes.push(Cause { evidence, ..Cause::new(code, Weight::Blocks, chain(), text, remedy) });
    }
    causes
}

/// The object that cannot create pods, and the words of the API server.
fn rejection(observed: &DiagnosisInputs, workload: &ObservedWorkload) -> Option<(String, String)> {
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

/// Causes that are normal while a graph changes.
pub fn progress_causes(observed: &DiagnosisInputs) -> Vec<Cause> {
    let Some(graph) = &observed.graph else { return Vec::new() };
    let status = graph.status.clone().unwrap_or_default();
    let cause =
        |code, weight, text: String, remedy| Cause::new(code, weight, vec![observed.root.object()], text, remedy);
    let mut causes = Vec::new();
    let changing = status.components.iter().filter(|(_, counts)| counts.updated_replicas < counts.replicas);
    let counts = changing.map(|(name, counts)| {
        let ready = counts.serving().unwrap_or_default();
        let (updated, all) = (counts.updated_replicas, counts.replicas);
        format!("{name}: {updated} of {all} pods are of the target revision, {ready} are ready")
    });
    let evidence = counts.collect();
    match status.rolling_update.and_then(|update| update.phase) {
        Some(RollingUpdatePhase::InProgress | RollingUpdatePhase::Pending) => {
            let text =
                "the workers change to another revision; those that serve stay until its workers are ready".to_owned();
            let remedy = "wait; `kubectl dynamo status NAME --watch` shows it";
            causes.push(Cause { evidence, ..cause("RollingUpdate", Weight::Waits, text, remedy) });
        }
        Some(RollingUpdatePhase::Failed) => {
            let text = "the last change of the workers was given up".to_owned();
            let remedy = "correct the spec of the workers and apply again";
            causes.push(Cause { evidence, ..cause("RollingUpdateFailed", Weight::Blocks, text, remedy) });
        }
        Some(RollingUpdatePhase::Completed | RollingUpdatePhase::None) | None => {}
    }
    if let Some(restart) = status.restart {
        let id = restart.observed_id.unwrap_or_default();
        let at = restart.in_progress.unwrap_or_default().join(", ");
        match restart.phase {
            Some(RestartPhase::Pending | RestartPhase::Restarting) => {
                let text = match at.is_empty() {
                    true => format!("restart {id} is in progress"),
                    false => format!("restart {id} is in progress, at {at}"),
                };
                causes.push(cause("Restart", Weight::Waits, text, "wait"));
            }
            Some(RestartPhase::Failed) => {
                let text = format!("restart {id} was given up");
                causes.push(cause("RestartFailed", Weight::Blocks, text, "correct spec.restart and set another id"));
            }
            _ => {}
        }
    }
    let components = graph.spec.components.iter();
    let idle: Vec<_> = components.filter(|one| one.desired_replicas() == 0).map(|one| one.name.as_str()).collect();
    if !idle.is_empty() {
        let text = format!("components without replicas: {}", idle.join(", "));
        causes.push(cause("ScaledToZero", Weight::Notice, text, "kubectl dynamo scale GRAPH COMPONENT=1"));
    }
    causes
}
