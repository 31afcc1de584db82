//! The user's violations, all at once; and the component without them, the only input of what follows.
//!
//! The checks in this file include the volume that keeps compiled kernels, with the obstacles to it, and the checkpoint
//! that a component starts from.

mod containers;
mod shared_gpus;

use std::collections::BTreeMap;

use api_types::{
    annotations,
    conversion::preserved::PreservedComponent,
    quantity,
    v1beta1::{
        BackendFramework, CompilationCache, ComponentSpec, DynamoComponentDeployment, EngineMode, MAIN_CONTAINER,
    },
    violations::{self, MEMORY_SIZE, Violation},
};
pub(crate) use containers::missing_image;
use k8s_openapi::{
    api::core::v1::{Container, PodSpec, PodTemplateSpec, Volume},
    apimachinery::pkg::api::resource::Quantity,
};
use serde_json::Value;

use crate::{
    CheckpointUse, DiscoveryBackend, RolloutStrategy, SharedGpus, ValidatedComponent, WorkloadProvider,
    component_annotations, frameworks,
    model::{CacheMount, DEFAULT_SHARED_MEMORY},
    rules,
    violation::{keep, keep_all},
};

/// Looks for every violation that only the user of a component with a workload of its own can mend.
///
/// # Errors
/// All of them at once, in the order of the spec.
pub fn validate(dcd: &DynamoComponentDeployment) -> Result<ValidatedComponent<'_>, Vec<Violation>> {
    validate_on(WorkloadProvider::Component, dcd)
}

/// Looks for every violation that only the user can mend.
///
/// # Errors
/// All of them at once, in the order of the spec.
pub fn validate_on(
    provider: WorkloadProvider,
    dcd: &DynamoComponentDeployment,
) -> Result<ValidatedComponent<'_>, Vec<Violation>> {
    let spec = &dcd.spec.component;
    let annotations = component_annotations(dcd);
    let mut violations: Vec<Violation> = Vec::new();

    let name = keep(&mut violations, identity("name", dcd.metadata.name.as_deref()));
    let namespace = keep(&mut violations, identity("namespace", dcd.metadata.namespace.as_deref()));
    let uid = keep(&mut violations, identity("uid", dcd.metadata.uid.as_deref()));
    containers::check_limits(spec, &mut violations);
    shared_gpus::check_provider(spec, provider, &mut violations);
    let shared_memory = keep(&mut violations, shared_memory(spec.shared_memory_size.as_ref()));
    let discovery = keep(&mut violations, discovery(&annotations));
    let strategy = keep_all(&mut violations, RolloutStrategy::from_annotations(Some(&annotations)));
    let framework = keep(&mut violations, frameworks::detect(dcd));
    let pod = keep(&mut violations, containers::check(spec));
    let main = pod.and_then(|pod| keep_all(&mut violations, containers::main(pod, spec)));
    let (parts, engine) = (pod.zip(main), framework.flatten());
    let cache =
        parts.and_then(|(pod, main)| keep(&mut violations, check(spec.compilation_cache.as_ref(), engine, pod, main)));
    let shared_gpus =
        parts.and_then(|(pod, main)| keep_all(&mut violations, shared_gpus::check(spec, engine, pod, main)));
    let gpu_claims =
        parts.map(|(pod, main)| shared_gpus::check_device_claims(spec, engine, pod, main, &mut violations));
    let checkpoint = pod.zip(shared_gpus).map(|(pod, shared)| check_checkpoint(spec, pod, shared, &mut violations));

    let component = || {
        Some(ValidatedComponent {
            dcd,
            name: name?,
            namespace: namespace?,
            uid: uid?,
            preserved: preserved(dcd),
            annotations,
            pod: pod?,
            main: main?,
            framework: framework?,
            cache: cache?,
            shared_memory: shared_memory?,
            discovery: discovery?,
            strategy: strategy?,
            shared_gpus: shared_gpus?,
            checkpoint: checkpoint?,
            gpu_claims: gpu_claims?,
        })
    };
    component().filter(|_| violations.is_empty()).ok_or(violations)
}

/// Violations that a component has by itself, independent of what surrounds it.
pub(crate) fn check_component(spec: &ComponentSpec) -> Vec<Violation> {
    let mut violations: Vec<Violation> = Vec::new();
    keep(&mut violations, shared_memory(spec.shared_memory_size.as_ref()));
    if let Ok(pod) = containers::check(spec) {
        containers::check_contents(pod, spec, &mut violations);
        if let Some((service, main)) = spec.gpu_memory_service().zip(spec.main_container()) {
            shared_gpus::check_service(service, pod, main, &mut violations);
        }
    }
    violations
}

fn preserved(dcd: &DynamoComponentDeployment) -> PreservedComponent {
    let kept = dcd.metadata.annotations.as_ref();
    kept.map(PreservedComponent::of_component_deployment).unwrap_or_default()
}

fn identity<'a>(field: &str, value: Option<&'a str>) -> Result<&'a str, Violation> {
    let remedy = "render only objects that the API server returned";
    let missing = || Violation::required(format!("metadata.{field}"), "is missing", remedy);
    value.filter(|v| !v.is_empty()).ok_or_else(missing)
}

fn shared_memory(size: Option<&Quantity>) -> Result<Option<Quantity>, Violation> {
    let Some(size) = size else { return Ok(Some(Quantity(DEFAULT_SHARED_MEMORY.to_owned()))) };
    let invalid = |problem: &str| Violation::invalid("spec.sharedMemorySize", size.0.as_str(), problem, MEMORY_SIZE);
    match quantity::nanos(&size.0) {
        None => Err(invalid("is no quantity")),
        Some(value) if value < 0 => Err(invalid("is negative")),
        Some(0) => Ok(None),
        Some(_) => Ok(Some(size.clone())),
    }
}

fn discovery(given: &BTreeMap<String, String>) -> Result<Option<DiscoveryBackend>, Violation> {
    let Some(name) = given.get(annotations::DISCOVERY_BACKEND).filter(|n| !n.is_empty()) else { return Ok(None) };
    let path = format!("spec.podTemplate.metadata.annotations[{}]", annotations::DISCOVERY_BACKEND);
    rules::discovery_backend(path, name).map_or_else(|| Ok(DiscoveryBackend::from_name(name)), Err)
}

/// Resolves the cache's path and rejects conflicting mounts and volumes.
fn check<'a>(
    cache: Option<&'a CompilationCache>,
    framework: Option<BackendFramework>,
    pod: &PodSpec,
    main: &Container,
) -> Result<Option<CacheMount<'a>>, Violation> {
    let Some(cache) = cache else { return Ok(None) };
    let claim = cache.pvc_name.as_str();
    if claim.is_empty() {
        return Err(invalid("pvcName", "", "is empty", "name the PersistentVolumeClaim that holds the cache"));
    }
    let given = cache.mount_path.as_deref().filter(|path| !path.is_empty());
    let Some(path) = given.or_else(|| framework.and_then(frameworks::default_cache_path)) else {
        let problem = "is missing, and the component's framework has no default";
        return Err(invalid("mountPath", "", problem, "give the path at which the engine keeps its cache"));
    };
    let mount = CacheMount { claim, path };
    check_mounts(mount, main)?;
    check_volumes(mount, pod)?;
    Ok(Some(mount))
}

fn check_mounts(cache: CacheMount<'_>, main: &Container) -> Result<(), Violation> {
    for mount in main.volume_mounts.iter().flatten().filter(|mount| mount.mount_path == cache.path) {
        if mount.name != cache.claim {
            let problem = format!("is taken by volume {} of container {MAIN_CONTAINER}", mount.name);
            return Err(invalid("mountPath", cache.path, &problem, "mount one of the two elsewhere"));
        }
        if mount.read_only == Some(true) {
            let problem = format!("is mounted read-only by container {MAIN_CONTAINER}");
            return Err(invalid("mountPath", cache.path, &problem, "remove readOnly from that volume mount"));
        }
    }
    Ok(())
}

fn check_volumes(cache: CacheMount<'_>, pod: &PodSpec) -> Result<(), Violation> {
    let named: Vec<&Volume> = pod.volumes.iter().flatten().filter(|volume| volume.name == cache.claim).collect();
    let problem = match named.as_slice() {
        [] => return Ok(()),
        [volume] => match &volume.persistent_volume_claim {
            None => "is also the name of a volume that is no PersistentVolumeClaim".to_owned(),
            Some(claim) if claim.claim_name != cache.claim => {
                format!("is also the name of a volume for the claim {}", claim.claim_name)
            }
            Some(claim) if claim.read_only == Some(true) => "is also the name of a read-only volume".to_owned(),
            Some(_) => return Ok(()),
        },
        _ => "is the name of several volumes".to_owned(),
    };
    Err(invalid("pvcName", cache.claim, &problem, "remove that volume from spec.podTemplate.spec.volumes"))
}

fn invalid(field: &str, value: &str, problem: &str, remedy: &str) -> Violation {
    Violation::invalid(format!("spec.compilationCache.{field}"), value, problem, remedy)
}

const FIELD: &str = "spec.experimental.checkpoint";

/// Validates the checkpoint settings; `None` if the component always starts cold.
fn check_checkpoint<'a>(
    spec: &'a ComponentSpec,
    pod: &PodSpec,
    shared: Option<SharedGpus<'_>>,
    violations: &mut Vec<Violation>,
) -> Option<CheckpointUse<'a>> {
    let checkpoint = spec.enabled_checkpoint()?;
    if spec.failover().is_some() {
        violations.push(shared_gpus::forbidden(FIELD, violations::CHECKPOINT_FAILOVER));
    }
    if shared.is_some_and(|shared| shared.mode == EngineMode::InterPod) {
        violations.push(shared_gpus::forbidden(FIELD, violations::CHECKPOINT_BETWEEN_PODS));
    }
    let target = checkpoint.target_container_name.as_deref().unwrap_or(MAIN_CONTAINER);
    if pod.containers.iter().all(|container| container.name != target) {
        let problem = "names no container of spec.podTemplate.spec";
        let remedy = "name the container that runs the engine";
        violations.push(invalid_checkpoint(".targetContainerName", target, problem, remedy));
    }
    let job = checkpoint.job.as_ref();
    let overlay = job.and_then(|job| job.pod_template.as_ref());
    let clients = job.and_then(|job| job.gms_client_containers.as_deref()).unwrap_or_default();
    check_captured_pod(target, overlay, clients, violations);
    let reference = checkpoint.reference();
    let identity = checkpoint.identity.as_ref().filter(|_| reference.is_none());
    Some(CheckpointUse { reference, identity, policy: checkpoint.startup_policy, target, overlay, clients })
}

/// The pod that is captured has the target, and what the user adds.
fn check_captured_pod(target: &str, overlay: Option<&Value>, clients: &[String], violations: &mut Vec<Violation>) {
    let at = format!("{FIELD}.job.podTemplate");
    let (template, misfits) = rules::fit::<PodTemplateSpec>(&at, overlay.unwrap_or(&Value::Null));
    if !misfits.is_empty() {
        violations.extend(misfits);
        return;
    }
    let added: Vec<_> = template.spec.into_iter().flat_map(|pod| pod.containers).map(|added| added.name).collect();
    for (index, client) in clients.iter().enumerate() {
        if client != target && !added.contains(client) {
            let problem = "names no container of the pod that is captured";
            let remedy = "the pod has the target and the containers of job.podTemplate; name one of those";
            violations.push(invalid_checkpoint(&format!(".job.gmsClientContainers[{index}]"), client, problem, remedy));
        }
    }
}

fn invalid_checkpoint(field: &str, value: &str, problem: &str, remedy: &str) -> Violation {
    Violation::invalid(format!("{FIELD}{field}"), value, problem, remedy)
}
