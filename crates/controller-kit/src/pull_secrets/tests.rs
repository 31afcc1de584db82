//! Tests of the knowledge about docker configuration Secrets.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{api::ObjectMeta, runtime::watcher::Event};

use super::{DATA_KEY, PullSecrets};

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
    assert!(secrets.lists("a", "one") && !secrets.lists("b", "one"));
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
    assert!(secrets.lists("a", "bad"));
    assert_eq!(found(&secrets, "a"), ["good"]);
}
