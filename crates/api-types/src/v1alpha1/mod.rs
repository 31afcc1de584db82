//! `nvidia.com/v1alpha1`: kinds that have this version only, and what v1beta1 shares with it.
//!
//! Of graphs, components, requests and scaling adapters there are [`schemas`] only: nobody reads them in this version but
//! [conversion](crate::conversion), which must not lose what no type knows.

mod checkpoint;
mod dynamo_component;
mod gpu_memory_service;
mod model;
#[cfg(feature = "schema")]
pub mod schemas;
mod shared_memory;
mod worker_metadata;

pub use checkpoint::{
    CheckpointJobSpec, CheckpointPhase, CheckpointStorageType, DEFAULT_DEADLINE, DynamoCheckpoint,
    DynamoCheckpointSpec, DynamoCheckpointStatus,
};
pub use dynamo_component::{
    BuildTimeout, BuilderPodMetadata, BuilderPodSpec, DynamoComponent, DynamoComponentSpec, DynamoComponentStatus,
};
pub use gpu_memory_service::{EngineMode, GpuMemoryService};
pub use model::{
    AdapterMemory, DynamoModel, DynamoModelSpec, DynamoModelStatus, ModelEndpoint, ModelSource, ModelType,
};
pub use shared_memory::SharedMemory;
pub use worker_metadata::{DynamoWorkerMetadata, DynamoWorkerMetadataSpec};
