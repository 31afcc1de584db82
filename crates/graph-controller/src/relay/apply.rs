//! I/O out: hands over what the profiler says, in a ConfigMap that is the request's.

use std::collections::BTreeMap;

use api_types::{names, owner, v1beta1::DynamoGraphDeploymentRequest};
use controller_kit::{
    apply::{Applier, Desired, Error, Outcome},
    failure::Class,
    metrics::Metrics,
};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Client;

use crate::request::plan::generated::tracking_labels;

/// Who writes the ConfigMap.
const MANAGER: &str = "dynamo-output-relay";

/// The request for which a profiler works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Uid: the mark of what is the request's.
    pub uid: String,
}

/// Why something could not be handed over.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// The API server refused, or the name is taken by a foreign object, which was not touched.
    #[error(transparent)]
    Write(#[from] Error),
    /// An object of an earlier request has to go first.
    #[error("ConfigMap {name} is in the way: {reason}")]
    InTheWay {
        /// The ConfigMap.
        name: String,
        /// What is waited for.
        reason: String,
    },
}

impl HandOverError {
    /// Whether the answer stays the same unless an object changes.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Write(error) => matches!(error.class(), Class::Invalid | Class::Foreign),
            Self::InTheWay { .. } => false,
        }
    }
}

/// Writes the ConfigMap of one request.
pub struct HandOver {
    applier: Applier,
    recipient: Recipient,
}

impl HandOver {
    /// Writes through `client`.
    pub fn new(client: Client, recipient: Recipient) -> Self {
        Self { applier: Applier::new(client, MANAGER, Metrics::new(), Vec::new()), recipient }
    }

    /// Writes `data` and nothing else into the request's ConfigMap, and makes it if it is missing.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the name is taken by an object that is not the request's; otherwise what the API server
    /// answered.
    pub async fn tell(&self, data: &BTreeMap<String, String>) -> Result<(), HandOverError> {
        let desired = Desired::of(&self.config_map(data), &self.recipient.uid)?;
        let live = self.applier.find::<ConfigMap>(&desired.id().namespace, &desired.id().name).await?;
        match self.applier.apply(&desired, live.as_ref()).await? {
            Outcome::Waiting { reason } => Err(HandOverError::InTheWay { name: desired.id().name.clone(), reason }),
            Outcome::Created(_) | Outcome::Updated(_) | Outcome::Unchanged => Ok(()),
        }
    }

    fn config_map(&self, data: &BTreeMap<String, String>) -> ConfigMap {
        let Recipient { name, namespace, uid } = &self.recipient;
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(names::profiling_output(name)),
                namespace: Some(namespace.clone()),
                labels: Some(tracking_labels(name, namespace)),
                owner_references: Some(vec![owner::controller::<DynamoGraphDeploymentRequest>(name, uid)]),
                ..ObjectMeta::default()
            },
            data: Some(data.clone()),
            ..ConfigMap::default()
        }
    }
}
