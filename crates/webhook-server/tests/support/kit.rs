//! The inputs of the conformance kit.

use std::path::PathBuf;

use serde_json::{Value, json};

/// Where the kit is, if it is there.
pub fn kit() -> Option<PathBuf> {
    let named = std::env::var_os("DYNAMO_CONFORMANCE_DIR").map(PathBuf::from);
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    let kit = named.or(Some(beside)).filter(|kit| kit.join("input").is_dir());
    if kit.is_none() {
        eprintln!("skipped: no conformance kit at DYNAMO_CONFORMANCE_DIR or ../shared/conformance");
    }
    kit
}

/// The documents of our group, with placeholders filled in as for the reference.
pub fn documents(text: &str, namespace: &str) -> Vec<Value> {
    let text = text.replace(":my-tag", ":1.5.0").replace(":<IMAGE_TAG>", ":1.5.0");
    let image = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0";
    let names = ["${DYNAMO_IMAGE}", "${DYNAMO_VLLM_IMAGE}", "${VLLM_IMAGE}", "${IMAGE}"];
    let text = names.iter().fold(text, |text, name| text.replace(name, image));
    let options = serde_saphyr::options! { emit_comments: false };
    let all: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options).unwrap();
    let ours = all.into_iter().filter(|d| d["apiVersion"].as_str().is_some_and(|v| v.starts_with("nvidia.com/")));
    let placed = ours.map(|mut document| {
        document["metadata"]["namespace"] = json!(namespace);
        document
    });
    placed.collect()
}
