//! Inference engines: which one a worker runs, and what that changes in its pod.
//!
//! | file | what |
//! |---|---|
//! | `detect` | which engine it is |
//! | `launch` | everything that a command line depends on |
//! | `multinode` | replicas that span nodes: roles, host names and ranks, with LeaderWorkerSet and with Grove |
//! | `vllm`, `sglang`, `trtllm` | what each engine needs |
//! | `command`, `shell` | flags added to command lines and scripts of other people |

mod command;
mod detect;
mod launch;
mod multinode;
mod sglang;
mod shell;
mod trtllm;
mod vllm;

use api_types::v1beta1::BackendFramework;
pub(crate) use detect::detect;
pub use detect::framework_of;
use k8s_openapi::api::core::v1::{Container, PodSpec};
pub(crate) use launch::Launch;
pub use multinode::{LEADER_CLIQUE, Multinode, NodeRole, Peers, WORKER_CLIQUE};
pub use vllm::WAIT_FOR_LEADER;
pub(crate) use vllm::{WAITS_FOR_LEADER, starts_ray_head_without_command};

use crate::ValidatedComponent;

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
