//! The user's violations, all at once; and the component without them, the only input of what follows.

mod cache;
mod checkpoint;
mod containers;
mod device_claims;
mod limits;
mod shared_gpus;

use std::collections::BTreeMap;

use api_types::{
    annotations,
    conversion::preserved::PreservedComponent,
    quantity,
    v1beta1::{ComponentSpec, DynamoComponentDeployment},
    violations::{MEMORY_SIZE, Violation},
};
pub(crate) use containers::missing_image;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::{
    DiscoveryBackend, RolloutStrategy, ValidatedComponent, WorkloadProvider, component_annotations, frameworks,
    model::DEFAULT_SHARED_MEMORY, rules, violation::Violations,
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
    let mut violations = Violations::default();

    let name = violations.keep(identity("name", dcd.metadata.name.as_deref()));
    let namespace = violations.keep(identity("namespace", dcd.metadata.namespace.as_deref()));
    let uid = violations.keep(identity("uid", dcd.metadata.uid.as_deref()));
    limits::check(spec, &mut violations);
    shared_gpus::check_provider(spec, provider, &mut violations);
    let shared_memory = violations.keep(shared_memory(spec.shared_memory_size.as_ref()));
    let discovery = violations.keep(discovery(&annotations));
    let strategy = violations.keep_all(RolloutStrategy::from_annotations(Some(&annotations)));
    let framework = violations.keep(frameworks::detect(dcd));
    let pod = violations.keep(containers::check(spec));
    let main = pod.and_then(|pod| violations.keep_all(containers::main(pod, spec)));
    let cache = pod.zip(main).and_then(|(pod, main)| {
        let framework = framework.as_ref().copied().flatten();
        violations.keep(cache::check(spec.compilation_cache.as_ref(), framework, pod, main))
    });
    let shared_gpus = pod.zip(main).and_then(|(pod, main)| {
        let framework = framework.as_ref().copied().flatten();
        violations.keep_all(shared_gpus::check(spec, framework, pod, main))
    });
    let gpu_claims = pod.zip(main).and_then(|(pod, main)| {
        let framework = framework.as_ref().copied().flatten();
        violations.keep_all(device_claims::check(spec, framework, pod, main))
    });
    let checkpoint =
        pod.zip(shared_gpus).and_then(|(pod, shared)| violations.keep_all(checkpoint::check(spec, pod, shared)));

    let violations = violations.into_inner();
    match (
        name,
        namespace,
        uid,
        pod,
        main,
        framework,
        cache,
        shared_memory,
        discovery,
        strategy,
        shared_gpus,
        checkpoint,
        gpu_claims,
    ) {
        (
            Some(name),
            Some(namespace),
            Some(uid),
            Some(pod),
            Some(main),
            Some(framework),
            Some(cache),
            Some(shared_memory),
            Some(discovery),
            Some(strategy),
            Some(shared_gpus),
            Some(checkpoint),
            Some(gpu_claims),
        ) if violations.is_empty() => Ok(ValidatedComponent {
            dcd,
            name,
            namespace,
            uid,
            preserved: preserved(dcd),
            annotations,
            pod,
            main,
            framework,
            cache,
            shared_memory,
            discovery,
            strategy,
            shared_gpus,
            checkpoint,
            gpu_claims,
        }),
        _ => Err(violations),
    }
}

/// Violations that a component has by itself, independent of what surrounds it.
pub(crate) fn check_component(spec: &ComponentSpec) -> Vec<Violation> {
    let mut violations = Violations::default();
    violations.keep(shared_memory(spec.shared_memory_size.as_ref()));
    if let Ok(pod) = containers::check(spec) {
        containers::check_contents(pod, spec, &mut violations);
        let service = spec.experimental.as_ref().and_then(|experimental| experimental.gpu_memory_service.as_ref());
        if let Some((service, main)) = service.zip(spec.main_container()) {
            shared_gpus::check_service(service, pod, main, &mut violations);
        }
    }
    violations.into_inner()
}

fn preserved(dcd: &DynamoComponentDeployment) -> PreservedComponent {
    let kept = dcd.metadata.annotations.as_ref();
    kept.map(PreservedComponent::of_component_deployment).unwrap_or_default()
}

fn identity<'a>(field: &str, value: Option<&'a str>) -> Result<&'a str, Violation> {
    value.filter(|v| !v.is_empty()).ok_or_else(|| {
        Violation::required(
            format!("metadata.{field}"),
            "is missing",
            "render only objects that the API server returned",
        )
    })
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
    match rules::discovery_backend(path, name) {
        Some(violation) => Err(violation),
        None => Ok(DiscoveryBackend::from_name(name)),
    }
}
