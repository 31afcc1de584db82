//! `/dev/shm`, as v1alpha1 says it.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

/// Memory of `/dev/shm`: either none, or of a size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-validations" = crate::schema::rules::SHARED_MEMORY)))]
#[serde(rename_all = "camelCase")]
pub struct SharedMemory {
    /// There is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Its size, more than zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::quantity"))]
    pub size: Option<Quantity>,
}
