//! Tests of the earlier revisions that new workers list.

use serde_json::{Value, json};

use super::*;

/// A worker created in that minute.
fn worker(revision: &str, minute: u32, image: &str, listed: Option<&str>) -> DynamoComponentDeployment {
    let labels = if revision.is_empty() { json!({}) } else { json!({ labels::WORKER_HASH: revision }) };
    let annotations = listed.map(|text| json!({ PREVIOUS_REVISIONS: text }));
    let main = json!({ "name": "main", "image": image });
    serde_json::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
        "metadata": { "name": format!("chat-{revision}"), "labels": labels, "annotations": annotations,
            "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z") },
        "spec": { "name": "Decode", "type": "decode", "podTemplate": { "spec": { "containers": [main] } } },
    }))
    .unwrap()
}

fn entry(revision: &str, minute: u32) -> Value {
    json!({ "revision": revision, "created": format!("2026-01-01T00:{minute:02}:00Z"), "images": [] })
}

fn names(all: &[PreviousRevision]) -> Vec<&str> {
    all.iter().map(|one| one.revision.as_str()).collect()
}

fn extended_names(own: &str, workers: &[&DynamoComponentDeployment]) -> Vec<String> {
    let all = extended(own, workers).map(|text| parse(&text)).unwrap_or_default();
    all.into_iter().map(|one| one.revision).collect()
}

#[test]
fn live_revisions_and_what_they_list_become_compact_text() {
    let listed = json!([entry("a", 1)]).to_string();
    let workers = [worker("b", 4, "r/y:1", Some(&listed)), worker("b", 3, "r/x:1", None), worker("c", 9, "z", None)];
    let [first, second, own] = workers.each_ref();
    let expected = r#"[{"revision":"b","created":"2026-01-01T00:03:00Z","images":["r/x:1","r/y:1"]},"#.to_owned()
        + r#"{"revision":"a","created":"2026-01-01T00:01:00Z","images":[]}]"#;
    assert_eq!(extended("c", &[first, second]), Some(expected.clone()));
    assert_eq!(extended("c", &[own, second, first]), Some(expected), "in any order, with members of its own");
    assert_eq!(extended("c", &[own]), None);
    assert_eq!(extended("c", &[]), None);
}

#[test]
fn members_of_the_same_revision_hand_on_what_they_list() {
    let listed = json!([entry("a", 1)]).to_string();
    assert_eq!(extended_names("c", &[&worker("c", 9, "z", Some(&listed))]), ["a"]);
}

#[test]
fn a_revision_is_listed_once_and_never_in_its_own_objects() {
    let listed = json!([entry("b", 5), entry("c", 4), entry("a", 1), entry("b", 2)]).to_string();
    let workers = [worker("d", 8, "", Some(&listed)), worker("a", 9, "", Some(&listed))];
    let [d, a] = workers.each_ref();
    assert_eq!(extended_names("c", &[d, a]), ["a", "d", "b"]);
    assert_eq!(names(&replaced(&[d, a])), ["b", "c"], "not what is live again");
    let legacy = worker("", 0, "", None);
    assert_eq!(extended_names("c", &[&legacy]), ["legacy"]);
    assert_eq!(extended_names("legacy", &[&legacy]), [""; 0]);
}

#[test]
fn the_oldest_revisions_are_dropped_beyond_the_limits() {
    let listed = |count: u32| (0..count).map(|n| entry(&format!("r{n}"), n)).collect::<Value>().to_string();
    let newest = worker("newest", 59, "", Some(&listed(12)));
    let found = extended_names("own", &[&newest]);
    assert_eq!((found.len(), found[0].as_str(), found[9].as_str()), (MOST_REVISIONS, "newest", "r3"));

    let long = worker("long", 58, &"i".repeat(MOST_BYTES - 200), Some(&listed(9)));
    let text = extended("own", &[&long]).unwrap();
    assert!(text.len() <= MOST_BYTES, "{}", text.len());
    let found = parse(&text);
    assert_eq!(names(&found)[..2], ["long", "r8"]);
    assert!(found.len() < 5, "{}", found.len());
    assert_eq!(extended("own", &[&worker("longer", 58, &"i".repeat(MOST_BYTES), None)]), None);
}

#[test]
fn malformed_values_are_ignored() {
    let malformed = ["", "null", "{}", "[1]", r#"[{"created":"x"}]"#, r#"[{"revision":"a","created":"today"}]"#];
    for text in malformed {
        assert_eq!(parse(text), [], "{text}");
        assert_eq!(extended_names("c", &[&worker("b", 1, "", Some(text))]), ["b"], "{text}");
    }
    let later = r#"[{"revision":"a","created":null,"more":1},{"revision":"b"}]"#;
    assert_eq!(names(&parse(later)), ["a", "b"], "what another version may write");
}
