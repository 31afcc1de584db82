//! Reconciles `DynamoComponent` of the legacy API: an image, which a Job builds if its registry lacks it.
//!
//! The time of the next pass over an image build is computed in this file, without I/O.

pub mod apply;
pub mod build_slots;
pub mod events;
pub mod job;
pub mod manifest;
pub mod model;
pub mod observe;
pub mod plan;
pub mod settings;
pub mod status;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use api_types::v1alpha1::{DynamoComponent, DynamoComponentStatus};
use controller_kit::{
    controller::{Action, Conclusion, Outputs, Reconcile},
    fairness::Backoff,
    request::Interruption,
    store::{Key, Packed, UnpackError},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use rendering::JobEnd;

use self::{
    build_slots::BuildSlots,
    model::{Applied, BuildPhase, Observed, Plan},
    observe::Observer,
};

/// Reconciles DynamoComponents.
pub struct Reconciler {
    /// Reads.
    pub observer: Observer,
    /// Writes.
    pub outputs: Outputs,
    /// Limits concurrent builds.
    pub build_slots: Arc<BuildSlots>,
    /// Backoff of registries and API stores that do not answer, by component.
    pub backoff: Mutex<Backoff<Key>>,
}

impl Reconcile for Reconciler {
    type Object = DynamoComponent;
    type Observed = Observed;
    type Plan = Plan;
    type Applied = Applied;
    type Status = DynamoComponentStatus;

    fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    async fn finalize(&self, packed: &Packed<DynamoComponent>) -> Result<Action, Interruption> {
        self.backoff().clear(&Key::of(packed));
        self.observer.manifests.clear(&Key::of(packed));
        Ok(Action::await_change())
    }

    fn unreadable(
        &self,
        packed: &Packed<DynamoComponent>,
        _: &UnpackError,
        now: Timestamp,
    ) -> Option<Conclusion<DynamoComponentStatus>> {
        // An unreadable Job is no violation of the component's.
        let message = packed.unpack().err()?.to_string();
        self.build_slots.dequeue(&Key::of(packed), Instant::now());
        let live: DynamoComponentStatus = serde_json::from_value(packed.status()).unwrap_or_default();
        let status = Some(status::unreadable(&live, packed.metadata.generation, &message, now));
        Some(Conclusion { status, status_events: vec![events::invalid_spec(&message)], ..Conclusion::default() })
    }

    async fn observe(
        &self,
        packed: &Packed<DynamoComponent>,
        component: DynamoComponent,
    ) -> Result<Observed, Interruption> {
        let observed = self.observer.observe(component).await;
        observed.inspect_err(|_| self.build_slots.dequeue(&Key::of(packed), Instant::now()))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan::plan(observed, now)
    }

    async fn apply(&self, observed: &Observed, plan: Plan) -> Result<Applied, Interruption> {
        let mut applied = apply::apply(&self.outputs.applier, &self.build_slots, &observed.component, plan).await?;
        let key = Key::of(&observed.component);
        match applied.phase {
            BuildPhase::Unreachable(_) => applied.backoff = Some(self.backoff().next(&key)),
            _ => self.backoff().clear(&key),
        }
        Ok(applied)
    }

    fn conclude(&self, observed: &Observed, applied: &Applied, now: Timestamp) -> Conclusion<DynamoComponentStatus> {
        let live = observed.component.status.clone().unwrap_or_default();
        let generation = observed.component.metadata.generation;
        Conclusion {
            status: Some(status::status(&live, generation, observed, &applied.phase, now)),
            events: events::started(observed, applied).into_iter().collect(),
            status_events: events::of_phase(observed, &applied.phase).into_iter().collect(),
            next: next(observed, applied, now),
            ..Conclusion::default()
        }
    }
}

impl Reconciler {
    fn backoff(&self) -> MutexGuard<'_, Backoff<Key>> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shortest pause before a server that did not answer, or an obstacle in the cluster, is looked up again.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(15);

/// Interval of the queries whether a registry still has an image: registries are cleaned up.
const RECHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// Pause before a failed build is tried again.
const FAILED_RETRY: SignedDuration = SignedDuration::from_mins(10);

/// Determines when the next pass is due.
pub fn next(observed: &Observed, applied: &Applied, now: Timestamp) -> Action {
    let next = of_build(observed, applied, now);
    observed.manifest.retry_after.map_or(next, |pause| next.no_later_than(pause))
}

fn of_build(observed: &Observed, applied: &Applied, now: Timestamp) -> Action {
    match &applied.phase {
        BuildPhase::Unreachable(_) | BuildPhase::Blocked(_) | BuildPhase::Queued(_) | BuildPhase::Invalid(_) => {
            Action::requeue(applied.backoff.unwrap_or_default().max(RETRY_INTERVAL))
        }
        BuildPhase::Failed { .. } => {
            let rest = observed.job.as_ref().and_then(|job| retry_after(job, now));
            Action::requeue(rest.and_then(|rest| Duration::try_from(rest).ok()).unwrap_or(RETRY_INTERVAL))
        }
        BuildPhase::Available => Action::requeue(RECHECK_INTERVAL),
        BuildPhase::Building { .. } => observed.waits.look_again.map_or_else(Action::await_change, Action::requeue),
    }
}

/// The rest of the pause before a failed build is tried again; `None` if it is over.
pub fn retry_after(job: &Job, now: Timestamp) -> Option<SignedDuration> {
    let since = JobEnd::Failed.of(job)?.last_transition_time.as_ref().map(|time| time.0);
    let rest = since.map(|since| FAILED_RETRY - now.duration_since(since))?;
    rest.is_positive().then_some(rest)
}
