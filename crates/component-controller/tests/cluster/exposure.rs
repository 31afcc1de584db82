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
    let mut bed = Harness::without_controller("exposure").await;
    bed.settings().ingress.controller_class_name = "nginx".to_owned();
    bed.settings().ingress.virtual_service_gateway = GATEWAY.to_owned();
    bed.start();
    bed.apply::<DynamoComponentDeployment>(&frontend()).await;
    let open = |ingress: &Ingress| {
        let class = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref());
        class == Some("nginx")
    };
    let routed = |route: &VirtualService| route.spec.gateways == [GATEWAY];
    bed.until("open", open).await;
    bed.until("routed", routed).await;
    bed.edit::<Ingress>(&json!({ "spec": { "ingressClassName": "other" } })).await;
    bed.edit::<VirtualService>(&json!({ "spec": { "gateways": ["mesh"] } })).await;
    bed.until("brought back", open).await;
    bed.until("brought back", routed).await;
    bed.until_ready().await;

    bed.stop().await;
    bed.settings().ingress = Default::default();
    bed.start();
    bed.gone::<Ingress>().await;
    bed.gone::<VirtualService>().await;
}

#[tokio::test]
async fn a_worker_has_a_service_only_for_the_discovery_that_reads_it() {
    let mut bed = Harness::new("discovery").await;
    bed.apply::<DynamoComponentDeployment>(&component()).await;
    bed.until_ready().await;
    bed.until("there", |_: &Service| true).await;
    bed.stop().await;
    bed.settings().discovery.backend = DiscoveryBackend::Etcd;
    bed.start();
    bed.gone::<Service>().await;
}
