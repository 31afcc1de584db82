//! `nvidia.com/v1beta1`: the storage version and the form in which controllers see every object.

mod component;
mod component_deployment;
mod experimental;
mod graph;
mod graph_status;
mod hardware;
mod request;
mod request_status;
mod scaling_adapter;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    component::*, component_deployment::*, experimental::*, graph::*, graph_status::*, hardware::*, request::*,
    request_status::*, scaling_adapter::*,
};

/// Name of the container that the operator completes with its defaults.
pub const MAIN_CONTAINER: &str = "main";

/// Family of the inference engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackendFramework {
    /// SGLang.
    Sglang,
    /// vLLM.
    Vllm,
    /// TensorRT-LLM.
    Trtllm,
}

impl BackendFramework {
    /// The name in specs and in Python module paths (`dynamo.<name>`).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sglang => "sglang",
            Self::Vllm => "vllm",
            Self::Trtllm => "trtllm",
        }
    }
}

impl fmt::Display for BackendFramework {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Placement of a whole graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphTopologyConstraint {
    /// Name of the cluster topology.
    #[schemars(length(min = 1))]
    pub cluster_topology_name: String,
    /// Topology level within which components are packed, unless a component names its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = crate::schema::patterns::DOMAIN))]
    pub pack_domain: Option<String>,
}

/// Placement of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentTopologyConstraint {
    /// Level within which the component is packed.
    #[schemars(regex(pattern = crate::schema::patterns::DOMAIN))]
    pub pack_domain: String,
}

/// A fragment in the workload provider's own API, merged into what the operator renders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderOverride {
    /// API version of the fragment; `grove.io/v1alpha1`.
    #[schemars(length(min = 1))]
    pub api_version: String,
    /// Kind that the fragment is of; filled in at admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The fragment.
    #[schemars(schema_with = "crate::schema::open_object")]
    pub value: serde_json::Value,
}
