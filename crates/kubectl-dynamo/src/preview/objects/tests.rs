//! Tests of objects in memory.

use super::*;
use crate::preview::prediction::changes;

fn key(name: &str) -> ObjectKey {
    let (group, plural) = (String::new(), "things".to_owned());
    ObjectKey { group, plural, namespace: "n".to_owned(), name: name.to_owned() }
}

fn objects() -> PreviewObjects {
    let mut objects = PreviewObjects::new(Timestamp::UNIX_EPOCH);
    let metadata = json!({ "name": "a", "uid": "u", "resourceVersion": "7", "generation": 1 });
    objects.read(key("a"), json!({ "metadata": metadata, "spec": { "x": 1 } }));
    objects
}

#[test]
fn a_new_spec_is_a_new_generation_and_an_equal_one_is_no_write() {
    let mut objects = objects();
    let same = objects.apply(&key("a"), &json!({ "metadata": { "uid": "u" }, "spec": { "x": 1 } }), "us").unwrap();
    assert_eq!((&same["metadata"]["generation"], objects.writes().len()), (&json!(1), 0));
    let other = objects.apply(&key("a"), &json!({ "metadata": { "uid": "u" }, "spec": { "x": 2 } }), "us").unwrap();
    assert_eq!((&other["metadata"]["generation"], objects.writes().len()), (&json!(2), 1));
    objects.set_status(&key("a"), json!({ "ready": 1 }));
    assert_eq!((&objects.get(&key("a")).unwrap()["metadata"]["generation"], objects.writes().len()), (&json!(2), 1));
}

#[test]
fn preconditions_hold_or_nothing_is_written() {
    let mut objects = objects();
    let body = |uid: &str| json!({ "metadata": { "uid": uid }, "spec": {} });
    assert_eq!(objects.apply(&key("a"), &body("other"), "us").unwrap_err().code, 409);
    assert_eq!(objects.apply(&key("b"), &body("u"), "us").unwrap_err().code, 409);
    let no_object = json!({ "metadata": { "resourceVersion": "1" } });
    assert_eq!(objects.apply(&key("a"), &no_object, "us").unwrap_err().code, 409);
    assert_eq!(objects.apply(&key("b"), &no_object, "us").unwrap()["metadata"]["resourceVersion"], "8");
    assert_eq!(objects.delete(&key("c"), Preconditions::default()).unwrap_err().code, 404);
}

#[test]
fn what_an_object_owns_goes_with_it_and_finalizers_hold_it() {
    let mut objects = objects();
    let owned = |finalizers: Value| {
        let metadata = json!({ "ownerReferences": [{ "uid": "u" }], "finalizers": finalizers });
        json!({ "metadata": metadata, "spec": {} })
    };
    objects.read(key("child"), owned(json!([])));
    objects.delete(&key("a"), Preconditions { uid: Some("u"), ..Preconditions::default() }).unwrap();
    assert!(objects.get(&key("a")).is_none() && objects.get(&key("child")).is_none());
    objects.read(key("held"), owned(json!(["f"])));
    objects.delete(&key("held"), Preconditions::default()).unwrap();
    assert!(objects.get(&key("held")).is_some());
    let release = |object: &mut Value| {
        object["metadata"]["finalizers"] = json!([]);
        Ok(())
    };
    objects.patch(&key("held"), Preconditions::default(), release).unwrap();
    assert!(objects.get(&key("held")).is_none());
}

#[test]
fn an_owner_that_is_gone_leaves_the_objects_that_have_others() {
    let mut objects = objects();
    let owners = json!([{ "uid": "u", "controller": true }, { "uid": "v" }]);
    objects.read(key("shared"), json!({ "metadata": { "ownerReferences": owners, "resourceVersion": "1" } }));
    objects.delete(&key("a"), Preconditions::default()).unwrap();
    let shared = objects.get(&key("shared")).unwrap();
    assert_eq!(shared["metadata"]["ownerReferences"], json!([{ "uid": "v" }]));
    assert_ne!(shared["metadata"]["resourceVersion"], "1");
    assert_eq!(objects.writes().len(), 1);
    let shown: Vec<_> = changes(&objects, |_| true).into_iter().map(|one| (one.verb, one.name)).collect();
    assert_eq!(shown, [("change", "shared".to_owned()), ("delete", "a".to_owned())]);
}
