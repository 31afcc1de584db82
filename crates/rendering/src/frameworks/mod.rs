//! Inference engines: which one a worker runs, detected by its command line, and what that changes in its pod.
//!
//! | file | what |
//! |---|---|
//! | `launch` | everything that a command line depends on |
//! | `multinode` | replicas that span nodes: roles, host names and ranks, with LeaderWorkerSet and with Grove |
//! | `vllm`, `trtllm` | what these engines need; SGLang is in this file |
//! | `command`, `shell` | flags added to command lines and scripts of other people |

mod command;
#[cfg(test)]
mod fixtures;
mod launch;
mod multinode;
mod shell;
mod trtllm;
mod vllm;

use api_types::{
    ports,
    v1beta1::{BackendFramework, DynamoComponentDeployment, MAIN_CONTAINER},
    violations::Violation,
};
pub(crate) use command::add_flags;
use k8s_openapi::api::core::v1::{Container, PodSpec};
pub(crate) use launch::Launch;
pub use multinode::{LEADER_CLIQUE, MultinodePod, NodeRole, Peers, WORKER_CLIQUE};
pub use vllm::WAIT_FOR_LEADER;
pub(crate) use vllm::{WAITS_FOR_LEADER, may_be_joined, starts_ray_head_without_command};

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
        let leader = MultinodePod { role: NodeRole::Leader, nodes, peers: Peers::LeaderWorkerSet };
        adapt_main(&Launch::of(self, Some(leader), None, claimed_gpus), &mut self.main.clone())
    }
}

/// Whether the command line of an engine whose replicas span nodes depends on the number of GPUs of a pod.
pub(crate) const fn counts_gpus(framework: BackendFramework) -> bool {
    matches!(framework, BackendFramework::Vllm | BackendFramework::Trtllm)
}

/// Returns the default directory of an engine's compiled kernels; `None` if the engine has no such directory.
pub(crate) fn default_cache_path(framework: BackendFramework) -> Option<&'static str> {
    (framework == BackendFramework::Vllm).then_some(vllm::CACHE_PATH)
}

/// Adapts the main container to its engine; returns whether the engine was found, if it needs flags.
pub(crate) fn adapt_main(launch: &Launch<'_>, main: &mut Container) -> bool {
    match launch.framework {
        Some(BackendFramework::Vllm) => vllm::adapt_main(launch, main),
        Some(BackendFramework::Sglang) => adapt_sglang_main(launch, main),
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

/// Whether a word of a command line is a program that an operator wrote. Two operators do not write the same one.
pub fn is_operators_program(word: &str) -> bool {
    trtllm::is_program(word) || (word.contains(crate::pod::gpu_memory::SERVER_MODULE) && word.contains('\n'))
}

const ALL: [BackendFramework; 3] = [BackendFramework::Sglang, BackendFramework::Trtllm, BackendFramework::Vllm];

/// The engine of a component: what its command line starts, else what the spec says; `None` for other components.
pub(crate) fn detect(dcd: &DynamoComponentDeployment) -> Result<Option<BackendFramework>, Violation> {
    let spec = &dcd.spec.component;
    if !spec.is_worker() {
        return Ok(None);
    }
    let line = spec.main_container().map(command::text).unwrap_or_default();
    let explicit = dcd.spec.backend_framework;
    match (started_by(&line).as_slice(), explicit) {
        ([], explicit) => Ok(explicit),
        ([one], None) => Ok(Some(*one)),
        ([one], Some(explicit)) if *one == explicit => Ok(Some(explicit)),
        ([one], Some(explicit)) => {
            let problem =
                format!("contradicts the command line of container {MAIN_CONTAINER}, which starts dynamo.{one}");
            let remedy = "make the two agree, or remove spec.backendFramework";
            Err(Violation::invalid("spec.backendFramework", explicit.to_string(), problem, remedy))
        }
        (_, Some(explicit)) => Ok(Some(explicit)),
        (several, None) => {
            let path = format!("spec.podTemplate.spec.containers[{MAIN_CONTAINER}].command");
            let modules: Vec<String> = several.iter().map(|framework| format!("dynamo.{framework}")).collect();
            let problem = format!("starts several frameworks: {}", modules.join(", "));
            let remedy = "set spec.backendFramework to the one that counts, or start only one";
            Err(Violation::invalid(path, line.as_str(), problem, remedy))
        }
    }
}

/// The engine that a command with arguments starts; `None` if it starts none, or several.
pub fn framework_of<'a>(line: impl Iterator<Item = &'a String>) -> Option<BackendFramework> {
    match started_by(&line.map(String::as_str).collect::<Vec<_>>().join(" ")).as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}

/// The engines that a command line starts with `python … -m … dynamo.<engine>` within one simple shell command.
fn started_by(line: &str) -> Vec<BackendFramework> {
    let starts = |framework: &BackendFramework| {
        let module = format!("dynamo.{framework}");
        line.split(['|', '&', ';']).any(|command| runs_module(command, &module))
    };
    ALL.into_iter().filter(starts).collect()
}

fn runs_module(command: &str, module: &str) -> bool {
    let after_flag = pythons(command).next().and_then(|end| {
        let rest = &command[end..];
        let mut flags = rest.match_indices("-m").map(|(at, flag)| &rest[at + flag.len()..]);
        flags.find(|after| after.starts_with(is_space))
    });
    after_flag.is_some_and(|rest| rest.contains(module))
}

/// The ends of the words `python` in a command line that a space follows, or a version and a space.
fn pythons(command: &str) -> impl Iterator<Item = usize> {
    command.match_indices("python").map(|(at, word)| at + word.len()).filter(move |end| {
        let rest = command[*end..].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        rest.starts_with(is_space)
    })
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace()
}

/// Adds rank and leader address of each node of a replica; returns whether the engine was found.
fn adapt_sglang_main(launch: &Launch<'_>, main: &mut Container) -> bool {
    let Some(MultinodePod { role, nodes, peers }) = launch.multinode else { return true };
    if role == NodeRole::Worker {
        launch::remove_probes(main);
    }
    let rank = peers.rank(role);
    let address = format!("{}:{}", peers.leader(), ports::SGLANG_INIT);
    let flags = format!("--dist-init-addr {address} --nnodes {nodes} --node-rank {}", rank.flag);
    command::add_flags(main, &flags, rank.needs_shell, BackendFramework::Sglang)
}

#[cfg(test)]
mod tests {
    use BackendFramework::{Sglang, Trtllm, Vllm};

    use super::{Peers, fixtures::*, *};

    #[test]
    fn engines_are_recognised_by_their_command_lines() {
        let table: [(&str, &[BackendFramework]); 14] = [
            ("python3 -m dynamo.vllm --model m", &[Vllm]),
            ("/bin/sh -c cd x && python3 -m dynamo.sglang --a | tee", &[Sglang]),
            ("python3.12 -u -m dynamo.trtllm", &[Trtllm]),
            ("python -m dynamo.vllm.main", &[Vllm]),
            ("/opt/venv/bin/python -m debugpy --listen 1 -m dynamo.vllm", &[Vllm]),
            ("python3 -m dynamo.mocker", &[]),
            ("python3 -m other; dynamo.vllm", &[]),
            ("python3 x.py | grep -m 1 dynamo.vllm", &[]),
            ("dynamo.vllm", &[]),
            ("python3-dbg -m dynamo.vllm", &[]),
            ("python3 --memory dynamo.vllm", &[]),
            ("exec python3\n -m\tdynamo.sglang", &[Sglang]),
            ("", &[]),
            ("python3 -m dynamo.sglang & python3 -m dynamo.vllm", &[Sglang, Vllm]),
        ];
        for (line, engines) in table {
            assert_eq!(started_by(line), engines, "{line:?}");
        }
    }

    fn adapted(role: NodeRole, peers: Peers<'_>) -> Container {
        let mut main = container(&["python3", "-m", "dynamo.sglang"], &["--tp", "16"]);
        adapt_sglang_main(&launch(Some(MultinodePod { role, nodes: 2, peers })), &mut main);
        main
    }

    #[test]
    fn every_node_gets_its_rank_and_the_leader() {
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
        adapt_sglang_main(&launch(None), &mut main);
        assert_eq!(main, container(&["python3", "-m", "dynamo.sglang"], &[]));
    }
}
