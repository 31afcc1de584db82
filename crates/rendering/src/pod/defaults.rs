//! What a component's type brings along.

use api_types::{
    env as env_names, names, ports,
    v1beta1::{ComponentType, MAIN_CONTAINER},
};
use k8s_openapi::api::core::v1::{Container, ContainerPort, EnvVar, PodSpec, VolumeMount};

use super::{context::PodContext, env, epp, probes::Probes};

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
        Some(ComponentType::Epp) => (Some(names::EPP_SERVICE_ACCOUNT), EPP_GRACE_SECONDS, epp::volumes(context)),
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
        args: epp::args(context),
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
        mounts: epp::mounts(),
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
