//! Port numbers and names.

/// HTTP of the frontend, container and Service.
pub const HTTP: i32 = 8000;
/// Name of [`HTTP`].
pub const HTTP_NAME: &str = "http";
/// System status server.
pub const SYSTEM: i32 = 9090;
/// Name of [`SYSTEM`].
pub const SYSTEM_NAME: &str = "system";
/// NIXL telemetry.
pub const NIXL: i32 = 19090;
/// Name of [`NIXL`].
pub const NIXL_NAME: &str = "nixl";
/// Metrics of the planner.
pub const PLANNER_METRICS: i32 = 9085;
/// Name of metrics ports.
pub const METRICS_NAME: &str = "metrics";
/// Base of the forward-pass metrics ports.
pub const FORWARD_PASS_METRICS: i32 = 20380;
/// Endpoint picker, as gateways call it.
pub const GRPC: i32 = 9002;
/// Name of [`GRPC`].
pub const GRPC_NAME: &str = "grpc";
/// Health service of the endpoint picker.
pub const GRPC_HEALTH: i32 = 9003;
/// Name of [`GRPC_HEALTH`].
pub const GRPC_HEALTH_NAME: &str = "grpc-health";
/// Metrics of the endpoint picker.
pub const EPP_METRICS: i32 = 9090;
/// SSH between the nodes of a TensorRT-LLM replica.
pub const MPI_SSH: i32 = 2222;
/// Head of a Ray cluster.
pub const RAY: i32 = 6379;
/// Name of [`RAY`] in Services.
pub const RAY_NAME: &str = "ray-gcs";
/// Port at which the nodes of an SGLang replica meet.
pub const SGLANG_INIT: i32 = 29500;
/// Port at which the nodes of a vLLM replica meet.
pub const VLLM_MASTER: i32 = 29500;
/// Port for the coordination of vLLM engines that run side by side.
pub const VLLM_DATA_PARALLEL_RPC: i32 = 13445;
/// Health of what `dynamo serve` runs: the legacy API.
pub const SERVE_HEALTH: i32 = 5000;
/// Name of [`SERVE_HEALTH`].
pub const SERVE_HEALTH_NAME: &str = "health";
