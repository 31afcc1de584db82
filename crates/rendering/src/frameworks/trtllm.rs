//! TensorRT-LLM: the leader starts one process for each GPU of the replica over SSH and MPI.

use std::collections::BTreeSet;

use api_types::{env as names, ports};
use k8s_openapi::{
    api::core::v1::{Container, PodSpec, Probe, SecretVolumeSource, TCPSocketAction, Volume, VolumeMount},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{Launch, MultinodePod, NodeRole, Peers, command, shell};
use crate::pod::{env, volumes::mount_of};

const KEYS: &str = "/ssh-pk";
const KEYS_MODE: i32 = 0o644;
const SHELL: &str = "/bin/sh";
const DNS_LIMIT_SECONDS: u32 = 300;

/// Environment variables that every process of a replica takes over from the leader, beside those that the container
/// sets itself.
const FORWARDED: [&str; 21] = [
    "CPATH",
    "CUDA_VISIBLE_DEVICES",
    "HF_DATASETS_CACHE",
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_TOKEN",
    "HOME",
    "HUGGING_FACE_HUB_TOKEN",
    "LD_LIBRARY_PATH",
    "MODEL_PATH",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "PATH",
    "PYTHONPATH",
    "TENSORRT_LLM_CACHE_DIR",
    "TOKENIZERS_PARALLELISM",
    "TRANSFORMERS_CACHE",
    "TRITON_PTXAS_PATH",
    "TRTLLM_USE_UCX_KVCACHE",
    "USER",
];

/// Makes the leader start the engine on all nodes, and every other node wait for it.
pub(super) fn adapt_main(launch: &Launch<'_>, main: &mut Container) {
    let Some(MultinodePod { role, nodes, peers }) = launch.multinode else { return };
    let keys = VolumeMount { read_only: Some(true), ..mount_of(launch.mpi_secret, KEYS) };
    main.volume_mounts.get_or_insert_default().push(keys);
    env::replace(main, env::value(names::OMPI_KEEP_FQDN, "1"));
    match role {
        NodeRole::Leader => {
            let script = leader_script(main, nodes, launch.gpus_of(main), peers);
            command::run_script(main, SHELL, script);
        }
        NodeRole::Worker => {
            super::launch::remove_probes(main);
            main.readiness_probe = Some(ssh_answers());
            command::run_script(main, SHELL, worker_script());
        }
    }
}

/// Whether a word of a command line is what starts the engine, or what a node waits for it with.
pub(super) fn is_program(word: &str) -> bool {
    word.contains(KEYS) && word.contains('\n')
}

/// Adds the volume with the key pair by which the nodes trust each other.
pub(super) fn adapt_pod(launch: &Launch<'_>, pod: &mut PodSpec) {
    if launch.multinode.is_none() {
        return;
    }
    let source = SecretVolumeSource {
        secret_name: Some(launch.mpi_secret.to_owned()),
        default_mode: Some(KEYS_MODE),
        ..SecretVolumeSource::default()
    };
    let volume = Volume { name: launch.mpi_secret.to_owned(), secret: Some(source), ..Volume::default() };
    pod.volumes.get_or_insert_default().push(volume);
}

fn ssh_answers() -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(ports::MPI_SSH), host: None }),
        initial_delay_seconds: Some(20),
        period_seconds: Some(20),
        timeout_seconds: Some(5),
        failure_threshold: Some(10),
        ..Probe::default()
    }
}

/// Puts the key pair where SSH expects it. `$HOME` and not `~`, which follows the password file instead.
fn install_keys() -> String {
    format!(
        "set -e\n\
         mkdir -p \"$HOME/.ssh\"\n\
         cp {KEYS}/private.key \"$HOME/.ssh/id_rsa\"\n\
         cp {KEYS}/private.key.pub \"$HOME/.ssh/id_rsa.pub\"\n\
         cp {KEYS}/private.key.pub \"$HOME/.ssh/authorized_keys\"\n\
         chmod 600 \"$HOME/.ssh/id_rsa\" \"$HOME/.ssh/authorized_keys\"\n\
         chmod 644 \"$HOME/.ssh/id_rsa.pub\"\n\
         printf 'Host *\\nIdentityFile %s\\nStrictHostKeyChecking no\\nPort {}\\n' \"$HOME/.ssh/id_rsa\" \
         > \"$HOME/.ssh/config\"\n",
        ports::MPI_SSH
    )
}

fn leader_script(main: &Container, nodes: i32, gpus: i64, peers: Peers<'_>) -> String {
    let hosts = peers.hosts_in_shell(nodes);
    // The leader of a LeaderWorkerSet may start before the names of the workers can be resolved.
    let wait = if peers == Peers::LeaderWorkerSet { wait_for_names(&hosts[1..]) } else { String::new() };
    let processes = i64::from(nodes) * gpus.max(1);
    let own = main.env.iter().flatten().map(|variable| variable.name.as_str());
    let forwarded: BTreeSet<&str> = own.chain(FORWARDED).collect();
    let forwarded: Vec<String> = forwarded.into_iter().map(|name| format!("-x {name}")).collect();
    let engine: Vec<String> = command::line(main).map(shell::literal).collect();
    let engine = shell::literal(&format!("trtllm-llmapi-launch {}", engine.join(" ")));
    format!(
        "{}{wait}\
         root=\n\
         if [ \"$(id -u)\" = 0 ]; then root=--allow-run-as-root; fi\n\
         exec mpirun $root --oversubscribe -n {processes} -H {} --mca pml ob1 --mca plm_rsh_args \
         \"-p {} -o StrictHostKeyChecking=no -i $HOME/.ssh/id_rsa\" {} bash -c {engine}",
        install_keys(),
        hosts.join(","),
        ports::MPI_SSH,
        forwarded.join(" "),
    )
}

/// Waits until the names of the hosts can be resolved, with a limit.
fn wait_for_names(hosts: &[String]) -> String {
    format!(
        "deadline=$(($(date +%s) + {DNS_LIMIT_SECONDS}))\n\
         for host in {}; do\n\
         until getent hosts \"$host\" > /dev/null; do\n\
         if [ \"$(date +%s)\" -gt \"$deadline\" ]; then\n\
         echo \"no address for $host after {DNS_LIMIT_SECONDS} s\" >&2; exit 1\n\
         fi\n\
         sleep 2\n\
         done\n\
         done\n",
        hosts.join(" ")
    )
}

/// An SSH server that needs no right beyond the container's own.
fn worker_script() -> String {
    format!(
        "{}mkdir -p \"$HOME/.ssh/host_keys\" \"$HOME/.ssh/run\"\n\
         : > \"$HOME/.ssh/sshd_config\"\n\
         for type in rsa ecdsa ed25519; do\n\
         key=\"$HOME/.ssh/host_keys/ssh_host_${{type}}_key\"\n\
         [ -f \"$key\" ] || ssh-keygen -q -t \"$type\" -N '' -f \"$key\"\n\
         echo \"HostKey $key\" >> \"$HOME/.ssh/sshd_config\"\n\
         done\n\
         printf 'Port {}\\nPidFile %s\\nStrictModes no\\nPermitRootLogin yes\\nPasswordAuthentication no\\n\
         PubkeyAuthentication yes\\nAuthorizedKeysFile %s\\n' \"$HOME/.ssh/run/sshd.pid\" \"$HOME/.ssh/authorized_keys\" \
         >> \"$HOME/.ssh/sshd_config\"\n\
         exec /usr/sbin/sshd -D -f \"$HOME/.ssh/sshd_config\"",
        install_keys(),
        ports::MPI_SSH
    )
}

#[cfg(test)]
mod tests {
    use super::{super::fixtures::*, *};

    const GROVE: Peers<'_> = Peers::Grove { component: "dec" };

    fn engine(command: &[&str], args: &[&str]) -> Container {
        let mut main = container(command, args);
        main.resources = serde_json::from_value(serde_json::json!({"limits": {"nvidia.com/gpu": "8"}})).unwrap();
        main.env = Some(vec![env::value("MY_SETTING", "1")]);
        main
    }

    fn adapted(role: NodeRole, peers: Peers<'_>) -> Container {
        let mut main = engine(&["python3", "-m", "dynamo.trtllm"], &["--o", "{\"a\": 'b'}"]);
        adapt_main(&launch(Some(MultinodePod { role, nodes: 2, peers })), &mut main);
        main
    }

    #[test]
    fn the_leader_starts_a_process_for_each_gpu() {
        let main = adapted(NodeRole::Leader, Peers::LeaderWorkerSet);
        let script = words_of(&main)[2];
        let leader = "${LWS_LEADER_ADDRESS},${LWS_LEADER_ADDRESS%%.*}-1.${LWS_LEADER_ADDRESS#*.}";
        assert!(script.contains(&format!(" -n 16 -H {leader} --mca ")), "{script}");
        assert!(script.contains("for host in ${LWS_LEADER_ADDRESS%%.*}-1.${LWS_LEADER_ADDRESS#*.}; do"), "{script}");
        assert!(script.contains("-x MODEL_PATH -x MY_SETTING -x NCCL_DEBUG"), "{script}");
        assert!(script.contains(&format!("-x {}", names::OMPI_KEEP_FQDN)), "{script}");
        let main = adapted(NodeRole::Leader, GROVE);
        assert!(!words_of(&main)[2].contains("getent"), "Grove starts the leader last");
        let mut main = container(&["python3", "-m", "dynamo.trtllm"], &[]);
        adapt_main(&launch(Some(MultinodePod { role: NodeRole::Leader, nodes: 2, peers: GROVE })), &mut main);
        assert!(words_of(&main)[2].contains(" -n 2 "), "each node takes part, whatever is known of its GPUs");
    }

    /// Two shells take their quotes off; the engine must get the user's words.
    #[test]
    fn the_engine_gets_its_words_unchanged() {
        let main = adapted(NodeRole::Leader, GROVE);
        let inner = "trtllm-llmapi-launch python3 -m dynamo.trtllm --o '{\"a\": '\\''b'\\''}'";
        assert!(words_of(&main)[2].ends_with(&format!(" bash -c {}", shell::literal(inner))), "{}", words_of(&main)[2]);
        let mut main = engine(&["/bin/sh", "-c"], &["cd 'a b' && python3 -m dynamo.trtllm"]);
        let role = NodeRole::Leader;
        adapt_main(&launch(Some(MultinodePod { role, nodes: 2, peers: GROVE })), &mut main);
        let inner = r"trtllm-llmapi-launch /bin/sh -c 'cd '\''a b'\'' && python3 -m dynamo.trtllm'";
        assert!(
            words_of(&main)[2].ends_with(&format!(" bash -c {}", shell::literal(inner))),
            "the whole script is launched"
        );
    }

    #[test]
    fn a_worker_only_answers_ssh() {
        let main = adapted(NodeRole::Worker, Peers::LeaderWorkerSet);
        assert!(words_of(&main)[2].contains("exec /usr/sbin/sshd -D"));
        // A home directory may outlive its container, and no person confirms that a key may be overwritten.
        assert!(words_of(&main)[2].contains("[ -f \"$key\" ] || ssh-keygen "));
        assert!(main.liveness_probe.is_none() && main.startup_probe.is_none());
        let port = main.readiness_probe.unwrap().tcp_socket.unwrap().port;
        assert_eq!(port, IntOrString::Int(2222));
    }

    #[test]
    fn every_node_mounts_the_key_pair() {
        let placed = launch(Some(MultinodePod { role: NodeRole::Worker, nodes: 2, peers: GROVE }));
        let mut pod = PodSpec::default();
        adapt_pod(&placed, &mut pod);
        let volume = pod.volumes.unwrap().remove(0);
        assert_eq!(volume.name, placed.mpi_secret);
        assert_eq!(volume.secret.unwrap().default_mode, Some(0o644));
        let main = adapted(NodeRole::Worker, GROVE);
        assert_eq!(main.volume_mounts.unwrap().pop().unwrap().mount_path, "/ssh-pk");
    }
}
