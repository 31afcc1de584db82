//! Tests of `bundle`.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::json;

use super::*;

#[test]
fn what_does_not_fit_is_named() {
    let mut archive = Archive::new("chat", 10);
    archive.add("a.json", b"12345678".to_vec());
    archive.add("b.log", b"123".to_vec());
    archive.add("c.log", b"12".to_vec());
    let mut bytes = Vec::new();
    archive.write(1, &mut bytes).unwrap();
    let mut tar = tar::Archive::new(GzDecoder::new(bytes.as_slice()));
    let mut files = Vec::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.push((entry.path().unwrap().display().to_string(), text));
    }
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let expected = [file("chat/a.json", "12345678"), file("chat/c.log", "12"), file("chat/omitted.txt", "b.log")];
    assert_eq!(files, expected);
}

#[test]
fn credentials_are_masked_and_the_rest_is_kept() {
    let mut object = json!({
        "metadata": {
            "name": "chat",
            "managedFields": [{}],
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "other": "kept" },
        },
        "spec": { "containers": [{
            "name": "main",
            "env": [
                { "name": "HF_TOKEN", "value": "hf_abc" },
                { "name": "AWS_SECRET_ACCESS_KEY", "value": "abc" },
                { "name": "MAX_TOKENS", "value": "4096" },
                { "name": "HF_TOKEN_FROM", "valueFrom": { "secretKeyRef": { "name": "hf", "key": "token" } } },
                { "name": "NATS_SERVER", "value": "nats://user:word@nats:4222" },
            ],
            "args": ["--api-key", "abc", "--port=8000", "--hf-token=abc", "--model", "meta/llama", "http://a/b"],
        }] },
    });
    mask(&mut object);
    let expected = json!({
        "metadata": { "name": "chat", "annotations": { "other": "kept" } },
        "spec": { "containers": [{
            "name": "main",
            "env": [
                { "name": "HF_TOKEN", "value": "(masked)" },
                { "name": "AWS_SECRET_ACCESS_KEY", "value": "(masked)" },
                { "name": "MAX_TOKENS", "value": "4096" },
                { "name": "HF_TOKEN_FROM", "valueFrom": { "secretKeyRef": { "name": "hf", "key": "token" } } },
                { "name": "NATS_SERVER", "value": "nats://(masked)@nats:4222" },
            ],
            "args": [
                "--api-key", "(masked)", "--port=8000", "--hf-token=(masked)",
                "--model", "meta/llama", "http://a/b",
            ],
        }] },
    });
    assert_eq!(object, expected);
}

#[test]
fn words_of_a_script_are_masked_and_its_form_is_kept() {
    let mut object = json!({ "command": ["sh", "-c", "export HF_TOKEN=abc\n  run --api-key abc --port 1"] });
    mask(&mut object);
    let expected = "export HF_TOKEN=(masked)\n  run --api-key (masked) --port 1";
    assert_eq!(object, json!({ "command": ["sh", "-c", expected] }));
}
