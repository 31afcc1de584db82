//! The program that writes the custom resource definitions.

use serde_json::{Value, json};

use super::{WITH_WEBHOOKS, find, names, render};

const NAME: &str = "rel-dynamo-operator-crds";
const CA: &str = "rel-dynamo-operator-webhook-ca";

fn container(objects: &[Value], name: &str) -> Value {
    find(objects, "Deployment", name)["spec"]["template"]["spec"]["containers"][0].clone()
}

fn has_arg(container: &Value, expected: &str) -> bool {
    container["args"].as_array().unwrap().iter().any(|arg| arg == expected)
}

#[test]
fn one_deployment_applies_definitions_and_migrates_objects() {
    let team = "dynamo-operator.controllerManager.serviceAccount.annotations.team=a";
    let objects = render(&["dynamo-operator.crds.timeoutSeconds=60", team]).unwrap();
    assert!(names(&objects, "Job").is_empty());
    let deployment = find(&objects, "Deployment", NAME);
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["strategy"], json!({ "type": "Recreate" }));
    assert_eq!(deployment["spec"]["template"]["spec"]["serviceAccountName"], NAME);
    assert_eq!(find(&objects, "ServiceAccount", NAME)["metadata"]["annotations"]["team"], "a");
    let container = container(&objects, NAME);
    assert_eq!(container["ports"], json!([{ "name": "health", "containerPort": 8081, "protocol": "TCP" }]));
    assert_eq!(container["readinessProbe"]["httpGet"], json!({ "path": "/readyz", "port": "health" }));
    assert!(!has_arg(&container, "--bundle-only"), "{container}");
    assert!(container["args"][0] == "serve" && has_arg(&container, "--timeout=60"), "{container}");
    let hooks = objects.iter().filter(|object| object["metadata"]["annotations"].get("helm.sh/hook").is_some());
    assert_eq!(hooks.count(), 0);
}

/// The webhook server publishes what the other program reads.
#[test]
fn both_programs_have_one_name_for_the_config_map_with_the_bundle() {
    let objects = render(&[]).unwrap();
    assert!(has_arg(&container(&objects, NAME), &format!("--ca-config-map=dyn/{CA}")));
    assert!(has_arg(&container(&objects, "rel-dynamo-operator-webhook-server"), &format!("--ca-config-map={CA}")));
    for (role, verbs) in
        [(NAME, json!(["list", "watch"])), ("rel-dynamo-operator-webhook-server-own", json!(["create", "patch"]))]
    {
        let rules = find(&objects, "Role", role)["rules"].as_array().unwrap();
        let rule = rules.iter().find(|rule| rule["resources"] == json!(["configmaps"])).unwrap();
        assert_eq!((&rule["resourceNames"], &rule["verbs"]), (&json!([CA]), &verbs), "{role}");
    }
}

/// If Git owns the definitions, the CA bundle is set only in existing definitions.
#[test]
fn definitions_of_another_owner_are_not_created_and_their_objects_not_written() {
    let objects = render(&["dynamo-operator.upgradeCRD=false"]).unwrap();
    assert!(has_arg(&container(&objects, NAME), "--bundle-only"));
    let rules = find(&objects, "ClusterRole", NAME)["rules"].as_array().unwrap();
    for rule in rules {
        assert_eq!(rule["resources"], json!(["customresourcedefinitions"]));
        let verbs = rule["verbs"].as_array().unwrap();
        assert!(!verbs.contains(&json!("create")), "{rule}");
        assert!(!verbs.contains(&json!("patch")) || rule.get("resourceNames").is_some(), "{rule}");
    }
}

#[test]
fn an_install_for_one_namespace_has_no_right_to_definitions() {
    let objects = render(&WITH_WEBHOOKS).unwrap();
    assert!(!names(&objects, "Deployment").contains(&NAME));
    let own = find(&objects, "Role", "rel-dynamo-operator-webhook-server-own")["rules"].to_string();
    assert!(!own.contains("configmaps"), "{own}");
}

/// The chart of the definitions alone holds what `deploy/crds` holds; they stay when the release goes, and so do the
/// objects.
#[test]
fn the_chart_of_the_definitions_has_all_of_them() {
    let values = ["webhookService.namespace=team", "webhookService.name=converter"];
    let rendered =
        repository::chart::render_chart(&repository::chart::definitions(), "dynamo-crds", "default", &values).unwrap();
    let mut files = 0;
    for file in std::fs::read_dir(repository::root().join("deploy/crds")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let mut expected: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(expected["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
        if let Some(service) = expected.pointer_mut("/spec/conversion/webhook/clientConfig/service") {
            service["namespace"] = json!("team");
            service["name"] = json!("converter");
        }
        let name = expected["metadata"]["name"].as_str().unwrap();
        assert_eq!(*find(&rendered, "CustomResourceDefinition", name), expected, "{name}");
        files += 1;
    }
    let installer = find(&rendered, "ClusterRole", "dynamo-namespace-installer");
    let of_release = render(&[]).unwrap();
    let of_release = find(&of_release, "ClusterRole", "rel-dynamo-operator-namespace-installer");
    assert_eq!(installer["rules"], of_release["rules"]);
    assert_eq!(rendered.len(), files + 1);
}
