//! What runs the pods of a component.

use std::fmt;

use api_types::v1beta1::DynamoComponentDeployment;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::Value;
use workload::{LeaderWorkerSet, Workload};

/// What runs the pods of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// Each replica is a pod.
    Deployment,
    /// Each replica is a group of pods.
    LeaderWorkerSet,
}

impl WorkloadKind {
    /// The kind that a component needs.
    pub fn of(component: &DynamoComponentDeployment) -> Self {
        if component.spec.component.is_multinode() { Self::LeaderWorkerSet } else { Self::Deployment }
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deployment => "Deployment",
            Self::LeaderWorkerSet => "LeaderWorkerSet",
        })
    }
}

/// A live workload.
#[derive(Clone, Debug)]
pub enum LiveWorkload {
    /// Each replica is a pod.
    Deployment(Box<Deployment>),
    /// Each replica is a group of pods.
    LeaderWorkerSet(Box<LeaderWorkerSet>),
}

impl LiveWorkload {
    /// Reads an object of that kind.
    ///
    /// # Errors
    /// If it does not have the shape of its kind.
    pub fn read(kind: WorkloadKind, object: Value) -> serde_json::Result<Self> {
        match kind {
            WorkloadKind::LeaderWorkerSet => serde_json::from_value(object).map(Self::LeaderWorkerSet),
            WorkloadKind::Deployment => serde_json::from_value(object).map(Self::Deployment),
        }
    }

    /// What all kinds have in common.
    pub fn get(&self) -> &dyn Workload {
        match self {
            Self::Deployment(deployment) => deployment.as_ref(),
            Self::LeaderWorkerSet(set) => set.as_ref(),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> WorkloadKind {
        match self {
            Self::Deployment(_) => WorkloadKind::Deployment,
            Self::LeaderWorkerSet(_) => WorkloadKind::LeaderWorkerSet,
        }
    }
}
