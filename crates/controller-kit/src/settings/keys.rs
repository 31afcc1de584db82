//! Every key that some process of the operator, ours or the reference, understands, and durations as Go writes them.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

/// Paths of values. Everything below a listed path is known, too.
const KNOWN: &[&str] = &[
    "apiVersion",
    "kind",
    "server.metrics.bindAddress",
    "server.metrics.port",
    "server.metrics.secure",
    "server.healthProbe.bindAddress",
    "server.healthProbe.port",
    "server.webhook.host",
    "server.webhook.bindAddress",
    "server.webhook.port",
    "server.webhook.certDir",
    "server.webhook.certProvisionMode",
    "server.webhook.secretName",
    "server.webhook.serviceName",
    "leaderElection.enabled",
    "leaderElection.id",
    "leaderElection.namespace",
    "leaderElection.shards",
    "namespace.restricted",
    "namespace.scope.leaseDuration",
    "namespace.scope.leaseRenewInterval",
    "namespace.scope.owner",
    "orchestrators.grove.enabled",
    "orchestrators.grove.terminationDelay",
    "orchestrators.lws.enabled",
    "orchestrators.kaiScheduler.enabled",
    "orchestrators.volcanoScheduler.enabled",
    "dra.enabled",
    "infrastructure.natsAddress",
    "infrastructure.etcdAddress",
    "infrastructure.modelExpressURL",
    "infrastructure.prometheusEndpoint",
    "infrastructure.secretName",
    "infrastructure.secretNamespace",
    "ingress.virtualServiceGateway",
    "ingress.controllerClassName",
    "ingress.controllerTLSSecretName",
    "ingress.hostSuffix",
    "ingress.onlyConfigured",
    "serviceMesh.enabled",
    "serviceMesh.provider",
    "serviceMesh.istio.tlsMode",
    "serviceMesh.istio.insecureSkipVerify",
    "serviceMesh.istio.clientCertificate",
    "serviceMesh.istio.privateKey",
    "serviceMesh.istio.caCertificates",
    "rbac.plannerClusterRoleName",
    "rbac.dgdrProfilingClusterRoleName",
    "rbac.eppClusterRoleName",
    "rbac.discoveryRoleName",
    "mpi.sshSecretName",
    "mpi.sshSecretNamespace",
    "checkpoint.enabled",
    "checkpoint.seccomp.disabled",
    "checkpoint.seccomp.profile",
    "checkpoint.storage.type",
    "checkpoint.storage.pvc.pvcName",
    "checkpoint.storage.pvc.basePath",
    "checkpoint.storage.pvc.create",
    "checkpoint.storage.pvc.size",
    "checkpoint.storage.pvc.storageClassName",
    "checkpoint.storage.pvc.accessMode",
    "checkpoint.storage.s3",
    "checkpoint.storage.oci",
    "checkpoint.cleanupImage",
    "discovery.backend",
    "gpu.discoveryEnabled",
    "gpu.exporterNamespaces",
    "logging.level",
    "logging.format",
    "security.enableHTTP2",
    "imagePullSecretDiscovery.enabled",
    "dns.clusterDomain",
    "notifications.receivers",
];

/// Unknown paths in `value`, in the order of the file's keys. The topmost unknown key represents all below it.
pub(super) fn unknown(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(value, "", &mut found);
    found
}

fn walk(value: &Value, prefix: &str, found: &mut Vec<String>) {
    let Some(fields) = value.as_object() else { return };
    for (key, below) in fields {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if KNOWN.contains(&path.as_str()) {
            continue;
        }
        let block =
            KNOWN.iter().any(|known| known.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.')));
        if block {
            walk(below, &path, found);
        } else {
            found.push(path);
        }
    }
}

/// A duration in the notation of the Go language: decimal numbers with the units `h`, `m`, `s`, `ms`, `us` and `ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Duration);

/// Units and their seconds; longer names first, since `m` begins `ms`.
const UNITS: [(&str, f64); 7] =
    [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];

impl std::str::FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a duration; write for example 30s or 1h30m");
        let (mut rest, mut seconds) = (text, 0.0);
        if rest == "0" {
            return Ok(Self(Duration::ZERO));
        }
        loop {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
            let (unit, scale) = UNITS.iter().find(|(unit, _)| rest[digits..].starts_with(unit)).ok_or_else(wrong)?;
            seconds += number * scale;
            rest = &rest[digits + unit.len()..];
            if rest.is_empty() {
                return Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| wrong());
            }
        }
    }
}

/// As Go writes it, which is how Kubernetes objects hold durations: `1h30m0s`, `15m0s`, `1.5s`, `250ms`.
impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if seconds == 0 && nanos > 0 {
            let (unit, digits, name) = match nanos {
                1_000_000.. => (1_000_000, 6, "ms"),
                1_000.. => (1_000, 3, "µs"),
                _ => (1, 0, "ns"),
            };
            return write!(f, "{}{}{name}", nanos / unit, decimals(nanos % unit, digits));
        }
        let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{seconds}{}s", decimals(nanos, 9))
    }
}

/// A fraction of so many digits behind its point, without trailing zeros; nothing if it is zero.
fn decimals(fraction: u32, digits: usize) -> String {
    let text = format!(".{fraction:0digits$}");
    if fraction == 0 { String::new() } else { text.trim_end_matches('0').to_owned() }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    /// A key that is on no page cannot be found by its users.
    #[test]
    fn the_page_on_the_configuration_names_every_key() {
        let page = include_str!("../../../../docs/configuration.md");
        let keys = super::KNOWN.iter().filter(|key| !["apiVersion", "kind"].contains(key));
        let missing: Vec<_> = keys.filter(|key| !page.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "docs/configuration.md: {missing:?}");
    }
}

#[cfg(test)]
mod duration_tests {
    use std::time::Duration;

    use super::GoDuration;

    #[test]
    fn go_s_notation_is_understood() {
        for (text, millis) in [("30s", 30_000), ("1h30m", 5_400_000), ("1.5s", 1_500), ("250ms", 250), ("0", 0)] {
            assert_eq!(text.parse(), Ok(GoDuration(Duration::from_millis(millis))), "{text}");
        }
        for (text, written) in [
            ("15m", "15m0s"),
            ("4h", "4h0m0s"),
            ("1.5h", "1h30m0s"),
            ("90s", "1m30s"),
            ("1h1ms", "1h0m0.001s"),
            ("1500us", "1.5ms"),
            ("0s", "0s"),
            ("7ns", "7ns"),
        ] {
            assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), written, "{text}");
        }
        for text in ["", "30", "s", "-5s", "1x", "1s!"] {
            assert!(text.parse::<GoDuration>().is_err(), "{text}");
        }
    }
}
