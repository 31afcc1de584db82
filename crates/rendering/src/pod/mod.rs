//! The pod template, step by step.
//!
//! | step | file |
//! |---|---|
//! | defaults of the component's type | `defaults`, `probes` |
//! | the user's containers and pod over them | `merge` |
//! | mounts and volumes: cache, shared memory, claims | `volumes` |
//! | operator's environment | `env` |
//! | engine | [`crate::frameworks`] |
//! | sidecar that answers HTTP | `frontend_sidecar` |
//! | GPU memory that containers share, engines that stand by | `gpu_memory`, `failover` |
//! | start from a checkpoint | [`crate::checkpoint`] |
//! | image pull secrets | [`crate::pull_secrets`] |

mod defaults;
pub(crate) mod env;
mod failover;
mod frontend_sidecar;
pub(crate) mod gpu_memory;
mod merge;
mod probes;
pub(crate) mod volumes;

use api_types::{
    annotations, names,
    v1beta1::{ComponentType, EngineMode, EppConfig, MAIN_CONTAINER},
};
pub use gpu_memory::inter_pod::{hold_memory_of_rank, rank_claim, use_memory_of_rank};
use k8s_openapi::api::core::v1::{Container, PodSecurityContext, PodSpec, VolumeMount};

use crate::{
    DiscoveryBackend, RenderInput, ValidatedComponent,
    checkpoint::{Restore, restore_pod},
    frameworks::{self, Launch, Multinode},
};

/// Group that owns the pod's volumes where the user says nothing about the pod's security.
const DEFAULT_FS_GROUP: i64 = 1000;
const DEFAULT_SERVICE_ACCOUNT: &str = "default";

/// The pods of a component, without discovered pull secrets; `multinode` says which ones, where a replica has several.
pub(crate) fn render(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    multinode: Option<Multinode<'_>>,
) -> PodSpec {
    let launch = Launch::of(input, valid, multinode);
    let context = PodContext::of(input, valid);
    let mut main = merge::container(defaults::container(context.component_type, &context), valid.main);
    volumes::mount(&mut main, valid.cache);
    env::add_operator_settings(&mut main, input.settings);
    let mounts_for_sidecar = main.volume_mounts.clone().unwrap_or_default();
    frameworks::adapt_main(&launch, &mut main);

    let mut pod = merge::pod(defaults::pod(&context), valid.pod);
    pod.security_context.get_or_insert_with(|| PodSecurityContext {
        fs_group: Some(DEFAULT_FS_GROUP),
        ..PodSecurityContext::default()
    });
    pod.service_account_name.get_or_insert_with(|| service_account(input, &context));
    volumes::add_volume(&mut pod, valid.cache);
    volumes::mount_shared_memory(&mut pod, &mut main, valid.shared_memory.as_ref());
    frameworks::adapt_pod(&launch, &mut pod, &main);
    volumes::order_and_complete(&mut pod, &main);
    pod.containers = containers(input, valid, &context, main, &mounts_for_sidecar);
    if let Some(shared) = valid.shared_gpus.filter(|shared| shared.mode == EngineMode::IntraPod) {
        gpu_memory::apply(&mut pod, shared, &names::gpu_claim_template(context.graph, valid.component_name()));
        if shared.standbys > 0 {
            failover::apply(&mut pod, valid.spec().node_count());
        }
    }
    if let Restore::InTemplate(source) = input.restore {
        restore_pod(&mut pod, source, &[valid.restore_target()]);
    }
    pod
}

fn service_account(input: &RenderInput<'_>, context: &PodContext<'_>) -> String {
    match context.discovery {
        DiscoveryBackend::Kubernetes => names::discovery_service_account(context.graph),
        DiscoveryBackend::Etcd => input.fallback_service_account.unwrap_or(DEFAULT_SERVICE_ACCOUNT).to_owned(),
    }
}

/// `main` first, then the user's other containers in their order.
fn containers(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    context: &PodContext<'_>,
    main: Container,
    mounts: &[VolumeMount],
) -> Vec<Container> {
    let sidecars = valid.pod.containers.iter().filter(|container| container.name != MAIN_CONTAINER);
    let frontend = valid.spec().frontend_sidecar.as_deref();
    let rendered = sidecars.map(|sidecar| {
        if Some(sidecar.name.as_str()) == frontend {
            frontend_sidecar::render(input, context, sidecar, mounts)
        } else {
            sidecar.clone()
        }
    });
    std::iter::once(main).chain(rendered).collect()
}

const CONTAINER_MODE: &str = "container";

/// Values that the defaults of a pod depend on.
struct PodContext<'a> {
    component_type: Option<ComponentType>,
    /// The graph, or the component itself if it is standalone.
    graph: &'a str,
    namespace: &'a str,
    dynamo_namespace: String,
    generation: Option<&'a str>,
    discovery: DiscoveryBackend,
    /// Each container registers for itself instead of the pod as a whole.
    per_container: bool,
    epp_config: Option<&'a EppConfig>,
}

impl<'a> PodContext<'a> {
    fn of(input: &RenderInput<'_>, valid: &ValidatedComponent<'a>) -> Self {
        Self {
            component_type: valid.workload_type(input),
            graph: valid.graph_for_pods(),
            namespace: valid.namespace,
            dynamo_namespace: valid.dynamo_namespace_for_pods(),
            generation: valid.generation(),
            discovery: valid.discovery_backend(input),
            per_container: valid.annotation(annotations::DISCOVERY_MODE) == Some(CONTAINER_MODE),
            epp_config: valid.spec().epp_config.as_ref(),
        }
    }
}
