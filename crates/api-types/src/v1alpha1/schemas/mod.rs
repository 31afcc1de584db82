//! Schemas of the kinds that are stored in v1beta1 and still served in v1alpha1.

mod graph;
mod request;
mod service;

pub use self::{
    graph::{
        DynamoComponentDeploymentSpec, DynamoComponentDeploymentStatus, DynamoGraphDeploymentScalingAdapterSpec,
        DynamoGraphDeploymentScalingAdapterStatus, DynamoGraphDeploymentSpec, DynamoGraphDeploymentStatus,
        GraphTopologyConstraint, Pvc, RollingUpdateStatus, ScalingTarget, ServiceReplicaStatus,
    },
    request::{
        ConfigMapKey, DeploymentOverrides, DeploymentStatus, DynamoGraphDeploymentRequestSpec,
        DynamoGraphDeploymentRequestStatus, ProfilingConfig, RequestState,
    },
    service::{
        Autoscaling, Checkpoint, EppConfig, Failover, FrontendSidecar, Ingress, IngressTls, ModelReference, Multinode,
        PodMetadata, ResourceItem, Resources, ScalingAdapter, Service, VolumeMount,
    },
};
