//! A DynamoComponent becomes an image: looked for in its registry, and built by a Job where it is not there. The API of 2025.
//!
//! ```text
//! observe   Jobs; the registry, the API store, pods that do not start and the log of a failed build, each only where it matters
//! decide    pure
//! apply     the Job, once there is a slot for it
//! status    whether the image exists; its name is the message of the condition
//! ```

pub mod apply;
pub mod decide;
pub mod defaults;
pub mod image;
pub mod job;
pub mod observe;
pub mod settings;
pub mod slots;
pub mod status;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use api_types::v1alpha1::{DynamoComponent, DynamoComponentStatus};
use controller_kit::{
    apply::Applier,
    backoff::Backoff,
    controller::Action,
    events::{Event, EventSink, EventType},
    read::Interruption,
    store::{Key, Packed, UnpackError},
};
use decide::{Observed, Stage};
use jiff::Timestamp;
use kube::Resource;
use observe::Observer;
use slots::Slots;

/// How long after something outside did not answer, or stood in the way, it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// How often a registry is asked whether it still has an image: registries are cleaned up.
const ASK_AGAIN: Duration = Duration::from_secs(3600);

/// Reconciles DynamoComponents.
pub struct Reconciler {
    /// Reads.
    pub observer: Observer,
    /// Writes.
    pub applier: Applier,
    /// Who may build.
    pub slots: Arc<Slots>,
    /// Tells.
    pub events: EventSink,
    /// How often in a row a registry or an API store did not answer.
    pub pauses: Mutex<Backoff<Key>>,
}

impl Reconciler {
    /// Brings one component a step further.
    ///
    /// # Errors
    /// What goes away by itself; everything else is told in the status.
    pub async fn reconcile(&self, packed: Arc<Packed<DynamoComponent>>) -> Result<Action, Interruption> {
        if packed.metadata.deletion_timestamp.is_some() {
            self.pauses.lock().unwrap_or_else(PoisonError::into_inner).clear(&Key::of(packed.as_ref()));
            return Ok(Action::await_change());
        }
        let key = Key::of(packed.as_ref());
        // Nobody waits for who cannot go on.
        let leave = || self.slots.leave(&key, Instant::now());
        let component = match packed.unpack() {
            Ok(component) => component,
            Err(error) => {
                leave();
                return self.report_unreadable(&packed, &error).await;
            }
        };
        let observed = self.observer.observe(&component).await.inspect_err(|_| leave())?;
        let now = Timestamp::now();
        let decision = decide::decide(&observed, now);
        let uid = component.metadata.uid.clone().unwrap_or_default();
        let builder = apply::Builder { key: &key, uid: &uid };
        let acted = apply::apply(&self.applier, &self.slots, builder, decision).await?;
        if acted.made {
            let note =
                format!("building {} by Job {}", observed.image.as_deref().unwrap_or_default(), observed.job_name);
            self.tell(&packed, EventType::Normal, "BuildStarted", &note);
        }
        let live = component.status.clone().unwrap_or_default();
        let status = status::status(&live, component.metadata.generation, &observed, &acted.stage, now);
        if self.applier.patch_status(&packed, &status).await? {
            self.tell_stage(&packed, &observed, &acted.stage);
        }
        Ok(self.next(&key, &observed, &acted.stage, now))
    }

    /// Reports a spec that has not the shape of its kind: the schema admits some of them.
    async fn report_unreadable(
        &self,
        packed: &Packed<DynamoComponent>,
        error: &UnpackError,
    ) -> Result<Action, Interruption> {
        let live: DynamoComponentStatus = serde_json::from_value(packed.status()).unwrap_or_default();
        let status = status::unreadable(&live, packed.metadata.generation, &error.to_string(), Timestamp::now());
        if self.applier.patch_status(packed, &status).await? {
            self.tell(packed, EventType::Warning, "InvalidSpec", &error.to_string());
        }
        Ok(Action::await_change())
    }

    /// When to reconcile again. A server that does not answer, or not as it should, is asked again after pauses that grow.
    fn next(&self, key: &Key, observed: &Observed, stage: &Stage, now: Timestamp) -> Action {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(stage, Stage::Unreachable(_)) {
            return Action::requeue(pauses.next(key).max(LOOK_AGAIN));
        }
        pauses.clear(key);
        next(observed, stage, now)
    }

    fn tell_stage(&self, packed: &Packed<DynamoComponent>, observed: &Observed, stage: &Stage) {
        match stage {
            Stage::Available => {
                let note = format!("the registry has {}", observed.image.as_deref().unwrap_or_default());
                self.tell(packed, EventType::Normal, "ImageAvailable", &note);
            }
            Stage::Failed { message, .. } => self.tell(packed, EventType::Warning, "BuildFailed", message),
            Stage::Mistaken(message) => self.tell(packed, EventType::Warning, "InvalidSpec", message),
            // It is over with the Job's deadline, and its pod with it: what it waited for is told before.
            Stage::Building { trouble: Some(trouble), .. } if !trouble.cause.is_expected() => {
                self.tell(packed, EventType::Warning, trouble.cause.reason(), &trouble.message);
            }
            Stage::Unreachable(_) | Stage::Blocked(_) | Stage::Queued(_) | Stage::Building { .. } => {}
        }
    }

    fn tell(&self, packed: &Packed<DynamoComponent>, type_: EventType, reason: &'static str, note: &str) {
        let event = Event { type_, reason: reason.to_owned(), action: "Build".to_owned(), note: note.to_owned() };
        self.events.publish(&packed.object_ref(&()), event);
    }
}

fn next(observed: &Observed, stage: &Stage, now: Timestamp) -> Action {
    match stage {
        Stage::Unreachable(_) | Stage::Blocked(_) | Stage::Queued(_) | Stage::Mistaken(_) => {
            Action::requeue(LOOK_AGAIN)
        }
        Stage::Failed { .. } => {
            let rest = observed.job.as_ref().and_then(|job| decide::retry_after(job, now));
            Action::requeue(rest.and_then(|rest| Duration::try_from(rest).ok()).unwrap_or(LOOK_AGAIN))
        }
        Stage::Available => Action::requeue(ASK_AGAIN),
        Stage::Building { .. } => observed.waits.look_again.map_or_else(Action::await_change, Action::requeue),
    }
}
