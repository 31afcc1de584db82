//! Exchange of key-value caches between workers: a worker's pod needs its own place in the topology, and the policy.
//!
//! It is part of the user's template and not of the rendering, because a component does not have its graph's policy.

use std::collections::BTreeMap;

use api_types::{
    annotations, env as names, labels,
    v1beta1::{KvTransferEnforcement, KvTransferPolicy, MAIN_CONTAINER},
};
use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, DownwardAPIVolumeSource, EnvVar, ObjectFieldSelector, PodSpec, PodTemplateSpec, Volume,
    VolumeMount,
};

use crate::pod::{env, volumes};

const VOLUME: &str = "topology-labels";
const FOLDER: &str = "/etc/dynamo/topology";

/// The variables that are the policy's alone; a user's of these names go.
const OWNED: [&str; 5] = [
    names::DYN_KV_TRANSFER_DOMAIN,
    names::DYN_KV_TRANSFER_ENFORCEMENT,
    names::DYN_KV_TRANSFER_PREFERRED_WEIGHT,
    names::DYN_TOPOLOGY_ENABLED,
    names::DYN_TOPOLOGY_MOUNT_PATH,
];

/// Mounts the policy and the pod's topology into a worker's main container: a file for each domain, which fills when
/// the pod gets the label. `domains` are those of the policy's cluster topology; with a label key they are not used.
///
/// A template without a container `main` is left as it is.
pub fn apply_kv_transfer_policy(template: &mut PodTemplateSpec, policy: &KvTransferPolicy, domains: &[String]) {
    let Some(pod) = template.spec.as_mut() else { return };
    let Some(main) = pod.containers.iter_mut().find(|container| container.name == MAIN_CONTAINER) else { return };
    let mut own = main.env.take().unwrap_or_default();
    own.retain(|variable| !OWNED.contains(&variable.name.as_str()));
    main.env = Some(env::union(own, environment(policy)));
    let mount = VolumeMount { read_only: Some(true), ..volumes::mount_of(VOLUME, FOLDER) };
    volumes::replace_mount(main, mount);
    volumes::replace_volume(&mut pod.volumes, volume(policy, domains));
}

/// The annotations of a worker by which the graph controller labels its pods.
pub fn kv_transfer_annotations(policy: &KvTransferPolicy) -> BTreeMap<String, String> {
    let keys = [
        (annotations::TOPOLOGY_LABEL_KEY, policy.label_key.as_ref()),
        (annotations::TOPOLOGY_NAME, policy.cluster_topology_name.as_ref()),
    ];
    let given = keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.clone())));
    given.filter(|(_, value)| !value.is_empty()).collect()
}

fn environment(policy: &KvTransferPolicy) -> Vec<EnvVar> {
    let enforcement = match policy.enforcement {
        KvTransferEnforcement::Required => "required",
        KvTransferEnforcement::Preferred => "preferred",
    };
    let mut all = vec![
        env::value(names::DYN_KV_TRANSFER_DOMAIN, &policy.domain),
        env::value(names::DYN_KV_TRANSFER_ENFORCEMENT, enforcement),
        env::value(names::DYN_TOPOLOGY_ENABLED, "true"),
        env::value(names::DYN_TOPOLOGY_MOUNT_PATH, FOLDER),
    ];
    let weight = policy.preferred_weight.map(|weight| weight.to_string());
    all.extend(weight.map(|weight| env::value(names::DYN_KV_TRANSFER_PREFERRED_WEIGHT, weight)));
    all
}

/// The domains in the volume of a pod; none if it has no such volume.
pub fn topology_domains(pod: &PodSpec) -> Option<Vec<String>> {
    let volume = pod.volumes.iter().flatten().find(|volume| volume.name == VOLUME)?;
    let files = volume.downward_api.as_ref()?.items.as_ref()?;
    Some(files.iter().map(|file| file.path.clone()).collect())
}

fn volume(policy: &KvTransferPolicy, domains: &[String]) -> Volume {
    let file = |domain: &str, label: &str| DownwardAPIVolumeFile {
        path: domain.to_owned(),
        field_ref: Some(ObjectFieldSelector { field_path: format!("metadata.labels['{label}']"), api_version: None }),
        ..DownwardAPIVolumeFile::default()
    };
    let items = match policy.label_key.as_deref().filter(|key| !key.is_empty()) {
        Some(key) => vec![file(&policy.domain, key)],
        None => domains.iter().map(|domain| file(domain, &labels::topology(domain))).collect(),
    };
    let source = DownwardAPIVolumeSource { items: Some(items), default_mode: None };
    Volume { name: VOLUME.to_owned(), downward_api: Some(source), ..Volume::default() }
}
