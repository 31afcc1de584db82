//! The ways in to a component: its Service, and what exposes a frontend.

use api_types::{
    external::VirtualService,
    labels,
    v1beta1::{ComponentType, DynamoComponentDeployment},
};
use controller_kit::settings::DiscoveryBackend;
use k8s_openapi::api::{core::v1::Service, networking::v1::Ingress};
use serde_json::{Value, json};

use crate::harness::{Harness, component};

const GATEWAY: &str = "istio-system/public";

fn frontend() -> Value {
    let mut frontend = component();
    frontend["metadata"]["labels"] = json!({ (labels::GRAPH): "chat" });
    frontend["spec"]["type"] = json!(ComponentType::Frontend);
    frontend
}

#[tokio::test]
async fn a_frontend_is_exposed_as_configured_and_no_longer() {
    let mut harness = Harness::without_controller("exposure").await;
    harness.settings().ingress.controller_class_name = "nginx".to_owned();
    harness.settings().ingress.virtual_service_gateway = GATEWAY.to_owned();
    harness.start();
    harness.apply::<DynamoComponentDeployment>(&frontend()).await;
    let open = |ingress: &Ingress| {
        let class = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref());
        class == Some("nginx")
    };
    let routed = |route: &VirtualService| route.spec.gateways == [GATEWAY];
    harness.until("open", open).await;
    harness.until("routed", routed).await;
    harness.edit::<Ingress>(&json!({ "spec": { "ingressClassName": "other" } })).await;
    harness.edit::<VirtualService>(&json!({ "spec": { "gateways": ["mesh"] } })).await;
    harness.until("brought back", open).await;
    harness.until("brought back", routed).await;
    harness.until_ready().await;

    harness.stop().await;
    harness.settings().ingress = Default::default();
    harness.start();
    harness.gone::<Ingress>().await;
    harness.gone::<VirtualService>().await;
}

#[tokio::test]
async fn a_worker_has_a_service_only_for_the_discovery_that_reads_it() {
    let mut harness = Harness::new("discovery").await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.until_ready().await;
    harness.until("there", |_: &Service| true).await;
    harness.stop().await;
    harness.settings().discovery.backend = DiscoveryBackend::Etcd;
    harness.start();
    harness.gone::<Service>().await;
}
