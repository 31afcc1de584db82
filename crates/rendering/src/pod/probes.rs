//! Default probes.

use k8s_openapi::{
    api::core::v1::{GRPCAction, HTTPGetAction, Probe},
    apimachinery::pkg::util::intstr::IntOrString,
};

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
