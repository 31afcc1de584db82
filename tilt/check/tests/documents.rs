//! Settings and commands of documents of other operators.

use super::*;

/// Content that the page on Tilt writes into `tilt-settings.yaml`.
const QUICK_START: &str = "
allowed_contexts:
  - my-cluster-context
registry: docker.io/myuser
skip_codegen: true
";

/// The settings and commands of the documents that people come with, by names of their own.
#[test]
fn the_settings_of_other_documents_are_read() {
    let all = json!({
        "allowed_contexts": ["my-cluster-context"], "registry": "docker.io/myuser", "skip_codegen": true,
        "namespace": "dynamo-system", "enable_nats": true, "enable_etcd": false, "enable_kai_scheduler": false,
        "enable_grove": false, "image_pull_secret": "pull", "operator_version": "1.5.0", "helm_values": {
            "dynamo-operator.discoveryBackend": "kubernetes", "dynamo-operator.natsAddr": "nats://external-nats:4222",
        },
    });
    let quick_start: Value = serde_saphyr::from_str(QUICK_START).unwrap();
    let config = json!({
        "registry": "docker.io/yourusername", "registry_username": "yourusername", "registry_password": "yourpassword",
        "namespace": "gpu-operator", "container_runtime": "docker",
    });
    let make = json!({
        "REGISTRY": "docker.io/yourusername", "REGISTRY_USERNAME": "me", "REGISTRY_PASSWORD": "x",
        "NAMESPACE": "my-namespace",
    });
    let k3d = || Scene { context: "k3d-kpulse-test", ..Scene::default() };
    let remote = |settings| Scene { context: "my-cluster-context", settings, ..Scene::default() };
    let by_environment = |environment| Scene { environment, ..Scene::default() };
    for (scene, repository, namespace, resources) in [
        (remote(quick_start), "docker.io/myuser", "dynamo-system", &["manager-build", "crds"][..]),
        (remote(all), "docker.io/myuser", "dynamo-system", &["manager-build", "crds"]),
        (by_environment(json!({"REGISTRY": "docker.io/myuser"})), "docker.io/myuser", "dynamo-system", &["crds"]),
        (by_environment(json!({"REGISTRY": "ghcr.io/myorg"})), "ghcr.io/myorg", "dynamo-system", &["crds"]),
        (k3d(), "controller", "dynamo-system", &["crds"]),
        (Scene { arguments: json!({"also": ["triggers"]}), ..k3d() }, "controller", "dynamo-system", &["bootstrap"]),
        (
            Scene { root: config, ..Scene::default() },
            "docker.io/yourusername",
            "gpu-operator",
            &["crds", "registry-secret"],
        ),
        (by_environment(make), "docker.io/yourusername", "my-namespace", &["crds", "registry-secret"]),
    ] {
        let calls = evaluate(&scene).unwrap();
        named(&calls, "custom_build", &format!("{repository}/graph-controller"));
        assert!(words(&helm(&calls).args[0]).windows(2).any(|pair| pair == ["--namespace", namespace]));
        for resource in resources {
            named(&calls, "local_resource", resource);
        }
    }
}

#[test]
fn definitions_are_generated_unless_the_settings_skip_it() {
    for (settings, generates) in
        [(json!({}), true), (json!({"skip_codegen": false}), true), (json!({"skip_codegen": true}), false)]
    {
        let calls = evaluate(&Scene { settings, ..Scene::default() }).unwrap();
        let step = words(&named(&calls, "local_resource", "crds")["cmd"]);
        assert_eq!(step[2].starts_with("cargo xtask crds generate && "), generates, "{step:?}");
    }
}

/// Only where make is installed.
#[test]
fn make_starts_and_ends_the_loop_and_generates_definitions() {
    let make = |words: &[&str]| Command::new("make").arg("--dry-run").args(words).current_dir("../..").output();
    if make(&["--version"]).is_err() {
        eprintln!("skipped: make is not installed");
        return;
    }
    for (words, expected) in [
        (&["tilt", "REGISTRY=docker.io/me", "REGISTRY_USERNAME=me", "REGISTRY_PASSWORD=x"][..], "tilt-up"),
        (&["tilt-up", "REGISTRY=docker.io/me"], "tilt-up"),
        (&["tilt-down", "NAMESPACE=mine"], "tilt-down"),
        (&["generate"], "crds generate"),
        (&["manifests"], "crds generate"),
        (&["sync-crds"], "crds generate"),
    ] {
        let output = make(words).unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("cargo xtask {expected}\n"), "{words:?}");
    }
}
