//! Kinds of GPU that a request can name.

use serde::{Deserialize, Serialize};

/// Kind of GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "each is the name of a product, in the spelling of specs")]
pub enum GpuSku {
    #[serde(rename = "gb200_sxm")]
    Gb200Sxm,
    #[serde(rename = "gb10")]
    Gb10,
    #[serde(rename = "b200_sxm")]
    B200Sxm,
    #[serde(rename = "h200_sxm")]
    H200Sxm,
    #[serde(rename = "h100_sxm")]
    H100Sxm,
    #[serde(rename = "h100_pcie")]
    H100Pcie,
    #[serde(rename = "a100_sxm")]
    A100Sxm,
    #[serde(rename = "a100_pcie")]
    A100Pcie,
    #[serde(rename = "a30")]
    A30,
    #[serde(rename = "l40s")]
    L40s,
    #[serde(rename = "l40")]
    L40,
    #[serde(rename = "l4")]
    L4,
    #[serde(rename = "v100_sxm")]
    V100Sxm,
    #[serde(rename = "v100_pcie")]
    V100Pcie,
    #[serde(rename = "t4")]
    T4,
    #[serde(rename = "mi200")]
    Mi200,
    #[serde(rename = "mi300")]
    Mi300,
}

impl GpuSku {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Gb200Sxm,
        Self::Gb10,
        Self::B200Sxm,
        Self::H200Sxm,
        Self::H100Sxm,
        Self::H100Pcie,
        Self::A100Sxm,
        Self::A100Pcie,
        Self::A30,
        Self::L40s,
        Self::L40,
        Self::L4,
        Self::V100Sxm,
        Self::V100Pcie,
        Self::T4,
        Self::Mi200,
        Self::Mi300,
    ];

    /// The name in specs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gb200Sxm => "gb200_sxm",
            Self::Gb10 => "gb10",
            Self::B200Sxm => "b200_sxm",
            Self::H200Sxm => "h200_sxm",
            Self::H100Sxm => "h100_sxm",
            Self::H100Pcie => "h100_pcie",
            Self::A100Sxm => "a100_sxm",
            Self::A100Pcie => "a100_pcie",
            Self::A30 => "a30",
            Self::L40s => "l40s",
            Self::L40 => "l40",
            Self::L4 => "l4",
            Self::V100Sxm => "v100_sxm",
            Self::V100Pcie => "v100_pcie",
            Self::T4 => "t4",
            Self::Mi200 => "mi200",
            Self::Mi300 => "mi300",
        }
    }
}

/// Hardware to plan for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hardware {
    /// Kind of GPU; selects the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_sku: Option<GpuSku>,
    /// Memory of one GPU, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = crate::limits::NUMBER)))]
    pub vram_mb: Option<f64>,
    /// GPUs that the graph may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = crate::limits::GPUS)))]
    pub total_gpus: Option<i32>,
    /// GPUs of one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = crate::limits::GPUS_PER_NODE)))]
    pub num_gpus_per_node: Option<i32>,
    /// Connection between the GPUs of one node, such as `nvlink` or `pcie`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interconnect: Option<String>,
    /// Whether nodes are connected by RDMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<bool>,
}
