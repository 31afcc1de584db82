//! Violations in the containers of the pod template, numbers above their limits included.
//!
//! The API server rejects such numbers in new objects, but not in those that were stored under older definitions.

use api_types::{
    limits::{self, at_most},
    quantity,
    v1beta1::{ComponentSpec, MAIN_CONTAINER},
    violations::{Reason, SIDECAR_MAIN, SIDECAR_UNKNOWN, Violation},
};
use k8s_openapi::api::core::v1::{Container, PodSpec, VolumeMount};

const POD: &str = "spec.podTemplate.spec";

/// The user's pod spec, if there is one.
pub(super) fn check(spec: &ComponentSpec) -> Result<&PodSpec, Violation> {
    spec.pod_spec().ok_or_else(no_main)
}

/// The user's `main` container, provided that all containers are in order.
pub(super) fn main<'a>(pod: &'a PodSpec, spec: &'a ComponentSpec) -> Result<&'a Container, Vec<Violation>> {
    let mut violations: Vec<Violation> = missing_image(spec).into_iter().collect();
    check_contents(pod, spec, &mut violations);
    spec.main_container().filter(|_| violations.is_empty()).ok_or(violations)
}

/// The violation of a component that names no image.
pub(crate) fn missing_image(spec: &ComponentSpec) -> Option<Violation> {
    let Some(main) = spec.main_container() else { return Some(no_main()) };
    let path = format!("{POD}.containers[{MAIN_CONTAINER}].image");
    let is_missing = main.image.as_deref().unwrap_or_default().is_empty();
    is_missing.then(|| Violation::required(path, "name the image that runs the component", ""))
}

/// Checks mounts, quantities and the name of the sidecar.
pub(super) fn check_contents(pod: &PodSpec, spec: &ComponentSpec, violations: &mut Vec<Violation>) {
    let mounts = spec.main_container().into_iter().flat_map(|main| main.volume_mounts.iter().flatten());
    for (index, mount) in mounts.enumerate() {
        let is_cache = spec.compilation_cache.as_ref().is_some_and(|cache| cache.pvc_name == mount.name);
        check_mount(index, mount, is_cache, violations);
    }
    for container in &pod.containers {
        check_quantities("containers", container, violations);
    }
    for container in pod.init_containers.iter().flatten() {
        check_quantities("initContainers", container, violations);
    }
    check_sidecar(pod, spec, violations);
}

fn no_main() -> Violation {
    let problem = format!("add a container named {MAIN_CONTAINER}");
    Violation::required(format!("{POD}.containers"), problem, "name the image that runs the component")
}

/// A mount of the cache's volume without a path is one that old converters left; it gets the cache's path.
fn check_mount(index: usize, mount: &VolumeMount, is_cache: bool, violations: &mut Vec<Violation>) {
    let mut missing = |field: &str, remedy: &str| {
        let path = format!("{POD}.containers[{MAIN_CONTAINER}].volumeMounts[{index}].{field}");
        violations.push(Violation::required(path, "is empty", remedy));
    };
    if mount.name.is_empty() {
        missing("name", "name a volume of the pod, or a PersistentVolumeClaim of the namespace");
    }
    if mount.mount_path.is_empty() && !is_cache {
        missing("mountPath", "give the path at which the volume appears");
    }
}

fn check_quantities(list: &str, container: &Container, violations: &mut Vec<Violation>) {
    let Some(resources) = &container.resources else { return };
    for (kind, amounts) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for (resource, amount) in amounts.iter().flatten() {
            let problem = match quantity::nanos(&amount.0) {
                None => "is no quantity",
                Some(value) if value < 0 => "is negative",
                Some(_) => continue,
            };
            let path = format!("{POD}.{list}[{}].resources.{kind}[{resource}]", container.name);
            let remedy = "write a number, with a suffix such as m, k, Mi or Gi where it helps";
            violations.push(Violation::invalid(path, amount.0.as_str(), problem, remedy));
        }
    }
}

fn check_sidecar(pod: &PodSpec, spec: &ComponentSpec, violations: &mut Vec<Violation>) {
    let Some(sidecar) = &spec.frontend_sidecar else { return };
    let text = if sidecar == MAIN_CONTAINER {
        SIDECAR_MAIN
    } else if pod.containers.iter().any(|container| container.name == *sidecar) {
        return;
    } else {
        SIDECAR_UNKNOWN
    };
    violations.push(Violation::of_text("spec.frontendSidecar", Reason::Invalid, sidecar.as_str(), text));
}

/// Reports every number that is above its limit.
pub(super) fn check_limits(spec: &ComponentSpec, violations: &mut Vec<Violation>) {
    let nodes = spec.multinode.as_ref().map(|multinode| multinode.node_count);
    let shadows = spec.failover().map(|failover| failover.num_shadows);
    let identity = spec.checkpoint().and_then(|checkpoint| checkpoint.identity.as_ref());
    let of_identity = "experimental.checkpoint.identity";
    let numbers = [
        ("replicas".to_owned(), spec.replicas, limits::REPLICAS),
        ("minAvailable".to_owned(), spec.min_available, limits::REPLICAS),
        ("multinode.nodeCount".to_owned(), nodes, limits::NODES),
        ("experimental.failover.numShadows".to_owned(), shadows, limits::SHADOWS),
        (format!("{of_identity}.tensorParallelSize"), identity.map(|id| id.tensor_parallel_size), limits::RANKS),
        (format!("{of_identity}.pipelineParallelSize"), identity.map(|id| id.pipeline_parallel_size), limits::RANKS),
        (format!("{of_identity}.maxModelLen"), identity.and_then(|id| id.max_model_len), limits::TOKENS),
    ];
    for (field, value, limit) in numbers {
        if let Some(value) = value.filter(|value| *value > limit) {
            let remedy = format!("write {limit} or less");
            violations.push(Violation::invalid(format!("spec.{field}"), value.to_string(), at_most(limit), remedy));
        }
    }
}
