//! Masks what looks like a credential in an object.

use serde_json::Value;

/// What a credential is replaced by.
const MASKED: &str = "(masked)";
/// Words in the names of environment variables and flags that hold credentials.
const WORDS: [&str; 8] = ["token", "secret", "password", "passwd", "credential", "api_key", "apikey", "access_key"];
/// Metadata that only repeats the object.
const REPEATED: [&str; 2] = ["managedFields", "kubectl.kubernetes.io/last-applied-configuration"];

/// Masks values of environment variables and flags by their names, and passwords in URLs; removes what repeats the
/// object.
pub fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in REPEATED {
                fields.remove(name);
            }
            let is_credential = fields.get("name").and_then(Value::as_str).is_some_and(is_credential);
            if is_credential
                && let Some(value) = fields.get_mut("value")
                && value.is_string()
            {
                *value = MASKED.into();
            }
            fields.values_mut().for_each(mask);
        }
        Value::Array(items) => {
            let mut follows_flag = false;
            for item in items {
                if let Value::String(text) = item {
                    *text = arguments(text, &mut follows_flag);
                } else {
                    mask(item);
                }
            }
        }
        Value::String(text) => *text = without_password(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_credential(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    // Such as MAX_TOKENS and TOKENIZER, which are none.
    let name = name.replace("tokens", "").replace("tokenizer", "");
    WORDS.iter().any(|word| name.contains(word))
}

/// An item of a command line, which may be a script of many words. `follows_flag`: the next word is a credential.
fn arguments(text: &str, follows_flag: &mut bool) -> String {
    let mut masked = String::with_capacity(text.len());
    for part in text.split_inclusive(char::is_whitespace) {
        let word = part.trim_end();
        if word.is_empty() {
            masked.push_str(part);
            continue;
        }
        let (clean, is_flag) = argument(word, *follows_flag);
        *follows_flag = is_flag;
        masked.push_str(&clean);
        masked.push_str(part.strip_prefix(word).unwrap_or_default());
    }
    masked
}

/// A word of a command line, and whether the next one is a credential.
fn argument(text: &str, follows_flag: bool) -> (String, bool) {
    if follows_flag && !text.starts_with('-') {
        return (MASKED.to_owned(), false);
    }
    match text.split_once('=') {
        Some((flag, _)) if is_credential(flag) => (format!("{flag}={MASKED}"), false),
        None if text.starts_with('-') && is_credential(text) => (text.to_owned(), true),
        _ => (without_password(text), false),
    }
}

/// A text whose URLs have no password.
fn without_password(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let end = after.find(['/', ' ', '"', '\'', ',', '?']).unwrap_or(after.len());
        let (authority, others) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((user, host)) if user.contains(':') => clean.push_str(&format!("{MASKED}@{host}")),
            _ => clean.push_str(authority),
        }
        rest = others;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
}
