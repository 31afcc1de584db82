//! Requests and responses in HTTP.
//!
//! | request | HTTP |
//! |---|---|
//! | list | `GET /v1/loras`, answered with `{"loras": {"<name>": <id>, …}}` |
//! | load | `POST /v1/loras` with `{"lora_name": "<name>", "source": {"uri": "<uri>"}}` |
//! | unload | `DELETE /v1/loras/<name>` |

use std::{collections::BTreeSet, fmt::Write};

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{AdapterName, EngineOutcome, EngineRequest, state::shorten};

const PATH: &str = "/v1/loras";

/// Maximum bytes of a response. A longer list is ignored.
pub const MAX_RESPONSE_BYTES: usize = 256 * 1024;

/// Maximum bytes of an error's text. Of a longer one, only the HTTP status counts.
const LONGEST_ERROR: usize = 64 * 1024;

/// Method, path and body of a request.
pub fn encode(request: &EngineRequest) -> (Method, String, Option<String>) {
    match request {
        EngineRequest::List { .. } => (Method::GET, PATH.to_owned(), None),
        EngineRequest::Load { name, source, .. } => {
            let body = json!({ "lora_name": name.as_str(), "source": { "uri": source.uri() } });
            (Method::POST, PATH.to_owned(), Some(body.to_string()))
        }
        EngineRequest::Unload { name } => (Method::DELETE, format!("{PATH}/{}", segment(name)), None),
    }
}

/// Escapes a name as one segment of a path, slashes and dots included.
fn segment(name: &AdapterName) -> String {
    let only_dots = name.as_str().bytes().all(|byte| byte == b'.');
    let mut segment = String::new();
    for byte in name.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) || (byte == b'.' && !only_dots) {
            segment.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(segment, "%{byte:02X}");
        }
    }
    segment
}

/// The outcome that a response means.
pub fn outcome_of(request: &EngineRequest, status: StatusCode, body: &[u8]) -> EngineOutcome {
    if status.is_success() {
        return match request {
            EngineRequest::List { counted } => listed(body, counted).unwrap_or(EngineOutcome::NoList),
            EngineRequest::Load { .. } | EngineRequest::Unload { .. } => EngineOutcome::Done,
        };
    }
    let text = if body.len() > LONGEST_ERROR { String::new() } else { String::from_utf8_lossy(body).into_owned() };
    match (request, status) {
        (_, StatusCode::INTERNAL_SERVER_ERROR) if is_unmanaged(request, &text) => EngineOutcome::Unmanaged,
        (
            EngineRequest::List { .. },
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED,
        ) => EngineOutcome::NoList,
        (EngineRequest::Unload { .. }, StatusCode::NOT_FOUND) => EngineOutcome::NotThere,
        (EngineRequest::Unload { .. }, _) if text.to_lowercase().contains("not found") => EngineOutcome::NotThere,
        _ => EngineOutcome::Refused { status: status.as_u16(), message: shorten(&message(&text)) },
    }
}

/// Whether a worker reports that it has no handler for adapters. Older versions use another text.
fn is_unmanaged(request: &EngineRequest, text: &str) -> bool {
    let operation = match request {
        EngineRequest::List { .. } => "list_loras",
        EngineRequest::Load { .. } => "load_lora",
        EngineRequest::Unload { .. } => "unload_lora",
    };
    let text = text.to_lowercase();
    text.contains("lora management not available")
        || text.contains(&format!("endpoint '{operation}' not found in local registry"))
}

/// The message in an error's JSON, or its text as it is.
fn message(text: &str) -> String {
    let json: Option<Value> = serde_json::from_str(text).ok();
    let field = |name: &str| json.as_ref()?.get(name)?.as_str().map(str::to_owned);
    field("message").or_else(|| field("detail")).or_else(|| field("error")).unwrap_or_else(|| text.to_owned())
}

/// The counted names in a list, and the number of the others; `None` if it is no list.
fn listed(body: &[u8], counted: &BTreeSet<AdapterName>) -> Option<EngineOutcome> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    if answer.get("status").and_then(Value::as_str) == Some("error") {
        return None;
    }
    match answer.get("loras")? {
        // A negative id is a reservation for an adapter that is being loaded.
        Value::Object(ids) => {
            let there = ids.iter().filter(|(_, id)| id.as_i64().is_none_or(|id| id >= 0));
            Some(count(there.map(|(name, _)| name.as_str()), counted))
        }
        Value::Array(items) => {
            let names: Option<Vec<&str>> = items.iter().map(name_of).collect();
            Some(count(names?.into_iter(), counted))
        }
        _ => None,
    }
}

fn count<'a>(all: impl Iterator<Item = &'a str>, counted: &BTreeSet<AdapterName>) -> EngineOutcome {
    let (mut names, mut others) = (Vec::new(), 0);
    for name in all {
        match counted.get(&AdapterName::from(name)) {
            Some(name) => names.push(name.clone()),
            None => others += 1,
        }
    }
    EngineOutcome::Listed { names, others }
}

fn name_of(item: &Value) -> Option<&str> {
    let field = |name: &str| item.get(name).and_then(Value::as_str);
    item.as_str().or_else(|| field("lora_name")).or_else(|| field("name"))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;

    fn load(name: &str) -> EngineRequest {
        EngineRequest::Load { name: name.into(), source: "s3://b/a".into(), timeout: Duration::from_secs(1) }
    }

    fn list() -> EngineRequest {
        let counted = ["a", "b", "c", "org/b", "coming", "there"].map(AdapterName::from);
        EngineRequest::List { counted: Arc::new(BTreeSet::from(counted)) }
    }

    fn unload(name: &str) -> EngineRequest {
        EngineRequest::Unload { name: name.into() }
    }

    #[test]
    fn requests_are_those_of_the_runtime() {
        let (method, path, body) = encode(&load("org/name"));
        assert_eq!((method, path.as_str()), (Method::POST, "/v1/loras"));
        let body: Value = serde_json::from_str(&body.unwrap()).unwrap();
        assert_eq!(body, json!({ "lora_name": "org/name", "source": { "uri": "s3://b/a" } }));
        assert_eq!(encode(&list()), (Method::GET, "/v1/loras".to_owned(), None));
    }

    /// Upstream, a name with slashes was several segments, and `..` led out of the path.
    #[test]
    fn a_name_is_one_segment_whatever_it_holds() {
        for (name, path) in [
            ("plain-1.5_x~", "/v1/loras/plain-1.5_x~"),
            ("org/name", "/v1/loras/org%2Fname"),
            ("a/../b", "/v1/loras/a%2F..%2Fb"),
            ("..", "/v1/loras/%2E%2E"),
            (".", "/v1/loras/%2E"),
            ("a b?c#d%", "/v1/loras/a%20b%3Fc%23d%25"),
            ("ü", "/v1/loras/%C3%BC"),
        ] {
            assert_eq!(encode(&unload(name)), (Method::DELETE, path.to_owned(), None));
        }
    }

    #[test]
    fn lists_are_understood_in_all_their_forms() {
        let list = list();
        let listed = |names: &[&str]| {
            let names = names.iter().map(|name| AdapterName::from(*name)).collect();
            EngineOutcome::Listed { names, others: 0 }
        };
        for (body, outcome) in [
            (r#"{"status":"success","loras":{"a":1,"org/b":7},"count":2}"#, listed(&["a", "org/b"])),
            (r#"{"loras":{"coming":-1,"there":0}}"#, listed(&["there"])),
            (r#"{"loras":{}}"#, listed(&[])),
            (r#"{"loras":{"a":1,"x":2,"y":3}}"#, EngineOutcome::Listed { names: vec!["a".into()], others: 2 }),
            (r#"{"loras":["a",{"lora_name":"b"},{"name":"c"}]}"#, listed(&["a", "b", "c"])),
            (r#"{"loras":[{"other":"a"}]}"#, EngineOutcome::NoList),
            (r#"{"status":"error","loras":{}}"#, EngineOutcome::NoList),
            (r#"{"status":"success"}"#, EngineOutcome::NoList),
            ("ok", EngineOutcome::NoList),
        ] {
            assert_eq!(outcome_of(&list, StatusCode::OK, body.as_bytes()), outcome, "{body}");
        }
    }

    #[test]
    fn errors_are_distinguished() {
        let refused = |status, message: &str| EngineOutcome::Refused { status, message: message.to_owned() };
        let unmanaged = r#"{"status":"error","message":"LoRA management not available: no 'load_lora' handler"}"#;
        let older = r#"{"message":"Endpoint 'load_lora' not found in local registry"}"#;
        for (request, status, body, outcome) in [
            (load("a"), 500, unmanaged, EngineOutcome::Unmanaged),
            (load("a"), 500, older, EngineOutcome::Unmanaged),
            (load("a"), 503, unmanaged, refused(503, "LoRA management not available: no 'load_lora' handler")),
            (unload("a"), 500, older, EngineOutcome::NotThere),
            (load("a"), 500, r#"{"message":"LoRA capacity exceeded"}"#, refused(500, "LoRA capacity exceeded")),
            (load("a"), 307, "", refused(307, "")),
            (load("a"), 404, "", refused(404, "")),
            (unload("a"), 404, "", EngineOutcome::NotThere),
            (unload("a"), 500, r#"{"message":"LoRA adapter 'a' not found."}"#, EngineOutcome::NotThere),
            (unload("a"), 500, "busy", refused(500, "busy")),
            (list(), 404, "", EngineOutcome::NoList),
            (list(), 503, "warming up", refused(503, "warming up")),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(outcome_of(&request, status, body.as_bytes()), outcome, "{request:?} {status} {body}");
        }
        // The message is logged, so it has a limit.
        let talkative = outcome_of(&load("a"), StatusCode::BAD_GATEWAY, "x".repeat(LONGEST_ERROR).as_bytes());
        assert!(matches!(talkative, EngineOutcome::Refused { message, .. } if message.chars().count() <= 300));
        let long = "x".repeat(LONGEST_ERROR + 1);
        assert_eq!(outcome_of(&load("a"), StatusCode::BAD_GATEWAY, long.as_bytes()), refused(502, ""));
    }
}
