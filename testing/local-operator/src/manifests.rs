//! YAML files as users have them: several documents, lists, and placeholders for image tags.

use std::sync::LazyLock;

use anyhow::{Context, Result};
use api_types::GROUP;
use regex::{Captures, Regex};
use serde_json::Value;

/// The repository of the image that replaces a placeholder for a whole image.
const IMAGE: &str = "nvcr.io/nvidia/ai-dynamo/vllm-runtime";

/// Placeholder that users of examples replace: a tag, or a whole image.
static PLACEHOLDER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r":my-tag\b|:<IMAGE_TAG>|\$\{(?:DYNAMO_IMAGE|DYNAMO_VLLM_IMAGE|VLLM_IMAGE|IMAGE)\}").ok()
});

/// The objects in a file, those of lists one by one.
///
/// # Errors
/// The text is not YAML.
pub fn parse(text: &str) -> Result<Vec<Value>> {
    let options = serde_saphyr::options! {
        emit_comments: false,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
    };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options).context("not YAML")?;
    let flat = documents.into_iter().flat_map(|mut document| match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if document.get("kind").is_some_and(|kind| kind == "List") => items,
        Some(items) => {
            document["items"] = items;
            vec![document]
        }
        None => vec![document],
    });
    Ok(flat.filter(|document| !document.is_null()).collect())
}

/// Whether an object is of our own group.
pub fn is_ours(object: &Value) -> bool {
    let version = object.get("apiVersion").and_then(Value::as_str);
    version.and_then(|version| version.split_once('/')).is_some_and(|(group, _)| group == GROUP)
}

/// Puts `tag` in place of every placeholder.
pub fn fill_placeholders(text: &str, tag: &str) -> String {
    let Some(placeholder) = &*PLACEHOLDER else { return text.to_owned() };
    let filled = placeholder.replace_all(text, |found: &Captures| match found.get(0).map(|found| found.as_str()) {
        Some(found) if found.starts_with('$') => format!("{IMAGE}:{tag}"),
        _ => format!(":{tag}"),
    });
    filled.into_owned()
}

/// The placeholders in a text, with the numbers of their lines.
pub fn placeholders(text: &str) -> Vec<(usize, String)> {
    let Some(placeholder) = &*PLACEHOLDER else { return Vec::new() };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#'));
    let hits = lines.filter(|(_, line)| placeholder.is_match(line));
    hits.map(|(index, line)| (index + 1, line.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart_and_empty_documents_left_out() {
        let text = "---\n# nothing\n---\nkind: List\nitems: [{kind: A}, {kind: B}]\n---\nkind: C\nitems: [1]\n";
        let found = parse(text).unwrap();
        let kinds: Vec<_> = found.iter().filter_map(|object| object["kind"].as_str()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        assert_eq!(found[2]["items"], serde_json::json!([1]));
    }

    #[test]
    fn placeholders_are_found_and_filled_in() {
        for (text, found, filled) in [
            ("image: a/b:my-tag", true, "image: a/b:1.5.0"),
            ("image: a/b:my-tag2", false, "image: a/b:my-tag2"),
            ("image: a/b:<IMAGE_TAG>", true, "image: a/b:1.5.0"),
            ("image: ${VLLM_IMAGE}", true, "image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0"),
            ("value: ${HOME}", false, "value: ${HOME}"),
            ("# image: a/b:my-tag", false, "# image: a/b:1.5.0"),
        ] {
            assert_eq!(!placeholders(text).is_empty(), found, "{text}");
            assert_eq!(fill_placeholders(text, "1.5.0"), filled);
        }
        assert_eq!(placeholders("a: 1\n b: x:my-tag\n"), [(2, "b: x:my-tag".to_owned())]);
    }

    #[test]
    fn our_group_is_distinguished_from_others() {
        for (version, ours) in [("nvidia.com/v1beta1", true), ("nvidia.com.evil/v1", false), ("v1", false)] {
            assert_eq!(is_ours(&serde_json::json!({"apiVersion": version})), ours, "{version}");
        }
    }
}
