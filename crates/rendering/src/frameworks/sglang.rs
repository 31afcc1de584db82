//! SGLang.

use api_types::{ports, v1beta1::BackendFramework};
use k8s_openapi::api::core::v1::Container;

use super::{Launch, Multinode, NodeRole, command};

/// Adds rank and leader address of each node of a replica; returns whether the engine was found.
pub(super) fn adapt_main(launch: &Launch<'_>, main: &mut Container) -> bool {
    let Some(Multinode { role, nodes, peers }) = launch.multinode else { return true };
    let (rank, needs_shell) = match role {
        NodeRole::Leader => ("0".to_owned(), false),
        NodeRole::Worker => {
            super::launch::remove_probes(main);
            let rank = peers.worker_rank();
            (rank.flag, rank.needs_shell)
        }
    };
    let address = format!("{}:{}", peers.leader(), ports::SGLANG_INIT);
    let flags = format!("--dist-init-addr {address} --nnodes {nodes} --node-rank {rank}");
    command::add_flags(main, &flags, needs_shell, BackendFramework::Sglang)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Peers, command::tests::*, launch::tests::launch},
        *,
    };

    fn adapted(role: NodeRole, peers: Peers<'_>) -> Container {
        let mut main = container(&["python3", "-m", "dynamo.sglang"], &["--tp", "16"]);
        adapt_main(&launch(Some(Multinode { role, nodes: 2, peers })), &mut main);
        main
    }

    #[test]
    fn every_node_is_told_its_rank_and_the_leader() {
        let head = ["python3", "-m", "dynamo.sglang", "--tp", "16", "--dist-init-addr", "$(LWS_LEADER_ADDRESS):29500"];
        let leader = adapted(NodeRole::Leader, Peers::LeaderWorkerSet);
        assert_eq!(words_of(&leader), [&head[..], &["--nnodes", "2", "--node-rank", "0"]].concat());
        let worker = adapted(NodeRole::Worker, Peers::LeaderWorkerSet);
        assert_eq!(words_of(&worker), [&head[..], &["--nnodes", "2", "--node-rank", "$(LWS_WORKER_INDEX)"]].concat());
        let worker = adapted(NodeRole::Worker, Peers::Grove { component: "dec" });
        assert_eq!(
            words_of(&worker)[2],
            "exec python3 -m dynamo.sglang --tp 16 --dist-init-addr \
             $(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-dec-ldr-0.$(GROVE_HEADLESS_SERVICE):29500 --nnodes 2 \
             --node-rank $((GROVE_PCLQ_POD_INDEX + 1))"
        );
    }

    #[test]
    fn a_single_node_runs_as_the_author_wrote_it() {
        let mut main = container(&["python3", "-m", "dynamo.sglang"], &[]);
        adapt_main(&launch(None), &mut main);
        assert_eq!(main, container(&["python3", "-m", "dynamo.sglang"], &[]));
    }
}
