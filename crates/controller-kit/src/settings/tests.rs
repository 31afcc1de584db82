//! The configuration file, from text.

use super::{
    CertProvisionMode, DiscoveryBackend, Ingress, LogFormat, OperatorConfiguration, SettingsError, TlsMode, parse,
};

const HEAD: &str = "apiVersion: operator.config.dynamo.nvidia.com/v1alpha1\nkind: OperatorConfiguration\n";

fn read(body: &str) -> (OperatorConfiguration, Vec<String>) {
    parse(&format!("{HEAD}{body}")).unwrap()
}

#[test]
fn an_empty_file_is_all_defaults() {
    let (settings, warnings) = read("");
    assert_eq!(settings, OperatorConfiguration::default());
    assert!(warnings.is_empty());
    assert!(settings.image_pull_secret_discovery.enabled);
    assert_eq!(settings.logging.level, "info");
    assert_eq!(settings.restricted_namespace(), None);
}

#[test]
fn values_are_read() {
    let (settings, warnings) = read(
        "infrastructure: {natsAddress: 'nats://n:4222', etcdAddress: e, modelExpressURL: 'http://m', prometheusEndpoint: p}
discovery: {backend: etcd}
namespace: {restricted: team-a, scope: {leaseDuration: 30s}}
logging: {level: debug, format: text}
imagePullSecretDiscovery: {enabled: false}
",
    );
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(settings.infrastructure.nats_address, "nats://n:4222");
    assert_eq!(settings.infrastructure.model_express_url, "http://m");
    assert_eq!(settings.discovery.backend, DiscoveryBackend::Etcd);
    assert_eq!(settings.restricted_namespace(), Some("team-a"));
    assert_eq!((settings.logging.level.as_str(), settings.logging.format), ("debug", LogFormat::Text));
    assert!(!settings.image_pull_secret_discovery.enabled);
}

#[test]
fn switches_are_on_off_or_unset() {
    let (settings, warnings) = read(
        "orchestrators: {grove: {enabled: false}, lws: {enabled: true}}
dra: {enabled: false}
serviceMesh: {provider: istio}
checkpoint: {enabled: true}
gpu: {discoveryEnabled: false, exporterNamespaces: [monitoring]}
",
    );
    assert!(warnings.is_empty(), "{warnings:?}");
    let orchestrators = &settings.orchestrators;
    assert_eq!((orchestrators.grove.enabled, orchestrators.lws.enabled), (Some(false), Some(true)));
    assert_eq!((orchestrators.kai_scheduler.enabled, settings.dra.enabled), (None, Some(false)));
    assert_eq!((settings.service_mesh.enabled, settings.service_mesh.provider.as_str()), (None, "istio"));
    assert!(settings.checkpoint.enabled && !settings.gpu.discovery_enabled);
    assert!(!read("").0.checkpoint.enabled && read("").0.gpu.discovery_enabled);
    assert_eq!(read("").0.dns.cluster_domain, "cluster.local");
}

#[test]
fn the_webhook_server_has_the_places_of_the_reference() {
    let (settings, warnings) = read("server: {webhook: {serviceName: s, certProvisionMode: manual}}\n");
    assert!(warnings.is_empty(), "{warnings:?}");
    let webhook = &settings.server.webhook;
    assert_eq!((webhook.host.as_str(), webhook.port), ("0.0.0.0", 9443));
    assert_eq!((webhook.secret_name.as_str(), webhook.service_name.as_str()), ("webhook-server-cert", "s"));
    assert_eq!(webhook.cert_provision_mode, CertProvisionMode::Manual);
    assert_eq!(OperatorConfiguration::default().server.webhook.cert_provision_mode, CertProvisionMode::Auto);
}

#[test]
fn gateways_and_meshes_have_the_places_of_the_reference() {
    let (settings, warnings) = read(
        "ingress: {virtualServiceGateway: g, controllerClassName: c, controllerTLSSecretName: t, hostSuffix: h, onlyConfigured: true}
serviceMesh: {provider: istio, istio: {tlsMode: ISTIO_MUTUAL, insecureSkipVerify: false, caCertificates: /ca}}
rbac: {plannerClusterRoleName: p}
",
    );
    assert!(warnings.is_empty(), "{warnings:?}");
    let Ingress {
        virtual_service_gateway,
        controller_class_name,
        controller_tls_secret_name,
        host_suffix,
        only_configured,
    } = &settings.ingress;
    assert!(only_configured);
    let read_back = [virtual_service_gateway, controller_class_name, controller_tls_secret_name, host_suffix];
    assert_eq!(read_back, ["g", "c", "t", "h"]);
    let istio = settings.service_mesh.active_istio().unwrap();
    assert_eq!((istio.tls_mode.as_str(), istio.insecure_skip_verify), ("ISTIO_MUTUAL", false));
    assert_eq!(settings.rbac.planner_cluster_role_name, "p");
    assert_eq!(settings.rbac.epp_cluster_role_name, "dynamo-operator-epp");
    assert!(read("").0.service_mesh.active_istio().is_none());
    assert!(read("serviceMesh: {provider: istio, enabled: false}").0.service_mesh.active_istio().is_none());
    let defaults = read("serviceMesh: {provider: istio, istio: {tlsMode: \"\"}}").0.service_mesh.istio;
    assert_eq!((defaults.tls_mode, defaults.insecure_skip_verify), (TlsMode::Simple, true));
}

#[test]
fn unknown_keys_are_named_and_not_fatal() {
    let (settings, warnings) = read(
        "server: {metrics: {port: 8080, prot: 1}, webhook: {certDir: /x}}
infrastructure: {natsAdress: typo}
future: {a: {b: 1}}
checkpoint: {storage: {s3: {uri: x, credentialsSecretRef: y}}}
",
    );
    let mut expected = ["future", "infrastructure.natsAdress", "server.metrics.prot"]
        .map(|path| format!("unknown key {path}; it is ignored"));
    expected.sort();
    let mut unknown = warnings;
    unknown.sort();
    assert_eq!(unknown, expected);
    assert_eq!(settings, OperatorConfiguration::default());
}

#[test]
fn a_file_of_another_kind_is_refused_with_both_names() {
    let other = parse("apiVersion: v1\nkind: OperatorConfiguration\n").unwrap_err();
    let expected = "configuration has apiVersion \"v1\", but needs \"operator.config.dynamo.nvidia.com/v1alpha1\"";
    assert_eq!(other.to_string(), expected);
    let none = parse("apiVersion: operator.config.dynamo.nvidia.com/v1alpha1\n").unwrap_err();
    assert_eq!(none.to_string(), "configuration has kind \"\", but needs \"OperatorConfiguration\"");
}

#[test]
fn a_key_without_a_value_is_not_given() {
    let (settings, warnings) = parse(&format!("{HEAD}discovery:\n  backend:\ningress:\n")).unwrap();
    assert_eq!((settings, warnings.len()), (OperatorConfiguration::default(), 0));
}

#[test]
fn a_known_key_with_a_value_that_does_not_fit_is_refused_with_its_place() {
    let error = parse(&format!("{HEAD}discovery:\n  backend: zookeeper\n")).unwrap_err();
    assert!(matches!(error, SettingsError::Parse(_)));
    let message = error.to_string();
    assert!(message.contains("discovery.backend") && message.contains("zookeeper"), "{message}");
    assert!(matches!(parse("{"), Err(SettingsError::Parse(_))));
}
