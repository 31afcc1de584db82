//! Events in, changes out.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::{CacheChanges, CacheView, Shown, Store};
use crate::store::{Key, Packed, held::Compress};

type Object = Packed<ConfigMap>;

fn object(name: &str, version: u64, owner: Option<&str>) -> Object {
    let owners: Vec<Value> = owner
        .map(|uid| json!({ "apiVersion": "x/v1", "kind": "X", "name": "x", "uid": uid, "controller": true }))
        .into_iter()
        .collect();
    Packed::from_value(json!({ "metadata": {
        "name": name, "namespace": "n", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
        "ownerReferences": owners,
    } }))
    .unwrap()
}

/// Stores that hold objects whole and compressed.
fn both() -> [Store<Object>; 2] {
    [Store::new(), Store::compressed()]
}

fn listed(store: &Store<Object>, objects: Vec<Object>) -> CacheChanges<Object> {
    store.handle(Event::Init);
    for object in objects {
        assert!(store.handle(Event::InitApply(object)).next().is_none(), "a list counts when it is complete");
    }
    store.handle(Event::InitDone)
}

/// Changes as `name: version before -> version after`, sorted.
fn texts(changes: CacheChanges<Object>) -> Vec<String> {
    let version = |object: &Option<std::sync::Arc<Object>>| {
        object.as_ref().and_then(|o| o.metadata.resource_version.clone()).unwrap_or("-".into())
    };
    let mut texts: Vec<String> = changes
        .map(|change| {
            let object = change.after.as_ref().or(change.before.as_ref()).unwrap();
            let name = object.metadata.name.clone().unwrap();
            format!("{name}: {} -> {}", version(&change.before), version(&change.after))
        })
        .collect();
    texts.sort();
    texts
}

fn children(store: &Store<Object>, uid: &str) -> Vec<String> {
    store.children_of(uid).iter().map(|object| object.metadata.name.clone().unwrap()).collect()
}

#[test]
fn ready_after_the_first_complete_list_even_an_empty_one() {
    for store in both() {
        store.handle(Event::Init);
        assert!(!store.is_ready());
        store.handle(Event::InitDone);
        assert!(store.is_ready() && store.is_empty());
    }
}

#[test]
fn objects_appear_change_and_go() {
    for store in both() {
        assert_eq!(texts(listed(&store, vec![object("a", 1, None), object("b", 2, None)])), ["a: - -> 1", "b: - -> 2"]);
        assert_eq!(texts(store.handle(Event::Apply(object("a", 3, None)))), ["a: 1 -> 3"]);
        assert_eq!(texts(store.handle(Event::Delete(object("b", 4, None)))), ["b: 2 -> -"]);
        assert_eq!(texts(store.handle(Event::Delete(object("never-seen", 5, None)))), [""; 0]);
        assert_eq!(store.len(), 1);
        assert_eq!(store.get(&Key::new("n", "a")).unwrap().metadata.resource_version.as_deref(), Some("3"));
    }
}

#[test]
fn a_second_list_returns_what_was_missed_and_nothing_else() {
    for store in both() {
        listed(&store, vec![object("same", 1, None), object("gone", 2, Some("p")), object("changed", 3, None)]);
        let second = vec![object("same", 1, None), object("changed", 7, None), object("new", 8, None)];
        assert_eq!(texts(listed(&store, second)), ["changed: 3 -> 7", "gone: 2 -> -", "new: - -> 8"]);
        assert!(children(&store, "p").is_empty());
    }
}

#[test]
fn a_list_that_broke_off_is_forgotten() {
    for store in both() {
        store.handle(Event::Init);
        store.handle(Event::InitApply(object("half", 1, None)));
        assert_eq!(texts(listed(&store, vec![object("whole", 2, None)])), ["whole: - -> 2"]);
        assert_eq!(store.len(), 1);
    }
}

#[test]
fn children_are_found_by_the_uid_of_their_controller() {
    for store in both() {
        listed(&store, vec![object("b", 1, Some("p")), object("a", 2, Some("p")), object("c", 3, Some("q"))]);
        assert_eq!(children(&store, "p"), ["a", "b"]);
        store.handle(Event::Apply(object("a", 4, Some("q"))));
        assert_eq!((children(&store, "p"), children(&store, "q")), (vec!["b".into()], vec!["a".into(), "c".into()]));
        assert!(store.orphans("n").is_empty() && children(&store, "").is_empty());
        store.handle(Event::Apply(object("b", 5, None)));
        assert!(children(&store, "p").is_empty(), "orphaned");
        let orphans =
            |namespace: &str| store.orphans(namespace).iter().map(|o| Key::of(o.as_ref()).name).collect::<Vec<_>>();
        assert_eq!((orphans("n"), orphans("m")), (vec!["b".to_owned()], vec![]));
        assert!(children(&store, "").is_empty());
        store.handle(Event::Delete(object("c", 6, Some("q"))));
        assert_eq!(children(&store, "q"), ["a"]);
    }
}

#[test]
fn the_newest_version_counts_deletions_in() {
    for store in both() {
        listed(&store, vec![object("a", 5, None), object("b", 3, None)]);
        assert_eq!(store.latest(), 5);
        store.handle(Event::Delete(object("b", 9, None)));
        assert_eq!(store.latest(), 9);
        assert_eq!(store.group_kind(), ("", "ConfigMap"));
    }
}

/// Found defect: a list that led back in time replaced the objects and left the newest version as it was, so that a
/// cache that lacked the last writes was taken for fresh.
#[test]
fn the_newest_version_is_never_newer_than_the_list_that_was_accepted() {
    for store in both() {
        listed(&store, vec![object("a", 9, None), object("b", 7, None)]);
        listed(&store, vec![object("b", 7, None)]);
        assert_eq!(store.latest(), 9, "a deletion makes nothing older");
        listed(&store, vec![object("b", 3, None), object("c", 4, None)]);
        assert_eq!(store.latest(), 4, "the API server was restored");
    }
}

#[test]
fn an_object_is_alive_while_it_is_the_same_and_not_leaving() {
    let key = Key::new("n", "a");
    for store in both() {
        let mut leaving = object("a", 1, None);
        listed(&store, vec![leaving.clone()]);
        assert_eq!(store.shows(&key, "uid-a"), Shown::Alive);
        assert_eq!(store.shows(&key, "another-uid"), Shown::Absent);
        leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        store.handle(Event::Apply(leaving));
        assert_eq!(store.shows(&key, "uid-a"), Shown::Deleting);
    }
}

#[test]
fn a_snapshot_is_complete_and_may_be_of_a_kind_that_is_not_served() {
    let store = Store::snapshot(Some(vec![object("a", 5, Some("p"))]));
    assert_eq!((store.is_ready(), store.is_served(), store.len()), (true, true, 1));
    assert_eq!(store.children_of("p").len(), 1);
    let unserved: Store<Object> = Store::snapshot(None);
    assert_eq!((unserved.is_ready(), unserved.is_served(), unserved.len()), (true, false, 0));
}

#[test]
fn the_objects_of_a_namespace_are_found_in_order() {
    for store in both() {
        let of = |namespace: &str, name: &str| {
            Object::from_value(json!({ "metadata": { "namespace": namespace, "name": name } })).unwrap()
        };
        listed(&store, vec![of("b", "2"), of("ab", "1"), of("a", "9"), of("b", "1"), of("ba", "1")]);
        let names = |namespace: &str| {
            let here = store.in_namespace(namespace);
            here.iter().map(|object| object.metadata.name.clone().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!((names("a"), names("b"), names("c")), (vec!["9".into()], vec!["1".into(), "2".into()], vec![]));
        assert_eq!(store.keys_in("b"), [Key::new("b", "1"), Key::new("b", "2")]);
        assert!(store.keys_in("c").is_empty());
        assert!(store.has_namespace("ab") && !store.has_namespace("aa") && !store.has_namespace(""));
    }
}

/// Found defect: a scrape of the metrics and each check for unused places read every object of the cluster.
#[test]
fn what_was_derived_from_all_objects_is_current_while_the_count_of_changes_is_the_same() {
    for store in both() {
        let list = || vec![object("b", 3, Some("p")), object("a", 5, None)];
        listed(&store, list());
        let versions = |store: &Store<Object>| {
            store.versions().into_iter().map(|(key, version)| (key.name, version)).collect::<Vec<_>>()
        };
        assert_eq!(versions(&store), [("a".to_owned(), Some(5)), ("b".to_owned(), Some(3))]);
        let first = store.change_count();
        listed(&store, list());
        assert_eq!(store.change_count(), first, "nothing changed");
        store.handle(Event::Apply(object("b", 8, None)));
        let second = store.change_count();
        assert!(second > first);
        listed(&store, vec![object("b", 8, None)]);
        assert!(store.change_count() > second, "a list without an object is a change");
        assert_eq!(versions(&store), [("b".to_owned(), Some(8))]);
    }
}

#[test]
fn a_compressed_object_is_as_it_was_and_takes_less() {
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:05:05Z",
            "deletionGracePeriodSeconds": 30, "labels": {}, "annotations": { "é": "\u{1f980}\n" }, "finalizers": ["f"],
            "ownerReferences": [{ "apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "o", "controller": true }],
        },
        "data": (0..40).map(|n| (format!("key-{n}"), json!("value"))).collect::<serde_json::Map<_, _>>(),
        "status": { "ratio": 0.1, "count": 9_007_199_254_740_993_u64 },
    });
    let object = Object::from_value(value.clone()).unwrap();
    let compressed = object.compress();
    let read = Object::read(&compressed);
    assert_eq!(read.metadata, object.metadata);
    assert_eq!(read.value(), value);
    assert!(compressed.bytes() * 2 < value.to_string().len(), "{}", compressed.bytes());
}
