//! Charts of programs, each installed by itself.

use std::{path::PathBuf, process::Command};

use repository::chart::{definitions, platform, programs, render_chart};
use serde_json::{Value, json};
use test_cluster::assets::{Assets, Tool};

use super::{containers, find, names, render};

const PROGRAMS: [&str; 6] =
    ["graph-controller", "component-controller", "model-controller", "webhook-server", "lease-scope", "crds"];

fn chart(program: &str) -> PathBuf {
    programs().join(program)
}

fn alone(program: &str, values: &[&str]) -> Vec<Value> {
    render_chart(&chart(program), "rel", "dyn", values).unwrap()
}

#[test]
fn each_chart_lints_alone() {
    let helm = Assets::from_env().unwrap().find(Tool::Helm).unwrap();
    for program in PROGRAMS {
        let output = Command::new(&helm).args(["lint", "--strict"]).arg(chart(program)).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn a_chart_renders_what_its_program_needs() {
    for program in PROGRAMS {
        let objects = alone(program, &[]);
        let name = format!("rel-dynamo-operator-{program}");
        assert_eq!(names(&objects, "Deployment"), [name.as_str()]);
        let pod = &find(&objects, "Deployment", &name)["spec"]["template"]["spec"];
        let account = pod["serviceAccountName"].as_str().unwrap();
        find(&objects, "ServiceAccount", account);
        for volume in pod["volumes"].as_array().into_iter().flatten() {
            find(&objects, "ConfigMap", volume["configMap"]["name"].as_str().unwrap());
        }
        let kind = if program == "lease-scope" { "Role" } else { "ClusterRole" };
        assert!(!find(&objects, kind, &name)["rules"].as_array().unwrap().is_empty(), "{program}");
        assert_eq!(find(&objects, &format!("{kind}Binding"), &name)["subjects"][0]["name"], account);
    }
    let bound = alone("graph-controller", &[]);
    for role in ["planner", "epp", "dgdr-profiling"] {
        find(&bound, "ClusterRole", &format!("rel-dynamo-operator-{role}"));
    }
    find(&alone("webhook-server", &[]), "ValidatingWebhookConfiguration", "rel-dynamo-operator-validating");
}

/// Found defect: only the umbrella chart had a role to bind, by which Prometheus reads the metrics of a program.
#[test]
fn a_chart_brings_the_role_that_reads_the_metrics_of_its_program() {
    for program in PROGRAMS {
        let readers = |values: &[&str]| {
            let objects = alone(program, values);
            let roles = objects.into_iter().filter(|object| object["kind"] == "ClusterRole");
            let reads = |role: &Value| role["metadata"]["name"].as_str().unwrap().ends_with("-metrics-reader");
            roles.filter(reads).collect::<Vec<_>>()
        };
        let expected = !["crds", "lease-scope"].contains(&program);
        let found = readers(&[]);
        assert_eq!(found.len(), usize::from(expected), "{program}: {found:?}");
        for role in found {
            assert_eq!(role["metadata"]["name"], format!("rel-dynamo-operator-{program}-metrics-reader"));
            assert_eq!(role["rules"], json!([{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }]));
        }
        if program != "crds" {
            assert!(readers(&["metricsService.secure=false"]).is_empty(), "{program} needs no token");
        }
    }
}

/// A program has the same container alone as with the others, but for the ConfigMap of its own.
#[test]
fn a_program_runs_alone_as_with_the_others() {
    let values =
        ["controllerManager.manager.image.repository=r.example/x", "controllerManager.replicas=2", "env[0].name=A"];
    let all = values.map(|value| format!("dynamo-operator.{value}"));
    let all = render(&all.each_ref().map(String::as_str)).unwrap();
    for program in PROGRAMS.iter().filter(|program| **program != "lease-scope") {
        let name = format!("rel-dynamo-operator-{program}");
        let (alone, all) = (alone(program, &values), find(&all, "Deployment", &name));
        let alone = find(&alone, "Deployment", &name);
        assert_eq!(alone["spec"]["replicas"], all["spec"]["replicas"], "{program}");
        let container = "/spec/template/spec/containers/0";
        assert_eq!(alone.pointer(container), all.pointer(container), "{program}");
    }
}

#[test]
fn releases_of_one_program_each_share_names_and_no_object() {
    let mut seen = Vec::new();
    for program in PROGRAMS.into_iter().filter(|program| *program != "crds") {
        let values = ["fullnameOverride=ours", "namespaceRestriction.enabled=true"];
        for object in render_chart(&chart(program), program, "dyn", &values).unwrap() {
            let key = (object["kind"].clone(), object["metadata"]["name"].clone());
            assert!(!seen.contains(&key), "{program}: {key:?} is an object of another release");
            if object["kind"] == "ConfigMap" {
                assert!(object["data"]["config.yaml"].as_str().unwrap().contains("owner: \"dyn/ours\""), "{program}");
            }
            seen.push(key);
        }
    }
}

#[test]
fn a_common_value_under_the_name_of_a_program_is_refused() {
    for (value, remedy) in [
        ("graph-controller.hardened=true", "set dynamo-operator.hardened"),
        ("graph-controller.gpuDiscovery.enabled=true", "set dynamo-operator.gpuDiscovery"),
        ("crds.upgradeCRD=false", "set dynamo-operator.upgradeCRD"),
        ("lease-scope.networkPolicy.metricsFrom[0].x=y", "set dynamo-operator.networkPolicy.metricsFrom"),
    ] {
        let values =
            [format!("dynamo-operator.{value}"), "dynamo-operator.namespaceRestriction.enabled=true".to_owned()];
        let rejection = render(&values.each_ref().map(String::as_str)).unwrap_err();
        assert!(rejection.contains(remedy), "{rejection}");
    }
    let restricted = render_chart(&chart("crds"), "rel", "dyn", &["namespaceRestriction.enabled=true"]);
    assert!(format!("{:#}", restricted.unwrap_err()).contains("set namespaceRestriction.enabled=false"));
    let unknown = render_chart(&chart("graph-controller"), "rel", "dyn", &["hardend=true"]);
    assert!(format!("{:#}", unknown.unwrap_err()).contains("hardend"));
    assert!(names(&alone("lease-scope", &[]), "ClusterRole").is_empty());
}

/// A release packages the charts as they are: each has the version of the programs, and names the images of that
/// version.
#[test]
fn charts_have_the_version_of_the_programs() {
    let version = env!("CARGO_PKG_VERSION");
    let umbrella = platform().join("charts/dynamo-operator");
    for dir in PROGRAMS.into_iter().map(chart).chain([platform(), definitions(), umbrella]) {
        let about: Value = serde_saphyr::from_str(&std::fs::read_to_string(dir.join("Chart.yaml")).unwrap()).unwrap();
        assert_eq!((&about["version"], &about["appVersion"]), (&version.into(), &version.into()), "{}", dir.display());
    }
    let releases = PROGRAMS.into_iter().map(|program| alone(program, &[])).chain([render(&[]).unwrap()]);
    for objects in releases {
        for (_, container) in containers(&objects) {
            let image = container["image"].as_str().unwrap();
            assert!(image.ends_with(&format!(":{version}")), "{image}");
        }
    }
}
