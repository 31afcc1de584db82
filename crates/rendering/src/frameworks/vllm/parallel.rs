//! One model over several nodes, and several engines side by side.

use api_types::{ports, v1beta1::BackendFramework};
use k8s_openapi::api::core::v1::Container;

use super::super::{Multinode, NodeRole, command};

pub(super) const EXECUTOR: &str = "--distributed-executor-backend";

const TENSOR: [&str; 2] = ["--tensor-parallel-size", "-tp"];
const PIPELINE: [&str; 2] = ["--pipeline-parallel-size", "-pp"];
const DATA: [&str; 2] = ["--data-parallel-size", "-dp"];

/// What the user asks for. What is no number counts as not given: the engine will say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parallel {
    tensor: i64,
    pipeline: i64,
    /// Engines side by side; `None` if the user does not say.
    pub(super) data: Option<i64>,
}

impl Parallel {
    pub(super) fn of(words: &[&str]) -> Self {
        let size = |names: &[&str]| command::value(words, names)?.parse::<i64>().ok().filter(|size| *size > 0);
        Self { tensor: size(&TENSOR).unwrap_or(1), pipeline: size(&PIPELINE).unwrap_or(1), data: size(&DATA) }
    }

    /// GPUs of one engine.
    pub(super) fn world(self) -> i64 {
        self.tensor.saturating_mul(self.pipeline)
    }
}

/// Spreads one engine over all nodes with processes that vLLM starts itself; says whether there was one.
pub(super) fn span_with_processes(multinode: Multinode<'_>, main: &mut Container) -> bool {
    let Multinode { role, nodes, peers } = multinode;
    let (rank, needs_shell) = match role {
        NodeRole::Leader => ("0".to_owned(), false),
        NodeRole::Worker => {
            let rank = peers.worker_rank();
            (format!("{} --headless", rank.flag), rank.needs_shell)
        }
    };
    let flags = format!(
        "{EXECUTOR} mp --nnodes {nodes} --master-addr {} --master-port {} --node-rank {rank}",
        peers.leader(),
        ports::VLLM_MASTER
    );
    command::add_flags(main, &flags, needs_shell, BackendFramework::Vllm)
}

/// Runs engines side by side on every node, balanced there; the frontend balances over the nodes. Says whether there
/// was an engine.
pub(super) fn balance(parallel: Parallel, multinode: Multinode<'_>, gpus: i64, main: &mut Container) -> bool {
    let Multinode { role, nodes, peers } = multinode;
    let local = gpus / parallel.world().max(1);
    let (start, needs_shell) = match role {
        NodeRole::Leader => ("0".to_owned(), false),
        NodeRole::Worker => (format!("$(( {local} * {} ))", peers.worker_rank().arithmetic), true),
    };
    let size = match parallel.data {
        Some(_) => String::new(),
        None => format!("{} {} ", DATA[0], local * i64::from(nodes)),
    };
    let flags = format!(
        "--data-parallel-hybrid-lb {size}--data-parallel-size-local {local} --data-parallel-start-rank {start} \
         --data-parallel-address {} --data-parallel-rpc-port {}",
        peers.leader(),
        ports::VLLM_DATA_PARALLEL_RPC
    );
    command::add_flags(main, &flags, needs_shell, BackendFramework::Vllm)
}
