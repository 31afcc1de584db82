//! Reads past the caches that a reconcile requires, and their results.

use std::collections::BTreeMap;

use api_types::{conversion::preserved::PreservedClaim, v1alpha1::DynamoComponent, v1beta1::DynamoGraphDeploymentSpec};
use rendering::{WorkloadProvider, device_claims::ContainerClaim};

use super::GraphObstacle;

/// The graph as it is reconciled.
#[derive(Clone, Debug, Default)]
pub struct GraphTarget {
    /// The provider of its workloads.
    pub provider: WorkloadProvider,
    /// The spec, if it differs from the stored one: translated from the legacy API, configured, scaled by adapters.
    pub spec: Option<DynamoGraphDeploymentSpec>,
    /// Resources that a graph of the legacy API needs beside its components.
    pub legacy: LegacyResources,
}

/// Required reads past the caches.
#[derive(Clone, Debug, Default)]
pub struct GraphNeeds {
    /// The graph for which it is read.
    pub target: GraphTarget,
    /// Whether the cluster serves LeaderWorkerSets.
    pub leader_worker_sets: bool,
    /// Required reads of a graph on Grove.
    pub grove: Option<GroveNeeds>,
}

/// Required reads of a graph on Grove.
#[derive(Clone, Debug, Default)]
pub struct GroveNeeds {
    /// Whether live pods are placed by the KAI scheduler; `None` if that depends on the cluster.
    pub live_kai: Option<bool>,
    /// The cluster topology of the KV-transfer policy.
    pub topology: Option<TopologyNeed>,
    /// Claims whose GPUs must be counted, by component.
    pub gpu_claims: BTreeMap<String, Vec<ContainerClaim>>,
}

/// A cluster topology that a KV-transfer policy names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyNeed {
    /// Its name.
    pub name: String,
    /// The domain within which caches are exchanged.
    pub domain: String,
    /// The domains that live pods were rendered with.
    pub live_domains: Option<Vec<String>>,
}

/// Results of the reads past the caches.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// APIs that the cluster serves.
    pub served: ClusterApis,
    /// The queue of the KAI scheduler, if it does not exist.
    pub missing_queue: Option<String>,
    /// Domains of the cluster topology; `None` if it does not exist.
    pub topology_domains: Option<Vec<String>>,
    /// GPUs behind claims by component, or why they cannot be counted.
    pub claimed_gpus: BTreeMap<String, Result<u32, String>>,
}

/// APIs that the cluster serves. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterApis {
    /// LeaderWorkerSets, for replicas that span nodes.
    pub leader_worker_sets: bool,
    /// Grove.
    pub grove: bool,
    /// The KAI scheduler, or it places the live pods.
    pub kai: bool,
    /// The Volcano scheduler.
    pub volcano: bool,
    /// Checkpoints are enabled in the operator's configuration.
    pub checkpoints: bool,
    /// Reading the cluster topology is forbidden.
    pub topology_hidden: bool,
}

/// Resources that a graph of the legacy API needs beside its components.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LegacyResources {
    /// The DynamoComponent that builds the image, without owner; none if no image is built, or by one that is not the
    /// graph's.
    pub build: Option<DynamoComponent>,
    /// A DynamoComponent that is not the graph's, of whose archive the manifest is still to be asked for.
    pub manifest_of: Option<DynamoComponent>,
    /// Volumes of single components.
    pub claims: Vec<PreservedClaim>,
    /// Reason why the image is not built yet.
    pub awaited: Option<GraphObstacle>,
}
