//! Hosts of registries, as images and docker configurations name them.

use std::fmt;

/// Where images without a registry come from.
const DOCKER_HUB: &str = "docker.io";
/// Where the images of [`DOCKER_HUB`] are served.
const DOCKER_HUB_SERVER: &str = "registry-1.docker.io";
/// Other names of [`DOCKER_HUB`] in images and docker configurations.
const DOCKER_HUB_ALIASES: [&str; 2] = ["index.docker.io", DOCKER_HUB_SERVER];

/// Host of a registry, with its port if it has one; Docker Hub has one name only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistryHost(String);

impl RegistryHost {
    /// The registry of an image reference.
    pub fn of_image(image: &str) -> Self {
        Self::split(image).0
    }

    /// The registry of an image reference, and what it is asked for there.
    pub fn split(image: &str) -> (Self, &str) {
        match image.split_once('/') {
            Some((first, rest)) if is_host(first) => (Self::canonical(first), rest),
            _ => (Self(DOCKER_HUB.to_owned()), image),
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

    /// Whether it is Docker Hub, where a repository without a folder is one of `library`.
    pub fn is_docker_hub(&self) -> bool {
        self.0 == DOCKER_HUB
    }

    /// The host that serves it, with its port if it has one.
    pub fn server(&self) -> &str {
        if self.is_docker_hub() { DOCKER_HUB_SERVER } else { &self.0 }
    }

    /// The host, with its port if it has one.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RegistryHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The first part of an image is a host if it cannot be a folder of Docker Hub.
fn is_host(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}
