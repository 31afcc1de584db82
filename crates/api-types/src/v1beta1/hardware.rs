//! Kinds of GPU that a request can name.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is the name of a product, in the spelling of specs")]
pub enum GpuSku {
    Gb200Sxm,
    Gb10,
    B200Sxm,
    H200Sxm,
    H100Sxm,
    H100Pcie,
    A100Sxm,
    A100Pcie,
    A30,
    L40s,
    L40,
    L4,
    V100Sxm,
    V100Pcie,
    T4,
    Mi200,
    Mi300,
}

/// The name in specs.
impl fmt::Display for GpuSku {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Hardware to plan for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hardware {
    /// Kind of GPU; selects the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_sku: Option<GpuSku>,
    /// Memory of one GPU, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = crate::limits::NUMBER))]
    pub vram_mb: Option<f64>,
    /// GPUs that the graph may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = crate::limits::GPUS))]
    pub total_gpus: Option<i32>,
    /// GPUs of one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = crate::limits::GPUS_PER_NODE))]
    pub num_gpus_per_node: Option<i32>,
    /// Connection between the GPUs of one node, such as `nvlink` or `pcie`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interconnect: Option<String>,
    /// Whether nodes are connected by RDMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<bool>,
}
