//! What pods that are not ready name: objects whose absence may be the cause.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::{claims, pods::facts};

/// Names of objects.
#[derive(Debug, Default)]
pub struct Needs {
    /// Secrets.
    pub secrets: BTreeSet<String>,
    /// ConfigMaps.
    pub config_maps: BTreeSet<String>,
    /// PersistentVolumeClaims.
    pub claims: BTreeSet<String>,
    /// ResourceClaims.
    pub device_claims: BTreeSet<String>,
}

/// What to look up for a diagnosis of these pods.
pub fn needs(pods: &[Pod]) -> Needs {
    let mut needs = Needs::default();
    for pod in pods.iter().filter(|pod| !status_view::pods::is_ready(pod)) {
        needs.secrets.extend(facts::secrets(pod).chain(facts::pull_secrets(pod)).map(str::to_owned));
        needs.config_maps.extend(facts::config_maps(pod).map(str::to_owned));
        needs.claims.extend(claims::names(pod).map(str::to_owned));
        needs.device_claims.extend(facts::device_claims(pod).map(str::to_owned));
    }
    needs
}
