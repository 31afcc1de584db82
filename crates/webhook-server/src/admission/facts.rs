//! Facts about the cluster and the installation that the rules need.

use std::collections::BTreeMap;

pub use rendering::rules::Features;
use rendering::{ExposureObject, ExposureSettings, checkpoint::CheckpointStorage};
use serde_json::Value;

/// Everything that rules need beside the request. Gathered by the server before the review.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Features that cluster and configuration offer.
    pub features: Features,
    /// User names of the operator's own ServiceAccounts. Empty: unknown, then no user is taken for the operator.
    pub operators: Vec<String>,
    /// Another operator may act in the namespace of the request; by which name is not known. This install serves the
    /// namespace and does not hold it: it is not up yet, or no more.
    pub another_operator: bool,
    /// Whether graphs of all namespaces meet in one etcd or NATS, where only their Dynamo namespaces keep them apart.
    pub shared_servers: bool,
    /// Version of the operator: what new graphs are stamped with, and the tag of default images.
    pub operator_version: String,
    /// Image for DynamoGraphDeploymentRequests that name none; `None`: made from the operator's version.
    pub request_image: Option<String>,
    /// Settings for starting pods from checkpoints.
    pub checkpoints: CheckpointSettings,
    /// Exposure of frontends; `None`: by the settings of another install.
    pub exposure: Option<ExposureSettings>,
    /// The result of every lookup.
    pub found: BTreeMap<Lookup, LookupResult>,
}

impl Facts {
    /// The object of a lookup. What was not looked up counts as missing.
    pub(super) fn object(&self, lookup: &Lookup) -> Result<Option<&Value>, &str> {
        match self.found.get(lookup) {
            Some(Ok(object)) => Ok(object.as_ref()),
            Some(Err(reason)) => Err(reason),
            None => Ok(None),
        }
    }

    /// The facts of an install whose configuration is not known: with all features, and with none. Its accounts are not
    /// known either.
    pub(super) fn of_another_install(&self) -> [Self; 2] {
        [Features::ALL, Features::default()].map(|features| Self {
            features,
            another_operator: true,
            shared_servers: false,
            exposure: None,
            ..self.clone()
        })
    }
}

/// Settings for the start of pods from checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointSettings {
    /// Storage of the images; `None`: the storage of the snapshot agents in the pod's namespace.
    pub storage: Option<CheckpointStorage>,
    /// Seccomp profile, on the node, of pods that are restored; `None`: that of any other pod.
    pub seccomp_profile: Option<String>,
}

/// An object that rules read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lookup {
    /// Grove's `ClusterTopologyBinding` (`grove.io/v1alpha1`, cluster-scoped).
    TopologyBinding {
        /// Its name.
        name: String,
    },
    /// A `DynamoCheckpoint`.
    Checkpoint {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The right of the request's user to create an object that exposes frontends: a `LocalSubjectAccessReview`.
    CreateRight {
        /// The namespace.
        namespace: String,
        /// The object.
        object: ExposureObject,
    },
    /// A DynamoGraphDeployment in v1beta1.
    Graph {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The snapshot agents of a namespace: a `DaemonSetList` of those with label
    /// `app.kubernetes.io/component=snapshot-agent`.
    SnapshotAgents {
        /// The namespace.
        namespace: String,
    },
}

/// The object of a lookup, if there is one and its kind; the error says why it could not be read.
pub type LookupResult = Result<Option<Value>, String>;
