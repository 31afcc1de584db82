//! Image pull secrets: found by registry, and never the reason that running pods are replaced.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use rendering::{PullSecretIndex, RegistryHosts, carried_digest, keep_live_pull_secrets, validate};
use serde_json::json;

use crate::fixture::{Surroundings, component, spec, worker};

fn namespace_with(secrets: &[(&str, &str)]) -> Surroundings {
    let hosts =
        |registry: &str| RegistryHosts::parse(format!(r#"{{"auths":{{"{registry}":{{}}}}}}"#).as_bytes()).unwrap();
    let index = PullSecretIndex::new(secrets.iter().map(|(name, registry)| ((*name).to_owned(), hosts(registry))));
    Surroundings { pull_secrets: index, ..Surroundings::default() }
}

fn serving() -> DeploymentStatus {
    DeploymentStatus { replicas: Some(1), available_replicas: Some(1), ..DeploymentStatus::default() }
}

fn with_condition(type_: &str, status: &str, reason: &str) -> DeploymentStatus {
    let condition = DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        ..DeploymentCondition::default()
    };
    DeploymentStatus { replicas: Some(1), conditions: Some(vec![condition]), ..DeploymentStatus::default() }
}

fn secrets_of(deployment: &Deployment) -> Vec<&str> {
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    pod.image_pull_secrets.iter().flatten().map(|secret| secret.name.as_str()).collect()
}

#[test]
fn secrets_of_all_images_follow_the_authors() {
    let pod = json!({
        "imagePullSecrets": [{"name": "own"}],
        "containers": [{"name": "side", "image": "nginx"}],
        "initContainers": [{"name": "init", "image": "quay.io/a"}],
    });
    let namespace = namespace_with(&[
        ("init", "quay.io"),
        ("b", "nvcr.io"),
        ("a", "https://nvcr.io"),
        ("own", "nvcr.io"),
        ("hub", "https://index.docker.io/v1/"),
        ("elsewhere", "ghcr.io"),
    ]);
    let rendered = namespace.deployment(&worker(pod, json!({})));
    assert_eq!(secrets_of(&rendered), ["own", "a", "b", "hub", "init"]);
}

#[test]
fn an_annotation_switches_discovery_off() {
    let mut fields = spec("worker", json!({"imagePullSecrets": [{"name": "own"}]}), json!({}));
    fields["podTemplate"]["metadata"] =
        json!({"annotations": {"nvidia.com/disable-image-pull-secret-discovery": "true"}});
    let rendered = namespace_with(&[("a", "nvcr.io")]).deployment(&component(fields));
    assert_eq!(secrets_of(&rendered), ["own"]);
}

#[test]
fn the_digest_distinguishes_templates_but_not_pull_secrets() {
    let digest = |surroundings: Surroundings, main| {
        carried_digest(&surroundings.deployment(&worker(json!({}), main))).unwrap().to_owned()
    };
    let base = digest(namespace_with(&[]), json!({}));
    assert_eq!(digest(namespace_with(&[("a", "nvcr.io")]), json!({})), base);
    assert_ne!(digest(namespace_with(&[]), json!({"args": ["x"]})), base);
}

/// Each row: what the live Deployment was rendered from, whether it carries a digest, and the secrets that result.
#[test]
fn live_secrets_stay_as_long_as_the_template_does() {
    let now = namespace_with(&[("new", "nvcr.io")]);
    let before = namespace_with(&[("old", "nvcr.io")]);
    let table = [
        ("the same", json!({}), true, "old"),
        ("another template", json!({"args": ["x"]}), true, "new"),
        ("another operator's, same images", json!({"args": ["x"]}), false, "old"),
        ("another operator's, another image", json!({"image": "nvcr.io/runtime:1.4.0"}), false, "new"),
    ];
    for (case, main, has_digest, expected) in table {
        let mut live = before.deployment(&worker(json!({}), main));
        live.status = Some(serving());
        if !has_digest {
            live.metadata.annotations = None;
        }
        let desired = worker(json!({}), json!({}));
        let mut rendered = now.deployment(&desired);
        keep_live_pull_secrets(&mut rendered, &validate(&desired).unwrap(), Some(&live));
        assert_eq!(secrets_of(&rendered), [expected], "{case}");
    }
}

/// Each row: the live status, and whether a Secret that appears reaches the pods.
#[test]
fn a_secret_that_appears_reaches_pods_that_never_came_up() {
    let desired = worker(json!({}), json!({}));
    let table = [
        ("not seen by the Deployment controller", None, true),
        ("no pod came up", Some(with_condition("Available", "False", "MinimumReplicasUnavailable")), true),
        ("coming up", Some(with_condition("Progressing", "True", "ReplicaSetUpdated")), true),
        ("given up", Some(with_condition("Progressing", "False", "ProgressDeadlineExceeded")), true),
        ("serves", Some(serving()), false),
        ("available", Some(with_condition("Available", "True", "MinimumReplicasAvailable")), false),
        ("served before its pods failed", Some(with_condition("Progressing", "True", "NewReplicaSetAvailable")), false),
    ];
    for (case, status, reaches) in table {
        let mut live = namespace_with(&[("old", "nvcr.io")]).deployment(&desired);
        live.status = status;
        let mut rendered = namespace_with(&[("new", "nvcr.io"), ("old", "nvcr.io")]).deployment(&desired);
        keep_live_pull_secrets(&mut rendered, &validate(&desired).unwrap(), Some(&live));
        let expected: &[&str] = if reaches { &["new", "old"] } else { &["old"] };
        assert_eq!(secrets_of(&rendered), expected, "{case}");
    }
}

#[test]
fn a_vanished_secret_stays_and_a_missing_one_of_the_authors_comes_back() {
    let desired = worker(json!({}), json!({}));
    let live = namespace_with(&[("old", "nvcr.io")]).deployment(&desired);
    let mut rendered = namespace_with(&[]).deployment(&desired);
    keep_live_pull_secrets(&mut rendered, &validate(&desired).unwrap(), Some(&live));
    assert_eq!(secrets_of(&rendered), ["old"]);

    let declared = worker(json!({"imagePullSecrets": [{"name": "own"}]}), json!({}));
    let mut live = namespace_with(&[]).deployment(&declared);
    live.spec.as_mut().unwrap().template.spec.as_mut().unwrap().image_pull_secrets = None;
    let mut rendered = namespace_with(&[]).deployment(&declared);
    keep_live_pull_secrets(&mut rendered, &validate(&declared).unwrap(), Some(&live));
    assert_eq!(secrets_of(&rendered), ["own"]);
}

#[test]
fn without_a_live_deployment_the_found_secrets_are_used() {
    let desired = worker(json!({}), json!({}));
    let mut rendered = namespace_with(&[("a", "nvcr.io")]).deployment(&desired);
    keep_live_pull_secrets(&mut rendered, &validate(&desired).unwrap(), None);
    assert_eq!(secrets_of(&rendered), ["a"]);
}
