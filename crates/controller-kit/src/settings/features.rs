//! Features of the cluster that may be used, and checkpoints of workers.

use std::time::Duration;

use rendering::{
    ExposureSettings, PodSettings,
    checkpoint::{CheckpointConfig, DEFAULT_SECCOMP_PROFILE, StorageSettings},
};
use serde::{Deserialize, Serialize};

use super::{GoDuration, OperatorConfiguration};

/// Checkpoints of workers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CheckpointConfiguration {
    /// Default false.
    pub enabled: bool,
    /// Profile of captured and restored processes.
    pub seccomp: Seccomp,
    /// Storage of checkpoints.
    pub storage: Storage,
    /// Image of the Job that removes what a checkpoint kept; it needs a shell and `rm`. Default `busybox:1.36`.
    pub cleanup_image: String,
}

/// Profile of captured and restored processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Seccomp {
    /// No profile. Default false.
    pub disabled: bool,
    /// Path below the node's profiles. Default `profiles/block-iouring.json`.
    pub profile: String,
}

/// Storage of checkpoints. If nothing is specified: the storage of the agent of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Storage {
    /// `pvc`, the default, is served.
    #[serde(rename = "type")]
    pub kind: String,
    /// The volume, in each namespace that needs one.
    pub pvc: StorageSettings,
}

impl CheckpointConfiguration {
    /// The settings as they are used; `None` if checkpoints are switched off.
    pub fn if_enabled(&self) -> Option<CheckpointConfig> {
        let profile = self.seccomp.profile.trim();
        let profile = if profile.is_empty() { DEFAULT_SECCOMP_PROFILE } else { profile };
        self.enabled.then(|| CheckpointConfig {
            storage: StorageSettings { kind: self.storage.kind.clone(), ..self.storage.pvc.clone() },
            seccomp_profile: (!self.seccomp.disabled).then(|| profile.to_owned()),
            cleanup_image: self.cleanup_image.clone(),
        })
    }
}

/// A switch for something that a cluster may offer. Unset: used where the cluster offers it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Feature {
    /// `false` switches it off although it is there. Default unset.
    pub enabled: Option<bool>,
}

/// Orchestrators beside Kubernetes itself, which place and start pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Orchestrators {
    /// Grove.
    pub grove: GroveConfiguration,
    /// LeaderWorkerSets.
    pub lws: Feature,
    /// The KAI scheduler.
    pub kai_scheduler: Feature,
    /// The Volcano scheduler. Unset means off.
    pub volcano_scheduler: Feature,
}

/// GPUs of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Gpu {
    /// Whether they are looked up. Default true.
    pub discovery_enabled: bool,
    /// Namespaces whose DCGM exporters are trusted; tenants must not create pods there. Default `gpu-operator`. Ours,
    /// unknown to the reference.
    pub exporter_namespaces: Vec<String>,
}

impl Default for Gpu {
    fn default() -> Self {
        Self { discovery_enabled: true, exporter_namespaces: vec!["gpu-operator".to_owned()] }
    }
}

/// Grove.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GroveConfiguration {
    /// `false` switches it off although it is there. Default unset: used where the cluster offers it.
    pub enabled: Option<bool>,
    /// Time for which less than the minimum of a gang may be available before the gang is restarted. Default 15
    /// minutes; zero leaves it to Grove.
    pub termination_delay: GoDuration,
}

impl Default for GroveConfiguration {
    fn default() -> Self {
        Self { enabled: None, termination_delay: GoDuration(Duration::from_secs(15 * 60)) }
    }
}

impl OperatorConfiguration {
    /// The settings that reach pods; empty addresses are none.
    pub fn pods(&self) -> PodSettings {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let infrastructure = &self.infrastructure;
        PodSettings {
            discovery_backend: self.discovery.backend,
            nats_address: given(&infrastructure.nats_address),
            etcd_address: given(&infrastructure.etcd_address),
            model_express_url: given(&infrastructure.model_express_url),
            prometheus_endpoint: given(&infrastructure.prometheus_endpoint),
            mpi_secret: given(&self.mpi.ssh_secret_name),
            exposure: ExposureSettings {
                gateway: given(&self.ingress.virtual_service_gateway),
                ingress_class: given(&self.ingress.controller_class_name),
                tls_secret: given(&self.ingress.controller_tls_secret_name),
                host_suffix: given(&self.ingress.host_suffix),
                only_configured: self.ingress.only_configured,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::CheckpointConfiguration;

    #[test]
    fn settings_are_there_where_checkpoints_are_switched_on() {
        let read = |value: Value| serde_json::from_value::<CheckpointConfiguration>(value).unwrap().if_enabled();
        assert_eq!(read(json!({"storage": {"pvc": {"pvcName": "c"}}})), None);
        let storage = json!({"type": "pvc", "pvc": {"pvcName": "c", "basePath": "/c", "create": true, "size": "1Gi",
            "storageClassName": "fast", "accessMode": "ReadWriteOnce"}});
        let named = read(json!({"enabled": true, "storage": storage, "cleanupImage": "i"})).unwrap();
        assert_eq!(named.storage.storage().unwrap().unwrap().claim, "c");
        assert_eq!((named.storage.size.as_str(), named.cleanup_image.as_str()), ("1Gi", "i"));
        let profile = |seccomp: Value| read(json!({"enabled": true, "seccomp": seccomp})).unwrap().seccomp_profile;
        assert_eq!(profile(json!({})).as_deref(), Some("profiles/block-iouring.json"));
        assert_eq!(profile(json!({"profile": "own.json"})).as_deref(), Some("own.json"));
        assert_eq!(profile(json!({"disabled": true, "profile": "own.json"})), None);
    }
}
