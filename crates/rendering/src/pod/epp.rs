//! What the endpoint picker of a gateway needs: its flags, its configuration, a cache it can write to.

use api_types::{names, ports};
use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, EmptyDirVolumeSource, KeyToPath, Volume, VolumeMount};

use super::context::PodContext;

const POOL_GROUP: &str = "inference.networking.k8s.io";
const CONFIG_VOLUME: &str = "epp-config";
const CONFIG_FOLDER: &str = "/etc/epp";
const CACHE_VOLUME: &str = "hf-cache";
const CACHE_FOLDER: &str = "/home/nonroot/.cache";

pub(super) fn args(context: &PodContext<'_>) -> Vec<String> {
    let pairs = [
        ("--pool-name", names::inference_pool(context.graph)),
        ("--pool-namespace", context.namespace.to_owned()),
        ("--pool-group", POOL_GROUP.to_owned()),
        ("-v", "4".to_owned()),
        ("--zap-encoder", "json".to_owned()),
        ("--grpc-port", ports::GRPC.to_string()),
        ("--grpc-health-port", ports::GRPC_HEALTH.to_string()),
        ("--config-file", format!("{CONFIG_FOLDER}/{}", names::EPP_CONFIG_FILE)),
    ];
    pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

pub(super) fn mounts() -> Vec<VolumeMount> {
    let mount = |name: &str, path: &str, read_only: Option<bool>| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only,
        ..VolumeMount::default()
    };
    vec![mount(CONFIG_VOLUME, CONFIG_FOLDER, Some(true)), mount(CACHE_VOLUME, CACHE_FOLDER, None)]
}

/// The configuration is always mounted under the same file name, whatever its key in the user's ConfigMap.
pub(super) fn volumes(context: &PodContext<'_>) -> Vec<Volume> {
    let given = context.epp_config.and_then(|config| config.config_map_ref.as_ref());
    let config_map = given.map_or_else(|| names::epp_config_map(context.graph), |given| given.name.clone());
    let key = given.map(|given| given.key.as_str()).filter(|key| !key.is_empty()).unwrap_or(names::EPP_CONFIG_FILE);
    let item = KeyToPath { key: key.to_owned(), path: names::EPP_CONFIG_FILE.to_owned(), mode: None };
    let config =
        ConfigMapVolumeSource { name: config_map, items: Some(vec![item]), default_mode: None, optional: None };
    vec![
        Volume { name: CONFIG_VOLUME.to_owned(), config_map: Some(config), ..Volume::default() },
        Volume {
            name: CACHE_VOLUME.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource { medium: None, size_limit: None }),
            ..Volume::default()
        },
    ]
}
