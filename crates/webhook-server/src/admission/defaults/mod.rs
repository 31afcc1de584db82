//! Defaults that the operator fills in. Defaults that a schema can state are in the CRDs.

mod component_deployment;
mod graph;
mod replicas;
mod request;

use api_types::{
    conversion::{ApiVersion, convert},
    violations::Violation,
};
use serde_json::Value;

use super::{
    Answer, Facts, Operation, Path, Request,
    kind::{Kind, Unexpected},
};

/// Answers on one of the paths that give defaults.
pub(super) fn review(path: Path, request: &Request, facts: &Facts) -> Answer {
    let kind = match path {
        Path::DefaultGraph => Kind::Graph,
        Path::DefaultComponent => Kind::Component,
        _ => Kind::Request,
    };
    let Some(object) = &request.object else { return Answer::admitted() };
    if super::is_deleting(object) {
        return Answer::admitted();
    }
    match defaulted(kind, object, request, facts) {
        Ok(after) => Answer::Allow { patch: json_patch::diff(object, &after).0, warnings: Vec::new() },
        Err(violation) => Answer::of(vec![violation], Vec::new()),
    }
}

/// The object with its defaults, in the version that it came in.
fn defaulted(kind: Kind, object: &Value, request: &Request, facts: &Facts) -> Result<Value, Violation> {
    let came_in = kind.version_of(request).map_err(Unexpected::into_violation)?;
    let to =
        |object: Value, version| convert(object, version).map_err(|error| Unexpected::Object(error).into_violation());
    let mut hub = to(object.clone(), ApiVersion::V1Beta1)?;
    match kind {
        Kind::Graph => {
            let old = request.old_object.clone().and_then(|old| to(old, ApiVersion::V1Beta1).ok());
            graph::fill(&mut hub, old.as_ref(), request.operation, facts);
        }
        Kind::Component if request.operation == Operation::Create => component_deployment::fill(&mut hub),
        Kind::Request if request.operation == Operation::Create => request::fill(&mut hub, facts),
        _ => {}
    }
    if came_in == ApiVersion::V1Beta1 { Ok(hub) } else { to(hub, came_in) }
}

/// The object at the end of these names, made where there is none; `None` if something else is in the way.
fn object_at<'v>(value: &'v mut Value, names: &[&str]) -> Option<&'v mut serde_json::Map<String, Value>> {
    let mut value = value;
    for name in names {
        value = value.as_object_mut()?.entry(*name).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Object(serde_json::Map::new());
        }
    }
    value.as_object_mut()
}
