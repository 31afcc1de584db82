//! Reconciles one `DynamoGraphDeploymentScalingAdapter`: what an autoscaler, a planner or a user asks of the adapter, the
//! component of the graph gets.
//!
//! The replica count of such a component is the one field of a user's spec that this operator writes. The adapter is the
//! source of truth: a count that is set on the graph is brought back.

mod apply;
pub mod decide;
pub mod observe;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use api_types::v1beta1::DynamoGraphDeploymentScalingAdapter as Adapter;
use controller_kit::{
    apply::{Applier, Error},
    controller::Action,
    events::{EventSink, EventType},
    store::{Key, Packed},
};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use tracing::warn;

use self::{
    decide::{Outcome, Paces},
    observe::Caches,
};

/// After how long a graph that refused to be scaled is asked again, if neither it nor the adapter changes: what refuses may be a
/// policy or a quota.
const REFUSED_RETRY: Duration = Duration::from_secs(15);

/// What reconciling needs beside the adapter.
#[derive(Clone)]
pub struct Reconciler {
    /// The caches.
    pub caches: Caches,
    /// The only way to write.
    pub applier: Applier,
    /// Where events go.
    pub events: EventSink,
    /// When components were scaled last.
    pub paces: Arc<Mutex<Paces>>,
}

impl Reconciler {
    /// Gives the component the replicas that the adapter asks for, and says in the adapter's status how many it has.
    ///
    /// # Errors
    /// What goes away by itself; what does not is told in an event.
    pub async fn reconcile(&self, packed: Arc<Packed<Adapter>>) -> Result<Action, Error> {
        if packed.metadata.deletion_timestamp.is_some() {
            return Ok(Action::await_change());
        }
        let observed = match observe::observe(&self.caches, &packed) {
            Ok(observed) => observed,
            Err(error) => {
                warn!(%error, "left alone");
                return Ok(Action::await_change());
            }
        };
        let mut decision = decide::decide(&observed);
        let target = &observed.adapter.spec.dgd_ref;
        let graph = Key::new(packed.metadata.namespace.as_deref().unwrap_or_default(), &target.name);
        let rest = self.paces().rest(&graph, &target.component_name, Instant::now());
        let rest = rest.filter(|_| decision.scale.is_some());
        if rest.is_some() {
            decision = decision.held_back();
        }
        let outcome = apply::apply(&self.applier, &packed, &observed, &decision, Timestamp::now()).await?;
        if let Some(told) = decision.event(&outcome) {
            self.events.publish(&packed.object_ref(&()), told.type_, told.reason, "Scale", &told.note);
        }
        if outcome == Outcome::Scaled {
            self.paces().scaled(&graph, &target.component_name, Instant::now());
        }
        Ok(match outcome {
            Outcome::Refused(_) => Action::requeue(REFUSED_RETRY),
            Outcome::Unchanged | Outcome::Scaled => rest.map_or_else(Action::await_change, Action::requeue),
        })
    }

    fn paces(&self) -> MutexGuard<'_, Paces> {
        self.paces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One event on the adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Normal or Warning.
    pub type_: EventType,
    /// One CamelCase word.
    pub reason: &'static str,
    /// What happened.
    pub note: String,
}
