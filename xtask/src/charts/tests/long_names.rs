//! Releases with long names.

use repository::chart::render;
use serde_json::{Value, json};

use super::{find, names};

/// The longest name that Helm takes.
const LONGEST: &str = "team-inference-platform-production-europe-west-number";
/// Release name that Flux derives for a release in another namespace than its description.
const OF_FLUX: &str = "dynamo-system-dynamo-platform";

/// The name of a Service is a label of DNS.
const LABEL: usize = 63;

#[test]
fn the_longest_name_of_a_release_is_a_good_one() {
    assert_eq!(LONGEST.len(), 53);
    let full = format!("dynamo-operator.fullnameOverride={}", "x".repeat(LABEL));
    for (release, values) in [(LONGEST, &[][..]), (OF_FLUX, &[]), ("rel", &[full.as_str()])] {
        let objects = render(release, "dyn", values).unwrap();
        let there = names(&objects, "Service");
        let long: Vec<_> = there.iter().filter(|name| name.len() > LABEL).collect();
        assert!(!there.is_empty() && long.is_empty(), "{release}: {long:?}");
        let services = names(&objects, "Service").into_iter().filter(|name| name.ends_with("-metrics"));
        assert_eq!(services.count(), 4, "{release}: one for each program");
    }
}

/// A name that fits is not cut.
#[test]
fn a_service_is_called_by_its_release_and_what_it_is() {
    let objects = render("rel", "dyn", &[]).unwrap();
    find(&objects, "Service", "rel-dynamo-operator-component-controller-metrics");
    let objects = render(OF_FLUX, "dyn", &[]).unwrap();
    find(&objects, "Service", &format!("{OF_FLUX}-dynamo-operator-webhook-service"));
}

#[test]
fn the_service_of_the_webhook_server_has_one_name_everywhere() {
    let objects = render(LONGEST, "dyn", &["dynamo-operator.webhook.certManager.enabled=true"]).unwrap();
    let names = names(&objects, "Service");
    let service = *names.iter().find(|name| name.ends_with("-webhook-service")).unwrap();
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let config = of_kind("ConfigMap").find_map(|object| object["data"]["config.yaml"].as_str()).unwrap();
    let (given, _) = controller_kit::settings::parse(config).unwrap();
    assert_eq!(given.server.webhook.service_name, service);
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        for webhook in of_kind(kind).flat_map(|object| object["webhooks"].as_array().unwrap()) {
            assert_eq!(webhook["clientConfig"]["service"]["name"], service, "{kind}");
        }
    }
    for crds in of_kind("Deployment").filter(|object| object["metadata"]["name"].as_str().unwrap().ends_with("-crds")) {
        let args = &crds["spec"]["template"]["spec"]["containers"][0]["args"];
        assert!(args.as_array().unwrap().contains(&json!(format!("--webhook-service=dyn/{service}"))), "{args}");
    }
    let hosts: Vec<&Value> = of_kind("Certificate").filter_map(|object| object["spec"].get("dnsNames")).collect();
    let expected = [service.to_owned(), format!("{service}.dyn.svc"), format!("{service}.dyn.svc.cluster.local")];
    assert_eq!(hosts, [&json!(expected)]);
}
