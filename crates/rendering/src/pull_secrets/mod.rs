//! Image pull secrets of a namespace by registry.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, de::IgnoredAny};

/// The registries of one docker configuration. Holds hosts only, never credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryHosts(BTreeSet<RegistryHost>);

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
    /// If it is no docker configuration; the secret then opens nothing, and only its owner can mend it. The text shows
    /// nothing of the contents.
    pub fn parse(docker_config: &[u8]) -> Result<Self, String> {
        // The parser's own message may quote the contents, so only the place is passed on.
        let config: DockerConfig = serde_json::from_slice(docker_config).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            format!(
                "the docker configuration is no JSON object with registries under \"auths\" (line {line}, column {column})"
            )
        })?;
        let registries = config.auths.unwrap_or_default().into_keys();
        Ok(Self(registries.filter_map(|registry| RegistryHost::of_registry(&registry)).collect()))
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

/// Registry of images without a registry in their name.
const DOCKER_HUB: &str = "docker.io";
/// Other names of [`DOCKER_HUB`] in images and docker configurations.
const DOCKER_HUB_ALIASES: [&str; 2] = ["index.docker.io", "registry-1.docker.io"];

/// Host of a registry, with its port if it has one; Docker Hub has one name only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistryHost(String);

impl RegistryHost {
    /// The registry of an image reference.
    pub fn of_image(image: &str) -> Self {
        match image.split_once('/') {
            Some((first, _)) if is_host(first) => Self::canonical(first),
            _ => Self(DOCKER_HUB.to_owned()),
        }
    }

    /// The registry of a key of a docker configuration: a host or a URL. `None` if it has no host.
    pub fn of_registry(key: &str) -> Option<Self> {
        let after_scheme = key.trim().split_once("://").map_or(key.trim(), |(_, rest)| rest);
        let host = after_scheme.split('/').next().unwrap_or_default();
        (!host.is_empty()).then(|| Self::canonical(host))
    }

    fn canonical(host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        if DOCKER_HUB_ALIASES.contains(&host.as_str()) { Self(DOCKER_HUB.to_owned()) } else { Self(host) }
    }
}

/// The first part of an image is a host if it cannot be a folder of Docker Hub.
fn is_host(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}
