//! The author's container and pod, laid over the defaults of the component's type.
//!
//! What the author gives wins. An empty string, an empty list and a zero count as not given, lists replace lists,
//! environments unite by name, a probe replaces a probe as a whole. Fields without a default are the author's alone.

use super::env;
use k8s_openapi::api::core::v1::{Container, PodSpec};

/// The author's container over the defaults; it keeps the name of the defaults.
pub(super) fn container(defaults: Container, own: &Container) -> Container {
    let env = env::union(defaults.env.unwrap_or_default(), own.env.clone().unwrap_or_default());
    Container {
        name: defaults.name,
        command: list(&own.command, defaults.command),
        args: list(&own.args, defaults.args),
        ports: list(&own.ports, defaults.ports),
        env: (!env.is_empty()).then_some(env),
        volume_mounts: list(&own.volume_mounts, defaults.volume_mounts),
        liveness_probe: own.liveness_probe.clone().or(defaults.liveness_probe),
        readiness_probe: own.readiness_probe.clone().or(defaults.readiness_probe),
        startup_probe: own.startup_probe.clone().or(defaults.startup_probe),
        ..own.clone()
    }
}

/// The author's pod over the defaults, without containers.
pub(super) fn pod(defaults: PodSpec, own: &PodSpec) -> PodSpec {
    let text = |own: &Option<String>, default: Option<String>| own.clone().filter(|own| !own.is_empty()).or(default);
    PodSpec {
        containers: Vec::new(),
        service_account_name: text(&own.service_account_name, defaults.service_account_name),
        restart_policy: text(&own.restart_policy, defaults.restart_policy),
        termination_grace_period_seconds: own
            .termination_grace_period_seconds
            .filter(|seconds| *seconds != 0)
            .or(defaults.termination_grace_period_seconds),
        volumes: list(&own.volumes, defaults.volumes),
        ..own.clone()
    }
}

fn list<T: Clone>(own: &Option<Vec<T>>, default: Option<Vec<T>>) -> Option<Vec<T>> {
    own.clone().filter(|own| !own.is_empty()).or(default)
}
