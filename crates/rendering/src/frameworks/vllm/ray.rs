//! vLLM over Ray: a head beside the leader's engine, agents on the other nodes; and the init container in which a
//! worker waits for its leader.

use api_types::{names, ports, v1beta1::BackendFramework};
use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, Container, PodSpec, Volume, VolumeMount};

use super::{
    super::{MultinodePod, NodeRole, command, shell},
    Executor,
    executor::EXECUTOR,
};
use crate::{
    frameworks::{Launch, Peers, multinode},
    pod::{env, volumes::mount_of},
};

/// Asks for expert parallelism that grows and shrinks.
pub(super) const ELASTIC: &str = "--enable-elastic-ep";

const PARALLEL_BACKEND: [&str; 2] = ["--data-parallel-backend", "-dpb"];
const SHELL: &str = "/bin/sh";

/// Spreads one engine over all nodes; returns whether there was one.
pub(super) fn span(multinode: MultinodePod<'_>, main: &mut Container) -> bool {
    let port = ports::RAY;
    let mut found = true;
    let script = match multinode.role {
        NodeRole::Leader => {
            let flags = format!("{EXECUTOR} {}", Executor::Ray.as_str());
            // In a script, the flags go to the engine; a shell around it would keep them for itself.
            found = command::add_flags(main, &flags, false, BackendFramework::Vllm);
            let quote = if command::is_script(main) { shell::literal } else { shell::word };
            let engine: Vec<String> = command::line(main).map(quote).collect();
            format!("ray start --head --port={port} && {}", engine.join(" "))
        }
        NodeRole::Worker => agent(multinode),
    };
    command::run_script(main, SHELL, script);
    found
}

/// Starts a Ray head for elastic expert parallelism, and the engine once it answers; the other nodes join when the
/// engine has placed itself, as room to grow into.
pub(super) fn elastic(multinode: MultinodePod<'_>, main: &mut Container) {
    match multinode.role {
        NodeRole::Leader => {
            if let Some(engine) = engine(main) {
                command::run_script(main, SHELL, with_head("", &engine));
            }
        }
        NodeRole::Worker => {
            let url = format!("http://{}:{}/live", multinode.peers.leader(), ports::SYSTEM);
            let probe =
                format!("python3 -c \"import urllib.request; urllib.request.urlopen('{url}', timeout=5)\" 2>/dev/null");
            let give_up =
                "[ \"$i\" -ge 720 ] && { echo \"ERROR: leader /live did not become ready within 3h\" >&2; exit 1; }";
            let notice = "echo 'waiting for leader dynamo.vllm /live to return 200...'";
            let wait = format!("i=0; until {probe}; do i=$((i+1)); {give_up}; {notice}; sleep 15; done");
            command::run_script(main, SHELL, format!("{wait} && {}", agent(multinode)));
        }
    }
}

/// Starts the Ray head on a single node, which others may join later.
pub(super) fn head_of_single_node(main: &mut Container) {
    let Some(engine) = engine(main).filter(|_| is_elastic_over_ray(main)) else { return };
    let address = format!(" --node-ip-address=\"${}\"", api_types::env::POD_IP);
    // The engine takes the place of the shell, so that it gets the signal when the pod ends.
    command::run_script(main, SHELL, with_head(&address, &format!("exec {engine}")));
    // The head registers under this address and the engine expects it there; both must mean the same interface.
    env::replace(main, env::from_field(api_types::env::POD_IP, "status.podIP"));
    env::replace(main, env::from_field(api_types::env::VLLM_DP_MASTER_IP, "status.podIP"));
}

/// Whether a container that runs alone starts a Ray head that others may join.
pub(crate) fn may_be_joined(main: &Container) -> bool {
    engine(main).is_some() && is_elastic_over_ray(main)
}

/// Whether the flags of a container require a Ray head, and there is no command that it could be started in front of.
pub(crate) fn starts_ray_head_without_command(main: &Container) -> bool {
    engine(main).is_none() && is_elastic_over_ray(main)
}

fn is_elastic_over_ray(main: &Container) -> bool {
    let words = command::words(main);
    words.contains(&ELASTIC) && command::value(&words, &PARALLEL_BACKEND) == Some(Executor::Ray.as_str())
}

/// The engine's command line as words of a shell; `None` if the image's own entry point starts it: that one we cannot
/// wrap.
fn engine(main: &Container) -> Option<String> {
    main.command.as_ref().filter(|command| !command.is_empty())?;
    let words: Vec<String> = command::line(main).map(shell::literal).collect();
    Some(words.join(" "))
}

/// Starts a Ray head with these flags, waits for it, and goes on with the engine.
fn with_head(flags: &str, engine: &str) -> String {
    let port = ports::RAY;
    let head = format!("ray start --head --port={port}{flags} --block");
    let probe =
        format!("python3 -c \"import socket; s=socket.create_connection(('127.0.0.1',{port}),timeout=1); s.close()\"");
    let give_up = "[ \"$i\" -ge 150 ] && { echo \"ERROR: Ray head did not start within 300s\" >&2; exit 1; }";
    format!("{head} & i=0; until {probe} 2>/dev/null; do i=$((i+1)); {give_up}; sleep 2; done && {engine}")
}

/// A node that offers its GPUs to the head.
fn agent(multinode: MultinodePod<'_>) -> String {
    format!("ray start --address={}:{} --block", multinode.peers.leader(), ports::RAY)
}

/// The program that waits. It reads `LEADER_HOST` and `LEADER_PORT`; graphs carry it in a ConfigMap.
pub const WAIT_FOR_LEADER: &str = include_str!("wait_for_leader.py");

/// Name of the init container.
pub(crate) const NAME: &str = "wait-for-leader-mp";
const VOLUME: &str = "wait-leader-script";
const FOLDER: &str = "/scripts";
/// Holds the program where no graph has a ConfigMap for it.
const PROGRAM: &str = "WAIT_FOR_LEADER";

/// Adds it.
pub(super) fn for_leader(launch: &Launch<'_>, peers: Peers<'_>, pod: &mut PodSpec, main: &Container) {
    let host = multinode::in_shell(&peers.leader());
    let mut container = Container { name: NAME.to_owned(), image: main.image.clone(), ..Container::default() };
    let program = match launch.graph {
        Some(graph) => {
            let script = VolumeMount { read_only: Some(true), ..mount_of(VOLUME, FOLDER) };
            container.volume_mounts = Some(vec![script]);
            let name = names::wait_leader_config_map(graph);
            let source = ConfigMapVolumeSource { name, ..ConfigMapVolumeSource::default() };
            let volume = Volume { name: VOLUME.to_owned(), config_map: Some(source), ..Volume::default() };
            pod.volumes.get_or_insert_default().push(volume);
            format!("{FOLDER}/{}", names::WAIT_LEADER_SCRIPT)
        }
        None => {
            container.env = Some(vec![env::value(PROGRAM, WAIT_FOR_LEADER)]);
            format!("-c \"${PROGRAM}\"")
        }
    };
    let port = ports::VLLM_MASTER;
    let script = format!("export LEADER_HOST=\"{host}\" LEADER_PORT=\"{port}\" && exec python3 {program}");
    container.command = Some(vec!["sh".to_owned(), "-c".to_owned(), script]);
    pod.init_containers.get_or_insert_default().push(container);
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::{Peers, fixtures::*},
        *,
    };

    fn placed(role: NodeRole) -> MultinodePod<'static> {
        MultinodePod { role, nodes: 2, peers: Peers::LeaderWorkerSet }
    }

    #[test]
    fn only_elastic_engines_over_ray_with_a_command_get_a_ray_head() {
        let table: [(&[&str], &[&str], bool); 7] = [
            (&["python3", "-m", "dynamo.vllm"], &["--enable-elastic-ep", "--data-parallel-backend", "ray"], true),
            (&["python3", "-m", "dynamo.vllm"], &["--enable-elastic-ep", "-dpb=ray"], true),
            (&["sh", "-c"], &["python3 -m dynamo.vllm --enable-elastic-ep -dpb ray"], true),
            (&["python3", "-m", "dynamo.vllm"], &["--enable-elastic-ep", "--data-parallel-backend", "mp"], false),
            (&["python3", "-m", "dynamo.vllm"], &["--data-parallel-backend", "ray"], false),
            (&["python3"], &["--enable-elastic-ep", "--data-parallel-backend=rayon"], false),
            (&[], &["--enable-elastic-ep", "-dpb", "ray"], false),
        ];
        for (command, args, wrapped) in table {
            let mut main = container(command, args);
            head_of_single_node(&mut main);
            assert_eq!(main != container(command, args), wrapped, "{command:?} {args:?}");
        }
    }

    #[test]
    fn the_engine_starts_when_the_ray_head_answers() {
        let mut main = container(&["python3", "-m", "dynamo.vllm"], &["--enable-elastic-ep", "-dpb", "ray", "a b"]);
        head_of_single_node(&mut main);
        let line = words_of(&main)[2];
        assert!(line.starts_with("ray start --head --port=6379 --node-ip-address=\"$POD_IP\" --block & i=0; until "));
        assert!(line.ends_with(" && exec python3 -m dynamo.vllm --enable-elastic-ep -dpb ray 'a b'"), "{line}");
        let env: Vec<_> = main.env.unwrap().into_iter().map(|variable| variable.name).collect();
        assert_eq!(env, [api_types::env::POD_IP, api_types::env::VLLM_DP_MASTER_IP]);
    }

    #[test]
    fn nodes_join_an_elastic_engine_when_it_is_live() {
        let mut leader = container(&["python3", "-m", "dynamo.vllm"], &[ELASTIC]);
        elastic(placed(NodeRole::Leader), &mut leader);
        assert!(words_of(&leader)[2].starts_with("ray start --head --port=6379 --block & "));
        assert!(words_of(&leader)[2].ends_with(" && python3 -m dynamo.vllm --enable-elastic-ep"));
        let mut worker = container(&["python3", "-m", "dynamo.vllm"], &[ELASTIC]);
        elastic(placed(NodeRole::Worker), &mut worker);
        assert!(words_of(&worker)[2].contains("urlopen('http://$(LWS_LEADER_ADDRESS):9090/live', timeout=5)"));
        assert!(words_of(&worker)[2].ends_with("done && ray start --address=$(LWS_LEADER_ADDRESS):6379 --block"));
    }

    /// The flag must reach the engine, not the shell that starts it.
    #[test]
    fn the_flag_for_ray_reaches_an_engine_in_a_script() {
        let mut main = container(&["python3", "-m", "dynamo.vllm"], &["--x", "{\"a\": 1}"]);
        span(placed(NodeRole::Leader), &mut main);
        let engine = r#"python3 -m dynamo.vllm --x "{\"a\": 1}" --distributed-executor-backend ray"#;
        assert_eq!(words_of(&main), ["/bin/sh", "-c", &format!("ray start --head --port=6379 && {engine}")]);
        let mut main = container(&["bash", "-c"], &["exec python3 -m dynamo.vllm --x $Y"]);
        span(placed(NodeRole::Leader), &mut main);
        let engine = "bash -c 'exec python3 -m dynamo.vllm --distributed-executor-backend ray --x $Y'";
        assert_eq!(words_of(&main)[2], format!("ray start --head --port=6379 && {engine}"));
        let mut main = container(&["bash", "-c"], &["exec python3 -m dynamo.vllm"]);
        span(placed(NodeRole::Worker), &mut main);
        assert_eq!(words_of(&main)[2], "ray start --address=$(LWS_LEADER_ADDRESS):6379 --block");
    }
}

#[cfg(test)]
mod wait_tests {
    use super::*;
    use crate::frameworks::fixtures::launch;

    fn waiting(graph: Option<&str>) -> PodSpec {
        let main = Container { image: Some("i".to_owned()), ..Container::default() };
        let mut pod = PodSpec::default();
        for_leader(&Launch { graph, ..launch(None) }, Peers::LeaderWorkerSet, &mut pod, &main);
        pod
    }

    #[test]
    fn in_a_graph_the_program_comes_from_its_config_map() {
        let pod = waiting(Some("g"));
        let container = &pod.init_containers.as_ref().unwrap()[0];
        assert_eq!(
            container.command.as_ref().unwrap()[2],
            "export LEADER_HOST=\"${LWS_LEADER_ADDRESS}\" LEADER_PORT=\"29500\" && exec python3 /scripts/wait-for-leader.py"
        );
        assert_eq!(container.image.as_deref(), Some("i"));
        assert_eq!(pod.volumes.unwrap()[0].config_map.as_ref().unwrap().name, "g-wait-leader-script");
    }

    /// It has no ConfigMap, and its pods would wait for ever.
    #[test]
    fn a_component_of_its_own_carries_the_program_itself() {
        let pod = waiting(None);
        assert_eq!(pod.volumes, None);
        let container = &pod.init_containers.as_ref().unwrap()[0];
        assert!(container.command.as_ref().unwrap()[2].ends_with("exec python3 -c \"$WAIT_FOR_LEADER\""));
        let program = container.env.as_ref().unwrap()[0].value.as_deref().unwrap();
        assert!(!program.contains("$("), "the kubelet would replace it");
    }
}
