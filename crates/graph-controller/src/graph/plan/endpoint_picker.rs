//! Objects that a gateway's endpoint picker needs: its configuration, the pool from which it chooses, and a path
//! through the mesh.

use std::collections::BTreeMap;

use api_types::{
    external::{
        ClientTls, DestinationRule, DestinationRuleSpec, EndpointPickerRef, InferencePool, InferencePoolSpec, PoolPort,
        TrafficPolicy,
    },
    labels, names, ports,
    v1beta1::{ComponentSpec, ComponentType, EndpointPickerConfig},
};
use controller_kit::settings::{Istio, TlsMode};
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use serde_json::json;

use super::{add_graph_label, metadata};
use crate::graph::{merge::complete_picker_config, model::ValidGraph};

/// The ConfigMap with the configuration; none if the user keeps one.
pub fn config_map(graph: &ValidGraph<'_>) -> Option<ConfigMap> {
    let picker = graph.endpoint_picker()?;
    let mut config = picker.epp_config.as_ref()?.config.clone()?;
    complete_picker_config(&mut config);
    Some(ConfigMap {
        metadata: metadata_of(graph, picker, names::epp_config_map(&graph.name)),
        data: Some(BTreeMap::from([(names::EPP_CONFIG_FILE.to_owned(), yaml(&config))])),
        ..ConfigMap::default()
    })
}

/// The configuration as a file. A plugin without parameters says so.
fn yaml(config: &EndpointPickerConfig) -> String {
    let mut value = json!(config);
    for plugin in value["plugins"].as_array_mut().into_iter().flatten() {
        if plugin.get("parameters").is_none() {
            plugin["parameters"] = json!(null);
        }
    }
    let options = serde_saphyr::ser_options! { compact_list_indent: true, prefer_block_scalars: false };
    // JSON is YAML, too: whatever the writer cannot lay out nicely is still the same configuration.
    serde_saphyr::to_string_with_options(&value, options).unwrap_or_else(|_| value.to_string())
}

/// The pool of the graph's workers.
pub fn pool(graph: &ValidGraph<'_>) -> Option<InferencePool> {
    let picker = graph.endpoint_picker()?;
    let dynamo_namespace = names::dynamo_namespace(&graph.namespace, &graph.name, picker.global_dynamo_namespace);
    let workers = BTreeMap::from([
        (labels::COMPONENT_CLASS.to_owned(), ComponentType::Worker.to_string()),
        (labels::DYNAMO_NAMESPACE.to_owned(), dynamo_namespace),
    ]);
    Some(InferencePool {
        metadata: metadata_of(graph, picker, names::inference_pool(&graph.name)),
        spec: InferencePoolSpec {
            // Traffic goes to the frontends that sit beside the workers.
            target_ports: vec![PoolPort { number: ports::HTTP }],
            selector: LabelSelector { match_labels: Some(workers), match_expressions: None },
            endpoint_picker_ref: EndpointPickerRef {
                kind: "Service".to_owned(),
                name: service(graph, picker),
                port: PoolPort { number: ports::GRPC },
            },
        },
    })
}

/// Renders the rule for connections of Istio's proxies to the picker, which serves TLS with a certificate of its own.
pub fn destination_rule(graph: &ValidGraph<'_>) -> Option<DestinationRule> {
    let picker = graph.endpoint_picker()?;
    let istio = graph.settings.istio.as_ref()?;
    let name = service(graph, picker);
    let host = format!("{name}.{}.svc.{}", graph.namespace, graph.settings.dns.cluster_domain);
    let mut rule = DestinationRule {
        metadata: metadata_of(graph, picker, name),
        spec: DestinationRuleSpec { host, traffic_policy: TrafficPolicy { tls: client_tls(istio) } },
    };
    add_graph_label(&mut rule, graph);
    Some(rule)
}

fn client_tls(istio: &Istio) -> ClientTls {
    // Istio refuses files in every other mode.
    let file = |path: &String| Some(path.clone()).filter(|path| istio.tls_mode == TlsMode::Mutual && !path.is_empty());
    ClientTls {
        mode: istio.tls_mode.as_str().to_owned(),
        insecure_skip_verify: istio.insecure_skip_verify,
        client_certificate: file(&istio.client_certificate),
        private_key: file(&istio.private_key),
        ca_certificates: file(&istio.ca_certificates),
    }
}

fn service(graph: &ValidGraph<'_>, picker: &ComponentSpec) -> String {
    names::service(&names::component_deployment(&graph.name, &picker.name, None))
}

fn metadata_of(graph: &ValidGraph<'_>, picker: &ComponentSpec, name: String) -> ObjectMeta {
    let labels = [
        (labels::GRAPH, graph.name.clone()),
        (labels::COMPONENT, picker.name.clone()),
        (labels::COMPONENT_TYPE, ComponentType::Epp.to_string()),
    ];
    metadata(&graph.namespace, name, labels)
}

#[cfg(test)]
mod tests {
    use api_types::v1beta1::DynamoGraphDeployment;
    use controller_kit::{
        settings::{API_VERSION, KIND, parse},
        store::Scope,
    };
    use expect_test::expect;

    use super::*;
    use crate::graph::{
        fixtures::{graph_with, settings, valid_with},
        settings::GraphSettings,
    };

    fn with_picker(config: serde_json::Value) -> DynamoGraphDeployment {
        graph_with(|g| {
            g["spec"]["components"][0]["type"] = json!("epp");
            g["spec"]["components"][0]["eppConfig"] = config;
        })
    }

    fn inline() -> DynamoGraphDeployment {
        with_picker(json!({ "config": {
            "plugins": [
                { "type": "profile-handler" },
                { "name": "filter", "type": "label-filter", "parameters": { "label": "role", "values": ["decode", "yes"] } },
            ],
            "schedulingProfiles": [{ "name": "decode", "plugins": [{ "pluginRef": "filter", "weight": 1 }] }],
        } }))
    }

    #[test]
    fn the_file_says_everything_that_may_be_left_out() {
        let graph = inline();
        let map = config_map(&valid_with(&graph, settings())).unwrap();
        expect![[r#"
            apiVersion: inference.networking.x-k8s.io/v1alpha1
            kind: EndpointPickerConfig
            plugins:
            - name: ""
              parameters: null
              type: profile-handler
            - name: filter
              parameters:
                label: role
                values:
                - decode
                - "yes"
              type: label-filter
            schedulingProfiles:
            - name: decode
              plugins:
              - pluginRef: filter
                weight: 1
        "#]]
        .assert_eq(&map.data.unwrap()["epp-config-dynamo.yaml"]);
    }

    #[test]
    fn a_config_map_of_the_author_is_left_to_the_author() {
        let graph = with_picker(json!({ "configMapRef": { "name": "mine", "key": "k" } }));
        let valid = valid_with(&graph, settings());
        assert!(config_map(&valid).is_none());
        assert!(pool(&valid).is_some());
    }

    #[test]
    fn the_pool_selects_workers_of_every_revision() {
        let graph = inline();
        let pool = pool(&valid_with(&graph, settings())).unwrap();
        expect![[r#"
            {"endpointPickerRef":{"kind":"Service","name":"chat-frontend","port":{"number":9002}},"selector":{"matchLabels":{"nvidia.com/dynamo-component-class":"worker","nvidia.com/dynamo-namespace":"team-a-chat"}},"targetPorts":[{"number":8000}]}"#]]
        .assert_eq(&json!(pool.spec).to_string());
    }

    #[test]
    fn a_mesh_gets_files_only_in_the_mode_that_has_them() {
        let graph = inline();
        let tls = |mode: &str| {
            let text = format!(
                "apiVersion: {API_VERSION}\nkind: {KIND}\nserviceMesh: {{provider: istio, istio: {{tlsMode: {mode}, \
                 clientCertificate: /cert, privateKey: /key}}}}\ndns: {{clusterDomain: k8s.example}}"
            );
            let settings = GraphSettings::of(&parse(&text).unwrap().0, &Scope::Cluster);
            let rule = destination_rule(&valid_with(&graph, &settings)).unwrap();
            assert_eq!(rule.spec.host, "chat-frontend.team-a.svc.k8s.example");
            json!(rule.spec.traffic_policy.tls)
        };
        let mutual =
            json!({ "mode": "MUTUAL", "insecureSkipVerify": true, "clientCertificate": "/cert", "privateKey": "/key" });
        assert_eq!(tls("MUTUAL"), mutual);
        assert_eq!(tls("SIMPLE"), json!({ "mode": "SIMPLE", "insecureSkipVerify": true }));
        assert!(destination_rule(&valid_with(&graph, settings())).is_none(), "no mesh, no rule");
    }
}
