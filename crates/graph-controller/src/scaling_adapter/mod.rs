//! Reconciles `DynamoGraphDeploymentScalingAdapter`: sets the replicas of its component in the graph.
//!
//! The replica count of such a component is the one field of a user's spec that this operator writes. The adapter is
//! the source of truth: a count that is set on the graph is reverted.

mod apply;
pub mod events;
pub mod model;
pub mod observe;
pub mod plan;
mod requeue;
pub mod status;
#[cfg(test)]
mod tests;
pub mod validate;

use std::{sync::Mutex, time::Instant};

use api_types::v1beta1::{
    DynamoGraphDeploymentScalingAdapter as Adapter, DynamoGraphDeploymentScalingAdapterStatus as Status,
};
use controller_kit::{
    controller::{Conclusion, Outputs, Reconcile},
    request::Interruption,
    store::Packed,
    sync::locked,
};
use k8s_openapi::jiff::Timestamp;

use self::{
    model::{NoEffect, ScaleOutcome, ScalingAdapterApplied, ScalingAdapterObserved, ScalingAdapterPlan},
    observe::ScalingAdapterCaches,
    plan::Paces,
};

/// Reconciles scaling adapters.
pub struct ScalingAdapterReconciler {
    /// The caches.
    pub caches: ScalingAdapterCaches,
    /// Writes.
    pub outputs: Outputs,
    /// Times of the last scaling of components.
    pub paces: Mutex<Paces>,
}

impl Reconcile for ScalingAdapterReconciler {
    type Object = Adapter;
    type Observed = ScalingAdapterObserved;
    type Plan = Result<ScalingAdapterPlan, NoEffect>;
    type Applied = ScalingAdapterApplied;
    type Status = Status;

    fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    async fn observe(&self, _: &Packed<Adapter>, adapter: Adapter) -> Result<ScalingAdapterObserved, Interruption> {
        let pause = |graph: &_, component: &_| locked(&self.paces).pause(graph, component, Instant::now());
        Ok(observe::observe(&self.caches, pause, adapter)?)
    }

    fn plan(&self, observed: &ScalingAdapterObserved, _: Timestamp) -> Self::Plan {
        plan::plan(observed)
    }

    async fn apply(&self, observed: &Self::Observed, plan: Self::Plan) -> Result<Self::Applied, Interruption> {
        let outcome = apply::apply(&self.outputs.applier, observed, &plan).await;
        if let ScaleOutcome::Scaled = outcome {
            let (graph, target) = (observe::graph_of(&observed.adapter), &observed.adapter.spec.dgd_ref);
            locked(&self.paces).scaled(&graph, &target.component_name, Instant::now());
        }
        Ok(ScalingAdapterApplied { plan, outcome })
    }

    fn conclude(
        &self,
        _: &ScalingAdapterObserved,
        applied: &ScalingAdapterApplied,
        now: Timestamp,
    ) -> Conclusion<Status> {
        let next = requeue::next(applied);
        let events = events::of_applied(applied).into_iter().collect();
        Conclusion { status: status::of_applied(applied, now), events, next, ..Conclusion::default() }
    }

    /// Autoscalers read the status: it is written although the change of the graph failed.
    async fn after_status(&self, _: Self::Observed, applied: Self::Applied) -> Result<(), Interruption> {
        if let ScaleOutcome::Failed(error) = applied.outcome { Err(error.into()) } else { Ok(()) }
    }
}
