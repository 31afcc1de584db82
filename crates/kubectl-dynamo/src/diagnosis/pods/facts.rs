//! Facts about a pod: from the pod itself, and from other objects that it needs.

use api_types::gpus;
use k8s_openapi::{
    api::core::v1::{Container, Pod},
    jiff::Timestamp,
};
use kube::ResourceExt;

use crate::diagnosis::model::{DiagnosisInputs, NamespaceWarning, ObjectName};

/// The container that a message of a diagnosis names.
pub fn container_in(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("container ")?;
    rest.split([' ', ':']).next().filter(|name| !name.is_empty())
}

fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

/// Whether a container of that name runs before the others.
pub fn is_init(pod: &Pod, name: &str) -> bool {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.init_containers.iter().flatten()).any(|container| container.name == name)
}

/// Memory limit of a container.
pub fn memory_limit(pod: &Pod, name: &str) -> Option<String> {
    let container = containers(pod).find(|container| container.name == name)?;
    Some(container.resources.as_ref()?.limits.as_ref()?.get("memory")?.0.clone())
}

/// Returns the start time of a container.
pub fn started(pod: &Pod, name: &str) -> Option<Timestamp> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let status = statuses.iter().find(|status| status.name == name)?;
    Some(status.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0)
}

/// Warnings about a pod with one of some reasons, the latest first.
pub fn warnings<'a>(
    observed: &'a DiagnosisInputs,
    pod: &'a Pod,
    reasons: &'static [&'static str],
) -> impl Iterator<Item = &'a NamespaceWarning> {
    let name = pod.name_any();
    let about = move |one: &&NamespaceWarning| one.kind == "Pod" && one.name == name;
    observed.warnings.iter().filter(about).filter(|one| reasons.contains(&one.reason.as_str()))
}

/// The first image pull secret of a pod that does not exist.
pub fn missing_pull_secret<'a>(observed: &DiagnosisInputs, pod: &'a Pod) -> Option<&'a str> {
    pull_secrets(pod).find(|name| observed.secrets.get(*name) == Some(&false))
}

/// A Secret or ConfigMap that a pod needs and that does not exist; with a message, one that it names.
pub fn missing_reference(observed: &DiagnosisInputs, pod: &Pod, message: &str) -> Option<ObjectName> {
    let fits = |name: &str| message.is_empty() || message.contains(name);
    let secret = secrets(pod).find(|name| observed.secrets.get(*name) == Some(&false) && fits(name));
    let map = || config_maps(pod).find(|name| observed.config_maps.get(*name) == Some(&false) && fits(name));
    secret.map(|name| ObjectName::new("Secret", name)).or_else(|| map().map(|name| ObjectName::new("ConfigMap", name)))
}

/// Names of the Secrets without which a pod does not start.
pub fn secrets(pod: &Pod) -> impl Iterator<Item = &str> {
    let of_environment = containers(pod).flat_map(|container| {
        let keys = container.env.iter().flatten().filter_map(|env| env.value_from.as_ref()?.secret_key_ref.as_ref());
        let keys = keys.filter(|key| key.optional != Some(true)).map(|key| key.name.as_str());
        let whole = container.env_from.iter().flatten().filter_map(|from| from.secret_ref.as_ref());
        keys.chain(whole.filter(|whole| whole.optional != Some(true)).map(|whole| whole.name.as_str()))
    });
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mounted = volumes.filter_map(|volume| volume.secret.as_ref()).filter(|secret| secret.optional != Some(true));
    of_environment.chain(mounted.filter_map(|secret| secret.secret_name.as_deref()))
}

/// Names of the ConfigMaps without which a pod does not start.
pub fn config_maps(pod: &Pod) -> impl Iterator<Item = &str> {
    let of_environment = containers(pod).flat_map(|container| {
        let keys =
            container.env.iter().flatten().filter_map(|env| env.value_from.as_ref()?.config_map_key_ref.as_ref());
        let keys = keys.filter(|key| key.optional != Some(true)).map(|key| key.name.as_str());
        let whole = container.env_from.iter().flatten().filter_map(|from| from.config_map_ref.as_ref());
        keys.chain(whole.filter(|whole| whole.optional != Some(true)).map(|whole| whole.name.as_str()))
    });
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mounted = volumes.filter_map(|volume| volume.config_map.as_ref()).filter(|map| map.optional != Some(true));
    of_environment.chain(mounted.map(|map| map.name.as_str()))
}

/// Names of the ResourceClaims that a pod shares with others.
pub fn device_claims(pod: &Pod) -> impl Iterator<Item = &str> {
    let claims = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    claims.filter_map(|claim| claim.resource_claim_name.as_deref())
}

/// Whether a container was started again after it had ended.
pub fn was_restarted(pod: &Pod, name: &str) -> bool {
    let status = pod.status.iter();
    let statuses =
        status.flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses).flatten());
    let mut named = statuses.filter(|status| status.name == name);
    named.any(|status| status.state.as_ref().is_none_or(|state| state.terminated.is_none()))
}

/// Image pull secrets of a pod.
pub fn pull_secrets(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten()).map(|secret| secret.name.as_str())
}

/// The architectures of the nodes.
pub fn architectures(observed: &DiagnosisInputs) -> Option<String> {
    let mut known: Vec<&str> = Vec::new();
    for node in observed.nodes.iter().flatten() {
        if !node.architecture.is_empty() && !known.contains(&node.architecture.as_str()) {
            known.push(&node.architecture);
        }
    }
    (!known.is_empty()).then(|| format!("the nodes are {}", known.join(", ")))
}

/// Reports the GPUs that a pod requests, and the number of nodes with GPUs.
pub fn gpus(observed: &DiagnosisInputs, pod: &Pod) -> Vec<String> {
    let mut facts = vec![format!("the pod requests {} GPUs", gpus::of_pod(pod))];
    if let Some(nodes) = &observed.nodes {
        let with_gpus = nodes.iter().filter(|node| node.has_gpus).count();
        facts.push(format!("{with_gpus} of {} nodes have GPUs", nodes.len()));
    }
    facts
}
