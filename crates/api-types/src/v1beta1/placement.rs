//! Placement: topology constraints and fragments for the workload provider.

use serde::{Deserialize, Serialize};

/// Placement of a whole graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GraphTopologyConstraint {
    /// Name of the cluster topology.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub cluster_topology_name: String,
    /// Topology level within which components are packed, unless a component names its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = crate::schema::patterns::DOMAIN)))]
    pub pack_domain: Option<String>,
}

/// Placement of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ComponentTopologyConstraint {
    /// Level within which the component is packed.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = crate::schema::patterns::DOMAIN)))]
    pub pack_domain: String,
}

/// A fragment in the workload provider's own API, merged into what the operator renders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProviderOverride {
    /// API version of the fragment; `grove.io/v1alpha1`.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub api_version: String,
    /// Kind that the fragment is of; filled in at admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The fragment.
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::open_object"))]
    pub value: serde_json::Value,
}
