//! `nvidia.com/v1alpha1`: kinds that have this version only.

mod checkpoint;
mod gpu_memory_service;
mod model;
mod shared_memory;
mod worker_metadata;

pub use checkpoint::{
    CheckpointJobSpec, CheckpointPhase, CheckpointStorageType, DynamoCheckpoint, DynamoCheckpointSpec,
    DynamoCheckpointStatus,
};
pub use gpu_memory_service::{EngineMode, GpuMemoryService};
pub use model::{DynamoModel, DynamoModelSpec, DynamoModelStatus, ModelEndpoint, ModelSource, ModelType};
pub use shared_memory::SharedMemory;
pub use worker_metadata::{DynamoWorkerMetadata, DynamoWorkerMetadataSpec};
