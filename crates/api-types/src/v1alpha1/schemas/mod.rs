//! Schemas of the kinds that are stored in v1beta1 and still served in v1alpha1.

mod component_deployment;
mod graph;
mod graph_status;
mod request;
mod scaling_adapter;
mod service;
mod service_parts;

pub use component_deployment::{DynamoComponentDeploymentSpec, DynamoComponentDeploymentStatus};
pub use graph::{DynamoGraphDeploymentSpec, GraphTopologyConstraint, Pvc};
pub use graph_status::{DynamoGraphDeploymentStatus, RollingUpdateStatus, ServiceReplicaStatus};
pub use request::{
    ConfigMapKey, DeploymentOverrides, DeploymentStatus, DynamoGraphDeploymentRequestSpec,
    DynamoGraphDeploymentRequestStatus, ProfilingConfig, RequestState,
};
pub use scaling_adapter::{
    DynamoGraphDeploymentScalingAdapterSpec, DynamoGraphDeploymentScalingAdapterStatus, ScalingTarget,
};
pub use service::Service;
pub use service_parts::{
    Autoscaling, Checkpoint, EppConfig, Failover, FrontendSidecar, Ingress, IngressTls, ModelReference, Multinode,
    PodMetadata, ResourceItem, Resources, ScalingAdapter, VolumeMount,
};
