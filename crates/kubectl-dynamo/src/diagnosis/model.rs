//! Data of a diagnosis: what was observed, and the causes that follow from it.

use std::{collections::BTreeMap, fmt};

use api_types::{
    conditions,
    v1alpha1::{DynamoCheckpoint, DynamoModel},
    v1beta1::{
        DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentRequest,
        DynamoGraphDeploymentScalingAdapter,
    },
};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Pod, Taint},
    apimachinery::pkg::apis::meta::v1::Condition,
    jiff::Timestamp,
};
use kube::Resource;
use serde::Serialize;

/// Kind and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectName {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl ObjectName {
    /// The name of an object of a kind.
    pub fn new(kind: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// Whether a cause needs an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// It lasts until something is changed.
    Blocks,
    /// It is normal while an object comes up or changes.
    Waits,
    /// It keeps nothing from being ready.
    Notice,
}

/// One reason why an object is not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Code of the cause, constant for programs.
    pub code: String,
    /// Whether it needs an action.
    pub weight: Weight,
    /// The objects from the one that the diagnosis is about to the one with the cause.
    pub chain: Vec<ObjectName>,
    /// Number of further objects with the same cause.
    pub others: usize,
    /// Description of the fault.
    pub cause: String,
    /// Evidence: events, last lines of logs, facts of other objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The remedy.
    pub remedy: String,
}

impl Cause {
    /// A cause of one object, without evidence.
    pub fn new(
        code: &str,
        weight: Weight,
        chain: Vec<ObjectName>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (code, cause, remedy) = (code.to_owned(), cause.into(), remedy.into());
        Self { code, weight, chain, others: 0, cause, evidence: Vec::new(), remedy }
    }
}

/// Result of a diagnosis: ready, or the causes why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The object.
    pub object: ObjectName,
    /// Its namespace.
    pub namespace: String,
    /// Whether it is ready at its latest generation.
    pub ready: bool,
    /// The reason and the message of its condition `Ready`.
    pub summary: String,
    /// The causes, those that need an action first.
    pub causes: Vec<Cause>,
    /// Objects that could not be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

/// Fields that all kinds of the operator have.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// Generation that the status is of.
    pub observed_generation: Option<i64>,
    /// Time of the creation of the object or of the last write of its spec.
    pub changed: Option<Timestamp>,
    /// Time of the request for its deletion.
    pub deleted: Option<Timestamp>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// Conditions of the status.
    pub conditions: Vec<Condition>,
}

impl Subject {
    /// The common part of an object.
    pub fn of<K: Resource<DynamicType = ()>>(
        object: &K,
        observed_generation: Option<i64>,
        conditions: &[Condition],
    ) -> Self {
        let meta = object.meta();
        let writes = meta.managed_fields.iter().flatten().filter(|entry| entry.subresource.is_none());
        let written = writes.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max();
        Self {
            kind: K::kind(&()).into_owned(),
            name: meta.name.clone().unwrap_or_default(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            generation: meta.generation,
            observed_generation,
            changed: written.or_else(|| meta.creation_timestamp.as_ref().map(|time| time.0)),
            deleted: meta.deletion_timestamp.as_ref().map(|time| time.0),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            conditions: conditions.to_vec(),
        }
    }

    /// Of a graph.
    pub fn of_graph(graph: &DynamoGraphDeployment) -> Self {
        let status = graph.status.clone().unwrap_or_default();
        Self::of(graph, status.observed_generation, &status.conditions)
    }

    /// Of a component.
    pub fn of_component(component: &DynamoComponentDeployment) -> Self {
        let status = component.status.clone().unwrap_or_default();
        Self::of(component, status.observed_generation, &status.conditions)
    }

    /// Of a request.
    pub fn of_request(request: &DynamoGraphDeploymentRequest) -> Self {
        let status = request.status.clone().unwrap_or_default();
        Self::of(request, status.observed_generation, &status.conditions)
    }

    /// Of a model.
    pub fn of_model(model: &DynamoModel) -> Self {
        let status = model.status.clone().unwrap_or_default();
        Self::of(model, status.observed_generation, &status.conditions)
    }

    /// Of a checkpoint.
    pub fn of_checkpoint(checkpoint: &DynamoCheckpoint) -> Self {
        let status = checkpoint.status.clone().unwrap_or_default();
        Self::of(checkpoint, status.observed_generation, &status.conditions)
    }

    /// Its name.
    pub fn object(&self) -> ObjectName {
        ObjectName::new(&self.kind, &self.name)
    }

    /// A condition by type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the status is of the latest spec.
    pub fn is_current(&self) -> bool {
        conditions::is_current(self.generation, self.observed_generation)
    }
}

/// A Deployment, LeaderWorkerSet, PodCliqueSet or Job.
#[derive(Clone, Debug, Default)]
pub struct ObservedWorkload {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// DynamoComponentDeployment that owns it, if one does.
    pub component: Option<String>,
    /// Whether its rollout is paused or it is suspended.
    pub paused: bool,
    /// Desired replicas.
    pub desired: i32,
    /// Failures of its controller, from its conditions.
    pub failures: Vec<String>,
}

/// A warning event.
#[derive(Clone, Debug, Default)]
pub struct NamespaceWarning {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Reason.
    pub reason: String,
    /// Message.
    pub message: String,
    /// Number of occurrences.
    pub count: i32,
    /// Time of the last one.
    pub last: Option<Timestamp>,
}

/// Properties of a node for pods.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// Name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub cordoned: bool,
    /// Resources of which it is short, as its conditions name them: `DiskPressure`.
    pub pressures: Vec<String>,
    /// Whether it is not ready.
    pub not_ready: bool,
    /// Whether it has GPUs that can be allocated to pods.
    pub has_gpus: bool,
    /// Architecture.
    pub architecture: String,
}

/// A program of the operator.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its name, such as `graph-controller`.
    pub name: String,
    /// Namespace of the install.
    pub namespace: String,
    /// Tag or digest of its image.
    pub version: String,
    /// Ready replicas.
    pub ready: i32,
    /// Desired replicas.
    pub desired: i32,
}

/// The marker of a namespace-restricted install.
#[derive(Clone, Debug, Default)]
pub struct InstallMarker {
    /// Namespace.
    pub namespace: String,
    /// The install that holds it.
    pub holder: String,
    /// Time of the last renewal.
    pub renewed: Option<Timestamp>,
    /// Validity of a renewal, in seconds.
    pub seconds: i64,
}

impl InstallMarker {
    /// Whether its last renewal has not expired.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.renewed.is_some_and(|renewed| now.as_second().saturating_sub(renewed.as_second()) < self.seconds)
    }
}

/// All that a diagnosis is made from. Maps hold what was looked up; an entry of `None` does not exist.
#[derive(Clone, Debug, Default)]
pub struct DiagnosisInputs {
    /// The object that the diagnosis is about.
    pub root: Subject,
    /// The object as a graph, if it is one.
    pub graph: Option<DynamoGraphDeployment>,
    /// Components of the graph, or the component itself.
    pub components: Vec<DynamoComponentDeployment>,
    /// Scaling adapters that name the graph.
    pub adapters: Vec<DynamoGraphDeploymentScalingAdapter>,
    /// Checkpoints that the graph uses, or the checkpoint itself.
    pub checkpoints: Vec<DynamoCheckpoint>,
    /// Workloads of the components.
    pub workloads: Vec<ObservedWorkload>,
    /// Pods of the workloads.
    pub pods: Vec<Pod>,
    /// Warnings of the namespace, the latest first.
    pub warnings: Vec<NamespaceWarning>,
    /// Whether Secrets exist that pods name.
    pub secrets: BTreeMap<String, bool>,
    /// Whether ConfigMaps exist that pods name.
    pub config_maps: BTreeMap<String, bool>,
    /// Claims that pods name.
    pub claims: BTreeMap<String, Option<PersistentVolumeClaim>>,
    /// Whether ResourceClaims exist that pods name.
    pub device_claims: BTreeMap<String, bool>,
    /// Names of the storage classes and whether each is the default one.
    pub storage_classes: Option<BTreeMap<String, bool>>,
    /// Quotas: a resource, how much is used, and the limit.
    pub quotas: Vec<(String, String, String, String)>,
    /// Nodes.
    pub nodes: Option<Vec<NodeFacts>>,
    /// API groups that the cluster serves.
    pub groups: Option<Vec<String>>,
    /// Programs of the operator, if Deployments of all namespaces can be listed.
    pub programs: Option<Vec<Program>>,
    /// Conditions of the namespace on why it remains, if it is being deleted.
    pub terminating: Option<Vec<String>>,
    /// Marker of the namespace.
    pub marker: Option<InstallMarker>,
    /// Ends of the logs of containers that ended, by pod and container.
    pub logs: BTreeMap<(String, String), String>,
    /// Objects that could not be read, and why.
    pub not_read: Vec<String>,
}
