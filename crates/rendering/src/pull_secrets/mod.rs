//! Image pull secrets of a namespace by registry, and their use in pods.

mod host;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use host::RegistryHost;
use k8s_openapi::api::core::v1::{LocalObjectReference, PodSpec};
use serde::{Deserialize, de::IgnoredAny};
use thiserror::Error;

/// The registries of one docker configuration. Holds hosts only, never credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryHosts(BTreeSet<RegistryHost>);

/// A Secret's docker configuration that cannot be read. Its text shows nothing of the contents.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the docker configuration is no JSON object with registries under \"auths\" (line {line}, column {column})")]
pub struct MalformedDockerConfig {
    /// Line of the first fault, from 1.
    pub line: usize,
    /// Column of the first fault.
    pub column: usize,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: Option<BTreeMap<String, IgnoredAny>>,
    /// Without it, an array would pass for an object.
    #[serde(flatten)]
    _others: BTreeMap<String, IgnoredAny>,
}

impl RegistryHosts {
    /// Reads the registries from the value of `.dockerconfigjson`.
    ///
    /// # Errors
    /// If it is no docker configuration; the secret then opens nothing, and only its owner can mend it.
    pub fn parse(docker_config: &[u8]) -> Result<Self, MalformedDockerConfig> {
        // The parser's own message may quote the contents, so only the place is passed on.
        let config: DockerConfig = serde_json::from_slice(docker_config)
            .map_err(|error| MalformedDockerConfig { line: error.line(), column: error.column() })?;
        let registries = config.auths.unwrap_or_default().into_keys();
        Ok(Self(registries.filter_map(|registry| RegistryHost::of_registry(&registry)).collect()))
    }

    /// The registries, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &RegistryHost> {
        self.0.iter()
    }
}

/// The image pull secrets of one namespace by registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullSecretIndex(BTreeMap<RegistryHost, BTreeSet<String>>);

impl PullSecretIndex {
    /// An index of these Secrets; an empty one switches discovery off.
    pub fn new(secrets: impl IntoIterator<Item = (String, RegistryHosts)>) -> Self {
        let mut index = Self::default();
        for (secret, hosts) in secrets {
            for host in hosts.0 {
                index.0.entry(host).or_default().insert(secret.clone());
            }
        }
        index
    }

    /// Names of the Secrets for an image, sorted.
    pub fn secrets_for(&self, image: &str) -> impl Iterator<Item = &str> {
        self.0.get(&RegistryHost::of_image(image)).into_iter().flatten().map(String::as_str)
    }
}

/// Appends the secrets for each image, containers before init containers; each once.
pub(crate) fn add_pull_secrets(pod: &mut PodSpec, index: &PullSecretIndex) {
    let mut all = pod.image_pull_secrets.take().unwrap_or_default();
    let containers = pod.containers.iter().chain(pod.init_containers.iter().flatten());
    for image in containers.filter_map(|container| container.image.as_deref()) {
        for name in index.secrets_for(image) {
            if all.iter().all(|known| known.name != name) {
                all.push(LocalObjectReference { name: name.to_owned() });
            }
        }
    }
    pod.image_pull_secrets = (!all.is_empty()).then_some(all);
}
