//! Defaults of a component's type: containers, pods and probes, and the parts that the endpoint picker of a gateway
//! needs.

use api_types::{
    env as env_names, names, ports,
    v1beta1::{ComponentType, MAIN_CONTAINER},
};
use k8s_openapi::{
    api::core::v1::{
        ConfigMapVolumeSource, Container, ContainerPort, GRPCAction, HTTPGetAction, KeyToPath, PodSpec, Probe, Volume,
        VolumeMount,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{
    env,
    volumes::{empty_dir, mount_of},
};
use crate::{RenderInput, ValidatedComponent};

const GRACE_SECONDS: i64 = 60;
const EPP_GRACE_SECONDS: i64 = 130;
const RESTART_ALWAYS: &str = "Always";

/// The container of a component of that type before the user's is laid over it.
pub(super) fn container(
    component_type: Option<ComponentType>,
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
) -> Container {
    let of_type = match component_type {
        Some(ComponentType::Frontend) => frontend(valid),
        Some(ComponentType::Worker | ComponentType::Prefill | ComponentType::Decode) => worker(valid),
        Some(ComponentType::Planner) => planner(),
        Some(ComponentType::Epp) => endpoint_picker(valid),
        None => Container { command: Some(shell()), ..Container::default() },
    };
    let mut all = env::common(component_type.map(ComponentType::as_str).unwrap_or_default(), input, valid);
    all.extend(of_type.env.into_iter().flatten());
    Container { name: MAIN_CONTAINER.to_owned(), env: Some(all), ..of_type }
}

/// The pod of a component before the user's is laid over it.
pub(super) fn pod(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> PodSpec {
    let (account, grace, volumes) = match valid.workload_type(input) {
        Some(ComponentType::Planner) => (Some(names::PLANNER_SERVICE_ACCOUNT), GRACE_SECONDS, None),
        Some(ComponentType::Epp) => (Some(names::EPP_SERVICE_ACCOUNT), EPP_GRACE_SECONDS, Some(volumes(valid))),
        _ => (None, GRACE_SECONDS, None),
    };
    PodSpec {
        service_account_name: account.map(str::to_owned),
        termination_grace_period_seconds: Some(grace),
        restart_policy: Some(RESTART_ALWAYS.to_owned()),
        volumes,
        ..PodSpec::default()
    }
}

/// A frontend is quick to start, and probed on its HTTP port.
fn frontend(valid: &ValidatedComponent<'_>) -> Container {
    let port = ports::HTTP.to_string();
    let probe = |path, delay, timeout| Probe {
        initial_delay_seconds: Some(delay),
        ..http_probe(path, ports::HTTP_NAME, 10, timeout, 3)
    };
    Container {
        command: Some(words(&["python3"])),
        args: Some(words(&["-m", "dynamo.frontend"])),
        ports: Some(vec![tcp(ports::HTTP_NAME, ports::HTTP)]),
        env: Some(vec![
            env::value(env_names::DYNAMO_PORT, port.as_str()),
            env::value(env_names::DYN_HTTP_PORT, port.as_str()),
            env::value(env_names::DYN_NAMESPACE_PREFIX, valid.dynamo_namespace_for_pods()),
        ]),
        liveness_probe: Some(probe(LIVE, 15, 1)),
        readiness_probe: Some(probe(HEALTH, 10, 3)),
        ..Container::default()
    }
}

fn worker(valid: &ValidatedComponent<'_>) -> Container {
    let mut env = vec![
        env::value(env_names::DYN_SYSTEM_ENABLED, "true"),
        env::value(env_names::DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS, r#"["generate"]"#),
        env::value(env_names::DYN_SYSTEM_PORT, ports::SYSTEM.to_string()),
        env::value(env_names::DYN_HEALTH_CHECK_ENABLED, "false"),
        env::value(env_names::NIXL_TELEMETRY_ENABLE, "n"),
        env::value(env_names::NIXL_TELEMETRY_EXPORTER, "prometheus"),
        env::value(env_names::NIXL_TELEMETRY_PROMETHEUS_PORT, ports::NIXL.to_string()),
        env::value(env_names::DYN_FORWARDPASS_METRIC_PORT, ports::FORWARD_PASS_METRICS.to_string()),
    ];
    env.extend(valid.revision().map(|suffix| env::value(env_names::DYN_NAMESPACE_WORKER_SUFFIX, suffix)));
    Container {
        ports: Some(vec![tcp(ports::SYSTEM_NAME, ports::SYSTEM), tcp(ports::NIXL_NAME, ports::NIXL)]),
        env: Some(env),
        ..with_system_server()
    }
}

fn planner() -> Container {
    Container {
        ports: Some(vec![tcp(ports::METRICS_NAME, ports::PLANNER_METRICS), tcp(ports::SYSTEM_NAME, ports::SYSTEM)]),
        env: Some(vec![
            env::value(env_names::PLANNER_PROMETHEUS_PORT, ports::PLANNER_METRICS.to_string()),
            env::value(env_names::DYN_SYSTEM_PORT, ports::SYSTEM.to_string()),
        ]),
        ..with_system_server()
    }
}

/// Whatever runs a system status server has up to two hours to load a model.
fn with_system_server() -> Container {
    Container {
        command: Some(shell()),
        liveness_probe: Some(http_probe(LIVE, ports::SYSTEM_NAME, 5, 4, 1)),
        readiness_probe: Some(http_probe(HEALTH, ports::SYSTEM_NAME, 10, 4, 3)),
        startup_probe: Some(http_probe(LIVE, ports::SYSTEM_NAME, 10, 5, 720)),
        ..Container::default()
    }
}

/// The image's own entry point runs, hence no command. It has up to half an hour until the first workers register.
fn endpoint_picker(valid: &ValidatedComponent<'_>) -> Container {
    let grpc = Probe {
        grpc: Some(GRPCAction { port: ports::GRPC_HEALTH, service: Some("inference-extension".to_owned()) }),
        period_seconds: Some(10),
        ..Probe::default()
    };
    let running = Probe { initial_delay_seconds: Some(5), ..grpc.clone() };
    let config = VolumeMount { read_only: Some(true), ..mount_of(CONFIG_VOLUME, CONFIG_FOLDER) };
    Container {
        args: Some(args(valid)),
        ports: Some(vec![
            tcp(ports::GRPC_NAME, ports::GRPC),
            tcp(ports::GRPC_HEALTH_NAME, ports::GRPC_HEALTH),
            tcp(ports::METRICS_NAME, ports::EPP_METRICS),
        ]),
        env: Some(vec![
            env::value(env_names::USE_STREAMING, "true"),
            env::value(env_names::RUST_LOG, "info"),
            env::value(env_names::DYN_ENFORCE_DISAGG, "false"),
            env::value(env_names::DYN_NAMESPACE_PREFIX, valid.dynamo_namespace_for_pods()),
        ]),
        volume_mounts: Some(vec![config, mount_of(CACHE_VOLUME, CACHE_FOLDER)]),
        liveness_probe: Some(running.clone()),
        readiness_probe: Some(running),
        startup_probe: Some(Probe { failure_threshold: Some(180), ..grpc }),
        ..Container::default()
    }
}

fn shell() -> Vec<String> {
    words(&["/bin/sh", "-c"])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A port of a container.
pub(crate) fn tcp(name: &str, port: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: port,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

const POOL_GROUP: &str = "inference.networking.k8s.io";
const CONFIG_VOLUME: &str = "epp-config";
const CONFIG_FOLDER: &str = "/etc/epp";
const CACHE_VOLUME: &str = "hf-cache";
const CACHE_FOLDER: &str = "/home/nonroot/.cache";

fn args(valid: &ValidatedComponent<'_>) -> Vec<String> {
    let pairs = [
        ("--pool-name", names::inference_pool(valid.graph_for_pods())),
        ("--pool-namespace", valid.namespace.to_owned()),
        ("--pool-group", POOL_GROUP.to_owned()),
        ("-v", "4".to_owned()),
        ("--zap-encoder", "json".to_owned()),
        ("--grpc-port", ports::GRPC.to_string()),
        ("--grpc-health-port", ports::GRPC_HEALTH.to_string()),
        ("--config-file", format!("{CONFIG_FOLDER}/{}", names::EPP_CONFIG_FILE)),
    ];
    pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

/// The configuration is always mounted under the same file name, whatever its key in the user's ConfigMap.
fn volumes(valid: &ValidatedComponent<'_>) -> Vec<Volume> {
    let given = valid.spec().epp_config.as_ref().and_then(|config| config.config_map_ref.as_ref());
    let config_map = given.map_or_else(|| names::epp_config_map(valid.graph_for_pods()), |given| given.name.clone());
    let key = given.map(|given| given.key.as_str()).filter(|key| !key.is_empty()).unwrap_or(names::EPP_CONFIG_FILE);
    let item = KeyToPath { key: key.to_owned(), path: names::EPP_CONFIG_FILE.to_owned(), mode: None };
    let config =
        ConfigMapVolumeSource { name: config_map, items: Some(vec![item]), default_mode: None, optional: None };
    vec![
        Volume { name: CONFIG_VOLUME.to_owned(), config_map: Some(config), ..Volume::default() },
        empty_dir(CACHE_VOLUME),
    ]
}

const LIVE: &str = "/live";
const HEALTH: &str = "/health";

/// A probe over HTTP. Period and timeout are in seconds.
pub(crate) fn http_probe(path: &str, port: &str, period: i32, timeout: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(port.to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(timeout),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}
