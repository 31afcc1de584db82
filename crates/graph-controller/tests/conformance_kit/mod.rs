//! The conformance kit on disk.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use api_types::{
    conversion::{ApiVersion, convert},
    v1beta1::DynamoGraphDeployment,
};
use serde_json::{Value, json};

/// Output of the upstream operator for one example.
pub struct Case {
    /// Name of the case.
    pub name: String,
    record: Value,
}

/// The cases of a mode, by name.
pub fn cases(kit: &Path, mode: &str) -> Vec<Case> {
    let entries = std::fs::read_dir(kit.join("expected").join(mode)).unwrap();
    let names: BTreeSet<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let read = |path: PathBuf| Case {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        record: serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap(),
    };
    names.into_iter().map(read).collect()
}

impl Case {
    /// The recorded objects of a kind.
    pub fn objects<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.record["objects"].as_array().unwrap().iter().filter(move |object| object["kind"] == kind)
    }

    /// The graphs of the example that the upstream operator could work on, in the storage version, typed and as they
    /// are stored.
    pub fn graphs(&self, kit: &Path) -> Vec<(DynamoGraphDeployment, Value)> {
        let file = kit.join("input").join(self.record["example"].as_str().unwrap());
        let text = std::fs::read_to_string(file).unwrap();
        let text = [":my-tag", ":<IMAGE_TAG>"].iter().fold(text, |text, tag| text.replace(tag, ":1.5.0"));
        let images = ["${DYNAMO_IMAGE}", "${DYNAMO_VLLM_IMAGE}", "${IMAGE}"];
        let text =
            images.iter().fold(text, |text, image| text.replace(image, "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0"));
        let options = serde_saphyr::options! { emit_comments: false };
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options).unwrap();
        let graphs = documents.into_iter().filter(|d| d["kind"] == "DynamoGraphDeployment" && self.was_served(d));
        graphs
            .map(|d| convert(d, ApiVersion::V1Beta1).unwrap())
            .map(|mut d| {
                d["metadata"]["namespace"] = self.record["namespace"].clone();
                d["metadata"]["uid"] = json!("uid");
                (serde_json::from_value(d.clone()).unwrap(), d)
            })
            .collect()
    }

    fn was_served(&self, graph: &Value) -> bool {
        let name = &graph["metadata"]["name"];
        let served = |o: &Value| o["name"] == *name && o["v1beta1"]["status"]["state"] != "failed";
        let kind = "DynamoGraphDeployment";
        self.record["crs"].as_array().unwrap().iter().any(|o| o["kind"] == kind && served(o))
    }
}

/// One line for each field that differs.
pub fn differ(expected: &Value, got: &Value, path: &str, lines: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for key in keys {
                differ(&expected[key], &got[key], &format!("{path}.{key}"), lines);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (expected, got)) in one.iter().zip(other).enumerate() {
                differ(expected, got, &format!("{path}[{index}]"), lines);
            }
        }
        _ if expected != got => lines.push(format!("{path}: expected {expected}, got {got}")),
        _ => {}
    }
}
