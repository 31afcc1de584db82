//! Data of a pass over a scaling adapter.

use std::time::Duration;

use api_types::v1beta1::{
    ComponentSpec, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter as Adapter,
    DynamoGraphDeploymentScalingAdapterStatus as Status,
};
use controller_kit::apply::RequestError;

/// An adapter and its graph, at one moment.
#[derive(Clone, Debug)]
pub struct ScalingAdapterObserved {
    /// The adapter.
    pub adapter: Adapter,
    /// The graph that it names; `None` if it does not exist or is being deleted.
    pub graph: Option<DynamoGraphDeployment>,
    /// The name of another adapter that scales the component; `None` if this one does.
    pub preceded_by: Option<String>,
    /// Time for which the component must not be scaled yet.
    pub pause: Option<Duration>,
}

/// The component that an adapter scales.
#[derive(Clone, Copy, Debug)]
pub struct ScaledComponent<'a> {
    /// The graph.
    pub graph: &'a DynamoGraphDeployment,
    /// Index of the component in the graph.
    pub index: usize,
    /// The component.
    pub component: &'a ComponentSpec,
}

/// Desired writes of an adapter that has an effect.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingAdapterPlan {
    /// The change of the graph, if it needs one now.
    pub scale: Option<ComponentScale>,
    /// After how long a change is made that has to wait.
    pub delayed: Option<Duration>,
    /// The adapter's status, as long as the graph is not changed.
    pub status: Status,
}

/// Reason why an adapter has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoEffect {
    /// Reason of the event.
    pub reason: &'static str,
    /// Missing target, or the adapter that scales the component.
    pub message: String,
}

/// A change of the replicas of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentScale {
    /// Index in the list of components.
    pub index: usize,
    /// Name of the component.
    pub component: String,
    /// Replicas in the spec; `None` means one.
    pub from: Option<i32>,
    /// New replicas.
    pub to: i32,
}

/// Plan, and the result of its application.
#[derive(Debug)]
pub struct ScalingAdapterApplied {
    /// The plan.
    pub plan: Result<ScalingAdapterPlan, NoEffect>,
    /// Result of the change of the graph.
    pub outcome: ScaleOutcome,
}

/// Result of the change of the graph.
#[derive(Debug)]
pub enum ScaleOutcome {
    /// It needed none, or it is gone.
    Unchanged,
    /// The component has its replicas.
    Scaled,
    /// The API server rejects the change, with this message; an early retry does not help.
    Rejected(String),
    /// A failure that goes away by itself.
    Failed(RequestError),
}
