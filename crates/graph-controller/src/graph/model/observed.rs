//! A graph and all objects that belong to it, as they were read at one moment.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api_types::{
    annotations, conditions,
    conversion::preserved::PreservedClaim,
    grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet, PodCliqueTemplate},
    labels,
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter as Adapter},
};
use controller_kit::{apply::APPLIED_ANNOTATION, conditions::is_true, store::controller_owner};
use kube::Resource;
use rendering::{PullSecretIndex, WorkloadProvider, checkpoint::StorageLocation};

use super::{GraphBlocked, GraphObstacle};

/// Pods of one component, and one revision of it, that have not ended. Its object may be gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningPods {
    /// Component of the graph.
    pub component: String,
    /// Number of pods.
    pub count: usize,
}

/// A graph and all objects that belong to it, at one moment. Everything after the reads is computed from this.
#[derive(Clone, Debug)]
pub struct GraphObserved {
    /// The graph: as it is stored, but for the scaling adapters that `autoscaling` implies, until its target is set.
    pub graph: DynamoGraphDeployment,
    /// Its components: those it owns, and orphans of the same graph name that it may adopt.
    pub components: Vec<DynamoComponentDeployment>,
    /// Scaling adapters under the names of those that its components need, with any owner.
    pub adapters: Vec<Adapter>,
    /// Worker pods that have not ended, by the name of their DynamoComponentDeployment, on Grove by that of their
    /// component; counted where they matter.
    pub running_pods: BTreeMap<String, RunningPods>,
    /// APIs that the cluster serves; as far as caches show them until the rest is read.
    pub served: ClusterApis,
    /// Checkpoints that the graph made or names.
    pub checkpoints: LiveCheckpoints,
    /// Its objects on Grove.
    pub grove: LiveGrove,
    /// The DynamoComponent that builds its image, of any origin.
    pub build: Option<DynamoComponent>,
    /// Resources that it needs as a graph of the legacy API; empty for others.
    pub legacy: LegacyResources,
    /// The provider of its workloads.
    pub provider: WorkloadProvider,
    /// GPUs behind claims by component, or why they cannot be counted.
    pub claimed_gpus: BTreeMap<String, Result<u32, String>>,
    /// Secret with the SSH key for MPI that its namespace lacks.
    pub missing_key: Option<String>,
    /// Whether its discovery account is bound to a Role of its own, which is there.
    pub has_own_role: bool,
    /// Reason why nothing can be planned.
    pub blocked: Option<GraphBlocked>,
}

impl GraphObserved {
    /// A graph without any other object.
    pub fn new(graph: DynamoGraphDeployment) -> Self {
        Self {
            graph,
            components: Vec::new(),
            adapters: Vec::new(),
            running_pods: BTreeMap::new(),
            served: ClusterApis::default(),
            checkpoints: LiveCheckpoints::default(),
            grove: LiveGrove::default(),
            build: None,
            legacy: LegacyResources::default(),
            provider: WorkloadProvider::default(),
            claimed_gpus: BTreeMap::new(),
            missing_key: None,
            has_own_role: false,
            blocked: None,
        }
    }

    /// Components that are not being deleted.
    pub fn present(&self) -> impl Iterator<Item = &DynamoComponentDeployment> {
        self.components.iter().filter(|d| d.metadata.deletion_timestamp.is_none())
    }

    /// Whether the graph is the controller of an object.
    pub fn is_owner<K: Resource>(&self, object: &K) -> bool {
        is_controller(&self.graph, object)
    }
}

/// Whether a graph is the controller of an object.
pub fn is_controller<K: Resource>(graph: &DynamoGraphDeployment, object: &K) -> bool {
    controller_owner(object).is_some_and(|owner| Some(&owner.uid) == graph.metadata.uid.as_ref())
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
    /// A DynamoComponent that is not the graph's, of whose archive the manifest is still to be requested.
    pub manifest_of: Option<DynamoComponent>,
    /// Volumes of single components.
    pub claims: Vec<PreservedClaim>,
    /// Reason why the image is not built yet.
    pub awaited: Option<GraphObstacle>,
}

/// Checkpoints that a graph made or names.
#[derive(Clone, Debug, Default)]
pub struct LiveCheckpoints {
    /// Those that it owns, orphans with its label, and those that its spec names.
    pub all: Vec<DynamoCheckpoint>,
    /// Names of those that any component of the namespace uses.
    pub in_use: BTreeSet<String>,
    /// Storage of checkpoints of the namespace; for graphs on Grove.
    pub place: StorageLocation,
}

impl LiveCheckpoints {
    /// The checkpoint of that name.
    pub fn named(&self, name: &str) -> Option<&DynamoCheckpoint> {
        self.all.iter().find(|found| found.metadata.name.as_deref() == Some(name))
    }
}

/// Objects of a graph on Grove.
#[derive(Clone, Debug, Default)]
pub struct LiveGrove {
    /// The graph's PodCliqueSets: those it owns, and orphans of its name that it may adopt. There should be one at
    /// most.
    pub sets: Vec<PodCliqueSet>,
    /// Cliques that Grove made for components that are one clique.
    pub cliques: Vec<PodClique>,
    /// Groups that Grove made for components that are several.
    pub groups: Vec<PodCliqueScalingGroup>,
    /// Component types that no API version defines, by component: v1alpha1 accepted any text.
    pub unknown_types: BTreeMap<String, String>,
    /// Image pull secrets of the namespace by registry.
    pub pull_secrets: Arc<PullSecretIndex>,
    /// The queue of the KAI scheduler that the graph names, if it does not exist.
    pub missing_queue: Option<String>,
    /// Domains of the cluster topology that the KV-transfer policy names; `None` if it does not exist.
    pub topology_domains: Option<Vec<String>>,
}

impl LiveGrove {
    /// The PodCliqueSet that runs the graph.
    pub fn set(&self) -> Option<&PodCliqueSet> {
        self.sets.iter().find(|set| set.metadata.deletion_timestamp.is_none())
    }

    /// Whether the KAI scheduler places the live pods; `None` if there are none.
    pub fn uses_kai(&self) -> Option<bool> {
        let has_queue = |clique: &PodCliqueTemplate| clique.labels.contains_key(labels::KAI_QUEUE);
        self.set().map(|set| set.spec.template.cliques.iter().any(has_queue))
    }

    /// Whether all live pods wait in that queue of the KAI scheduler.
    pub fn waits_in(&self, queue: &str) -> bool {
        let cliques = self.set().into_iter().flat_map(|set| &set.spec.template.cliques);
        let queues: Vec<_> = cliques.filter_map(|clique| clique.labels.get(labels::KAI_QUEUE)).collect();
        !queues.is_empty() && queues.iter().all(|found| *found == queue)
    }

    /// Domains of the cluster topology that live pods were rendered with.
    pub fn rendered_domains(&self) -> Option<Vec<String>> {
        let cliques = &self.set()?.spec.template.cliques;
        cliques.iter().find_map(|clique| rendering::topology_domains(&clique.spec.pod_spec))
    }
}

/// Annotations of which every object of an operator has at least one: of ours, or of the upstream operator.
pub const MARKS: [&str; 2] = [APPLIED_ANNOTATION, annotations::LAST_APPLIED_HASH];

/// Whether the component controller reports `Stalled` for the current spec.
pub fn is_stalled(d: &DynamoComponentDeployment) -> bool {
    is_current(d) && d.status.as_ref().is_some_and(|s| is_true(&s.conditions, conditions::STALLED))
}

/// Whether the status of a live object is of its current spec.
pub fn is_current(d: &DynamoComponentDeployment) -> bool {
    let observed = d.status.as_ref().and_then(|s| s.observed_generation).unwrap_or(0);
    observed >= d.metadata.generation.unwrap_or(0)
}
