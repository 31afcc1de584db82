//! Exposures of frontends: within the configuration, or within the rights of the user.

use api_types::conversion::{ApiVersion, convert};
use rendering::{ExposureObject, ExposureSettings};
use serde_json::{Value, json};
use webhook_server::admission::{AdmissionPath, Facts, Lookup, Request, lookups, review_for_another_install};

use crate::support::*;

const INGRESS: &str = "Forbidden spec.services[Frontend].ingress";

fn configured() -> Facts {
    let exposure = ExposureSettings {
        gateway: Some("istio-system/gateway".to_owned()),
        ingress_class: Some("nginx".to_owned()),
        host_suffix: Some("example.com".to_owned()),
        ..ExposureSettings::default()
    };
    Facts { exposure: Some(exposure), ..facts() }
}

fn unconfigured() -> Facts {
    Facts { exposure: Some(ExposureSettings::default()), ..facts() }
}

fn exposed(ingress: Value) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": {
            "name": "llama", "namespace": "team", "annotations": { "nvidia.com/workload-provider": "component" },
        },
        "spec": { "services": { "Frontend": {
            "componentType": "frontend", "ingress": ingress,
            "extraPodSpec": { "mainContainer": { "image": "vllm:1.5.0" } },
        } } },
    })
}

fn route(gateway: &str, host: &str, suffix: &str) -> Value {
    json!({
        "enabled": true, "useVirtualService": true, "host": host, "hostSuffix": suffix,
        "virtualServiceGateway": gateway,
    })
}

fn with_class(class: &str, suffix: &str) -> Value {
    json!({ "enabled": true, "host": "chat", "hostSuffix": suffix, "ingressControllerClassName": class })
}

/// The facts after the API server has answered on the rights of the user.
fn answered(facts: &Facts, request: &Request, allowed: bool) -> Facts {
    let review = json!({ "status": { "allowed": allowed } });
    let found = lookups(AdmissionPath::ValidateGraph, request, facts);
    let found = found.into_iter().map(|lookup| (lookup, Ok(Some(review.clone())))).collect();
    Facts { found, ..facts.clone() }
}

fn admission(facts: &Facts, request: &Request, allowed: bool) -> Vec<String> {
    violations(&validate(request, &answered(facts, request, allowed)))
}

#[test]
fn exposures_depart_from_the_configuration_only_within_the_rights_of_the_user() {
    let annotated = |mut ingress: Value| {
        ingress["annotations"] = json!({ "nginx.ingress.kubernetes.io/configuration-snippet": "x" });
        ingress
    };
    for (facts, ingress, is_configured) in [
        (configured(), route("", "chat", "example.com"), true),
        (configured(), route("istio-system/gateway", "chat", "team.example.com"), true),
        (configured(), route("istio-system/public", "chat", "example.com"), false),
        (configured(), route("", "api.victim.svc", "cluster.local"), false),
        (configured(), route("", "chat", "badexample.com"), false),
        (configured(), route("", "*", "example.com"), false),
        (configured(), annotated(route("", "chat", "example.com")), false),
        (configured(), with_class("nginx", "example.com"), true),
        (configured(), with_class("other", "example.com"), false),
        (configured(), with_class("nginx", "victim.org"), false),
        (configured(), annotated(with_class("nginx", "example.com")), false),
        (configured(), json!({ "enabled": false, "host": "chat", "virtualServiceGateway": "mesh" }), true),
        (unconfigured(), route("team/gateway", "chat", "local"), false),
        (unconfigured(), with_class("nginx", "local"), false),
        // Without gateway there is no VirtualService.
        (unconfigured(), route("", "chat", "victim.org"), true),
    ] {
        let request = converted(&exposed(ingress.clone()));
        let refused = if is_configured { vec![] } else { vec![INGRESS.to_owned()] };
        assert_eq!(admission(&facts, &request, false), refused, "{ingress}");
        assert_eq!(admission(&facts, &request, true), [""; 0], "{ingress}");
        assert_eq!(lookups(AdmissionPath::ValidateGraph, &request, &facts).is_empty(), is_configured, "{ingress}");
        let only = |only_configured| ExposureSettings { only_configured, ..facts.exposure.clone().unwrap() };
        let strict = Facts { exposure: Some(only(true)), ..facts.clone() };
        assert_eq!(admission(&strict, &request, true), refused, "{ingress}");
    }
}

#[test]
fn a_frontend_at_the_gateway_of_the_mesh_is_refused() {
    let request = converted(&exposed(route("mesh", "api.victim.svc", "cluster.local")));
    for facts in [configured(), unconfigured(), facts()] {
        assert_eq!(admission(&facts, &request, true), [INGRESS]);
    }
    let marked = review_for_another_install(AdmissionPath::ValidateGraph, &request, &configured());
    assert_eq!(violations(&marked), [INGRESS]);
    let foreign = converted(&exposed(route("team/gateway", "chat", "team.org")));
    let marked = review_for_another_install(AdmissionPath::ValidateGraph, &foreign, &configured());
    assert_eq!(violations(&marked), [""; 0], "the other install has a configuration of its own");
}

#[test]
fn a_stored_exposure_stays_until_it_changes() {
    let old = exposed(route("", "chat", "old.org"));
    let scaled = edited(&old, |g| g["spec"]["services"]["Frontend"]["replicas"] = json!(3));
    assert_eq!(admission(&configured(), &converted_change(&old, &scaled), false), [""; 0]);
    let moved = exposed(route("", "api", "old.org"));
    assert_eq!(admission(&configured(), &converted_change(&old, &moved), false), [INGRESS]);
    let worker = edited(&old, |g| g["spec"]["services"]["Frontend"]["componentType"] = json!("worker"));
    assert_eq!(admission(&configured(), &converted_change(&worker, &old), false), [INGRESS]);
}

/// No schema checks what the annotations of v1beta1 save of v1alpha1, and the controllers read it.
#[test]
fn a_saved_exposure_in_v1beta1_is_checked() {
    let hub = convert(exposed(route("", "api.victim.svc", "cluster.local")), ApiVersion::V1Beta1).unwrap();
    let bare = edited(&hub, |g| {
        let ingress = route("", "api.victim.svc", "cluster.local");
        let spec = json!({ "spec": { "services": { "Frontend": { "ingress": ingress } } } });
        g["metadata"]["annotations"]["nvidia.com/dgd-spec"] = json!(spec.to_string());
    });
    for object in [hub, bare] {
        let found = admission(&configured(), &creation(object), false);
        assert_eq!(found, ["Forbidden metadata.annotations[nvidia.com/dgd-spec]"]);
    }
}

/// The operator may write every VirtualService, and writes what users and profilers propose.
#[test]
fn the_rights_of_the_operator_expose_nothing() {
    let operator = user_named(OPERATOR);
    let graph = converted(&exposed(route("team/gateway", "chat", "team.org")));
    let graph = Request { user_info: operator.clone(), ..graph };
    assert!(lookups(AdmissionPath::ValidateGraph, &graph, &configured()).is_empty());
    assert_eq!(admission(&configured(), &graph, true), [INGRESS]);
    let component = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponentDeployment",
        "metadata": { "name": "llama-frontend", "namespace": "team" },
        "spec": {
            "componentType": "frontend", "ingress": route("team/gateway", "chat", "team.org"),
            "extraPodSpec": { "mainContainer": { "image": "vllm:1.5.0" } },
        },
    });
    let of_user = converted(&component);
    let right = Lookup::CreateRight { namespace: "team".to_owned(), object: ExposureObject::VirtualService };
    assert_eq!(lookups(AdmissionPath::ValidateComponent, &of_user, &configured()), [right]);
    assert_eq!(violations(&validate(&of_user, &configured())), ["Forbidden spec.ingress"]);
    let of_operator = Request { user_info: operator, ..of_user };
    assert_eq!(violations(&validate(&of_operator, &configured())), [""; 0], "a copy of what the graph holds");
}
