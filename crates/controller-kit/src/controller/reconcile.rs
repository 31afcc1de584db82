//! One form for every reconciler: the phases of a pass, and the driver that runs them.

use std::future::Future;

use api_types::v1beta1::DynamoGraphDeployment;
use jiff::Timestamp;
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};

use super::Action;
use crate::{
    apply::{Applier, StatusWrite},
    events::{Event, EventSink},
    notifications::{Delivery, Notifier},
    request::{Interruption, ObjectId, to_value},
    store::{Packed, UnpackError, controller_owner, keep::is_a},
};

/// Writers of a reconciler: of children and statuses, of events, and of notifications.
#[derive(Clone)]
pub struct Outputs {
    /// Writes children and the status.
    pub applier: Applier,
    /// Records events.
    pub events: EventSink,
    /// Notifies receivers when an object is failing, and when it is ready again. `None`: of no object of this kind.
    pub notifier: Option<Notifier>,
}

impl Outputs {
    /// Records events under the field manager of `applier`, and sends no notifications.
    pub fn new(applier: Applier) -> Self {
        let events = EventSink::new(applier.client.clone(), &applier.field_manager);
        Self { events, applier, notifier: None }
    }

    /// Adds notifications.
    #[must_use]
    pub fn notifying(self, notifier: Option<&Notifier>) -> Self {
        Self { notifier: notifier.cloned(), ..self }
    }
}

/// Reconciles objects of one kind. [`reconcile`] calls the phases in this order: `observe`, `plan`, `apply`,
/// `conclude`, `after_status`. `plan` and `conclude` are pure; violations in the spec are a plan too.
pub trait Reconcile: Send + Sync + 'static {
    /// The reconciled kind.
    type Object: Resource<DynamicType: Default> + DeserializeOwned + Send + Sync + 'static;
    /// Everything that a pass reads.
    type Observed: Send + Sync;
    /// Planned writes.
    type Plan: Send;
    /// Writes that were made, and writes that the API server rejected.
    type Applied: Send + Sync;
    /// Status of the kind.
    type Status: Serialize + Send + Sync;

    /// Writes children and the status, records events and notifies.
    fn outputs(&self) -> &Outputs;

    /// Handles an object that is being deleted. Creates nothing.
    fn finalize(&self, _object: &Packed<Self::Object>) -> impl Future<Output = Result<Action, Interruption>> + Send {
        async { Ok(Action::AwaitChange) }
    }

    /// Reports an object that does not have the shape of its kind, or that depends on a cached object which does not.
    /// `None` makes it an error of the reconcile, which is logged and not retried before a change.
    fn unreadable(
        &self,
        _object: &Packed<Self::Object>,
        _error: &UnpackError,
        _now: Timestamp,
    ) -> Option<Conclusion<Self::Status>> {
        None
    }

    /// Reads caches, and what no cache holds: all that a plan depends on, beside the settings and the time.
    fn observe(
        &self,
        packed: &Packed<Self::Object>,
        object: Self::Object,
    ) -> impl Future<Output = Result<Self::Observed, Interruption>> + Send;

    /// Validates the spec and computes what is to be written. Pure.
    fn plan(&self, observed: &Self::Observed, now: Timestamp) -> Self::Plan;

    /// Writes what differs from the plan.
    ///
    /// A transient failure is an error; what the API server rejects is part of the result, for the status.
    fn apply(
        &self,
        observed: &Self::Observed,
        plan: Self::Plan,
    ) -> impl Future<Output = Result<Self::Applied, Interruption>> + Send;

    /// Computes status, events and the next pass. Pure.
    fn conclude(&self, observed: &Self::Observed, applied: &Self::Applied, now: Timestamp) -> Conclusion<Self::Status>;

    /// Makes the writes that must follow the status, and returns an error of `apply` that must not keep the status from
    /// being written. Not called while the status write is delayed.
    fn after_status(
        &self,
        _observed: Self::Observed,
        _applied: Self::Applied,
    ) -> impl Future<Output = Result<(), Interruption>> + Send {
        async { Ok(()) }
    }
}

/// Result of a pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conclusion<S> {
    /// The whole new status; `None` keeps the present one.
    pub status: Option<S>,
    /// Whether the status write may be delayed.
    pub pace: StatusPace,
    /// Events about what was done: recorded in any case.
    pub events: Vec<Event>,
    /// Events about changes of the status: recorded when the status is written.
    pub status_events: Vec<Event>,
    /// Time of the next reconcile.
    pub next: Action,
}

impl<S: Default> Conclusion<S> {
    /// Writes this status immediately, and waits for a change.
    pub fn of_status(status: S) -> Self {
        Self { status: Some(status), ..Self::default() }
    }
}

/// Pace of status writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatusPace {
    /// Every difference is written at once: [`Applier::patch_status`].
    #[default]
    Immediate,
    /// Intermediate counts are skipped: [`Applier::write_status`].
    Limited,
}

/// Runs one pass over an object.
///
/// # Errors
/// Failures that go away by themselves, and objects that cannot be read. Everything else is in the status.
pub async fn reconcile<R: Reconcile>(reconciler: &R, packed: &Packed<R::Object>) -> Result<Action, Interruption> {
    if packed.metadata.deletion_timestamp.is_some() {
        return reconciler.finalize(packed).await;
    }
    let observed = match packed.unpack() {
        Ok(object) => reconciler.observe(packed, object).await,
        Err(error) => Err(error.into()),
    };
    let observed = match observed {
        Ok(observed) => observed,
        Err(Interruption::Unreadable(error)) => {
            let Some(conclusion) = reconciler.unreadable(packed, &error, Timestamp::now()) else {
                return Err(error.into());
            };
            return Ok(write_conclusion(reconciler, packed, conclusion).await?.0);
        }
        Err(error) => return Err(error),
    };
    let plan = reconciler.plan(&observed, Timestamp::now());
    let applied = reconciler.apply(&observed, plan).await?;
    let conclusion = reconciler.conclude(&observed, &applied, Timestamp::now());
    let (next, written) = write_conclusion(reconciler, packed, conclusion).await?;
    if !matches!(written, StatusWrite::Delayed(_)) {
        reconciler.after_status(observed, applied).await?;
    }
    Ok(next)
}

/// Writes the status, records events, and notifies receivers. Returns the time of the next reconcile, too.
async fn write_conclusion<R: Reconcile>(
    reconciler: &R,
    packed: &Packed<R::Object>,
    conclusion: Conclusion<R::Status>,
) -> Result<(Action, StatusWrite), Interruption> {
    let Conclusion { status, pace, events, status_events, mut next } = conclusion;
    let outputs = reconciler.outputs();
    let regarding = packed.object_ref(&<R::Object as Resource>::DynamicType::default());
    let record = |events: Vec<Event>| events.into_iter().for_each(|event| outputs.events.publish(&regarding, event));
    record(events);
    let mut status = status.map(|status| to_value(&ObjectId::of(packed), &status)).transpose()?;
    if let Some(notifier) = outputs.notifier.as_ref().filter(|_| !is_part_of_graph(packed)) {
        let live = packed.status();
        let mut notified = status.unwrap_or_else(|| live.clone());
        if let Delivery::Pending(rest) = notifier.notify(&regarding, &live, &mut notified, Timestamp::now()) {
            next = next.no_later_than(rest);
        }
        status = Some(notified).filter(|notified| *notified != live);
    }
    let applier = &outputs.applier;
    let written = match (&status, pace) {
        (None, _) => StatusWrite::Unchanged,
        (Some(status), StatusPace::Limited) => applier.write_status(packed, status).await?,
        (Some(status), StatusPace::Immediate) if applier.patch_status(packed, status).await? => StatusWrite::Written,
        (Some(_), StatusPace::Immediate) => StatusWrite::Unchanged,
    };
    match written {
        StatusWrite::Delayed(rest) => next = next.no_later_than(rest),
        StatusWrite::Written => record(status_events),
        StatusWrite::Unchanged => {}
    }
    Ok((next, written))
}

/// The graph's own status has the problem of each of its components.
fn is_part_of_graph<O: Resource>(object: &Packed<O>) -> bool {
    controller_owner(object).is_some_and(is_a::<DynamoGraphDeployment>)
}
