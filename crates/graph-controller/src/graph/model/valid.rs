//! A valid graph.

use std::collections::BTreeMap;

use api_types::{
    rollout_control::RolloutControl,
    v1beta1::{BackendFramework, ComponentSpec, ComponentType, DynamoGraphDeploymentSpec},
};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use rendering::{DiscoveryBackend, WorkloadProvider, device_claims::ContainerClaim};

use crate::graph::{model::GraphObstacle, settings::GraphSettings};

/// A graph whose spec has no violation.
#[derive(Clone, Debug)]
pub struct ValidGraph<'a> {
    /// Kubernetes namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Annotations of the graph itself.
    pub annotations: &'a BTreeMap<String, String>,
    /// The spec.
    pub spec: &'a DynamoGraphDeploymentSpec,
    /// Engine: the user's, else the one of the workers' command lines.
    pub framework: Option<BackendFramework>,
    /// Discovery of its pods; Kubernetes if any component uses it.
    pub discovery: DiscoveryBackend,
    /// User's control of the rollout of its workers.
    pub control: RolloutControl,
    /// Claims of GPUs that the processes of one pod share, without owner.
    pub claim_templates: Vec<ResourceClaimTemplate>,
    /// The provider of its workloads.
    pub provider: WorkloadProvider,
    /// Domains of the cluster topology that the KV-transfer policy names.
    pub topology_domains: &'a [String],
    /// The operator's configuration.
    pub settings: &'a GraphSettings,
    /// Reason why no component can be started although the spec is valid.
    pub obstacle: Option<GraphObstacle>,
    /// Claims whose GPUs must be counted before a component can be rendered, by component.
    pub gpu_claims: BTreeMap<&'a str, Vec<ContainerClaim>>,
    /// The GPUs behind them. On Grove only: the component controller renders other components.
    pub claimed_gpus: BTreeMap<&'a str, u32>,
}

impl ValidGraph<'_> {
    /// The components that belong to worker revisions.
    pub fn workers(&self) -> impl Iterator<Item = &ComponentSpec> {
        self.spec.components.iter().filter(|c| c.is_worker())
    }

    /// Whether a worker component of that name is desired.
    pub fn has_worker(&self, name: &str) -> bool {
        self.workers().any(|c| c.name == name)
    }

    /// The gateway's endpoint picker, if one belongs to the graph.
    pub fn endpoint_picker(&self) -> Option<&ComponentSpec> {
        self.spec.components.iter().find(|c| c.type_ == Some(ComponentType::Epp))
    }
}
