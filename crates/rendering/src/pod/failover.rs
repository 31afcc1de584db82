//! Two engines in one pod: one serves, the other is a standby over the same GPU memory.

use api_types::{env as names, gpu_memory_service::SOCKET_DIR, ports, v1beta1::BackendFramework};
use k8s_openapi::{
    api::core::v1::{Container, EnvVar, PodSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{env, tcp};
use crate::frameworks;

const ENGINES: [i32; 2] = [0, 1];
const NIXL_SIDE_CHANNEL: i32 = 5600;
const KV_EVENTS: i32 = 20080;
const MASTER_PORT_FLAG: &str = "--master-port";
const MASTER_PORT: i32 = 29500;
/// Between the master ports of two engines, so that what each opens beside its port does not meet the other's.
const MASTER_PORT_STRIDE: i32 = 100;

/// Variables of an engine that is alone in its pod.
const REMOVED: [&str; 2] = [names::DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS, names::DYN_HEALTH_CHECK_ENABLED];

/// Makes two engines of the first container; the others follow as they are. `nodes` is what one replica spans.
pub(super) fn apply(pod: &mut PodSpec, nodes: i32) {
    let containers = std::mem::take(&mut pod.containers);
    let mut containers = containers.into_iter();
    let Some(main) = containers.next() else { return };
    pod.containers = ENGINES.into_iter().map(|id| engine(&main, id, nodes)).chain(containers).collect();
}

fn engine(main: &Container, id: i32, nodes: i32) -> Container {
    let name = format!("engine-{id}");
    let port = format!("{}-{id}", ports::SYSTEM_NAME);
    let mut engine = main.clone();
    let kept = engine.env.iter().flatten().filter(|variable| !REMOVED.contains(&variable.name.as_str()));
    let own = own_environment(&name, id, nodes);
    let kept = kept.filter(|variable| own.iter().all(|own| own.name != variable.name)).cloned();
    engine.env = Some(kept.collect::<Vec<_>>().into_iter().chain(own).collect());
    engine.ports = Some(vec![tcp(&port, ports::SYSTEM + id)]);
    let probes = [&mut engine.liveness_probe, &mut engine.readiness_probe, &mut engine.startup_probe];
    for http in probes.into_iter().flatten().filter_map(|probe| probe.http_get.as_mut()) {
        http.port = IntOrString::String(port.clone());
    }
    if id > 0 {
        shift_master_port(&mut engine, id * MASTER_PORT_STRIDE);
    }
    engine.name = name;
    engine
}

fn own_environment(name: &str, id: i32, nodes: i32) -> Vec<EnvVar> {
    let mut all = vec![
        env::value(names::ENGINE_ID, id.to_string()),
        env::value(names::CONTAINER_NAME, name),
        env::value(names::FAILOVER_LOCK_PATH, format!("{SOCKET_DIR}/failover.lock")),
        env::value(names::DYN_SYSTEM_STARTING_HEALTH_STATUS, "notready"),
        env::value(names::DYN_SYSTEM_PORT, (ports::SYSTEM + id).to_string()),
        env::value(names::DYN_SYSTEM_ENABLED, "true"),
        env::value(names::DYN_FORWARDPASS_METRIC_PORT, (ports::FORWARD_PASS_METRICS + id).to_string()),
        env::value(names::DYN_VLLM_GMS_SHADOW_MODE, "true"),
        env::value(names::VLLM_NIXL_SIDE_CHANNEL_PORT, (NIXL_SIDE_CHANNEL + id).to_string()),
        env::value(names::DYN_VLLM_KV_EVENT_PORT, (KV_EVENTS + id).to_string()),
    ];
    all.extend((nodes > 1).then(|| env::value(names::NNODES, nodes.to_string())));
    all
}

/// Moves the port at which an engine's processes meet, so that the engines do not meet each other's.
///
/// A command line that names none gets one.
fn shift_master_port(engine: &mut Container, offset: i32) {
    let command = engine.command.iter_mut().flatten();
    let words: Vec<&mut String> = command.chain(engine.args.iter_mut().flatten()).collect();
    if shift_in(words, offset) {
        return;
    }
    let flag = format!("{MASTER_PORT_FLAG} {}", MASTER_PORT + offset);
    frameworks::add_flags(engine, &flag, false, BackendFramework::Vllm);
}

/// Adds `offset` to the port of every such flag: `--master-port 1`, `--master-port=1`, as words of their own or within
/// a shell's text. Whether there was any.
fn shift_in(words: Vec<&mut String>, offset: i32) -> bool {
    let (mut found, mut value_follows) = (false, false);
    for word in words {
        if value_follows && let Ok(port) = word.parse::<i32>() {
            *word = (port + offset).to_string();
        }
        value_follows = word == MASTER_PORT_FLAG;
        found |= value_follows;
        let mut from = 0;
        while let Some(at) = word[from..].find(MASTER_PORT_FLAG).map(|at| from + at + MASTER_PORT_FLAG.len()) {
            from = at;
            let digits: String = word[at..].chars().skip(1).take_while(char::is_ascii_digit).collect();
            if !word[at..].starts_with(['=', ' ']) {
                continue;
            }
            if let Ok(port) = digits.parse::<i32>() {
                found = true;
                word.replace_range(at + 1..at + 1 + digits.len(), &(port + offset).to_string());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shifted(command: &[&str], args: &[&str]) -> (Vec<String>, Vec<String>) {
        let list = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        let mut engine = Container { command: list(command), args: list(args), ..Container::default() };
        shift_master_port(&mut engine, 100);
        (engine.command.unwrap(), engine.args.unwrap())
    }

    /// The upstream operator reads `--master-port 1` only, and appends to a shell's arguments what the shell drops.
    #[test]
    fn the_master_port_is_found_in_every_form_and_reaches_the_engine() {
        let python = ["python3", "-m", "dynamo.vllm"];
        let table: [(&[&str], &[&str], &[&str]); 7] = [
            (&python, &["--model", "m"], &["--model", "m", "--master-port", "29600"]),
            (&python, &["--master-port", "1000", "-x"], &["--master-port", "1100", "-x"]),
            (&python, &["--master-port=1000"], &["--master-port=1100"]),
            (&python, &["--master-port", "$PORT"], &["--master-port", "$PORT"]),
            (
                &["sh", "-c"],
                &["a && python3 -m dynamo.vllm --model m"],
                &["a && python3 -m dynamo.vllm --master-port 29600 --model m"],
            ),
            (
                &["sh", "-c"],
                &["python3 -m dynamo.vllm --master-port 7 -x"],
                &["python3 -m dynamo.vllm --master-port 107 -x"],
            ),
            (&["sh", "-c"], &["python3 -m dynamo.vllm --master-port=7"], &["python3 -m dynamo.vllm --master-port=107"]),
        ];
        for (command, args, expected) in table {
            assert_eq!(shifted(command, args).1, expected, "{command:?} {args:?}");
        }
        let (command, args) = shifted(&["sh", "-c", "python3 -m dynamo.vllm"], &[]);
        assert_eq!((command[2].as_str(), args.len()), ("python3 -m dynamo.vllm --master-port 29600", 0));
    }
}
