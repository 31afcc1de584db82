//! Defaults that the operator fills in. Defaults that a schema can state are in the CRDs.

mod graph;
mod request;

use api_types::{
    conversion::{ApiVersion, convert, preserved::archive::PreservedGraph},
    env,
    v1beta1::{ComponentSpec, ComponentType, DynamoGraphDeployment},
    violations::Violation,
};
use k8s_openapi::api::core::v1::EnvVar;
use rendering::{legacy, rules::ProviderChoice};
use serde_json::Value;

use super::{
    Answer, Facts, Operation, Path, Request,
    kind::{Kind, Unexpected},
};
use crate::admission::field::Node;

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
        Kind::Component if request.operation == Operation::Create => fill_name(&mut hub),
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

/// A component on its own has the name of its object.
fn fill_name(object: &mut Value) {
    let root = Node::root(object);
    let name = root.fields(&["metadata", "name"]).text().to_owned();
    if name.is_empty() || !root.fields(&["spec", "name"]).text().is_empty() {
        return;
    }
    if let Some(spec) = object_at(object, &["spec"]) {
        spec.insert("name".to_owned(), Value::String(name));
    }
}

/// Replicas of a component; none if its number stays. `DYN_DEPLOYMENT_CONFIG` of the legacy API may give them. A number
/// that it gave follows it, because those who apply a manifest without one send back what was filled in before.
///
/// `old` is the graph as it is stored.
fn replicas(
    graph: &DynamoGraphDeployment,
    component: &ComponentSpec,
    old: Option<&DynamoGraphDeployment>,
) -> Option<i32> {
    let before =
        old.and_then(|old| Some((old, old.spec.components.iter().find(|before| before.name == component.name)?)));
    let is_scaled = |component: &ComponentSpec| component.scaling_adapter.is_some();
    let Some(given) = component.replicas else {
        // Replicas that a scaling adapter has set are not undone by leaving them out.
        let scaled = before.filter(|(_, before)| is_scaled(before) && is_scaled(component));
        let unless = || configured(graph, component).unwrap_or(1);
        return Some(scaled.map_or_else(unless, |(_, before)| before.desired_replicas()));
    };
    let (old, before) = before.filter(|(_, before)| !is_scaled(before) && !is_scaled(component))?;
    let filled_in = before.replicas == Some(given) && configured(old, before) == Some(given);
    configured(graph, component).filter(|now| filled_in && *now != given)
}

/// What the configuration says. On Grove it is the engines' business, unless the image is built from an archive.
fn configured(graph: &DynamoGraphDeployment, component: &ComponentSpec) -> Option<i32> {
    let variable =
        |list: Option<&Vec<EnvVar>>| list?.iter().find(|variable| variable.name == env::DYN_DEPLOYMENT_CONFIG).cloned();
    let main = component.main_container();
    let own = main.and_then(|main| variable(main.env.as_ref()));
    let inherited = variable(graph.spec.env.as_ref());
    if own.is_none() && inherited.is_none() {
        return None;
    }
    let names_image = main.is_some_and(|main| main.image.as_deref().is_some_and(|image| !image.is_empty()));
    let preserved = graph.metadata.annotations.as_ref().and_then(PreservedGraph::of);
    let archive = preserved.filter(|preserved| preserved.source.is_some() && !names_image);
    if archive.is_none() && ProviderChoice::of(&graph.metadata).is_grove() {
        return None;
    }
    let tag = archive.as_ref().and_then(|archive| archive.services.get(&component.name)?.tag.as_deref());
    let is_entry = tag.is_some_and(|tag| legacy::is_entry(&component.name, tag));
    let is_frontend = component.type_.map_or(is_entry, |role| role == ComponentType::Frontend);
    legacy::workers(&component.name, is_frontend, own.as_slice(), inherited.as_slice())
}
