//! What is under way: rollouts, restarts, and components without replicas.

use api_types::v1beta1::{RestartPhase, RollingUpdatePhase};

use super::model::{Cause, Observed, Weight};

/// Causes that are normal while a graph changes.
pub fn causes(observed: &Observed) -> Vec<Cause> {
    let Some(graph) = &observed.graph else { return Vec::new() };
    let status = graph.status.clone().unwrap_or_default();
    let cause = |code: &str, weight, cause: String, evidence, remedy: &str| Cause {
        code: code.to_owned(),
        weight,
        chain: vec![observed.root.object()],
        others: 0,
        cause,
        evidence,
        remedy: remedy.to_owned(),
    };
    let mut causes = Vec::new();
    let counts = || {
        let all = status.components.iter();
        all.filter(|(_, counts)| counts.updated_replicas < counts.replicas)
            .map(|(name, counts)| {
                let ready = counts.serving().unwrap_or_default();
                format!(
                    "{name}: {} of {} pods are of the target revision, {ready} are ready",
                    counts.updated_replicas, counts.replicas
                )
            })
            .collect::<Vec<_>>()
    };
    match status.rolling_update.and_then(|update| update.phase) {
        Some(RollingUpdatePhase::InProgress | RollingUpdatePhase::Pending) => {
            let text =
                "the workers change to another revision; those that serve stay until its workers are ready".to_owned();
            causes.push(cause(
                "RollingUpdate",
                Weight::Waits,
                text,
                counts(),
                "wait; `kubectl dynamo status NAME --watch` shows it",
            ));
        }
        Some(RollingUpdatePhase::Failed) => {
            let text = "the last change of the workers was given up".to_owned();
            causes.push(cause(
                "RollingUpdateFailed",
                Weight::Blocks,
                text,
                counts(),
                "correct the spec of the workers and apply again",
            ));
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
                causes.push(cause("Restart", Weight::Waits, text, Vec::new(), "wait"));
            }
            Some(RestartPhase::Failed) => {
                let text = format!("restart {id} was given up");
                causes.push(cause(
                    "RestartFailed",
                    Weight::Blocks,
                    text,
                    Vec::new(),
                    "correct spec.restart and set another id",
                ));
            }
            _ => {}
        }
    }
    let components = graph.spec.components.iter();
    let idle: Vec<_> = components.filter(|one| one.desired_replicas() == 0).map(|one| one.name.as_str()).collect();
    if !idle.is_empty() {
        let text = format!("components without replicas: {}", idle.join(", "));
        causes.push(cause("ScaledToZero", Weight::Notice, text, Vec::new(), "kubectl dynamo scale GRAPH COMPONENT=1"));
    }
    causes
}
