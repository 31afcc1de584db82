//! The pod template, step by step.
//!
//! The user's container and pod are laid over the defaults of the component's type. Values of the user win, zero
//! included. An empty string and an empty list count as not given: most clients leave them out. Lists replace lists,
//! environments unite by name, a probe replaces a probe as a whole, and one that is empty takes it away. Fields without
//! a default are the user's alone.
//!
//! | step | file |
//! |---|---|
//! | defaults of the component's type | `defaults` |
//! | the user's containers and pod over them | this file |
//! | mounts and volumes: cache, shared memory, claims | `volumes` |
//! | operator's environment | `env` |
//! | engine | [`crate::frameworks`] |
//! | sidecar that answers HTTP | `frontend_sidecar` |
//! | GPU memory that containers share, standby engines | `gpu_memory`, `failover` |
//! | start from a checkpoint | [`crate::checkpoint`] |
//! | image pull secrets | this file |

mod defaults;
pub(crate) mod env;
mod failover;
mod frontend_sidecar;
pub(crate) mod gpu_memory;
pub(crate) mod parts;
pub(crate) mod volumes;

use api_types::{
    annotations, labels, names,
    v1beta1::{EngineMode, MAIN_CONTAINER},
};
use k8s_openapi::api::core::v1::{Container, LocalObjectReference, PodSecurityContext, PodSpec, Probe, VolumeMount};

pub(crate) use self::defaults::{http_probe, tcp};
pub use self::gpu_memory::{hold_memory_of_rank, rank_claim, use_memory_of_rank};
use crate::{
    DiscoveryBackend, RenderInput, ValidatedComponent,
    checkpoint::{Start, restore_pod},
    frameworks::{self, Launch, MultinodePod},
};

/// Group that owns the pod's volumes where the user says nothing about the pod's security.
const DEFAULT_FS_GROUP: i64 = 1000;
const DEFAULT_SERVICE_ACCOUNT: &str = "default";

/// The pods of a component, without discovered pull secrets; `multinode` says which ones, where a replica has several.
pub(crate) fn render(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    multinode: Option<MultinodePod<'_>>,
) -> PodSpec {
    let launch = Launch::of(valid, multinode, input.settings.mpi_secret.as_deref(), input.claimed_gpus);
    let mut main = container(defaults::container(valid.workload_type(input), input, valid), valid.main);
    volumes::mount(&mut main, valid.cache);
    env::add_operator_settings(&mut main, input.settings);
    let mounts_for_sidecar = main.volume_mounts.clone().unwrap_or_default();
    frameworks::adapt_main(&launch, &mut main);

    let mut pod = pod(defaults::pod(input, valid), valid.pod);
    pod.security_context.get_or_insert_with(|| PodSecurityContext {
        fs_group: Some(DEFAULT_FS_GROUP),
        ..PodSecurityContext::default()
    });
    pod.service_account_name.get_or_insert_with(|| service_account(input, valid));
    volumes::add_volume(&mut pod, valid.cache);
    if let Some(size) = &valid.shared_memory {
        volumes::mount_shared_memory(&mut pod.volumes, &mut main, size);
    }
    frameworks::adapt_pod(&launch, &mut pod, &main);
    volumes::order_and_complete(&mut pod, &main);
    pod.containers = containers(input, valid, main, &mounts_for_sidecar);
    if let Some(shared) = valid.shared_gpus.filter(|shared| shared.mode == EngineMode::IntraPod) {
        let claim_template = names::gpu_claim_template(valid.graph_for_pods(), valid.component_name());
        gpu_memory::share(&mut pod, MAIN_CONTAINER, shared.clients, &claim_template);
        if shared.standbys > 0 {
            failover::apply(&mut pod, valid.spec().node_count());
        }
    }
    if let Start::Restored(source) = input.restore {
        restore_pod(&mut pod, source, &[valid.restore_target()]);
    }
    pod
}

fn service_account(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> String {
    match valid.discovery_backend(input) {
        DiscoveryBackend::Kubernetes => names::discovery_service_account(valid.graph_for_pods()),
        DiscoveryBackend::Etcd => input.fallback_service_account.unwrap_or(DEFAULT_SERVICE_ACCOUNT).to_owned(),
    }
}

/// Appends the secrets for each image, containers before init containers; each once. The user may switch that off.
pub(crate) fn add_pull_secrets(pod: &mut PodSpec, input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) {
    if valid.annotation(annotations::DISABLE_PULL_SECRET_DISCOVERY) == Some(labels::TRUE) {
        return;
    }
    let mut all = pod.image_pull_secrets.take().unwrap_or_default();
    let containers = pod.containers.iter().chain(pod.init_containers.iter().flatten());
    for image in containers.filter_map(|container| container.image.as_deref()) {
        for name in input.pull_secrets.secrets_for(image) {
            if all.iter().all(|known| known.name != name) {
                all.push(LocalObjectReference { name: name.to_owned() });
            }
        }
    }
    pod.image_pull_secrets = (!all.is_empty()).then_some(all);
}

/// `main` first, then the user's other containers in their order.
fn containers(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    main: Container,
    mounts: &[VolumeMount],
) -> Vec<Container> {
    let sidecars = valid.pod.containers.iter().filter(|container| container.name != MAIN_CONTAINER);
    let frontend = valid.spec().frontend_sidecar.as_deref();
    let rendered = sidecars.map(|sidecar| {
        if Some(sidecar.name.as_str()) == frontend {
            frontend_sidecar::render(input, valid, sidecar, mounts)
        } else {
            sidecar.clone()
        }
    });
    std::iter::once(main).chain(rendered).collect()
}

/// The user's container over the defaults; it keeps the name of the defaults.
fn container(defaults: Container, own: &Container) -> Container {
    let env = env::union(defaults.env.unwrap_or_default(), own.env.clone().unwrap_or_default());
    Container {
        name: defaults.name,
        command: list(&own.command, defaults.command),
        args: list(&own.args, defaults.args),
        ports: list(&own.ports, defaults.ports),
        env: (!env.is_empty()).then_some(env),
        volume_mounts: list(&own.volume_mounts, defaults.volume_mounts),
        liveness_probe: probe(&own.liveness_probe, defaults.liveness_probe),
        readiness_probe: probe(&own.readiness_probe, defaults.readiness_probe),
        startup_probe: probe(&own.startup_probe, defaults.startup_probe),
        ..own.clone()
    }
}

/// The user's pod over the defaults, without containers.
fn pod(defaults: PodSpec, own: &PodSpec) -> PodSpec {
    let text = |own: &Option<String>, default: Option<String>| own.clone().filter(|own| !own.is_empty()).or(default);
    let grace = own.termination_grace_period_seconds.or(defaults.termination_grace_period_seconds);
    PodSpec {
        containers: Vec::new(),
        service_account_name: text(&own.service_account_name, defaults.service_account_name),
        restart_policy: text(&own.restart_policy, defaults.restart_policy),
        termination_grace_period_seconds: grace,
        volumes: list(&own.volumes, defaults.volumes),
        ..own.clone()
    }
}

/// The user's probe or the default; none if the user's is empty, which has no handler.
fn probe(own: &Option<Probe>, default: Option<Probe>) -> Option<Probe> {
    own.clone().or(default).filter(|probe| *probe != Probe::default())
}

fn list<T: Clone>(own: &Option<Vec<T>>, default: Option<Vec<T>>) -> Option<Vec<T>> {
    own.clone().filter(|own| !own.is_empty()).or(default)
}
