//! Defaults of a component's type: containers, pods and probes, and the parts that the endpoint picker of a gateway
//! needs.

use api_types::{
    env as env_names, names, ports,
    v1beta1::{ComponentType, MAIN_CONTAINER},
};
use k8s_openapi::{
    api::core::v1::{
        ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, GRPCAction, HTTPGetAction,
        KeyToPath, PodSpec, Probe, Volume, VolumeMount,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{PodContext, env};

const GRACE_SECONDS: i64 = 60;
const EPP_GRACE_SECONDS: i64 = 130;
const RESTART_ALWAYS: &str = "Always";

/// The part of a container that a type decides.
#[derive(Default)]
struct TypeDefaults {
    command: Vec<String>,
    args: Vec<String>,
    ports: Vec<ContainerPort>,
    env: Vec<EnvVar>,
    mounts: Vec<VolumeMount>,
    probes: Probes,
}

/// The container of a component of that type before the user's is laid over it.
pub(super) fn container(component_type: Option<ComponentType>, context: &PodContext<'_>) -> Container {
    let TypeDefaults { command, args, ports, env: extra, mounts, probes } = match component_type {
        Some(ComponentType::Frontend) => frontend(context),
        Some(ComponentType::Worker | ComponentType::Prefill | ComponentType::Decode) => worker(context),
        Some(ComponentType::Planner) => planner(),
        Some(ComponentType::Epp) => endpoint_picker(context),
        None => TypeDefaults { command: shell(), ..TypeDefaults::default() },
    };
    let mut all = env::common(component_type.map(ComponentType::as_str).unwrap_or_default(), context);
    all.extend(extra);
    Container {
        name: MAIN_CONTAINER.to_owned(),
        command: filled(command),
        args: filled(args),
        ports: filled(ports),
        env: Some(all),
        volume_mounts: filled(mounts),
        liveness_probe: probes.liveness,
        readiness_probe: probes.readiness,
        startup_probe: probes.startup,
        ..Container::default()
    }
}

/// The pod of a component before the user's is laid over it.
pub(super) fn pod(context: &PodContext<'_>) -> PodSpec {
    let (account, grace, volumes) = match context.component_type {
        Some(ComponentType::Planner) => (Some(names::PLANNER_SERVICE_ACCOUNT), GRACE_SECONDS, Vec::new()),
        Some(ComponentType::Epp) => (Some(names::EPP_SERVICE_ACCOUNT), EPP_GRACE_SECONDS, volumes(context)),
        _ => (None, GRACE_SECONDS, Vec::new()),
    };
    PodSpec {
        service_account_name: account.map(str::to_owned),
        termination_grace_period_seconds: Some(grace),
        restart_policy: Some(RESTART_ALWAYS.to_owned()),
        volumes: filled(volumes),
        ..PodSpec::default()
    }
}

fn frontend(context: &PodContext<'_>) -> TypeDefaults {
    let port = ports::HTTP.to_string();
    TypeDefaults {
        command: words(&["python3"]),
        args: words(&["-m", "dynamo.frontend"]),
        ports: vec![tcp(ports::HTTP_NAME, ports::HTTP)],
        env: vec![
            env::value(env_names::DYNAMO_PORT, port.as_str()),
            env::value(env_names::DYN_HTTP_PORT, port.as_str()),
            env::value(env_names::DYN_NAMESPACE_PREFIX, &context.dynamo_namespace),
        ],
        mounts: Vec::new(),
        probes: Probes::frontend(ports::HTTP_NAME),
    }
}

fn worker(context: &PodContext<'_>) -> TypeDefaults {
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
    env.extend(context.generation.map(|suffix| env::value(env_names::DYN_NAMESPACE_WORKER_SUFFIX, suffix)));
    TypeDefaults {
        command: shell(),
        ports: vec![tcp(ports::SYSTEM_NAME, ports::SYSTEM), tcp(ports::NIXL_NAME, ports::NIXL)],
        env,
        probes: Probes::system(ports::SYSTEM_NAME),
        ..TypeDefaults::default()
    }
}

fn planner() -> TypeDefaults {
    TypeDefaults {
        command: shell(),
        ports: vec![tcp(ports::METRICS_NAME, ports::PLANNER_METRICS), tcp(ports::SYSTEM_NAME, ports::SYSTEM)],
        env: vec![
            env::value(env_names::PLANNER_PROMETHEUS_PORT, ports::PLANNER_METRICS.to_string()),
            env::value(env_names::DYN_SYSTEM_PORT, ports::SYSTEM.to_string()),
        ],
        probes: Probes::system(ports::SYSTEM_NAME),
        ..TypeDefaults::default()
    }
}

/// The image's own entry point runs, hence no command.
fn endpoint_picker(context: &PodContext<'_>) -> TypeDefaults {
    TypeDefaults {
        command: Vec::new(),
        args: args(context),
        ports: vec![
            tcp(ports::GRPC_NAME, ports::GRPC),
            tcp(ports::GRPC_HEALTH_NAME, ports::GRPC_HEALTH),
            tcp(ports::METRICS_NAME, ports::EPP_METRICS),
        ],
        env: vec![
            env::value(env_names::USE_STREAMING, "true"),
            env::value(env_names::RUST_LOG, "info"),
            env::value(env_names::DYN_ENFORCE_DISAGG, "false"),
            env::value(env_names::DYN_NAMESPACE_PREFIX, &context.dynamo_namespace),
        ],
        mounts: mounts(),
        probes: Probes::endpoint_picker(ports::GRPC_HEALTH),
    }
}

fn shell() -> Vec<String> {
    words(&["/bin/sh", "-c"])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn tcp(name: &str, port: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: port,
        protocol: Some("TCP".to_owned()),
        host_ip: None,
        host_port: None,
    }
}

fn filled<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

const POOL_GROUP: &str = "inference.networking.k8s.io";
const CONFIG_VOLUME: &str = "epp-config";
const CONFIG_FOLDER: &str = "/etc/epp";
const CACHE_VOLUME: &str = "hf-cache";
const CACHE_FOLDER: &str = "/home/nonroot/.cache";

pub(super) fn args(context: &PodContext<'_>) -> Vec<String> {
    let pairs = [
        ("--pool-name", names::inference_pool(context.graph)),
        ("--pool-namespace", context.namespace.to_owned()),
        ("--pool-group", POOL_GROUP.to_owned()),
        ("-v", "4".to_owned()),
        ("--zap-encoder", "json".to_owned()),
        ("--grpc-port", ports::GRPC.to_string()),
        ("--grpc-health-port", ports::GRPC_HEALTH.to_string()),
        ("--config-file", format!("{CONFIG_FOLDER}/{}", names::EPP_CONFIG_FILE)),
    ];
    pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

pub(super) fn mounts() -> Vec<VolumeMount> {
    let mount = |name: &str, path: &str, read_only: Option<bool>| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only,
        ..VolumeMount::default()
    };
    vec![mount(CONFIG_VOLUME, CONFIG_FOLDER, Some(true)), mount(CACHE_VOLUME, CACHE_FOLDER, None)]
}

/// The configuration is always mounted under the same file name, whatever its key in the user's ConfigMap.
pub(super) fn volumes(context: &PodContext<'_>) -> Vec<Volume> {
    let given = context.epp_config.and_then(|config| config.config_map_ref.as_ref());
    let config_map = given.map_or_else(|| names::epp_config_map(context.graph), |given| given.name.clone());
    let key = given.map(|given| given.key.as_str()).filter(|key| !key.is_empty()).unwrap_or(names::EPP_CONFIG_FILE);
    let item = KeyToPath { key: key.to_owned(), path: names::EPP_CONFIG_FILE.to_owned(), mode: None };
    let config =
        ConfigMapVolumeSource { name: config_map, items: Some(vec![item]), default_mode: None, optional: None };
    vec![
        Volume { name: CONFIG_VOLUME.to_owned(), config_map: Some(config), ..Volume::default() },
        Volume {
            name: CACHE_VOLUME.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource { medium: None, size_limit: None }),
            ..Volume::default()
        },
    ]
}

const LIVE: &str = "/live";
const HEALTH: &str = "/health";

/// A container's three probes; what is absent is not probed.
#[derive(Default)]
pub(super) struct Probes {
    pub(super) liveness: Option<Probe>,
    pub(super) readiness: Option<Probe>,
    pub(super) startup: Option<Probe>,
}

impl Probes {
    /// Of a frontend: quick to start, asked on its HTTP port.
    pub(super) fn frontend(port: &str) -> Self {
        let liveness = Probe {
            initial_delay_seconds: Some(15),
            period_seconds: Some(10),
            timeout_seconds: Some(1),
            failure_threshold: Some(3),
            ..http(LIVE, port)
        };
        let readiness = Probe {
            initial_delay_seconds: Some(10),
            period_seconds: Some(10),
            timeout_seconds: Some(3),
            failure_threshold: Some(3),
            ..http(HEALTH, port)
        };
        Self { liveness: Some(liveness), readiness: Some(readiness), startup: None }
    }

    /// Of whatever runs a system status server: up to two hours to load a model.
    pub(super) fn system(port: &str) -> Self {
        let probe = |path, period, timeout, failures| Probe {
            period_seconds: Some(period),
            timeout_seconds: Some(timeout),
            failure_threshold: Some(failures),
            ..http(path, port)
        };
        Self {
            liveness: Some(probe(LIVE, 5, 4, 1)),
            readiness: Some(probe(HEALTH, 10, 4, 3)),
            startup: Some(probe(LIVE, 10, 5, 720)),
        }
    }

    /// Of an endpoint picker: up to half an hour until the first workers register.
    pub(super) fn endpoint_picker(port: i32) -> Self {
        let grpc = Probe {
            grpc: Some(GRPCAction { port, service: Some("inference-extension".to_owned()) }),
            period_seconds: Some(10),
            ..Probe::default()
        };
        let running = Probe { initial_delay_seconds: Some(5), ..grpc.clone() };
        Self {
            liveness: Some(running.clone()),
            readiness: Some(running),
            startup: Some(Probe { failure_threshold: Some(180), ..grpc }),
        }
    }
}

fn http(path: &str, port: &str) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(port.to_owned()),
            host: None,
            http_headers: None,
            scheme: None,
        }),
        ..Probe::default()
    }
}
