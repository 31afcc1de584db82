//! `nvidia.com/v1alpha1`: kinds that have this version only, and what v1beta1 shares with it.
//!
//! Graphs, components, requests and scaling adapters have [`schemas`] only: in this version only the
//! [conversion](crate::conversion) reads them, and it must not lose fields that no type has.

mod checkpoint;
mod dynamo_component;
mod memory;
mod model;
#[cfg(feature = "schema")]
pub mod schemas;
mod worker_metadata;

pub use checkpoint::{
    CheckpointJobSpec, CheckpointPhase, CheckpointStorageType, DEFAULT_DEADLINE, DynamoCheckpoint,
    DynamoCheckpointSpec, DynamoCheckpointStatus,
};
pub use dynamo_component::{
    ArchiveManifest, BuildTimeout, BuilderPodMetadata, BuilderPodSpec, DynamoComponent, DynamoComponentSpec,
    DynamoComponentStatus, ManifestService,
};
pub use memory::{EngineMode, GpuMemoryService, SharedMemory};
pub use model::{
    AdapterMemory, DynamoModel, DynamoModelSpec, DynamoModelStatus, ModelEndpoint, ModelSource, ModelType,
};
pub use worker_metadata::{DynamoWorkerMetadata, DynamoWorkerMetadataSpec};
