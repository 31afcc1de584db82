//! The author's mistakes, all at once; and the component without them, the only input of what follows.

mod cache;
mod checkpoint;
mod claims;
mod containers;
mod invalid;
mod limits;
mod scope;
mod shared_gpus;

use std::collections::BTreeMap;

use api_types::{
    annotations,
    conversion::preserved::PreservedComponent,
    v1beta1::{BackendFramework, ComponentSpec, DynamoComponentDeployment, MAIN_CONTAINER},
};
pub(crate) use cache::CacheMount;
pub use checkpoint::CheckpointUse;
pub use invalid::Invalid;
pub(crate) use invalid::Mistakes;
use k8s_openapi::{
    api::core::v1::{Container, PodSpec},
    apimachinery::pkg::api::resource::Quantity,
};
pub use shared_gpus::SharedGpus;

use crate::{DiscoveryBackend, RolloutStrategy, claims::Claim, component_annotations, frameworks, quantity};

/// Size of `/dev/shm` where the author gives none.
pub(crate) const DEFAULT_SHARED_MEMORY: &str = "8Gi";

/// A component that can be rendered.
///
/// Made by [`validate`] only, so that whoever holds one need not look for mistakes again.
#[derive(Clone, Debug)]
pub struct ValidatedComponent<'a> {
    pub(crate) dcd: &'a DynamoComponentDeployment,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) uid: &'a str,
    /// What only v1alpha1 could say.
    pub(crate) preserved: PreservedComponent,
    /// Annotations that the author gave the component, in whichever version.
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) pod: &'a PodSpec,
    pub(crate) main: &'a Container,
    pub(crate) framework: Option<BackendFramework>,
    pub(crate) cache: Option<CacheMount<'a>>,
    /// `None` if the author wants no memory-backed `/dev/shm`.
    pub(crate) shared_memory: Option<Quantity>,
    /// `None` if the pod template leaves it to the operator's settings.
    pub(crate) discovery: Option<DiscoveryBackend>,
    pub(crate) strategy: RolloutStrategy,
    /// `None` if each container has its GPUs for itself.
    pub(crate) shared_gpus: Option<SharedGpus<'a>>,
    /// `None` if its pods always start cold.
    pub(crate) checkpoint: Option<CheckpointUse<'a>>,
    /// Claims whose GPUs have to be counted before it can be rendered.
    pub(crate) gpu_claims: Vec<Claim>,
}

impl<'a> ValidatedComponent<'a> {
    /// The engine that the component runs; `None` if it is no worker or runs none that we know.
    pub fn framework(&self) -> Option<BackendFramework> {
        self.framework
    }

    /// GPUs that several of its processes share; `None` if each has its own.
    pub fn shared_gpus(&self) -> Option<SharedGpus<'a>> {
        self.shared_gpus
    }

    /// The checkpoint that its pods start from; `None` if they always start cold.
    pub fn checkpoint(&self) -> Option<CheckpointUse<'a>> {
        self.checkpoint
    }

    /// Claims whose GPUs have to be counted before it can be rendered, see
    /// [`RenderInput::claimed_gpus`](crate::RenderInput::claimed_gpus); none for most components.
    pub fn gpu_claims(&self) -> &[Claim] {
        &self.gpu_claims
    }

    /// Container whose processes a checkpoint restores.
    pub(crate) fn restore_target(&self) -> &'a str {
        self.checkpoint.map_or(MAIN_CONTAINER, |checkpoint| checkpoint.target)
    }

    /// How its Deployment replaces pods.
    pub fn strategy(&self) -> &RolloutStrategy {
        &self.strategy
    }

    pub(crate) fn spec(&self) -> &'a ComponentSpec {
        &self.dcd.spec.component
    }

    pub(crate) fn template_labels(&self) -> Option<&'a BTreeMap<String, String>> {
        self.spec().pod_template.as_ref()?.metadata.as_ref()?.labels.as_ref()
    }

    /// Image pull secrets that the author names.
    pub(crate) fn declared_pull_secrets(&self) -> impl Iterator<Item = &'a str> {
        self.pod.image_pull_secrets.iter().flatten().map(|reference| reference.name.as_str())
    }
}

/// What a component runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// A workload of its own.
    Component,
    /// A clique or scaling group of its graph's PodCliqueSet.
    Grove,
}

/// Looks for every mistake that only the author of a component with a workload of its own can mend.
///
/// # Errors
/// All of them at once, in the order of the spec.
pub fn validate(dcd: &DynamoComponentDeployment) -> Result<ValidatedComponent<'_>, Vec<Invalid>> {
    validate_on(RunsOn::Component, dcd)
}

/// Looks for every mistake that only the author can mend.
///
/// # Errors
/// All of them at once, in the order of the spec.
pub fn validate_on(runs_on: RunsOn, dcd: &DynamoComponentDeployment) -> Result<ValidatedComponent<'_>, Vec<Invalid>> {
    let spec = &dcd.spec.component;
    let annotations = component_annotations(dcd);
    let mut mistakes = Mistakes::default();

    let name = mistakes.keep(identity("name", dcd.metadata.name.as_deref()));
    let namespace = mistakes.keep(identity("namespace", dcd.metadata.namespace.as_deref()));
    let uid = mistakes.keep(identity("uid", dcd.metadata.uid.as_deref()));
    limits::check(spec, &mut mistakes);
    scope::check(spec, runs_on, &mut mistakes);
    let shared_memory = mistakes.keep(shared_memory(spec.shared_memory_size.as_ref()));
    let discovery = mistakes.keep(discovery(&annotations));
    let strategy = mistakes.keep_all(RolloutStrategy::from_annotations(Some(&annotations)));
    let framework = mistakes.keep(frameworks::detect(dcd));
    let pod = mistakes.keep(containers::check(spec));
    let main = pod.and_then(|pod| mistakes.keep_all(containers::main(pod, spec)));
    let cache = pod.zip(main).and_then(|(pod, main)| {
        let framework = framework.as_ref().copied().flatten();
        mistakes.keep(cache::check(spec.compilation_cache.as_ref(), framework, pod, main))
    });
    let shared_gpus = pod.zip(main).and_then(|(pod, main)| {
        let framework = framework.as_ref().copied().flatten();
        mistakes.keep_all(shared_gpus::check(spec, framework, pod, main))
    });
    let gpu_claims = pod.zip(main).and_then(|(pod, main)| {
        let framework = framework.as_ref().copied().flatten();
        mistakes.keep_all(claims::check(spec, framework, pod, main))
    });
    let checkpoint =
        pod.zip(shared_gpus).and_then(|(pod, shared)| mistakes.keep_all(checkpoint::check(spec, pod, shared)));

    let mistakes = mistakes.into_inner();
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
        ) if mistakes.is_empty() => Ok(ValidatedComponent {
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
        _ => Err(mistakes),
    }
}

fn preserved(dcd: &DynamoComponentDeployment) -> PreservedComponent {
    let kept = dcd.metadata.annotations.as_ref();
    kept.map(PreservedComponent::of_component_deployment).unwrap_or_default()
}

fn identity<'a>(field: &str, value: Option<&'a str>) -> Result<&'a str, Invalid> {
    value.filter(|v| !v.is_empty()).ok_or_else(|| Invalid {
        field: format!("metadata.{field}"),
        value: String::new(),
        problem: "is missing".to_owned(),
        remedy: "render only objects that the API server returned".to_owned(),
    })
}

fn shared_memory(size: Option<&Quantity>) -> Result<Option<Quantity>, Invalid> {
    let Some(size) = size else { return Ok(Some(Quantity(DEFAULT_SHARED_MEMORY.to_owned()))) };
    let invalid = |problem: &str| Invalid {
        field: "spec.sharedMemorySize".to_owned(),
        value: size.0.clone(),
        problem: problem.to_owned(),
        remedy: "give a size such as 8Gi, or 0 for a pod without memory-backed /dev/shm".to_owned(),
    };
    match quantity::nanos(&size.0) {
        None => Err(invalid("is no quantity")),
        Some(value) if value < 0 => Err(invalid("is negative")),
        Some(0) => Ok(None),
        Some(_) => Ok(Some(size.clone())),
    }
}

fn discovery(given: &BTreeMap<String, String>) -> Result<Option<DiscoveryBackend>, Invalid> {
    let Some(name) = given.get(annotations::DISCOVERY_BACKEND).filter(|n| !n.is_empty()) else { return Ok(None) };
    DiscoveryBackend::from_name(name).map(Some).ok_or_else(|| Invalid {
        field: format!("spec.podTemplate.metadata.annotations[{}]", annotations::DISCOVERY_BACKEND),
        value: name.clone(),
        problem: "is no discovery backend".to_owned(),
        remedy: "write kubernetes or etcd, or remove the annotation to follow the operator's setting".to_owned(),
    })
}
