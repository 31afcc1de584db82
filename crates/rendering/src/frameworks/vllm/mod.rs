//! vLLM.

pub(super) mod executor;
mod ray;

use api_types::{env as names, v1beta1::BackendFramework};
use executor::{Executor, Parallel};
use k8s_openapi::api::core::v1::{Container, PodSpec};
pub use ray::WAIT_FOR_LEADER;
pub(crate) use ray::{NAME as WAITS_FOR_LEADER, may_be_joined, starts_ray_head_without_command};

use super::{Launch, MultinodePod, NodeRole, command};
use crate::pod::env;

/// Default directory of vLLM's compiled kernels.
pub(super) const CACHE_PATH: &str = "/root/.cache/vllm";

/// Joins the nodes of a replica, connects engines that share GPU memory, and sets the compilation cache. Returns
/// whether the engine was found, if it needs flags.
pub(super) fn adapt_main(launch: &Launch<'_>, main: &mut Container) -> bool {
    let mut found = true;
    if launch.shares_gpu_memory {
        found = load_from_shared_memory(main);
        if launch.stands_by {
            env::replace(main, env::value(names::DYN_VLLM_GMS_SHADOW_MODE, "true"));
        }
    }
    match launch.multinode {
        Some(multinode) => found &= join(launch, multinode, main),
        None => ray::head_of_single_node(main),
    }
    if let Some(cache) = launch.cache {
        env::replace(main, env::value(names::VLLM_CACHE_ROOT, cache.path));
    }
    found
}

/// Adds what makes a worker wait for its leader, where the engine does not do so itself.
pub(super) fn adapt_pod(launch: &Launch<'_>, pod: &mut PodSpec, main: &Container) {
    if let Some(MultinodePod { role: NodeRole::Worker, peers, .. }) = launch.multinode
        && command::value(&command::words(main), &[executor::EXECUTOR]) == Some(Executor::Mp.as_str())
    {
        ray::for_leader(launch, peers, pod, main);
    }
}

fn load_from_shared_memory(main: &mut Container) -> bool {
    const FLAG: &str = "--load-format";
    command::value(&command::words(main), &[FLAG]) == Some("gms")
        || command::add_flags(main, &format!("{FLAG} gms"), false, BackendFramework::Vllm)
}

/// Makes the engines of all nodes one; returns whether there was one where it is needed.
fn join(launch: &Launch<'_>, multinode: MultinodePod<'_>, main: &mut Container) -> bool {
    let executor = launch.executor;
    let words = command::words(main);
    let parallel = Parallel::of(&words);
    let gpus = launch.gpus_of(main);
    let found = if gpus > 0 && parallel.world() > gpus {
        match executor {
            Executor::Mp => executor::span_with_processes(multinode, main),
            Executor::Ray => ray::span(multinode, main),
        }
    } else if command::has_flag(&words, &[ray::ELASTIC]) {
        ray::elastic(multinode, main);
        true
    } else if gpus > 0 && parallel.world().saturating_mul(parallel.data.unwrap_or(1)) > gpus {
        executor::balance(parallel, multinode, gpus, main)
    } else {
        true
    };
    if executor == Executor::Mp {
        env::replace(main, env::from_field(names::VLLM_NIXL_SIDE_CHANNEL_HOST, "status.podIP"));
    }
    if multinode.role == NodeRole::Worker {
        super::launch::remove_probes(main);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::{Peers, fixtures::*},
        *,
    };
    use crate::model::CacheMount;

    fn env_of(main: &Container) -> Vec<&str> {
        main.env.iter().flatten().map(|variable| variable.name.as_str()).collect()
    }

    #[test]
    fn the_cache_replaces_an_older_setting() {
        let mut main = container(&["python3"], &[]);
        main.env = Some(vec![env::value(names::VLLM_CACHE_ROOT, "/elsewhere"), env::value("Z", "1")]);
        let cache = Some(CacheMount { claim: "cache", path: "/cache" });
        adapt_main(&Launch { cache, ..launch(None) }, &mut main);
        let env: Vec<_> = main.env.unwrap().into_iter().map(|e| (e.name, e.value.unwrap())).collect();
        assert_eq!(env, [("Z".to_owned(), "1".to_owned()), (names::VLLM_CACHE_ROOT.to_owned(), "/cache".to_owned())]);
    }

    #[test]
    fn engines_that_share_gpu_memory_load_from_it() {
        let mut main = container(&["python3", "-m", "dynamo.vllm"], &["--model", "m"]);
        adapt_main(&Launch { shares_gpu_memory: true, stands_by: true, ..launch(None) }, &mut main);
        assert_eq!(words_of(&main)[5..], ["--load-format", "gms"]);
        assert_eq!(env_of(&main), [names::DYN_VLLM_GMS_SHADOW_MODE]);
        let once = main.clone();
        adapt_main(&Launch { shares_gpu_memory: true, ..launch(None) }, &mut main);
        assert_eq!(words_of(&main), words_of(&once), "the flag is there already");
    }

    const LWS: Peers<'_> = Peers::LeaderWorkerSet;
    const GROVE: Peers<'_> = Peers::Grove { component: "Dec" };

    /// Two nodes with eight GPUs each.
    fn on_two_nodes(args: &[&str], role: NodeRole, peers: Peers<'_>, executor: Executor) -> Container {
        let mut main = container(&["python3", "-m", "dynamo.vllm"], args);
        main.resources = serde_json::from_value(json!({"limits": {"nvidia.com/gpu": "8"}})).unwrap();
        main.liveness_probe = Some(k8s_openapi::api::core::v1::Probe::default());
        let placed = launch(Some(MultinodePod { role, nodes: 2, peers }));
        adapt_main(&Launch { executor, ..placed }, &mut main);
        main
    }

    /// The added part of the command line.
    fn added(args: &[&str], role: NodeRole, peers: Peers<'_>) -> String {
        words_of(&on_two_nodes(args, role, peers, Executor::Mp))[3 + args.len()..].join(" ")
    }

    #[test]
    fn a_model_larger_than_a_node_is_spread_over_the_nodes() {
        let args = ["--tensor-parallel-size", "16"];
        let head = "--distributed-executor-backend mp --nnodes 2 --master-addr";
        let leader = added(&args, NodeRole::Leader, LWS);
        assert_eq!(leader, format!("{head} $(LWS_LEADER_ADDRESS) --master-port 29500 --node-rank 0"));
        let worker = added(&args, NodeRole::Worker, LWS);
        let rank = "--master-port 29500 --node-rank $(LWS_WORKER_INDEX) --headless";
        assert_eq!(worker, format!("{head} $(LWS_LEADER_ADDRESS) {rank}"));
        let args = ["--model", "m", "--tensor-parallel-size", "16", "--x", "{\"a\":\"b c\"}"];
        let worker = on_two_nodes(&args, NodeRole::Worker, GROVE, Executor::Mp);
        assert_eq!(
            words_of(&worker),
            [
                "sh",
                "-c",
                "exec python3 -m dynamo.vllm --model m --tensor-parallel-size 16 --x \"{\\\"a\\\":\\\"b c\\\"}\" \
                 --distributed-executor-backend mp --nnodes 2 --master-addr \
                 $(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-dec-ldr-0.$(GROVE_HEADLESS_SERVICE) --master-port 29500 \
                 --node-rank $((GROVE_PCLQ_POD_INDEX + 1)) --headless"
            ]
        );
        assert!(worker.liveness_probe.is_none(), "a headless worker answers no probe");
    }

    #[test]
    fn engines_in_parallel_are_balanced_on_every_node() {
        let tail = "--data-parallel-address $(LWS_LEADER_ADDRESS) --data-parallel-rpc-port 13445";
        let args = ["--data-parallel-size", "16"];
        let leader = added(&args, NodeRole::Leader, LWS);
        let head = "--data-parallel-hybrid-lb --data-parallel-size-local 8 --data-parallel-start-rank";
        assert_eq!(leader, format!("{head} 0 {tail}"));
        let worker = on_two_nodes(&args, NodeRole::Worker, LWS, Executor::Mp);
        let line = "exec python3 -m dynamo.vllm --data-parallel-size 16";
        assert_eq!(words_of(&worker), ["sh", "-c", &format!("{line} {head} $(( 8 * LWS_WORKER_INDEX )) {tail}")]);
        let worker = on_two_nodes(&args, NodeRole::Worker, GROVE, Executor::Mp);
        assert!(words_of(&worker)[2].contains(" $(( 8 * $((GROVE_PCLQ_POD_INDEX + 1)) )) "), "{:?}", words_of(&worker));
    }

    /// A flag is a flag in every spelling, and in the command as well.
    #[test]
    fn sizes_are_read_however_they_are_written() {
        for args in [&["--tensor-parallel-size=16"][..], &["-tp", "16"], &["-tp=8", "-pp", "2"], &["-tp", "\"16\""]] {
            assert!(added(args, NodeRole::Leader, LWS).contains("--nnodes 2"), "{args:?}");
        }
        assert!(added(&["-dp=16"], NodeRole::Leader, LWS).starts_with("--data-parallel-hybrid-lb"));
    }

    #[test]
    fn what_the_command_says_counts_like_arguments() {
        let leader = Some(MultinodePod { role: NodeRole::Leader, nodes: 2, peers: LWS });
        for (flag, expected) in
            [("--tensor-parallel-size=16", "--nnodes 2"), ("--enable-elastic-ep", "ray start --head")]
        {
            let mut main = container(&["python3", "-m", "dynamo.vllm", flag], &[]);
            main.resources = serde_json::from_value(json!({"limits": {"nvidia.com/gpu": "8"}})).unwrap();
            adapt_main(&launch(leader), &mut main);
            assert!(words_of(&main).join(" ").contains(expected), "{flag}: {:?}", words_of(&main));
        }
    }

    /// GPUs through claims are GPUs. Scalar resources count before them: no pod has both.
    #[test]
    fn gpus_that_are_claimed_count_like_others() {
        let leader = Some(MultinodePod { role: NodeRole::Leader, nodes: 2, peers: LWS });
        let spans = |resources: serde_json::Value, claimed_gpus| {
            let mut main = container(&["python3", "-m", "dynamo.vllm"], &["--tensor-parallel-size", "16"]);
            main.resources = serde_json::from_value(resources).unwrap();
            adapt_main(&Launch { claimed_gpus, ..launch(leader) }, &mut main);
            words_of(&main).contains(&"--nnodes")
        };
        let claim = json!({"claims": [{"name": "gpu"}]});
        assert!(spans(claim.clone(), 8));
        assert!(!spans(claim.clone(), 16), "it fits on a node");
        assert!(!spans(claim, 0), "network cards, for example");
        assert!(!spans(json!({"limits": {"nvidia.com/gpu": "16"}}), 8));
    }

    #[test]
    fn what_fits_on_a_node_stays_as_the_author_wrote_it() {
        assert_eq!(added(&["--tensor-parallel-size", "8"], NodeRole::Leader, LWS), "");
        assert_eq!(added(&["--tensor-parallel-size", "$TP"], NodeRole::Worker, LWS), "");
        let main = on_two_nodes(&[], NodeRole::Worker, LWS, Executor::Ray);
        assert!(main.env.is_none() && main.liveness_probe.is_none());
        assert_eq!(env_of(&on_two_nodes(&[], NodeRole::Leader, LWS, Executor::Mp)), ["VLLM_NIXL_SIDE_CHANNEL_HOST"]);
    }

    #[test]
    fn a_worker_waits_for_its_leader_if_the_engine_would_not() {
        let pod_of = |args: &[&str], role| {
            let main = on_two_nodes(args, role, LWS, Executor::Mp);
            let mut pod = PodSpec::default();
            adapt_pod(&launch(Some(MultinodePod { role, nodes: 2, peers: LWS })), &mut pod, &main);
            pod
        };
        let waits = |args: &[&str], role| pod_of(args, role).init_containers.is_some();
        assert!(waits(&["-tp", "16"], NodeRole::Worker) && !waits(&["-tp", "16"], NodeRole::Leader));
        assert!(waits(&["--distributed-executor-backend=mp"], NodeRole::Worker), "the user's own flag counts");
        assert!(!waits(&["-dp", "16"], NodeRole::Worker));
    }
}
