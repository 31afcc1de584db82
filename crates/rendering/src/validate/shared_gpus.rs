//! GPU memory that several processes share, standby engines that take it over, and claims through which an engine
//! may have GPUs that its command line depends on.

use std::collections::BTreeSet;

use api_types::{
    v1beta1::{
        BackendFramework, ComponentSpec, DEFAULT_DEVICE_CLASS, EngineMode, Failover, GpuMemoryService, MAIN_CONTAINER,
    },
    violations::{self, Reason, Violation},
};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::Value;

use crate::{
    SharedGpus, WorkloadProvider, device_claims, device_claims::ContainerClaim, frameworks, gpus, violation::keep,
};

const SERVICE: &str = "spec.experimental.gpuMemoryService";
const FAILOVER: &str = "spec.experimental.failover";

/// Rejects memory that is shared between pods where the provider does not support it.
pub(super) fn check_provider(spec: &ComponentSpec, provider: WorkloadProvider, violations: &mut Vec<Violation>) {
    let between_pods = spec.gpu_memory_service().is_some_and(|service| service.mode == EngineMode::InterPod);
    if between_pods && provider == WorkloadProvider::Component {
        let problem = "needs Grove, and the component runs as a Deployment";
        let remedy = "write IntraPod, or run the graph on Grove";
        violations.push(Violation::invalid(format!("{SERVICE}.mode"), "InterPod", problem, remedy));
    }
}

/// Whether a component shares its GPUs, and how.
///
/// # Errors
/// Every violation.
pub(super) fn check<'a>(
    spec: &'a ComponentSpec,
    framework: Option<BackendFramework>,
    pod: &PodSpec,
    main: &Container,
) -> Result<Option<SharedGpus<'a>>, Vec<Violation>> {
    let failover = spec.failover();
    let Some(service) = spec.gpu_memory_service() else {
        return match failover {
            Some(_) => Err(vec![forbidden(FAILOVER, violations::FAILOVER_ALONE)]),
            None => Ok(None),
        };
    };
    let mut violations: Vec<Violation> = Vec::new();
    if !spec.is_worker() {
        violations.push(forbidden(SERVICE, violations::MEMORY_TYPE));
    }
    let count = check_service(service, pod, main, &mut violations);
    let standbys = failover.map_or(0, |failover| standbys(service, failover, framework, &mut violations));
    let class = Some(service.device_class_name.as_str()).filter(|class| !class.is_empty());
    match count {
        Some(count) if violations.is_empty() => Ok(Some(SharedGpus {
            mode: service.mode,
            device_class: class.unwrap_or(DEFAULT_DEVICE_CLASS),
            count,
            standbys,
            clients: service.extra_client_containers.as_deref().unwrap_or_default(),
        })),
        _ => Err(violations),
    }
}

pub(super) fn forbidden(field: &str, text: &str) -> Violation {
    Violation::of_text(field, Reason::Forbidden, Value::Null, text)
}

/// The GPUs that are shared, of a service whose GPUs and clients are there.
pub(super) fn check_service(
    service: &GpuMemoryService,
    pod: &PodSpec,
    main: &Container,
    violations: &mut Vec<Violation>,
) -> Option<u32> {
    check_clients(service, pod, violations);
    keep(violations, count(main))
}

fn count(main: &Container) -> Result<u32, Violation> {
    match gpus::count(main.resources.as_ref()) {
        Ok(0) => {
            let problem = format!("needs GPUs to share, and container {MAIN_CONTAINER} asks for none");
            let remedy = format!("set resources.limits[{}] of that container", api_types::GPU);
            Err(Violation::forbidden(SERVICE, problem, remedy))
        }
        Ok(count) => Ok(count),
        Err(wrong) => Err(wrong.violation(&format!("spec.podTemplate.spec.containers[{MAIN_CONTAINER}]"))),
    }
}

fn check_clients(service: &GpuMemoryService, pod: &PodSpec, violations: &mut Vec<Violation>) {
    let names: BTreeSet<&str> = pod.containers.iter().map(|container| container.name.as_str()).collect();
    let mut seen = BTreeSet::new();
    for (index, client) in service.extra_client_containers.iter().flatten().enumerate() {
        let (reason, problem) = if !seen.insert(client) {
            (Reason::Duplicate, "is listed twice")
        } else if !names.contains(client.as_str()) {
            (Reason::Invalid, "names no container of spec.podTemplate.spec")
        } else {
            continue;
        };
        let text = format!("{problem}; name containers that run beside the engine, each once");
        let field = format!("{SERVICE}.extraClientContainers[{index}]");
        violations.push(Violation::of_text(field, reason, client.as_str(), &text));
    }
}

/// The number of standby engines.
fn standbys(
    service: &GpuMemoryService,
    failover: &Failover,
    framework: Option<BackendFramework>,
    violations: &mut Vec<Violation>,
) -> u32 {
    if failover.mode != service.mode {
        let (field, mode) = (format!("{FAILOVER}.mode"), format!("{:?}", failover.mode));
        violations.push(Violation::of_text(field, Reason::Invalid, mode, violations::FAILOVER_MODE));
    }
    if framework != Some(BackendFramework::Vllm) {
        let runs = framework.map_or("no engine that is known", BackendFramework::as_str);
        let problem = format!("is served for vLLM only, and the component runs {runs}");
        violations.push(Violation::forbidden(FAILOVER, problem, "remove the field, or run vLLM"));
    }
    failover.standbys().unsigned_abs()
}

/// The device claims whose GPUs must be counted: those of an engine whose replicas span nodes and that requests no GPUs
/// as scalar resources. Others need not be known to be rendered.
pub(super) fn check_device_claims(
    spec: &ComponentSpec,
    framework: Option<BackendFramework>,
    pod: &PodSpec,
    main: &Container,
    violations: &mut Vec<Violation>,
) -> Vec<ContainerClaim> {
    let counted = framework.is_some_and(frameworks::counts_gpus) && spec.is_multinode();
    if !counted || gpus::count(main.resources.as_ref()) != Ok(0) {
        return Vec::new();
    }
    let known = |name: &str| pod.resource_claims.iter().flatten().any(|claim| claim.name == name);
    let used = main.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
    violations.extend(used.filter(|used| !known(&used.name)).map(|unknown| {
        let path = format!("spec.podTemplate.spec.containers[{MAIN_CONTAINER}].resources.claims");
        let problem = "names no claim of spec.podTemplate.spec.resourceClaims";
        let remedy = "add it there, with its ResourceClaim or ResourceClaimTemplate";
        Violation::invalid(path, unknown.name.as_str(), problem, remedy)
    }));
    device_claims::of(pod, main)
}
