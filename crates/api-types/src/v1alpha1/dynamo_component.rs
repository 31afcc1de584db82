//! `DynamoComponent`: code in an archive that is built into an image. The legacy API.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Affinity, Container, EnvFromSource, EnvVar, LocalObjectReference, ResourceRequirements, Toleration,
        TopologySpreadConstraint,
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Specification of an image build.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(group = "nvidia.com", version = "v1alpha1", kind = "DynamoComponent", shortname = "dc")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq", status = "DynamoComponentStatus")]
pub struct DynamoComponentSpec {
    /// Archive to build: `name:version` in the API store.
    pub dynamo_component: String,
    /// Address of the archive; if set, the API store is not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download_url: Option<String>,
    /// Name of the service; without effect on the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Name of the image; made from the operator's settings if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Longest duration of the build: text such as `20m`, or nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::anything")]
    pub image_build_timeout: Option<BuildTimeout>,
    /// Arguments of the Dockerfile, as `NAME=value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_args: Option<Vec<String>>,
    /// Metadata of the build's pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_builder_extra_pod_metadata: Option<BuilderPodMetadata>,
    /// Scheduling and ServiceAccount of the build's pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::open_object")]
    pub image_builder_extra_pod_spec: Option<BuilderPodSpec>,
    /// Further environment of all containers of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::env")]
    pub image_builder_extra_container_env: Option<Vec<EnvVar>>,
    /// Resources of the builder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::resource_requirements")]
    pub image_builder_container_resources: Option<ResourceRequirements>,
    /// Secrets with which pods of the component pull the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<BTreeMap<String, String>>>")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// Docker configuration Secret for the registry of the image; the operator's setting if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub docker_config_json_secret_name: Option<String>,
    /// Environment of the container that downloads the archive, from Secrets and ConfigMaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::open_objects")]
    pub downloader_container_env_from: Option<Vec<EnvFromSource>>,
}

/// Longest duration of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BuildTimeout {
    /// As Go counts durations.
    Nanoseconds(i64),
    /// As Go writes durations.
    Text(String),
}

/// Metadata of a build's pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuilderPodMetadata {
    /// Annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// Scheduling and ServiceAccount of a build's pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuilderPodSpec {
    /// Scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Labels of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Affinity; replaces the preference for nodes with earlier builds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Tolerations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Topology spread of builds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// ServiceAccount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// PriorityClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Without effect on a build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<Vec<Container>>,
    /// Without effect on a build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main_container: Option<Container>,
}

/// State of an image build, as observed by the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamoComponentStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `ImageBuilding`, `ImageExists`, `ImageExistsChecked`, `DynamoComponentAvailable`, and kstatus' own. The message
    /// of a true `ImageExists` is the name of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::condition_list")]
    pub conditions: Vec<Condition>,
    /// The manifest in the archive, while `ManifestRead` is true for the present generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<ArchiveManifest>,
}

/// Description of the services of a graph in the manifest of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveManifest {
    /// Service that `dynamo serve` of the built image starts, as `module:Service`.
    #[serde(default)]
    pub dynamo_tag: String,
    /// The services.
    #[serde(default)]
    pub services: Vec<ManifestService>,
}

/// A service of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestService {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its type, such as `planner`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_type: Option<String>,
    /// Replicas where the graph gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<i32>,
    /// Requests and limits where the graph gives none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, String>,
}
