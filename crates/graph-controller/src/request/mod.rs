//! Reconciles one `DynamoGraphDeploymentRequest`: a model with its targets is profiled, and what the profiler proposes
//! becomes a graph. Observe, validate, decide, apply, report.
//!
//! What the author wrote is never written: hardware that is found goes into the status and to the profiler, and the
//! graph that the profiler proposes into the status.

pub mod apply;
pub mod cost;
pub mod decide;
#[cfg(test)]
mod fixtures;
pub mod hardware;
pub mod observe;
pub mod report;
pub mod settings;
pub mod standing;
pub mod status;
pub mod validate;

use std::{sync::Arc, time::Duration};

use api_types::{conditions::WEBHOOK_UNAVAILABLE, v1beta1::DynamoGraphDeploymentRequest};
use controller_kit::{apply::Applier, controller::Action, events::EventSink, read::Interruption, store::Packed};
use k8s_openapi::jiff::Timestamp;

use self::{
    decide::{Profiling, Stage},
    observe::{Observed, Observer},
};

/// After how long an obstacle is looked at again that no watch shows, such as a foreign object that holds a name.
const OBSTACLE_RETRY: Duration = Duration::from_secs(15);
/// The same for what a spec takes for granted: claims, and nodes with GPUs.
const SURROUNDINGS_RETRY: Duration = Duration::from_secs(60);

/// What reconciling needs beside the request.
#[derive(Clone)]
pub struct Reconciler {
    /// Reads.
    pub observer: Observer,
    /// Writes.
    pub applier: Applier,
    /// Tells.
    pub events: EventSink,
}

impl Reconciler {
    /// Brings one request a step further and says in its status how far it is.
    ///
    /// # Errors
    /// Failures that go away by themselves; everything else is in the status.
    pub async fn reconcile(&self, packed: Arc<Packed<DynamoGraphDeploymentRequest>>) -> Result<Action, Interruption> {
        if packed.metadata.deletion_timestamp.is_some() {
            apply::release(&self.applier, &packed).await?;
            return Ok(Action::await_change());
        }
        let observed = self.observer.observe(&packed).await?;
        let now = Timestamp::now();
        let decision = decide::decide(&observed, now);
        let acted = apply::apply(&self.applier, &self.observer.caches, &observed, decision).await?;
        let status = status::status(&observed, &acted, now);
        if self.applier.patch_status(&packed, &status).await? {
            report::publish(&self.events, &observed, &acted, &status);
        }
        Ok(next(&observed, &acted.stage, now))
    }
}

fn next(observed: &Observed, stage: &Stage, now: Timestamp) -> Action {
    match stage {
        Stage::Invalid { outside: true, .. } | Stage::Waiting(_) => Action::requeue(SURROUNDINGS_RETRY),
        Stage::Blocked { .. }
        | Stage::Deploying { stuck: true, .. }
        | Stage::Deploying { reason: WEBHOOK_UNAVAILABLE, .. } => Action::requeue(OBSTACLE_RETRY),
        Stage::Profiling(Profiling { until: Some(until), .. }) => {
            let rest = until.duration_since(now).as_secs().clamp(0, 3600);
            Action::requeue(Duration::from_secs(u64::try_from(rest).unwrap_or_default() + 1))
        }
        // Pods are in no cache: that of the profiler, and those of the graphs it measures.
        Stage::Profiling(Profiling { begins: false, .. }) => {
            Action::requeue(observed.waits.look_again.map_or(SURROUNDINGS_RETRY, |after| after.min(SURROUNDINGS_RETRY)))
        }
        _ => Action::await_change(),
    }
}
