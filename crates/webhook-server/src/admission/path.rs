//! The paths at which the API server asks.

use super::kind::Kind;

/// A path at which the API server asks about objects. The names are those that installed webhook configurations hold,
/// so they never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Path {
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

impl Path {
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

    /// As it stands in the URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ValidateGraph => "/validate/nvidia.com/v1beta1/dynamographdeployments",
            Self::ValidateComponent => "/validate/nvidia.com/v1beta1/dynamocomponentdeployments",
            Self::ValidateComponentAlpha => "/validate-nvidia-com-v1alpha1-dynamocomponentdeployment",
            Self::ValidateRequest => "/validate-nvidia-com-v1beta1-dynamographdeploymentrequest",
            Self::ValidateCheckpoint => "/validate-nvidia-com-v1alpha1-dynamocheckpoint",
            Self::ValidateModel => "/validate-nvidia-com-v1alpha1-dynamomodel",
            Self::DefaultGraph => "/mutate/nvidia.com/v1beta1/dynamographdeployments",
            Self::DefaultComponent => "/mutate-nvidia-com-v1beta1-dynamocomponentdeployment",
            Self::DefaultRequest => "/mutate-nvidia-com-v1beta1-dynamographdeploymentrequest",
            Self::RestorePod => "/mutate-core-v1-pod-checkpoint-restore",
        }
    }

    /// Whether objects are validated there, and not changed.
    #[must_use]
    pub const fn validates(self) -> bool {
        self.validated_kind().is_some()
    }

    /// The kind that is validated there.
    pub(super) const fn validated_kind(self) -> Option<Kind> {
        match self {
            Self::ValidateGraph => Some(Kind::Graph),
            Self::ValidateComponent | Self::ValidateComponentAlpha => Some(Kind::Component),
            Self::ValidateRequest => Some(Kind::Request),
            Self::ValidateCheckpoint => Some(Kind::Checkpoint),
            Self::ValidateModel => Some(Kind::Model),
            Self::DefaultGraph | Self::DefaultComponent | Self::DefaultRequest | Self::RestorePod => None,
        }
    }

    /// The kind of object that it is about.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::ValidateGraph | Self::DefaultGraph => Kind::Graph.name(),
            Self::ValidateComponent | Self::ValidateComponentAlpha | Self::DefaultComponent => Kind::Component.name(),
            Self::ValidateRequest | Self::DefaultRequest => Kind::Request.name(),
            Self::ValidateCheckpoint => Kind::Checkpoint.name(),
            Self::ValidateModel => Kind::Model.name(),
            Self::RestorePod => "Pod",
        }
    }
}
