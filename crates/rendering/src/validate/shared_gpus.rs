//! GPU memory that several processes share, and engines that stand by to take it over.

use api_types::{
    v1beta1::{
        BackendFramework, ComponentSpec, DEFAULT_DEVICE_CLASS, EngineMode, Failover, GpuMemoryService, MAIN_CONTAINER,
    },
    violations::Violation,
};
use k8s_openapi::api::core::v1::{Container, PodSpec};

use crate::{SharedGpus, WorkloadProvider, gpus, violation::Violations};

const SERVICE: &str = "spec.experimental.gpuMemoryService";
const FAILOVER: &str = "spec.experimental.failover";

/// Rejects memory that is shared between pods where the provider does not support it.
pub(super) fn check_provider(spec: &ComponentSpec, provider: WorkloadProvider, violations: &mut Violations) {
    let Some(experimental) = &spec.experimental else { return };
    let between_pods =
        experimental.gpu_memory_service.as_ref().is_some_and(|service| service.mode == EngineMode::InterPod);
    if between_pods && provider == WorkloadProvider::Component {
        violations.push(Violation::invalid(
            format!("{SERVICE}.mode"),
            "InterPod",
            "needs Grove, and the component runs as a Deployment",
            "write IntraPod, or run the graph on Grove",
        ));
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
    let experimental = spec.experimental.as_ref();
    let failover = experimental.and_then(|experimental| experimental.failover.as_ref());
    let Some(service) = experimental.and_then(|experimental| experimental.gpu_memory_service.as_ref()) else {
        let problem = "needs the GPU memory service";
        let alone = |_| Violation::forbidden(FAILOVER, problem, format!("set {SERVICE}, or remove the field"));
        return failover.map_or(Ok(None), |failover| Err(vec![alone(failover)]));
    };
    let mut violations = Violations::default();
    if !spec.is_worker() {
        let problem = "is for components of type worker, prefill or decode";
        violations.push(Violation::forbidden(SERVICE, problem, "remove the field, or change the type"));
    }
    let count = violations.keep(count(main));
    check_clients(service, pod, &mut violations);
    let standbys = failover.map_or(0, |failover| standbys(service, failover, framework, &mut violations));
    let violations = violations.into_inner();
    match count {
        Some(count) if violations.is_empty() => Ok(Some(SharedGpus {
            mode: service.mode,
            device_class: Some(service.device_class_name.as_str())
                .filter(|class| !class.is_empty())
                .unwrap_or(DEFAULT_DEVICE_CLASS),
            count,
            standbys,
            clients: service.extra_client_containers.as_deref().unwrap_or_default(),
        })),
        _ => Err(violations),
    }
}

fn count(main: &Container) -> Result<u32, Violation> {
    let resources = format!("spec.podTemplate.spec.containers[{MAIN_CONTAINER}].resources");
    match gpus::count(main.resources.as_ref()) {
        Ok(0) => {
            let problem = format!("needs GPUs to share, and container {MAIN_CONTAINER} asks for none");
            Err(Violation::forbidden(SERVICE, problem, format!("set {resources}.limits[{}]", api_types::GPU)))
        }
        Ok(count) => Ok(count),
        Err(wrong) => {
            let field = format!("{resources}.{}[{}]", wrong.list, wrong.resource);
            Err(Violation::invalid(
                field,
                wrong.amount.as_str(),
                "is no whole number of GPUs",
                "write a count such as 1",
            ))
        }
    }
}

fn check_clients(service: &GpuMemoryService, pod: &PodSpec, violations: &mut Violations) {
    let clients = service.extra_client_containers.as_deref().unwrap_or_default();
    for (index, client) in clients.iter().enumerate() {
        let problem = if clients[..index].contains(client) {
            "stands there twice"
        } else if pod.containers.iter().all(|container| container.name != *client) {
            "names no container of spec.podTemplate.spec"
        } else {
            continue;
        };
        let field = format!("{SERVICE}.extraClientContainers[{index}]");
        violations.push(Violation::invalid(
            field,
            client.as_str(),
            problem,
            "name containers that run beside the engine, each once",
        ));
    }
}

/// The number of engines that stand by.
fn standbys(
    service: &GpuMemoryService,
    failover: &Failover,
    framework: Option<BackendFramework>,
    violations: &mut Violations,
) -> u32 {
    if failover.mode != service.mode {
        let problem = format!("differs from {SERVICE}.mode, which is {:?}", service.mode);
        let remedy = "give both the same mode: engines take over from each other where they share memory";
        violations.push(Violation::invalid(
            format!("{FAILOVER}.mode"),
            format!("{:?}", failover.mode),
            problem,
            remedy,
        ));
    }
    if framework != Some(BackendFramework::Vllm) {
        let runs = framework.map_or("no engine that is known", BackendFramework::as_str);
        let problem = format!("is served for vLLM only, and the component runs {runs}");
        violations.push(Violation::forbidden(FAILOVER, problem, "remove the field, or run vLLM"));
    }
    failover.standbys().unsigned_abs()
}
