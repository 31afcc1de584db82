//! `nvidia.com/v1beta1`: the storage version and the form in which controllers see every object.

mod backend_framework;
mod component;
mod component_deployment;
mod experimental;
mod graph;
mod graph_status;
mod hardware;
mod placement;
mod request;
mod request_status;
mod scaling_adapter;

pub use backend_framework::BackendFramework;
pub use component::{
    CompilationCache, ComponentSpec, ComponentType, EndpointPickerConfig, EndpointPickerPlugin, EppConfig,
    ModelReference, Multinode, MultinodeRole, PluginReference, SaturationDetector, ScalingAdapterMarker,
    SchedulingProfile,
};
pub use component_deployment::{
    DynamoComponentDeployment, DynamoComponentDeploymentSpec, DynamoComponentDeploymentStatus,
};
pub use experimental::{
    Checkpoint, CheckpointDeletionPolicy, CheckpointIdentity, CheckpointJob, CheckpointMode, CheckpointStartupPolicy,
    ComponentExperimental, DEFAULT_DEVICE_CLASS, EngineMode, Failover, GmsClientPod, GpuMemoryService, GroveOptions,
};
pub use graph::{
    DynamoGraphDeployment, DynamoGraphDeploymentSpec, GraphExperimental, KvTransferEnforcement, KvTransferPolicy,
    Restart, RestartStrategy, RestartStrategyType,
};
pub use graph_status::{
    CheckpointStatus, ComponentKind, ComponentReplicaStatus, DynamoGraphDeploymentStatus, GraphState, PlacementState,
    PlacementStatus, RestartPhase, RestartStatus, RollingUpdatePhase, RollingUpdateStatus,
};
pub use hardware::{GpuSku, Hardware};
pub use placement::{ComponentTopologyConstraint, GraphTopologyConstraint, ProviderOverride};
pub use request::{
    DynamoGraphDeploymentRequest, DynamoGraphDeploymentRequestSpec, Mocker, ModelCache, OptimizationType,
    RequestBackend, RequestFeatures, RequestOverrides, SearchStrategy, Sla, Workload,
};
pub use request_status::{
    DeploymentInfo, DynamoGraphDeploymentRequestStatus, ParetoConfig, ProfilerRuns, ProfilingPhase, ProfilingResults,
    RequestPhase, TrialGraphs,
};
pub use scaling_adapter::{
    DynamoGraphDeploymentScalingAdapter, DynamoGraphDeploymentScalingAdapterSpec,
    DynamoGraphDeploymentScalingAdapterStatus, ScalingTarget,
};

/// Name of the container that the operator completes with its defaults.
pub const MAIN_CONTAINER: &str = "main";
