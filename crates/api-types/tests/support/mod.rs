//! The inputs of the conformance kit, which is not part of the repository.

use std::path::{Path, PathBuf};

use serde_json::Value;
use test_cluster::conformance_kit;

/// A document of one of the kit's files.
pub struct Input {
    /// The file and the position of the document in it.
    pub origin: String,
    pub object: Value,
}

/// All documents of `kind` in `version` of `nvidia.com`; none if the kit is not there, which is then said.
pub fn inputs(version: &str, kind: &str) -> Vec<Input> {
    let Some(root) = conformance_kit() else { return Vec::new() };
    let mut files = Vec::new();
    walk(&root.join("input"), &mut files);
    files.sort();
    let documents = files.iter().flat_map(|file| documents(file));
    let expected = format!("nvidia.com/{version}");
    let inputs: Vec<_> =
        documents.filter(|d| d.object["apiVersion"] == expected.as_str() && d.object["kind"] == kind).collect();
    assert!(!inputs.is_empty(), "{} holds no {kind} in {version}", root.display());
    inputs
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn documents(file: &Path) -> Vec<Input> {
    let text = std::fs::read_to_string(file).unwrap();
    // A limit on comments before one node is too low for real files; they are not needed anyway.
    let options = serde_saphyr::options! { emit_comments: false };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options)
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let inputs = documents.into_iter().enumerate();
    inputs.map(|(i, object)| Input { origin: format!("{} [{i}]", file.display()), object }).collect()
}

/// A place where two values differ.
#[derive(Debug, PartialEq)]
pub struct Difference {
    pub path: String,
    pub given: Option<Value>,
    pub kept: Option<Value>,
}

/// Returns the differences between `kept` and `given`. A quantity may be given as a number; the types keep it as text,
/// which is equivalent.
pub fn differences(given: &Value, kept: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", Some(given), Some(kept), &mut found);
    found
}

fn compare(path: &str, given: Option<&Value>, kept: Option<&Value>, found: &mut Vec<Difference>) {
    match (given, kept) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let added = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(added) {
                compare(&format!("{path}.{key}"), a.get(key), b.get(key), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for i in 0..a.len().max(b.len()) {
                compare(&format!("{path}[{i}]"), a.get(i), b.get(i), found);
            }
        }
        (Some(Value::Number(number)), Some(Value::String(text))) if *text == number.to_string() => {}
        (a, b) if a == b => {}
        (a, b) => found.push(Difference { path: path.to_owned(), given: a.cloned(), kept: b.cloned() }),
    }
}
