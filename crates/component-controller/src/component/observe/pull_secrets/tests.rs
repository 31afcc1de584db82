//! Tests of the lookup of named image pull secrets.

use api_types::v1beta1::DynamoComponentDeploymentStatus;
use controller_kit::conditions::set_condition;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LocalObjectReference, PodSpec, PodTemplateSpec, Secret};
use kube::{api::ObjectMeta, runtime::watcher::Event};

use super::*;

fn secret(namespace: &str, name: &str) -> Secret {
    Secret {
        metadata: ObjectMeta { name: Some(name.into()), namespace: Some(namespace.into()), ..ObjectMeta::default() },
        ..Secret::default()
    }
}

fn naming(names: &[&str]) -> DynamoComponentDeployment {
    let mut component = DynamoComponentDeployment::new("c", Default::default());
    component.metadata.namespace = Some("a".to_owned());
    component.metadata.generation = Some(2);
    let references = names.iter().map(|name| LocalObjectReference { name: (*name).to_owned() }).collect();
    component.spec.component.pod_template = Some(PodTemplateSpec {
        spec: Some(PodSpec { image_pull_secrets: Some(references), ..PodSpec::default() }),
        ..PodTemplateSpec::default()
    });
    component
}

#[test]
fn named_secrets_are_listed_once_each() {
    assert!(named(&DynamoComponentDeployment::new("c", Default::default())).is_empty());
    assert_eq!(named(&naming(&["b", "", "a", "b"])), ["b", "a"]);
}

#[test]
fn watched_secrets_are_not_read() {
    let secrets = PullSecrets::default();
    secrets.handle(Event::Apply(secret("a", "one")));
    let mut component = naming(&["one", "two"]);
    assert_eq!(unknown(&component, Some(&secrets)), ["two"]);
    component.status = Some(found_at(2));
    secrets.handle(Event::Delete(secret("a", "one")));
    assert_eq!(unknown(&component, Some(&secrets)), ["one", "two"], "one that went is noticed");
}

#[test]
fn without_a_watch_found_secrets_are_read_once_per_spec() {
    let mut component = naming(&["one", "two"]);
    assert_eq!(unknown(&component, None), ["one", "two"], "nothing is known yet");
    component.status = Some(found_at(1));
    assert_eq!(unknown(&component, None), ["one", "two"], "found for an older spec");
    component.status = Some(status(Status::False, 2));
    assert_eq!(unknown(&component, None), ["one", "two"], "it may have come");
    component.status = Some(found_at(2));
    assert!(unknown(&component, None).is_empty());
}

fn found_at(generation: i64) -> DynamoComponentDeploymentStatus {
    status(Status::True, generation)
}

fn status(found: Status, generation: i64) -> DynamoComponentDeploymentStatus {
    let mut status = DynamoComponentDeploymentStatus::default();
    let (type_, now) = (conditions::component::PULL_SECRETS_FOUND, Timestamp::UNIX_EPOCH);
    set_condition(&mut status.conditions, type_, found, "r", "", Some(generation), now);
    status
}

/// One denied read anywhere switched the check off in all namespaces until the process restarted.
#[test]
fn a_rejection_counts_in_its_namespace_and_not_for_ever() {
    let (forbidden, now) = (ForbiddenNamespaces::default(), Instant::now());
    forbidden.mark("a", now);
    assert!(forbidden.is_marked("a", now + FORBIDDEN_FOR - Duration::from_secs(1)));
    assert!(!forbidden.is_marked("b", now));
    assert!(!forbidden.is_marked("a", now + FORBIDDEN_FOR));
    forbidden.mark("b", now + FORBIDDEN_FOR);
    assert_eq!(forbidden.0.lock().unwrap().len(), 1, "old denials are not kept");
}
