//! `DynamoComponentDeployment`: one component of one revision, as the graph controller hands it on.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};

use super::{BackendFramework, ComponentReplicaStatus, ComponentSpec};
use crate::typed::{Misfit, typed};

/// Specification of one component: a component of a graph plus the framework that the graph runs on.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(group = "nvidia.com", version = "v1beta1", kind = "DynamoComponentDeployment", shortname = "dcd")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq", status = "DynamoComponentDeploymentStatus")]
pub struct DynamoComponentDeploymentSpec {
    /// Engine family; found from the worker's command line if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_framework: Option<BackendFramework>,
    /// The component.
    #[serde(flatten)]
    pub component: ComponentSpec,
}

/// By way of JSON values, from which everything else is read, too. The code that is derived for `flatten` would bring a
/// parser of its own for all that a component holds, pod templates included, into every program.
impl<'de> Deserialize<'de> for DynamoComponentDeploymentSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let framework = fields.remove("backendFramework").unwrap_or_default();
        let in_framework = |error: Misfit| D::Error::custom(format_args!("backendFramework: {error}"));
        let backend_framework = typed(framework).map_err(in_framework)?;
        let component = typed(Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(Self { backend_framework, component })
    }
}

/// State of a component, as observed by the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamoComponentDeploymentStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Available`, `DynamoComponentReady`, and kstatus' `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Replica counts of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<ComponentReplicaStatus>,
}
