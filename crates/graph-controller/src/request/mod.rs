//! Reconciles one `DynamoGraphDeploymentRequest`: a model with its targets is profiled, and what the profiler proposes
//! becomes a graph.
//!
//! The spec is never written: hardware that is found goes into the status and to the profiler, and the graph that the
//! profiler proposes into the status.

pub mod apply;
pub mod cost;
pub mod events;
#[cfg(test)]
mod fixtures;
pub mod hardware;
pub mod model;
pub mod observe;
pub mod output;
pub mod phase;
pub mod plan;
mod requeue;
pub mod settings;
pub mod status;
pub mod validate;

use api_types::{
    LEGACY_FINALIZER,
    typed::typed,
    v1beta1::{DynamoGraphDeploymentRequest as Request, DynamoGraphDeploymentRequestStatus},
};
use controller_kit::{
    controller::{Action, Conclusion, Outputs, Reconcile},
    request::Interruption,
    store::{Packed, UnpackError},
};
use k8s_openapi::jiff::Timestamp;

use self::{
    model::{RequestApplied, RequestObserved, RequestPlan},
    observe::RequestObserver,
};

/// Reconciles requests.
pub struct RequestReconciler {
    /// Reads.
    pub observer: RequestObserver,
    /// Writes.
    pub outputs: Outputs,
}

impl Reconcile for RequestReconciler {
    type Object = Request;
    type Observed = RequestObserved;
    type Plan = RequestPlan;
    type Applied = RequestApplied;
    type Status = DynamoGraphDeploymentRequestStatus;

    fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Takes off the finalizer of another operator, and nothing else. The Job and what the profiler said go with the
    /// request; its graph stays.
    async fn finalize(&self, packed: &Packed<Request>) -> Result<Action, Interruption> {
        self.outputs.applier.remove_finalizer(packed, LEGACY_FINALIZER).await?;
        Ok(Action::AwaitChange)
    }

    /// Only the request's own form is a violation of its user; what it has reached stays.
    fn unreadable(
        &self,
        packed: &Packed<Request>,
        _: &UnpackError,
        now: Timestamp,
    ) -> Option<Conclusion<Self::Status>> {
        let message = packed.unpack().err()?.to_string();
        let before = typed(packed.status()).unwrap_or_default();
        let status = status::of_unreadable(before, packed.metadata.generation, &message, now);
        Some(Conclusion::of_status(status))
    }

    async fn observe(&self, packed: &Packed<Request>, request: Request) -> Result<RequestObserved, Interruption> {
        self.observer.observe(packed, request).await
    }

    fn plan(&self, observed: &RequestObserved, now: Timestamp) -> RequestPlan {
        plan::plan(observed, now)
    }

    async fn apply(&self, observed: &RequestObserved, plan: RequestPlan) -> Result<RequestApplied, Interruption> {
        Ok(apply::apply(&self.outputs.applier, &self.observer.caches, observed, plan).await?)
    }

    fn conclude(&self, observed: &Self::Observed, applied: &Self::Applied, now: Timestamp) -> Conclusion<Self::Status> {
        let status = status::status(observed, applied, now);
        let status_events = events::events(observed, applied, &status);
        let next = requeue::next(observed, &applied.phase, now);
        Conclusion { status_events, next, ..Conclusion::of_status(status) }
    }
}
