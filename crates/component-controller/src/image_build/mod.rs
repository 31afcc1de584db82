//! Reconciles `DynamoComponent` of the legacy API: an image, which a Job builds if its registry lacks it.

pub mod apply;
pub mod build_slots;
pub mod events;
pub mod image;
pub mod job;
pub mod manifest;
pub mod model;
pub mod observe;
pub mod plan;
pub mod requeue;
pub mod settings;
pub mod status;
pub mod validate;

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use api_types::{
    typed::typed,
    v1alpha1::{DynamoComponent, DynamoComponentStatus},
};
use controller_kit::{
    controller::{Action, Conclusion, Outputs, Reconcile},
    fairness::Backoff,
    request::Interruption,
    store::{Key, Packed, UnpackError},
    sync::locked,
};
use jiff::Timestamp;

use self::{
    build_slots::BuildSlots,
    model::{BuildPhase, ImageBuildApplied, ImageBuildObserved, ImageBuildObstacle, ImageBuildPlan},
    observe::ImageBuildObserver,
};

/// Reconciles DynamoComponents.
pub struct ImageBuildReconciler {
    /// Reads.
    pub observer: ImageBuildObserver,
    /// Writes.
    pub outputs: Outputs,
    /// Limits concurrent builds.
    pub build_slots: Arc<BuildSlots>,
    /// Backoff of registries and API stores that do not answer, by component.
    pub backoff: Mutex<Backoff<Key>>,
}

impl Reconcile for ImageBuildReconciler {
    type Object = DynamoComponent;
    type Observed = ImageBuildObserved;
    type Plan = ImageBuildPlan;
    type Applied = ImageBuildApplied;
    type Status = DynamoComponentStatus;

    fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    async fn finalize(&self, packed: &Packed<Self::Object>) -> Result<Action, Interruption> {
        locked(&self.backoff).clear(&Key::of(packed));
        self.observer.manifests.clear(&Key::of(packed));
        Ok(Action::AwaitChange)
    }

    fn unreadable(
        &self,
        packed: &Packed<Self::Object>,
        _: &UnpackError,
        now: Timestamp,
    ) -> Option<Conclusion<Self::Status>> {
        // An unreadable Job is no violation of the component's.
        let message = packed.unpack().err()?.to_string();
        self.build_slots.dequeue(&Key::of(packed), Instant::now());
        let live: DynamoComponentStatus = typed(packed.status()).unwrap_or_default();
        let status = Some(status::unreadable(&live, packed.metadata.generation, &message, now));
        Some(Conclusion { status, status_events: vec![events::invalid_spec(&message)], ..Conclusion::default() })
    }

    async fn observe(
        &self,
        packed: &Packed<Self::Object>,
        component: Self::Object,
    ) -> Result<Self::Observed, Interruption> {
        let observed = self.observer.observe(component).await;
        observed.inspect_err(|_| self.build_slots.dequeue(&Key::of(packed), Instant::now()))
    }

    fn plan(&self, observed: &Self::Observed, now: Timestamp) -> Self::Plan {
        plan::plan(observed, now)
    }

    async fn apply(&self, observed: &Self::Observed, plan: Self::Plan) -> Result<Self::Applied, Interruption> {
        let mut applied = apply::apply(&self.outputs.applier, &self.build_slots, &observed.component, plan).await?;
        let key = Key::of(&observed.component);
        match applied.phase {
            BuildPhase::Obstructed(ImageBuildObstacle::Unreachable(_)) => {
                applied.backoff = Some(locked(&self.backoff).next(&key));
            }
            _ => locked(&self.backoff).clear(&key),
        }
        Ok(applied)
    }

    fn conclude(&self, observed: &Self::Observed, applied: &Self::Applied, now: Timestamp) -> Conclusion<Self::Status> {
        Conclusion {
            status: Some(status::status(observed, &applied.phase, now)),
            events: events::started(observed, applied).into_iter().collect(),
            status_events: events::of_phase(observed, &applied.phase).into_iter().collect(),
            next: requeue::next(observed, applied, now),
            ..Conclusion::default()
        }
    }
}
