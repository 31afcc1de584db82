//! The kinds that are reviewed, and the versions they may come in.

use api_types::{
    GROUP,
    conversion::{ApiVersion, ConversionError},
    violations::Violation,
};

use super::{GroupVersionKind, Request, authored::TwoVersions};

/// A kind that is validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Graph,
    Component,
    Request,
    Checkpoint,
    Model,
}

impl Kind {
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

    /// As a kind with two versions, if it is one.
    pub(super) const fn two_versions(self) -> Option<TwoVersions> {
        match self {
            Self::Graph => Some(TwoVersions::Graph),
            Self::Component => Some(TwoVersions::Component),
            Self::Request => Some(TwoVersions::Request),
            Self::Checkpoint | Self::Model => None,
        }
    }

    /// The version that the object of a request is in.
    ///
    /// # Errors
    /// If the request is not about this kind at all: a webhook configuration leads it to a wrong path.
    pub(super) fn version_of(self, request: &Request) -> Result<ApiVersion, Unexpected> {
        self.version(&request.kind)
            .ok_or_else(|| Unexpected::Kind { expected: self.name(), given: request.kind.clone() })
    }

    /// The version that the user sent.
    pub(super) fn authored(self, request: &Request) -> Option<ApiVersion> {
        request.request_kind.as_ref().and_then(|kind| self.version(kind)).or_else(|| self.version(&request.kind))
    }

    fn version(self, kind: &GroupVersionKind) -> Option<ApiVersion> {
        let version = match kind.version.as_str() {
            "v1alpha1" => ApiVersion::V1Alpha1,
            "v1beta1" if self.two_versions().is_some() => ApiVersion::V1Beta1,
            _ => return None,
        };
        (kind.group == GROUP && kind.kind == self.name()).then_some(version)
    }
}

/// A request that is about something else than the path says.
#[derive(Debug)]
pub(super) enum Unexpected {
    /// Another kind, or an unknown version.
    Kind { expected: &'static str, given: GroupVersionKind },
    /// The object does not say what the request says.
    Object(ConversionError),
}

impl Unexpected {
    /// As the user gets it, though the administrator must act.
    pub(super) fn into_violation(self) -> Violation {
        match self {
            Self::Kind { expected, given } => {
                let given = format!("{}/{}, Kind={}", given.group, given.version, given.kind);
                let remedy = "ask the administrator to compare the webhook configurations and the conversion of the \
                              CustomResourceDefinitions with those of the operator's release";
                Violation::invalid("kind", given, format!("this path is for {expected}"), remedy)
            }
            Self::Object(error) => Violation::invalid("apiVersion", serde_json::Value::Null, error.to_string(), ""),
        }
    }
}
