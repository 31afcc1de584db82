//! Several releases in one namespace, each for a namespace of its own.

use std::collections::BTreeSet;

use repository::chart::render;
use serde_json::Value;

use super::{WITH_WEBHOOKS, find};

/// Returns the identity of an object. Helm refuses to install an object that another release has.
fn identity(object: &Value, release: &str) -> String {
    let part = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or(release);
    format!("{} {} {namespace}/{}", part("/apiVersion"), part("/kind"), part("/metadata/name"))
}

fn install(release: &str, target: &str, more: &[&str]) -> Vec<Value> {
    let target = format!("dynamo-operator.namespaceRestriction.targetNamespace={target}");
    let values =
        [&WITH_WEBHOOKS[..], &[&target, "dynamo-operator.dynamo.metrics.podMonitors.enabled=true"], more].concat();
    render(release, "dyn", &values).unwrap()
}

#[test]
fn releases_in_one_namespace_have_no_object_in_common() {
    let identities = |objects: &[Value]| objects.iter().map(|one| identity(one, "dyn")).collect::<BTreeSet<_>>();
    for more in [&[][..], &["dynamo-operator.webhook.certManager.enabled=true"]] {
        let one = identities(&install("one", "team-a", more));
        for other in [
            identities(&install("two", "team-b", more)),
            identities(&render("all", "dyn", &["dynamo-operator.dynamo.metrics.podMonitors.enabled=true"]).unwrap()),
        ] {
            assert_eq!(one.intersection(&other).collect::<Vec<_>>(), Vec::<&String>::new(), "{more:?}");
        }
    }
}

/// Objects of the cluster are named after the namespace too, where one release name is used in several.
#[test]
fn releases_of_one_name_in_two_namespaces_share_no_object_of_the_cluster() {
    let values = [&WITH_WEBHOOKS[..], &["dynamo-operator.admissionPolicies.enabled=true"]].concat();
    let identities = |namespace: &str| {
        let objects = render("rel", namespace, &values).unwrap();
        objects.iter().map(|one| identity(one, namespace)).collect::<BTreeSet<_>>()
    };
    let (one, other) = (identities("team-a"), identities("team-b"));
    assert_eq!(one.intersection(&other).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// The webhook server makes the Secret itself, so that it is in no manifest.
#[test]
fn each_has_a_certificate_of_its_own() {
    let secret = |release: &str, objects: &[Value]| {
        let config = &find(objects, "ConfigMap", &format!("{release}-dynamo-operator-config"))["data"]["config.yaml"];
        controller_kit::settings::parse(config.as_str().unwrap()).unwrap().0.server.webhook.secret_name
    };
    assert_eq!(secret("one", &install("one", "team-a", &[])), "one-dynamo-operator-webhook-server-cert");
    assert_eq!(secret("one", &install("one", "dyn", &[])), "webhook-server-cert", "the name that the Go operator uses");
    assert_eq!(secret("rel", &render("rel", "dyn", &[]).unwrap()), "webhook-server-cert");
    let external = ["dynamo-operator.webhook.certificateSecret.external=true", "dynamo-operator.webhook.caBundle=YQ=="];
    assert_eq!(secret("one", &install("one", "team-a", &external)), "webhook-server-cert", "another install's");
    let named = ["dynamo-operator.webhook.certificateSecret.name=mine"];
    assert_eq!(secret("one", &install("one", "team-a", &named)), "mine");
}
