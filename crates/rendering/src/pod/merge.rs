//! The user's container and pod, laid over the defaults of the component's type.
//!
//! What the user gives wins, zero included. An empty string and an empty list count as not given: most clients leave
//! them out. Lists replace lists, environments unite by name, a probe replaces a probe as a whole, and one that is
//! empty takes it away. Fields without a default are the user's alone.

use k8s_openapi::api::core::v1::{Container, PodSpec, Probe};

use super::env;

/// The user's container over the defaults; it keeps the name of the defaults.
pub(super) fn container(defaults: Container, own: &Container) -> Container {
    let env = env::union(defaults.env.unwrap_or_default(), own.env.clone().unwrap_or_default());
    Container {
        name: defaults.name,
        command: list(&own.command, defaults.command),
        args: list(&own.args, defaults.args),
        ports: list(&own.ports, defaults.ports),
        env: (!env.is_empty()).then_some(env),
        volume_mounts: list(&own.volume_mounts, defaults.volume_mounts),
        liveness_probe: probe(&own.liveness_probe, defaults.liveness_probe),
        readiness_probe: probe(&own.readiness_probe, defaults.readiness_probe),
        startup_probe: probe(&own.startup_probe, defaults.startup_probe),
        ..own.clone()
    }
}

/// The user's pod over the defaults, without containers.
pub(super) fn pod(defaults: PodSpec, own: &PodSpec) -> PodSpec {
    let text = |own: &Option<String>, default: Option<String>| own.clone().filter(|own| !own.is_empty()).or(default);
    PodSpec {
        containers: Vec::new(),
        service_account_name: text(&own.service_account_name, defaults.service_account_name),
        restart_policy: text(&own.restart_policy, defaults.restart_policy),
        termination_grace_period_seconds: own
            .termination_grace_period_seconds
            .or(defaults.termination_grace_period_seconds),
        volumes: list(&own.volumes, defaults.volumes),
        ..own.clone()
    }
}

/// The user's probe or the default; none if the user's is empty, which asks nothing in no way.
pub(super) fn probe(own: &Option<Probe>, default: Option<Probe>) -> Option<Probe> {
    own.clone().or(default).filter(|probe| *probe != Probe::default())
}

fn list<T: Clone>(own: &Option<Vec<T>>, default: Option<Vec<T>>) -> Option<Vec<T>> {
    own.clone().filter(|own| !own.is_empty()).or(default)
}

/// The pod's container of that name.
pub(super) fn find<'a>(pod: &'a mut PodSpec, name: &str) -> Option<&'a mut Container> {
    pod.containers.iter_mut().find(|container| container.name == name)
}
