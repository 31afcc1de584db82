//! Observed data of an install, and the checks of it.

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::diagnosis::{InstallMarker, Program};

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// Well.
    Ok,
    /// Not well yet, or for some only.
    Warning,
    /// Something does not work.
    Failed,
    /// The user may not read it.
    Unknown,
}

impl CheckState {
    /// The word in a table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// A check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstallCheck {
    /// Subject of the check.
    pub check: String,
    /// Result.
    pub state: CheckState,
    /// Finding.
    pub found: String,
    /// Remedy, if the result is not good.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// A CustomResourceDefinition of the operator.
#[derive(Clone, Debug, Default)]
pub struct InstalledDefinition {
    /// Name.
    pub name: String,
    /// Versions that are served.
    pub served: Vec<String>,
    /// Versions in which objects are stored.
    pub stored: Vec<String>,
    /// The version in which they are written.
    pub storage: String,
    /// Release that it comes from.
    pub release: Option<String>,
    /// Whether the API server has accepted its names.
    pub established: bool,
}

/// A webhook of the operator, of admission or of a conversion.
#[derive(Clone, Debug, Default)]
pub struct InstalledWebhook {
    /// Its configuration or CustomResourceDefinition.
    pub owner: String,
    /// Namespace and name of the Service.
    pub service: String,
    /// Ready endpoints of the Service, if they can be read.
    pub ready: Option<usize>,
    /// Whether it has a CA bundle.
    pub has_ca: bool,
    /// Time at which the last CA of the bundle expires.
    pub ca_expires: Option<Timestamp>,
}

/// A right of the user.
#[derive(Clone, Debug, Default)]
pub struct Right {
    /// Verb and resource.
    pub what: String,
    /// Commands that need it.
    pub needed_by: &'static str,
    /// Whether the user has it.
    pub allowed: Option<bool>,
}

/// Observed state of an install. A field that is `None` cannot be read.
#[derive(Clone, Debug, Default)]
pub struct Install {
    /// Definitions.
    pub definitions: Option<Vec<InstalledDefinition>>,
    /// Webhooks.
    pub webhooks: Option<Vec<InstalledWebhook>>,
    /// Programs.
    pub programs: Option<Vec<Program>>,
    /// Markers.
    pub markers: Option<Vec<InstallMarker>>,
    /// API groups that the cluster serves.
    pub groups: Option<Vec<String>>,
    /// Rights of the user.
    pub rights: Vec<Right>,
}
