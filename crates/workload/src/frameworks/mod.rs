//! Inference engines: which one a worker runs, and what that changes in its pod.
//!
//! | file | what |
//! |---|---|
//! | `detect` | which engine it is |
//! | `multinode` | replicas that span nodes: roles, host names and ranks, with LeaderWorkerSet and with Grove |
//! | `vllm`, `sglang`, `trtllm` | what each engine needs |
//! | `command`, `shell` | flags added to command lines and scripts of other people |

mod command;
mod detect;
mod multinode;
mod sglang;
mod shell;
mod trtllm;
mod vllm;

use api_types::{
    names,
    v1beta1::{BackendFramework, EngineMode},
};
pub(crate) use detect::detect;
pub use detect::framework_of;
use k8s_openapi::api::core::v1::{Container, PodSpec};
pub use multinode::{LEADER_CLIQUE, Multinode, NodeRole, Peers, WORKER_CLIQUE};
pub use vllm::WAIT_FOR_LEADER;
pub(crate) use vllm::WAITS_FOR_LEADER;

use crate::{RenderInput, ValidatedComponent, gpus, model::CacheMount};

/// Everything about a pod that an engine's command line depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    framework: Option<BackendFramework>,
    cache: Option<CacheMount<'a>>,
    /// `None`: the component is standalone.
    graph: Option<&'a str>,
    /// `None`: the pod is a replica by itself.
    multinode: Option<Multinode<'a>>,
    executor: vllm::Executor,
    /// Engines in other pods use the same GPU memory.
    shares_gpu_memory: bool,
    /// Another engine may take over.
    stands_by: bool,
    /// Secret with the key pair by which the nodes of a replica trust each other.
    mpi_secret: &'a str,
    /// GPUs that the main container has through claims.
    claimed_gpus: u32,
}

impl<'a> Launch<'a> {
    /// Of a pod at that place of its replica.
    pub(crate) fn of(
        input: &RenderInput<'a>,
        valid: &'a ValidatedComponent<'_>,
        multinode: Option<Multinode<'a>>,
    ) -> Self {
        Self {
            mpi_secret: input.settings.mpi_secret.as_deref().unwrap_or(names::MPI_SECRET),
            claimed_gpus: input.claimed_gpus,
            ..Self::with_defaults(valid, multinode)
        }
    }

    fn with_defaults(valid: &'a ValidatedComponent<'_>, multinode: Option<Multinode<'a>>) -> Self {
        let shared = valid.shared_gpus.filter(|shared| shared.mode == EngineMode::InterPod);
        Self {
            framework: valid.framework,
            cache: valid.cache,
            graph: valid.graph(),
            multinode,
            executor: vllm::Executor::chosen(|key| valid.annotation(key)),
            shares_gpu_memory: shared.is_some(),
            stands_by: shared.is_some_and(|shared| shared.standbys > 0),
            mpi_secret: names::MPI_SECRET,
            claimed_gpus: 0,
        }
    }

    /// GPUs of one pod. Scalar resources count first; what is no whole number counts as none, for the API server refuses such
    /// a pod.
    fn gpus_of(&self, main: &Container) -> i64 {
        let scalar = gpus::count(main.resources.as_ref()).unwrap_or(0);
        i64::from(if scalar > 0 { scalar } else { self.claimed_gpus })
    }
}

impl ValidatedComponent<'_> {
    /// Whether the component's engine was found in its command line, if it needs flags by which the nodes of a replica
    /// find each other. A program that joins them by itself need not be found. `claimed_gpus` is that of
    /// [`RenderInput`](crate::RenderInput::claimed_gpus).
    pub fn joins_nodes(&self, claimed_gpus: u32) -> bool {
        if !self.spec().is_multinode() {
            return true;
        }
        let nodes = self.spec().node_count();
        let leader = Multinode { role: NodeRole::Leader, nodes, peers: Peers::LeaderWorkerSet };
        let launch = Launch { claimed_gpus, ..Launch::with_defaults(self, Some(leader)) };
        adapt_main(&launch, &mut self.main.clone())
    }
}

/// Whether the command line of an engine whose replicas span nodes depends on the number of GPUs of a pod.
pub(crate) const fn counts_gpus(framework: BackendFramework) -> bool {
    match framework {
        BackendFramework::Vllm | BackendFramework::Trtllm => true,
        BackendFramework::Sglang => false,
    }
}

/// Where an engine keeps compiled kernels by default; `None` if it has no such place.
pub(crate) const fn default_cache_path(framework: BackendFramework) -> Option<&'static str> {
    match framework {
        BackendFramework::Vllm => Some(vllm::CACHE_PATH),
        BackendFramework::Sglang | BackendFramework::Trtllm => None,
    }
}

/// Adapts the main container to its engine; returns whether the engine was found, if it needs flags.
pub(crate) fn adapt_main(launch: &Launch<'_>, main: &mut Container) -> bool {
    match launch.framework {
        Some(BackendFramework::Vllm) => vllm::adapt_main(launch, main),
        Some(BackendFramework::Sglang) => sglang::adapt_main(launch, main),
        Some(BackendFramework::Trtllm) => {
            trtllm::adapt_main(launch, main);
            true
        }
        None => true,
    }
}

/// Adds what an engine needs beside its container, which is adapted already.
pub(crate) fn adapt_pod(launch: &Launch<'_>, pod: &mut PodSpec, main: &Container) {
    match launch.framework {
        Some(BackendFramework::Vllm) => vllm::adapt_pod(launch, pod, main),
        Some(BackendFramework::Trtllm) => trtllm::adapt_pod(launch, pod),
        Some(BackendFramework::Sglang) | None => {}
    }
}

/// Adds flags to an engine's command line, in whichever form it is written.
pub(crate) fn add_flags(main: &mut Container, flags: &str, framework: BackendFramework) {
    command::add_flags(main, flags, false, framework);
}

/// Whether a word of a command line is a program that an operator wrote. Two operators do not write the same one.
pub fn is_operators_program(word: &str) -> bool {
    trtllm::is_program(word) || (word.contains(crate::pod::gpu_memory::SERVER_MODULE) && word.contains('\n'))
}

/// Whether a container that runs alone starts a Ray head that others may join.
pub(crate) fn may_be_joined(framework: Option<BackendFramework>, main: &Container) -> bool {
    framework == Some(BackendFramework::Vllm) && vllm::may_be_joined(main)
}

/// A node that only lends its GPUs answers no probe.
fn remove_probes(main: &mut Container) {
    main.liveness_probe = None;
    main.readiness_probe = None;
    main.startup_probe = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod of the graph `graph` with nothing special about it.
    pub(super) fn launch(multinode: Option<Multinode<'_>>) -> Launch<'_> {
        Launch {
            framework: None,
            cache: None,
            graph: Some("graph"),
            multinode,
            executor: vllm::Executor::Mp,
            shares_gpu_memory: false,
            stands_by: false,
            mpi_secret: names::MPI_SECRET,
            claimed_gpus: 0,
        }
    }
}
