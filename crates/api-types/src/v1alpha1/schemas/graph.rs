//! `DynamoGraphDeployment` in v1alpha1: its schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

use super::Service;
use crate::v1beta1::{BackendFramework, GraphExperimental, ProviderOverride, Restart};

/// Specification of an inference graph.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("x-kubernetes-validations" = crate::schema::rules::GRAPH))]
pub struct DynamoGraphDeploymentSpec {
    /// Fragment of the root PodCliqueSet; only with Grove.
    pub provider_override: Option<ProviderOverride>,
    /// Annotations for every child and pod; a service's own win.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels for every child and pod; a service's own win.
    pub labels: Option<BTreeMap<String, String>>,
    /// PriorityClass of the PodCliqueSet; only with Grove.
    pub priority_class_name: Option<String>,
    /// Legacy API: what the image of all services is built from, as `name:version`. A service that names an image keeps
    /// it.
    pub dynamo_component: Option<String>,
    /// Other name of `dynamoComponent`.
    pub dynamo_graph: Option<String>,
    /// Volumes that services mount by name.
    #[schemars(length(max = 100))]
    pub pvcs: Option<Vec<Pvc>>,
    /// The components of the graph by name, at most 25.
    #[schemars(extend("maxProperties" = 25))]
    pub services: Option<BTreeMap<String, Service>>,
    /// Environment of every service's main container; a service's entry of the same name wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::env")]
    pub envs: Option<Vec<Value>>,
    /// Engine family; found from the worker's command line if unset.
    pub backend_framework: Option<BackendFramework>,
    /// Asks for a restart of services; may not be set when the graph is created.
    pub restart: Option<Restart>,
    /// Placement of the whole graph; only with Grove.
    pub topology_constraint: Option<GraphTopologyConstraint>,
    /// Fields whose form may still change.
    pub experimental: Option<GraphExperimental>,
}

/// A volume.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("x-kubernetes-validations" = crate::schema::rules::PVC))]
pub struct Pvc {
    /// Name of the PersistentVolumeClaim.
    pub name: String,
    /// Makes the claim if it does not exist; it must be there if unset.
    pub create: Option<bool>,
    /// StorageClass of a claim that is made.
    pub storage_class: Option<String>,
    /// Size of a claim that is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Option<String>,
    /// Access mode of a claim that is made, such as `ReadWriteMany`.
    pub volume_access_mode: Option<String>,
}

/// Placement of a whole graph.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct GraphTopologyConstraint {
    /// Name of the cluster topology.
    #[schemars(length(min = 1))]
    pub topology_profile: String,
    /// Topology level within which services are packed, unless a service names its own.
    #[schemars(regex(pattern = crate::schema::patterns::DOMAIN))]
    pub pack_domain: Option<String>,
}
