//! Manifests in archives, good and bad.

use std::io::{Cursor, Write};

use flate2::{Compression, write::GzEncoder};
use serde_json::json;
use tar::{Builder, EntryType, Header};

use super::parse::{ManifestError, parse, read};

/// As `dynamo build` writes it, with more than is read.
const MANIFEST: &str = "
service: graphs.disagg:Frontend
entry_service: Frontend
services:
- name: Frontend
  dependencies: [{service: Worker}]
  config: {http_exposed: true, workers: 1, dynamo: {enabled: true, namespace: dynamo}}
- name: Worker
  config:
    workers: 2
    resources: {cpu: 10, memory: 20Gi, gpu: '1', custom: {example.com/link: 2}}
- name: Planner
  config: {dynamo: {enabled: true, component_type: planner}}
- name: Router
  config:
";

fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for (path, type_, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*type_);
        header.set_size(content.len() as u64);
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        archive.append(&header, *content).unwrap();
    }
    archive.into_inner().unwrap()
}

fn file<'a>(path: &'a str, content: &'a [u8]) -> (&'a str, EntryType, &'a [u8]) {
    (path, EntryType::Regular, content)
}

#[test]
fn a_manifest_gives_the_services_with_replicas_and_resources() {
    let manifest = MANIFEST.as_bytes();
    let plain = archive(&[file("README.md", b"x"), file("./dynamo.yaml", manifest), file("src/a.py", b"")]);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&plain).unwrap();
    let older = archive(&[file("bento.yaml", manifest)]);
    let expected = json!({ "dynamoTag": "graphs.disagg:Frontend", "services": [
        { "name": "Frontend", "workers": 1 },
        { "name": "Worker", "workers": 2,
          "resources": { "cpu": "10", "example.com/link": "2", "memory": "20Gi", "nvidia.com/gpu": "1" } },
        { "name": "Planner", "componentType": "planner" },
        { "name": "Router" },
    ] });
    for archive in [plain, packed.finish().unwrap(), older] {
        assert_eq!(serde_json::to_value(read(Cursor::new(archive)).unwrap()).unwrap(), expected);
    }
}

type Expected = fn(&ManifestError) -> bool;

#[test]
fn archives_without_a_manifest_are_refused() {
    let long = vec![b'#'; (256 << 10) + 1];
    let table: [(Vec<u8>, Expected); 7] = [
        (Vec::new(), |error| matches!(error, ManifestError::Missing)),
        (archive(&[file("src/dynamo.yaml", b"service: a:B")]), |error| matches!(error, ManifestError::Missing)),
        (archive(&[("dynamo.yaml", EntryType::Directory, b"")]), |error| matches!(error, ManifestError::Missing)),
        (archive(&[("dynamo.yaml", EntryType::Symlink, b"")]), |error| matches!(error, ManifestError::Missing)),
        (archive(&[file("dynamo.yaml", &long)]), |error| matches!(error, ManifestError::TooLong("dynamo.yaml"))),
        (b"<html>not found</html>".repeat(100), |error| matches!(error, ManifestError::Archive(_))),
        (archive(&[file("dynamo.yaml", b"[")]), |error| matches!(error, ManifestError::Invalid(_))),
    ];
    for (archive, expected) in table {
        let error = read(Cursor::new(archive)).unwrap_err();
        assert!(expected(&error), "{error}");
    }
}

/// A small archive may unpack to more than memory holds, in one entry or in a name.
#[test]
fn an_archive_that_unpacks_to_too_much_is_given_up() {
    for type_ in [EntryType::Regular, EntryType::GNULongName, EntryType::XHeader] {
        let mut header = Header::new_gnu();
        header.set_entry_type(type_);
        header.set_size(1 << 40);
        header.as_mut_bytes()[..4].copy_from_slice(b"long");
        header.set_cksum();
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(header.as_bytes()).unwrap();
        packed.write_all(&vec![0; 80 << 20]).unwrap();
        let error = read(Cursor::new(packed.finish().unwrap())).unwrap_err();
        assert!(matches!(error, ManifestError::Archive(_) | ManifestError::Missing), "{error}");
    }
}

#[test]
fn manifests_that_cannot_be_used_are_refused() {
    let many: String = (0..26).map(|i| format!("- name: s{i}\n")).collect();
    let many = format!("service: a:B\nservices:\n{many}");
    for (text, problem) in [
        ("services: [{name: A}]", "missing field `service`"),
        ("service: ''\nservices: [{name: A}]", "module:Service"),
        ("service: 'a b'\nservices: [{name: A}]", "module:Service"),
        ("service: a:B", "0 entries"),
        (many.as_str(), "26 entries"),
        ("service: a:B\nservices: [{name: 'A;b'}]", "no name"),
        ("service: a:B\nservices: [{name: A}, {name: a}]", "twice"),
        ("service: a:B\nservices: [{name: A, config: {workers: -1}}]", "negative"),
        ("a: &a [x]\nb: [*a, *a", ""),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(problem), "{text}: {error}");
    }
}
