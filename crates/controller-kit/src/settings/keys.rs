//! Every key that some process of the operator, ours or the reference, understands.

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
