//! The inputs of the conformance kit.

use serde_json::{Value, json};

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
