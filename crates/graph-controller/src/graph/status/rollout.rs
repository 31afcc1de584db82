//! Status of a rollout of workers.

use api_types::{
    conditions as c,
    v1beta1::{GraphState, RollingUpdatePhase, RollingUpdateStatus},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::draft::Draft;
use crate::graph::model::{GraphObstacle, ObstacleProgress, Rollout};

/// Sets the condition of a rollout's deadline. Only there while one counts.
pub(super) fn rollout_progressing(draft: &mut Draft, rollout: &Rollout) {
    match &rollout.condition {
        Some(it) => draft.set(c::ROLLOUT_PROGRESSING, it.holds, it.reason, &it.message()),
        None => draft.remove(c::ROLLOUT_PROGRESSING),
    }
}

/// Sets the conditions of a rollout that is held. What is missing besides is in the message of `Ready`.
pub(super) fn held(draft: &mut Draft, hold: &GraphObstacle, waiting: &[String]) {
    draft.obstruct(hold);
    // Workers go on serving, so the graph has not failed.
    draft.status.state = GraphState::Pending;
    if matches!(hold.progress, ObstacleProgress::Reconciling(_)) && !waiting.is_empty() {
        let message = format!("{}. Waiting for: {}", hold.message, waiting.join("; "));
        draft.set(c::READY, false, hold.ready_reason, &message);
    }
}

/// The phase follows from live objects; the previous status only adds times, which no plan depends on.
pub(super) fn rolling_update(draft: &mut Draft, rollout: &Rollout) {
    let (previous, now) = (draft.status.rolling_update.take(), Time(draft.now));
    let phase = previous.as_ref().and_then(|p| p.phase);
    let running = matches!(phase, Some(RollingUpdatePhase::InProgress | RollingUpdatePhase::Pending));
    draft.status.rolling_update = if rollout.in_progress() {
        Some(RollingUpdateStatus {
            phase: Some(RollingUpdatePhase::InProgress),
            start_time: previous.filter(|_| running).and_then(|p| p.start_time).or(Some(now)),
            end_time: None,
            updated_components: (!rollout.updated.is_empty()).then(|| rollout.updated.clone()),
        })
    } else if running {
        let phase = if rollout.is_behind { RollingUpdatePhase::Failed } else { RollingUpdatePhase::Completed };
        previous.map(|p| RollingUpdateStatus {
            phase: Some(phase),
            end_time: Some(now),
            updated_components: Some(rollout.updated.clone()),
            ..p
        })
    } else {
        previous
    };
}
