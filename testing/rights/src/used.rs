//! Requests to the API server: read from its audit log.

use std::collections::BTreeSet;

use serde_json::Value;

/// A request, as far as rights are concerned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    /// The user.
    pub(super) user: String,
    /// The program, as it names itself.
    pub(super) agent: String,
    pub(super) group: String,
    /// Plural name, with the subresource.
    pub(super) resource: String,
    pub(super) verb: String,
    /// The object, if one was named.
    pub(super) name: Option<String>,
    /// Its namespace, if it has one.
    pub(super) namespace: Option<String>,
    /// Whether there was a right to it.
    pub(super) allowed: bool,
}

/// All different requests of a log. Lines that are no events are skipped: the last one may be half written.
pub(super) fn read(log: &str) -> BTreeSet<Use> {
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.flat_map(|event| of_event(&event)).collect()
}

/// An apply that made its object took the right to create, too: an object of that name, which a POST does not give.
fn of_event(event: &Value) -> Vec<Use> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let Some(resource) = text("/objectRef/resource") else { return Vec::new() };
    let code = event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default();
    let subresource = text("/objectRef/subresource").map(|part| format!("/{part}")).unwrap_or_default();
    let verb = text("/verb").unwrap_or_default();
    let verbs: &[&str] = if verb == "patch" && code == 201 { &["patch", "create"] } else { &[verb] };
    let uses = verbs.iter().map(|verb| Use {
        user: text("/user/username").unwrap_or_default().to_owned(),
        agent: text("/userAgent").unwrap_or_default().to_owned(),
        group: text("/objectRef/apiGroup").unwrap_or_default().to_owned(),
        resource: format!("{resource}{subresource}"),
        verb: (*verb).to_owned(),
        name: text("/objectRef/name").filter(|_| verbs != ["create"]).map(str::to_owned),
        namespace: text("/objectRef/namespace").map(str::to_owned),
        allowed: code != 403,
    });
    uses.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_request_is_returned_once() {
        let event = |verb: &str, code: u64, object: Value| {
            let event = json!({
                "verb": verb, "user": {"username": "u"}, "userAgent": "a/1", "objectRef": object,
                "responseStatus": {"code": code},
            });
            event.to_string()
        };
        let status = json!({"resource": "x", "subresource": "status", "apiGroup": "g", "namespace": "n", "name": "o"});
        let log = [
            event("patch", 200, status.clone()),
            event("patch", 200, status),
            event("patch", 201, json!({"resource": "pods", "name": "p"})),
            event("get", 403, json!({"resource": "nodes", "name": "m"})),
            event("get", 200, Value::Null),
            "{\"verb\": \"li".to_owned(),
        ];
        let found = read(&log.join("\n"));
        let shown: Vec<_> = found
            .iter()
            .map(|u| format!("{} {}/{} {:?} {:?} {}", u.verb, u.group, u.resource, u.name, u.namespace, u.allowed))
            .collect();
        let expected = [
            "get /nodes Some(\"m\") None false",
            "create /pods Some(\"p\") None true",
            "patch /pods Some(\"p\") None true",
            "patch g/x/status Some(\"o\") Some(\"n\") true",
        ];
        assert_eq!(shown, expected);
    }
}
