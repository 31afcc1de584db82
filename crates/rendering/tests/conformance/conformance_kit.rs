//! The conformance kit on disk.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The kit's folder.
pub struct ConformanceKit(PathBuf);

/// Result of the upstream operator for one example.
pub struct Case {
    pub name: String,
    pub namespace: String,
    pub objects: Vec<Value>,
    input: String,
}

impl ConformanceKit {
    /// The kit; says so when there is none.
    pub fn find() -> Option<Self> {
        test_cluster::conformance_kit().map(Self)
    }

    /// The cases that a list names.
    pub fn listed(&self, list: &str) -> Vec<Case> {
        let names = std::fs::read_to_string(self.0.join(list)).unwrap();
        names.lines().map(str::trim).filter(|name| !name.is_empty()).map(|name| self.read(name)).collect()
    }

    /// Every case of a cluster: `base` is the plain one, `lws` has LeaderWorkerSets.
    pub fn all(&self, cluster: &str) -> impl Iterator<Item = Case> {
        let folder = self.0.join("expected").join(cluster);
        let entries = std::fs::read_dir(&folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let cluster = cluster.to_owned();
        names.filter(|name| name.ends_with(".json")).map(move |file| {
            let case = read(&folder, &file);
            Case { name: format!("{cluster}/{file}"), ..case }
        })
    }

    /// The documents of a case's input, as they are.
    pub fn inputs(&self, case: &Case) -> Vec<Value> {
        let text = std::fs::read_to_string(self.0.join("input").join(&case.input)).unwrap();
        let options = serde_saphyr::options! { emit_comments: false };
        serde_saphyr::from_multiple_with_options(&text, options).unwrap()
    }

    fn read(&self, name: &str) -> Case {
        read(&self.0.join("expected/base"), name)
    }
}

fn read(folder: &Path, name: &str) -> Case {
    let text = std::fs::read(folder.join(name)).unwrap();
    let mut case: Value = serde_json::from_slice(&text).unwrap();
    let objects = match case["objects"].take() {
        Value::Array(objects) => objects,
        _ => Vec::new(),
    };
    let text = |field: &str| case[field].as_str().unwrap_or_default().to_owned();
    Case { name: name.to_owned(), namespace: text("namespace"), input: text("example"), objects }
}

impl Case {
    /// The recorded object of that kind and name.
    pub fn object(&self, kind: &str, name: &str) -> Option<Value> {
        self.objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name).cloned()
    }
}
