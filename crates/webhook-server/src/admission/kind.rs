//! The kinds that are reviewed, the versions they may come in, and the paths to which the API server sends reviews.

use api_types::{
    GROUP,
    conversion::{ApiVersion, convert},
    violations::Violation,
};
use kube::core::GroupVersionKind;
use serde_json::Value;

use super::Request;

/// A kind that is validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewedKind {
    Graph,
    Component,
    Request,
    Checkpoint,
    Model,
}

impl ReviewedKind {
    /// Its name, as objects have it in `kind`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Graph => "DynamoGraphDeployment",
            Self::Component => "DynamoComponentDeployment",
            Self::Request => "DynamoGraphDeploymentRequest",
            Self::Checkpoint => "DynamoCheckpoint",
            Self::Model => "DynamoModel",
        }
    }

    /// Whether it has v1beta1 beside v1alpha1.
    pub(super) const fn has_two_versions(self) -> bool {
        matches!(self, Self::Graph | Self::Component | Self::Request)
    }

    /// The version that the object of a request is in.
    ///
    /// # Errors
    /// If the request is not about this kind at all: a webhook configuration leads it to a wrong path. The violation
    /// is shown to the user, though the administrator must act.
    pub(super) fn version_of(self, request: &Request) -> Result<ApiVersion, Violation> {
        self.version(&request.kind).ok_or_else(|| {
            let GroupVersionKind { group, version, kind } = &request.kind;
            let remedy = "ask the administrator to compare the webhook configurations and the conversion of the \
                          CustomResourceDefinitions with those of the operator's release";
            let message = format!("this path is for {}", self.name());
            Violation::invalid("kind", format!("{group}/{version}, Kind={kind}"), message, remedy)
        })
    }

    /// The version that the user sent.
    pub(super) fn authored(self, request: &Request) -> Option<ApiVersion> {
        request.request_kind.as_ref().and_then(|kind| self.version(kind)).or_else(|| self.version(&request.kind))
    }

    fn version(self, kind: &GroupVersionKind) -> Option<ApiVersion> {
        let version = match kind.version.as_str() {
            "v1alpha1" => ApiVersion::V1Alpha1,
            "v1beta1" if self.has_two_versions() => ApiVersion::V1Beta1,
            _ => return None,
        };
        (kind.group == GROUP && kind.kind == self.name()).then_some(version)
    }
}

/// The object in this version.
///
/// # Errors
/// If the object does not say what the request says.
pub(super) fn in_version(object: Value, version: ApiVersion) -> Result<Value, Violation> {
    convert(object, version).map_err(|error| Violation::invalid("apiVersion", Value::Null, error.to_string(), ""))
}

/// A path at which the API server sends reviews. The names are those that installed webhook configurations hold,
/// so they never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdmissionPath {
    /// Validates DynamoGraphDeployments.
    ValidateGraph,
    /// Validates DynamoComponentDeployments.
    ValidateComponent,
    /// Validates DynamoComponentDeployments that come as v1alpha1. No configuration of ours names it; those of older
    /// releases do.
    ValidateComponentAlpha,
    /// Validates DynamoGraphDeploymentRequests.
    ValidateRequest,
    /// Validates DynamoCheckpoints.
    ValidateCheckpoint,
    /// Validates DynamoModels.
    ValidateModel,
    /// Gives DynamoGraphDeployments their defaults.
    DefaultGraph,
    /// Gives DynamoComponentDeployments their defaults.
    DefaultComponent,
    /// Gives DynamoGraphDeploymentRequests their defaults.
    DefaultRequest,
    /// Makes pods start from a checkpoint.
    RestorePod,
}

impl AdmissionPath {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::ValidateGraph,
        Self::ValidateComponent,
        Self::ValidateComponentAlpha,
        Self::ValidateRequest,
        Self::ValidateCheckpoint,
        Self::ValidateModel,
        Self::DefaultGraph,
        Self::DefaultComponent,
        Self::DefaultRequest,
        Self::RestorePod,
    ];

    /// The path in the URL, and the kind that it is about; none for pods.
    const fn row(self) -> (&'static str, Option<ReviewedKind>) {
        use ReviewedKind::{Checkpoint, Component, Graph, Model, Request};
        match self {
            Self::ValidateGraph => ("/validate/nvidia.com/v1beta1/dynamographdeployments", Some(Graph)),
            Self::ValidateComponent => ("/validate/nvidia.com/v1beta1/dynamocomponentdeployments", Some(Component)),
            Self::ValidateComponentAlpha => {
                ("/validate-nvidia-com-v1alpha1-dynamocomponentdeployment", Some(Component))
            }
            Self::ValidateRequest => ("/validate-nvidia-com-v1beta1-dynamographdeploymentrequest", Some(Request)),
            Self::ValidateCheckpoint => ("/validate-nvidia-com-v1alpha1-dynamocheckpoint", Some(Checkpoint)),
            Self::ValidateModel => ("/validate-nvidia-com-v1alpha1-dynamomodel", Some(Model)),
            Self::DefaultGraph => ("/mutate/nvidia.com/v1beta1/dynamographdeployments", Some(Graph)),
            Self::DefaultComponent => ("/mutate-nvidia-com-v1beta1-dynamocomponentdeployment", Some(Component)),
            Self::DefaultRequest => ("/mutate-nvidia-com-v1beta1-dynamographdeploymentrequest", Some(Request)),
            Self::RestorePod => ("/mutate-core-v1-pod-checkpoint-restore", None),
        }
    }

    /// The path in the URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// Whether objects are validated there, and not changed.
    #[must_use]
    pub const fn validates(self) -> bool {
        !matches!(self, Self::DefaultGraph | Self::DefaultComponent | Self::DefaultRequest | Self::RestorePod)
    }

    /// The kind that it is about; none for pods.
    pub(super) const fn reviewed_kind(self) -> Option<ReviewedKind> {
        self.row().1
    }

    /// The kind of object that it is about.
    #[must_use]
    pub fn kind(self) -> &'static str {
        self.reviewed_kind().map_or("Pod", ReviewedKind::name)
    }

    /// The newest version of that kind.
    pub(crate) fn version(self) -> &'static str {
        match self.reviewed_kind() {
            None => "v1",
            Some(kind) if kind.has_two_versions() => "v1beta1",
            Some(_) => "v1alpha1",
        }
    }
}
