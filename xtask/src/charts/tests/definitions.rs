//! Jobs for the custom resource definitions: what helm runs before an install and after it.

use serde_json::{Value, json};

use super::{RESTRICTED, find, names, render};

fn hook(object: &Value) -> &str {
    object["metadata"]["annotations"]["helm.sh/hook"].as_str().unwrap_or_default()
}

fn args(job: &Value) -> Vec<&str> {
    let args = job["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    args.iter().map(|arg| arg.as_str().unwrap()).collect()
}

/// Before the install, nobody answers `/convert`: objects that an older version stored can be read only when the webhook server is
/// there.
#[test]
fn stored_objects_are_migrated_when_the_webhook_server_is_there() {
    let team = "dynamo-operator.controllerManager.serviceAccount.annotations.team=a";
    let objects = render(&["dynamo-operator.crds.timeoutSeconds=60", team]).unwrap();
    assert_eq!(names(&objects, "Job"), ["rel-dynamo-operator-crds", "rel-dynamo-operator-migrate-crds"]);
    for (name, events, migrates) in [
        ("rel-dynamo-operator-crds", "pre-install,pre-upgrade", false),
        ("rel-dynamo-operator-migrate-crds", "post-install,post-upgrade", true),
    ] {
        let job = find(&objects, "Job", name);
        let args = args(job);
        assert_eq!(args.contains(&"--skip-migration"), !migrates, "{name}: {args:?}");
        assert!(args.contains(&"--timeout=60"), "{name}: {args:?}");
        assert_eq!(job["spec"]["template"]["spec"]["serviceAccountName"], name);
        assert_eq!(find(&objects, "ServiceAccount", name)["metadata"]["annotations"]["team"], "a");
        for kind in ["Job", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"] {
            assert_eq!(hook(find(&objects, kind, name)), events, "{kind} {name}");
        }
    }
}

/// The pod of a Job that restarts its containers goes when the Job has failed, and what it said with it.
#[test]
fn what_a_failed_job_has_said_can_be_read() {
    let objects = render(&[]).unwrap();
    for name in names(&objects, "Job") {
        let job = find(&objects, "Job", name);
        assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never", "{name}");
        let policy = job["metadata"]["annotations"]["helm.sh/hook-delete-policy"].as_str().unwrap();
        assert!(!policy.contains("hook-failed"), "{name}: {policy}");
    }
}

/// What runs before the install has no right to objects.
#[test]
fn each_job_has_the_rights_of_its_step() {
    let objects = render(&[]).unwrap();
    let groups = |name: &str| {
        let rules = find(&objects, "ClusterRole", name)["rules"].as_array().unwrap().clone();
        rules.into_iter().map(|rule| rule["apiGroups"][0].clone()).collect::<Vec<_>>()
    };
    let definitions = json!("apiextensions.k8s.io");
    assert!(groups("rel-dynamo-operator-crds").iter().all(|group| *group == definitions));
    let all = groups("rel-dynamo-operator-migrate-crds");
    assert!(all.contains(&definitions) && all.contains(&json!("nvidia.com")), "{all:?}");
}

#[test]
fn who_owns_the_definitions_gets_neither_job() {
    for values in [&["dynamo-operator.upgradeCRD=false"][..], &RESTRICTED] {
        assert!(names(&render(values).unwrap(), "Job").is_empty(), "{values:?}");
    }
}

/// The chart of the definitions alone holds what `deploy/crds` holds; they stay when the release goes, and so do the objects.
#[test]
fn the_chart_of_the_definitions_has_all_of_them() {
    let values = ["webhookService.namespace=team", "webhookService.name=converter"];
    let rendered =
        crate::charts::render_chart(&crate::charts::definitions(), "dynamo-crds", "default", &values).unwrap();
    let mut files = 0;
    for file in std::fs::read_dir(crate::operators::workspace_root().join("deploy/crds")).unwrap() {
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
    assert_eq!(rendered.len(), files);
}
