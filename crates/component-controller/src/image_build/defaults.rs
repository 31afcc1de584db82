//! Defaults for all builds, from the ConfigMap `dynamo-image-builder-config`.

use std::{collections::BTreeMap, fmt::Display};

use api_types::v1alpha1::{BuilderPodMetadata, BuilderPodSpec};
use controller_kit::yaml;
use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};
use serde::de::DeserializeOwned;

/// Name of the ConfigMap.
pub const CONFIG_MAP: &str = "dynamo-image-builder-config";

/// Defaults for all builds. What a component says wins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    /// `extra_pod_metadata`.
    pub metadata: BuilderPodMetadata,
    /// `extra_pod_spec`.
    pub pod: BuilderPodSpec,
    /// `extra_container_env`.
    pub env: Vec<EnvVar>,
    /// `default_image_builder_container_resources`.
    pub resources: Option<ResourceRequirements>,
    /// `build_args`.
    pub build_args: Vec<String>,
    /// `builder_args`.
    pub builder_args: Vec<String>,
}

impl Defaults {
    /// Reads the data of the ConfigMap, whose values are YAML.
    ///
    /// # Errors
    /// The key that cannot be read, and why.
    pub fn read(data: &BTreeMap<String, String>) -> Result<Self, String> {
        Ok(Self {
            metadata: value(data, "extra_pod_metadata")?.unwrap_or_default(),
            pod: value(data, "extra_pod_spec")?.unwrap_or_default(),
            env: value(data, "extra_container_env")?.unwrap_or_default(),
            resources: value(data, "default_image_builder_container_resources")?,
            build_args: value(data, "build_args")?.unwrap_or_default(),
            builder_args: value(data, "builder_args")?.unwrap_or_default(),
        })
    }
}

fn value<T: DeserializeOwned>(data: &BTreeMap<String, String>, key: &str) -> Result<Option<T>, String> {
    let Some(text) = data.get(key).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let unreadable = |error: &dyn Display| format!("ConfigMap {CONFIG_MAP}: key {key} cannot be read: {error}");
    let value = yaml::read(text).map_err(|error| unreadable(&error))?;
    serde_json::from_value(value).map(Some).map_err(|error| unreadable(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_yaml() {
        let data = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let read =
            Defaults::read(&data(&[("build_args", "[A=1]"), ("extra_pod_spec", "priorityClassName: low")])).unwrap();
        assert_eq!(read.build_args, ["A=1"]);
        assert_eq!(read.pod.priority_class_name.as_deref(), Some("low"));
        assert_eq!(Defaults::read(&BTreeMap::new()), Ok(Defaults::default()));
        assert!(Defaults::read(&data(&[("build_args", "{")])).unwrap_err().contains("build_args"));
    }
}
