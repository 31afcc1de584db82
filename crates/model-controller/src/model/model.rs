//! Data of a pass over a model.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use api_types::v1alpha1::{AdapterMemory, DynamoModel, ModelEndpoint};
use controller_kit::{apply::Error, store::Key};

use super::{claim::Claim, endpoints::Found};
use crate::engine::{AdapterName, view::Stand};

/// Everything that a pass reads.
#[derive(Debug)]
pub struct Observed {
    /// The model.
    pub model: DynamoModel,
    /// What the model claims.
    pub claim: Arc<Claim>,
    /// Violations in the spec.
    pub violations: Option<String>,
    /// The workers of its base model.
    pub found: Found,
    /// The model that has the name which this one wants for its adapter.
    pub taken_by: Option<Key>,
    /// How the adapter stands on each engine, by the uid of its pod.
    pub stands: HashMap<Arc<str>, Stand>,
    /// Adapters of earlier names that an engine may still hold.
    pub lingering: BTreeSet<AdapterName>,
    /// Pods that do without adapters of their own.
    pub covered: HashSet<Arc<str>>,
}

/// What shall be written.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whether to add the finalizer: something may have to be unloaded when the model goes.
    pub needs_finalizer: bool,
    /// What the status says.
    pub inputs: StatusInputs,
}

/// What was written.
#[derive(Debug)]
pub struct Applied {
    /// What the status says.
    pub inputs: StatusInputs,
    /// Why the API server rejects the finalizer.
    pub rejection: Option<Error>,
}

/// Inputs of the status.
#[derive(Clone, Debug)]
pub struct StatusInputs {
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// Whether the model is an adapter to load.
    pub is_adapter: bool,
    /// Phase of the model.
    pub phase: Phase,
    /// Number of Services of the base model.
    pub services: usize,
    /// The endpoints.
    pub endpoints: Vec<ModelEndpoint>,
    /// Memory of what was loaded.
    pub memory: Option<AdapterMemory>,
}

/// Where a model is in its life cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
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
