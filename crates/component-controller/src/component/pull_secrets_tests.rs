//! Tests of the knowledge about docker configuration Secrets.

use super::*;
use api_types::v1beta1::DynamoComponentDeploymentStatus;
use controller_kit::conditions::set_condition;
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::{LocalObjectReference, PodSpec, PodTemplateSpec},
};
use kube::api::ObjectMeta;

fn secret(namespace: &str, name: &str, config: &str) -> Secret {
    Secret {
        metadata: ObjectMeta { name: Some(name.into()), namespace: Some(namespace.into()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([(DATA_KEY.to_owned(), ByteString(config.as_bytes().to_vec()))])),
        ..Secret::default()
    }
}

fn found(secrets: &PullSecrets, namespace: &str) -> Vec<String> {
    secrets.index(namespace).secrets_for("nvcr.io/a:1").map(str::to_owned).collect()
}

const NVCR: &str = r#"{"auths":{"nvcr.io":{"auth":"eA=="}}}"#;

#[test]
fn each_namespace_has_its_own_secrets() {
    let secrets = PullSecrets::default();
    assert_eq!(secrets.handle(Event::Apply(secret("a", "one", NVCR))), BTreeSet::from(["a".to_owned()]));
    assert_eq!(found(&secrets, "a"), ["one"]);
    assert!(found(&secrets, "b").is_empty());
    assert!(secrets.knows("a", "one") && !secrets.knows("b", "one"));
}

#[test]
fn only_registries_and_existence_are_changes() {
    let secrets = PullSecrets::default();
    secrets.handle(Event::Apply(secret("a", "one", NVCR)));
    let rotated = r#"{"auths":{"nvcr.io":{"auth":"eQ=="}}}"#;
    assert!(secrets.handle(Event::Apply(secret("a", "one", rotated))).is_empty());
    assert!(!secrets.handle(Event::Apply(secret("a", "one", "{}"))).is_empty());
    assert!(!secrets.handle(Event::Delete(secret("a", "one", "{}"))).is_empty());
    assert!(secrets.handle(Event::Delete(secret("a", "one", "{}"))).is_empty());
}

#[test]
fn a_new_list_replaces_all_and_names_what_changed() {
    let secrets = PullSecrets::default();
    secrets.handle(Event::Apply(secret("same", "s", NVCR)));
    secrets.handle(Event::Apply(secret("gone", "s", NVCR)));
    secrets.handle(Event::Init);
    secrets.handle(Event::InitApply(secret("same", "s", NVCR)));
    secrets.handle(Event::InitApply(secret("new", "s", NVCR)));
    assert_eq!(found(&secrets, "gone"), ["s"], "an unfinished list changes nothing");
    assert_eq!(secrets.handle(Event::InitDone), BTreeSet::from(["gone".to_owned(), "new".to_owned()]));
    assert!(found(&secrets, "gone").is_empty());
    assert_eq!(found(&secrets, "new"), ["s"]);
}

#[test]
fn a_malformed_secret_exists_and_opens_nothing() {
    let secrets = PullSecrets::default();
    secrets.handle(Event::Apply(secret("a", "bad", "not json")));
    secrets.handle(Event::Apply(secret("a", "good", NVCR)));
    assert!(secrets.knows("a", "bad"));
    assert_eq!(found(&secrets, "a"), ["good"]);
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
fn named_secrets_are_told_once_each() {
    assert!(named(&DynamoComponentDeployment::new("c", Default::default())).is_empty());
    assert_eq!(named(&naming(&["b", "", "a", "b"])), ["b", "a"]);
}

#[test]
fn what_is_watched_need_not_be_asked_for() {
    let secrets = PullSecrets::default();
    secrets.handle(Event::Apply(secret("a", "one", NVCR)));
    let mut component = naming(&["one", "two"]);
    assert_eq!(unknown(&component, Some(&secrets)), ["two"]);
    component.status = Some(found_at(2));
    secrets.handle(Event::Delete(secret("a", "one", NVCR)));
    assert_eq!(unknown(&component, Some(&secrets)), ["one", "two"], "one that went is noticed");
}

#[test]
fn where_nothing_is_watched_found_secrets_are_asked_for_once_per_spec() {
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
