//! Data of a pass over a model.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use api_types::{
    LEGACY_FINALIZER,
    v1alpha1::{AdapterMemory, DynamoModel, ModelEndpoint},
};
use controller_kit::{apply::RequestError, store::Key};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodIP};
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;

use crate::engine::{AdapterName, AdapterSource, CopyTrust, Endpoint, PoolId, state::AdapterStates};

/// The finalizer that keeps a model until its adapter is unloaded. It is that of the upstream operator, so that each
/// operator cleans up after the other.
pub const FINALIZER: &str = LEGACY_FINALIZER;

/// Everything that a pass reads.
#[derive(Debug)]
pub struct ModelObserved {
    /// The model.
    pub model: DynamoModel,
    /// The claim of the model.
    pub claim: Arc<ModelClaim>,
    /// Violations in the spec.
    pub violations: Option<String>,
    /// The workers of its base model.
    pub found: FoundEndpoints,
    /// The model that owns the name of the adapter, if it is another one.
    pub taken_by: Option<Key>,
    /// State of the adapter on each engine, by the uid of its pod.
    pub adapter_states: AdapterStates,
    /// Adapters of earlier names that an engine may still hold.
    pub lingering: BTreeSet<AdapterName>,
    /// Pods without adapters that others cover.
    pub covered: HashSet<Arc<str>>,
}

/// The claim of one model on the engines of its base model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelClaim {
    /// The model.
    pub key: Key,
    /// The engines of its base model.
    pub pool: PoolId,
    /// Time of its creation.
    pub created: Option<Timestamp>,
    /// The adapter that its spec requests.
    pub requested: Requested,
    /// The memory of loaded adapters, from its status or its annotation.
    pub memory: AdapterMemory,
    /// Copies of unknown source that count as its adapter.
    pub trust: CopyTrust,
    /// Whether it carries [`FINALIZER`].
    pub has_finalizer: bool,
}

/// The adapter that a spec requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requested {
    /// Nothing to load.
    Nothing,
    /// This adapter.
    Adapter {
        /// Its name.
        name: AdapterName,
        /// Its source.
        source: AdapterSource,
    },
    /// The spec has violations. Loaded adapters stay.
    Invalid,
    /// The model is being deleted.
    Deleting {
        /// The adapter that the upstream operator may have loaded without a memory of it.
        name: Option<AdapterName>,
    },
}

/// The endpoints of one slice, or of all slices of a base model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundEndpoints {
    /// Names of the Services.
    pub services: BTreeSet<String>,
    /// Pods that are not terminating. Of all slices, each pod once, by name.
    pub endpoints: Vec<Endpoint>,
}

/// Planned writes: the finalizer, and everything that the status shows.
#[derive(Clone, Debug)]
pub struct ModelPlan {
    /// Whether to add the finalizer: the deletion may have to unload an adapter.
    pub needs_finalizer: bool,
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// Whether the model is an adapter to load.
    pub is_adapter: bool,
    /// Phase of the model.
    pub phase: ModelPhase,
    /// Number of Services of the base model.
    pub services: usize,
    /// The endpoints.
    pub endpoints: Vec<ModelEndpoint>,
    /// Memory of what was loaded.
    pub memory: Option<AdapterMemory>,
}

/// Completed writes.
#[derive(Debug)]
pub struct ModelApplied {
    /// The plan.
    pub plan: ModelPlan,
    /// Reason why the API server rejects the finalizer.
    pub rejection: Option<RequestError>,
}

/// Phase of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelPhase {
    /// Every endpoint serves it.
    Served,
    /// There is no endpoint.
    NoEndpoints,
    /// Some endpoints do not serve it yet.
    Loading(String),
    /// Some endpoints do not serve it without a change by the user.
    Failing(String),
    /// The spec has violations.
    Invalid(String),
    /// Another model has the adapter's name.
    NameTaken(String),
}

/// Fields of a pod that are read here. The parser of a whole pod takes half a megabyte of the program.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = Pod)]
pub struct EnginePod {
    /// Identity, labels and owners.
    pub metadata: ObjectMeta,
    /// Containers of the pod.
    #[serde(default)]
    pub spec: EnginePodSpec,
    /// Addresses of the pod.
    #[serde(default)]
    pub status: PodAddresses,
}

/// Containers of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct EnginePodSpec {
    /// In the order of the pod.
    #[serde(default)]
    pub containers: Vec<EngineContainer>,
}

/// Command line of a container.
#[derive(Debug, Clone, Deserialize)]
pub struct EngineContainer {
    /// Name of the container.
    pub name: String,
    /// `None`: the entry point of the image.
    pub command: Option<Vec<String>>,
    /// `None`: those of the image, if the command is the image's too.
    pub args: Option<Vec<String>>,
}

/// Addresses of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct PodAddresses {
    /// The first address.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// All addresses.
    #[serde(rename = "podIPs")]
    pub pod_ips: Option<Vec<PodIP>>,
}
