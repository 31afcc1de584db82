//! A sidecar that answers HTTP for its pod.

use api_types::v1beta1::ComponentType;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe, VolumeMount};

use super::{defaults, env};
use crate::{RenderInput, ValidatedComponent, pod};

/// The user's sidecar over a frontend's defaults, with the main container's mounts that it has not itself.
pub(super) fn render(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    own: &Container,
    main_mounts: &[VolumeMount],
) -> Container {
    let mut base = defaults::container(Some(ComponentType::Frontend), input, valid);
    base.name.clone_from(&own.name);
    let liveness = probe(base.liveness_probe.clone(), own.liveness_probe.as_ref());
    let readiness = probe(base.readiness_probe.clone(), own.readiness_probe.as_ref());
    let merged = pod::container(base, own);
    let mut sidecar = Container { liveness_probe: liveness, readiness_probe: readiness, ..merged };
    env::add_operator_settings(&mut sidecar, input.settings);
    let mounts = sidecar.volume_mounts.get_or_insert_default();
    for mount in main_mounts {
        if mounts.iter().all(|own| own.name != mount.name) {
            mounts.push(mount.clone());
        }
    }
    sidecar.volume_mounts = sidecar.volume_mounts.filter(|mounts| !mounts.is_empty());
    sidecar
}

/// Unlike main's, a probe of the sidecar with an HTTP handler takes from the default what it leaves open. One that
/// has another stays as it is: a probe with two handlers is invalid.
fn probe(default: Option<Probe>, own: Option<&Probe>) -> Option<Probe> {
    let (Some(default), Some(own)) = (default.clone(), own) else { return pod::probe(&own.cloned(), default) };
    if *own == Probe::default() {
        return None;
    }
    if own.exec.is_some() || own.grpc.is_some() || own.tcp_socket.is_some() {
        return Some(own.clone());
    }
    // Of these, a zero is what Kubernetes takes for not given; a delay of zero is one.
    let given = |own: Option<i32>, default| own.filter(|number| *number != 0).or(default);
    Some(Probe {
        http_get: http_get(default.http_get, own.http_get.as_ref()),
        initial_delay_seconds: own.initial_delay_seconds.or(default.initial_delay_seconds),
        period_seconds: given(own.period_seconds, default.period_seconds),
        timeout_seconds: given(own.timeout_seconds, default.timeout_seconds),
        failure_threshold: given(own.failure_threshold, default.failure_threshold),
        ..own.clone()
    })
}

fn http_get(default: Option<HTTPGetAction>, own: Option<&HTTPGetAction>) -> Option<HTTPGetAction> {
    let Some(own) = own else { return default };
    let path = own.path.clone().filter(|path| !path.is_empty()).or(default.and_then(|default| default.path));
    Some(HTTPGetAction { path, ..own.clone() })
}
