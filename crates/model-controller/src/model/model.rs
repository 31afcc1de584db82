//! Data of a pass over a model.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use api_types::v1alpha1::{AdapterMemory, DynamoModel, ModelEndpoint};
use controller_kit::{apply::RequestError, store::Key};

use super::{endpoints::FoundEndpoints, ownership::ModelClaim};
use crate::engine::{AdapterName, state::AdapterState};

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
    pub adapter_states: HashMap<Arc<str>, AdapterState>,
    /// Adapters of earlier names that an engine may still hold.
    pub lingering: BTreeSet<AdapterName>,
    /// Pods without adapters that others cover.
    pub covered: HashSet<Arc<str>>,
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
