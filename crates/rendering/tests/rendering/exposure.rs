//! The way in to frontends.

use api_types::v1beta1::DynamoComponentDeployment;
use expect_test::expect;
use rendering::{ExposureSettings, render_ingress, render_virtual_service, validate};
use serde_json::{Value, json};

use crate::fixture::{Surroundings, component, json_of, spec};

fn configured() -> Surroundings {
    let mut configured = Surroundings::default();
    configured.settings.exposure = ExposureSettings {
        gateway: Some("istio-system/gateway".into()),
        ingress_class: Some("nginx".into()),
        tls_secret: Some("cert".into()),
        host_suffix: Some("example.com".into()),
        only_configured: false,
    };
    configured
}

fn of_type(component_type: &str, kept: Option<Value>) -> DynamoComponentDeployment {
    let mut component = component(spec(component_type, json!({}), json!({})));
    let kept = kept.map(|ingress| json!({"version": 1, "spec": {"ingress": ingress}}).to_string());
    component.metadata.annotations = kept.map(|kept| [("nvidia.com/dcd-spec".to_owned(), kept)].into());
    component
}

fn ways_in(surroundings: &Surroundings, component: &DynamoComponentDeployment) -> (Value, Value) {
    let (input, valid) = (surroundings.input(), validate(component).unwrap());
    (json_of(&render_ingress(&input, &valid)), json_of(&render_virtual_service(&input, &valid)))
}

#[test]
fn a_frontend_gets_the_configured_exposure() {
    let (ingress, service) = ways_in(&configured(), &of_type("frontend", None));
    expect![[r#"
        {"ingressClassName":"nginx","rules":[{"host":"graph.example.com","http":{"paths":[{"backend":{"service":{"name":"graph-worker-0a1b2c3d","port":{"number":8000}}},"path":"/","pathType":"Prefix"}]}}],"tls":[{"hosts":["graph.example.com"],"secretName":"cert"}]}"#]]
    .assert_eq(&ingress["spec"].to_string());
    expect![[r#"
        {"gateways":["istio-system/gateway"],"hosts":["graph.example.com"],"http":[{"match":[{"uri":{"prefix":"/"}}],"route":[{"destination":{"host":"graph-worker-0a1b2c3d","port":{"number":8000}}}]}]}"#]]
    .assert_eq(&service["spec"].to_string());
    assert_eq!(
        ingress["metadata"]["labels"],
        json!({"operator.dynamo/component": "Worker", "operator.dynamo/graph": "graph"})
    );
    let none = (Value::Null, Value::Null);
    assert_eq!(ways_in(&configured(), &of_type("worker", None)), none);
    assert_eq!(ways_in(&Surroundings::default(), &of_type("frontend", None)), none);
}

/// The upstream operator reads labels and annotations of the block and drops them.
#[test]
fn what_a_component_of_v1alpha1_specifies_counts_alone() {
    let requested = json!({
        "enabled": true, "host": "chat", "hostPrefix": "my-", "ingressControllerClassName": "traefik",
        "labels": {"team": "a"}, "annotations": {"example.com/size": "8m"},
    });
    let (ingress, service) = ways_in(&configured(), &of_type("frontend", Some(requested)));
    assert_eq!(ingress["spec"]["rules"][0]["host"], "my-chat.local");
    assert_eq!(ingress["spec"]["ingressClassName"], "traefik");
    assert_eq!(ingress["spec"].get("tls"), None);
    assert_eq!(ingress["metadata"]["labels"]["team"], "a");
    assert_eq!(ingress["metadata"]["annotations"]["example.com/size"], "8m");
    assert_eq!(service, Value::Null, "it specifies no VirtualService");
    let (ingress, service) =
        ways_in(&configured(), &of_type("frontend", Some(json!({"enabled": false, "host": "chat"}))));
    assert_eq!((ingress, service), (Value::Null, Value::Null), "switched off");
    let istio = json!({"enabled": true, "host": "chat", "useVirtualService": true});
    let (ingress, service) = ways_in(&configured(), &of_type("frontend", Some(istio)));
    assert_eq!((ingress, &service["spec"]["gateways"]), (Value::Null, &json!(["istio-system/gateway"])));
}

/// A user could redirect the traffic of the whole mesh, or of hosts that are not configured.
#[test]
fn the_gateway_of_the_mesh_and_unconfigured_exposures_are_not_rendered() {
    let route = |gateway: &str, suffix: &str| {
        let requested = json!({
            "enabled": true, "host": "chat", "hostSuffix": suffix, "useVirtualService": true,
            "virtualServiceGateway": gateway, "ingressControllerClassName": "nginx",
        });
        of_type("frontend", Some(requested))
    };
    let mut strict = configured();
    strict.settings.exposure.only_configured = true;
    let mut of_mesh = configured();
    of_mesh.settings.exposure.gateway = Some("mesh".into());
    for (surroundings, gateway, suffix, has_ingress, has_route) in [
        (&configured(), "mesh", "example.com", true, false),
        (&of_mesh, "mesh", "example.com", true, true),
        (&configured(), "team/gateway", "team.org", true, true),
        (&strict, "team/gateway", "example.com", true, false),
        (&strict, "istio-system/gateway", "example.com", true, true),
        (&strict, "istio-system/gateway", "team.org", false, false),
    ] {
        let (ingress, service) = ways_in(surroundings, &route(gateway, suffix));
        assert_eq!((!ingress.is_null(), !service.is_null()), (has_ingress, has_route), "{gateway} {suffix}");
    }
}
