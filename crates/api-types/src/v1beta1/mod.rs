//! `nvidia.com/v1beta1`: the storage version and the form in which controllers see every object.

mod component;
mod component_deployment;
mod experimental;
mod graph;
mod graph_status;
mod placement;

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
pub use graph::{
    BackendFramework, DynamoGraphDeployment, DynamoGraphDeploymentSpec, GraphExperimental, KvTransferEnforcement,
    KvTransferPolicy, Restart, RestartStrategy, RestartStrategyType,
};
pub use graph_status::{
    CheckpointStatus, ComponentKind, ComponentReplicaStatus, DynamoGraphDeploymentStatus, GraphState, PlacementState,
    PlacementStatus, RestartPhase, RestartStatus, RollingUpdatePhase, RollingUpdateStatus,
};
pub use placement::{ComponentTopologyConstraint, GraphTopologyConstraint, ProviderOverride};
