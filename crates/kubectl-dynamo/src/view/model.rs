//! A graph and its children.

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter};
use k8s_openapi::api::core::v1::Pod;
use status_view::State;

use crate::diagnosis::Workload;

/// A graph and its children.
#[derive(Clone, Debug)]
pub struct Family {
    /// The graph.
    pub graph: DynamoGraphDeployment,
    /// Its components, of all revisions.
    pub components: Vec<DynamoComponentDeployment>,
    /// Their workloads.
    pub workloads: Vec<Workload>,
    /// Its scaling adapters.
    pub adapters: Vec<DynamoGraphDeploymentScalingAdapter>,
    /// Its pods.
    pub pods: Vec<Pod>,
}

impl Family {
    /// The state of the graph.
    pub fn state(&self) -> State {
        State::of_graph(&self.graph, &self.components, &self.pods)
    }
}
