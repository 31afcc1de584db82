//! `nvidia.com/v1beta1`: the storage version and the form in which controllers see every object.

mod component;
mod component_deployment;
mod experimental;
mod gpu_sku;
mod graph;
mod graph_status;
mod placement;
mod request;
mod request_status;
mod scaling_adapter;

pub use component::{
    CompilationCache, ComponentSpec, ComponentType, EndpointPickerConfig, EndpointPickerPlugin, EppConfig,
    MAIN_CONTAINER, ModelReference, Multinode, MultinodeRole, PluginReference, SaturationDetector,
    ScalingAdapterMarker, SchedulingProfile,
};
pub use component_deployment::{
    DynamoComponentDeployment, DynamoComponentDeploymentSpec, DynamoComponentDeploymentStatus,
};
pub use experimental::{
    Checkpoint, CheckpointDeletionPolicy, CheckpointIdentity, CheckpointJob, CheckpointMode, CheckpointStartupPolicy,
    ComponentExperimental, DEFAULT_DEVICE_CLASS, EngineMode, Failover, GmsClientPod, GpuMemoryService, GroveOptions,
};
pub use gpu_sku::GpuSku;
pub use graph::{
    BackendFramework, DynamoGraphDeployment, DynamoGraphDeploymentSpec, GraphExperimental, KvTransferEnforcement,
    KvTransferPolicy, Restart, RestartStrategy, RestartStrategyType,
};
pub use graph_status::{
    CheckpointStatus, ComponentKind, ComponentReplicaStatus, DynamoGraphDeploymentStatus, GraphState, PlacementState,
    PlacementStatus, RestartPhase, RestartStatus, RollingUpdatePhase, RollingUpdateStatus,
};
pub use placement::{ComponentTopologyConstraint, GraphTopologyConstraint, ProviderOverride};
pub use request::{
    DynamoGraphDeploymentRequest, DynamoGraphDeploymentRequestSpec, Hardware, Mocker, ModelCache, OptimizationType,
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
