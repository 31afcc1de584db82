//! GPUs of pods, by the names of scalar resources.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use crate::quantity::nanos;

/// Billionths in one.
const ONE: i128 = 1_000_000_000;

/// Whether a resource of that name is a GPU, or a slice of one: `nvidia.com/gpu`, `nvidia.com/mig-1g.5gb`,
/// `gpu.intel.com/i915`.
pub fn is_gpu(resource: &str) -> bool {
    let name = resource.to_lowercase();
    name == "gpu" || name.ends_with("/gpu") || name.contains("/mig-") || name.starts_with("gpu.")
}

/// GPUs that a pod requests as scalar resources.
pub fn of_pod(pod: &Pod) -> u64 {
    pod.spec.as_ref().map_or(0, of_spec)
}

/// GPUs that the containers of a pod request.
pub fn of_spec(spec: &PodSpec) -> u64 {
    spec.containers.iter().map(of_container).sum()
}

fn of_container(container: &Container) -> u64 {
    let Some(resources) = &container.resources else { return 0 };
    let lists = [resources.limits.as_ref(), resources.requests.as_ref()];
    let amounts = lists.into_iter().flatten().map(|amounts| {
        let of_gpus = amounts.iter().filter(|(resource, _)| is_gpu(resource));
        of_gpus.filter_map(|(_, amount)| u64::try_from(nanos(&amount.0)? / ONE).ok()).sum::<u64>()
    });
    amounts.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gpus_are_recognized_by_the_name_of_the_resource() {
        for name in ["nvidia.com/gpu", "gpu", "amd.com/GPU", "nvidia.com/mig-3g.20gb", "gpu.intel.com/i915"] {
            assert!(is_gpu(name), "{name}");
        }
        for name in ["cpu", "memory", "nvidia.com/gpu-memory", "rdma/hca", "mig-1g"] {
            assert!(!is_gpu(name), "{name}");
        }
    }

    #[test]
    fn gpus_of_all_containers_are_counted_once() {
        let limits =
            |amount: &str| json!({ "limits": { "nvidia.com/gpu": amount }, "requests": { "nvidia.com/gpu": amount } });
        let pod = json!({ "spec": { "containers": [
            { "name": "main", "resources": limits("4") },
            { "name": "other", "resources": limits("1") },
            { "name": "none" },
            { "name": "many", "resources": limits("4k") },
        ] } });
        assert_eq!(of_pod(&serde_json::from_value(pod).unwrap()), 4005);
        assert_eq!(of_pod(&Pod::default()), 0);
    }
}
