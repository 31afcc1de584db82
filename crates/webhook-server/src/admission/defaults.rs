//! Defaults that the operator fills in. Defaults that a schema can state are in the CRDs.

use api_types::{
    annotations,
    conversion::{ApiVersion, preserved::legacy::PreservedGraph},
    env,
    v1beta1::{ComponentSpec, ComponentType, DynamoGraphDeployment},
    violations::Violation,
};
use k8s_openapi::api::core::v1::EnvVar;
use rendering::{
    legacy,
    rules::{ProviderChoice, Version, fragment, provider_of_new},
};
use serde_json::{Value, json};

use super::{
    Answer, Facts, Operation, Request,
    field::{FieldNode, FieldPath},
    kind::{ReviewedKind, in_version},
    subject,
};

/// Answers on one of the paths that give defaults.
pub(super) fn review(kind: ReviewedKind, request: &Request, facts: &Facts) -> Answer {
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
fn defaulted(kind: ReviewedKind, object: &Value, request: &Request, facts: &Facts) -> Result<Value, Violation> {
    let came_in = kind.version_of(request)?;
    let mut hub = in_version(object.clone(), ApiVersion::V1Beta1)?;
    match kind {
        ReviewedKind::Graph => {
            let old = request.old_object.clone().and_then(|old| in_version(old, ApiVersion::V1Beta1).ok());
            fill(&mut hub, old.as_ref(), request.operation, facts);
        }
        // A component on its own has the name of its object.
        ReviewedKind::Component if request.operation == Operation::Create => {
            let name = FieldNode::root(&hub).fields(&["metadata", "name"]).text().to_owned();
            fill_text(&mut hub, "name", Some(name));
        }
        ReviewedKind::Request if request.operation == Operation::Create => {
            fill_text(&mut hub, "image", profiler_image(facts));
        }
        _ => {}
    }
    if came_in == ApiVersion::V1Beta1 { Ok(hub) } else { in_version(hub, came_in) }
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

/// Gives a field of the spec this text, if there is one, unless the user wrote one.
fn fill_text(object: &mut Value, field: &str, text: Option<String>) {
    let is_given = !FieldNode::root(object).fields(&["spec", field]).text().is_empty();
    if let Some(text) = text.filter(|text| !is_given && !text.is_empty())
        && let Some(spec) = object_at(object, &["spec"])
    {
        spec.insert(field.to_owned(), Value::String(text));
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

/// Returns the replicas from the configuration. On Grove, the configuration is left to the engines, unless the image is
/// built from an archive.
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
    let built = preserved.filter(|preserved| preserved.source.is_some() && !names_image);
    if built.is_none() && ProviderChoice::of(&graph.metadata).is_grove() {
        return None;
    }
    let tag = built.as_ref().and_then(|built| built.services.get(&component.name)?.tag.as_deref());
    let is_entry = tag.is_some_and(|tag| legacy::is_entry(&component.name, tag));
    let is_frontend = component.type_.map_or(is_entry, |role| role == ComponentType::Frontend);
    legacy::workers(&component.name, is_frontend, own.as_slice(), inherited.as_slice())
}

/// Fills in what the user left out. `old` is the graph as it is stored.
fn fill(object: &mut Value, old: Option<&Value>, operation: Operation, facts: &Facts) {
    match old {
        _ if operation == Operation::Create => stamp(object, facts),
        Some(old) => put_back(object, old),
        None => {}
    }
    for (path, value) in missing(object, old) {
        set(object, &path, value);
    }
}

/// A new graph gets its workload provider, whatever its user wrote, and the operator's version.
fn stamp(object: &mut Value, facts: &Facts) {
    let provider = provider_of_new(&subject::graph(object).metadata, facts.features.grove).as_str();
    if let Some(all) = object_at(object, &["metadata", "annotations"]) {
        all.insert(annotations::WORKLOAD_PROVIDER.to_owned(), json!(provider));
        all.entry(annotations::ORIGIN_VERSION).or_insert_with(|| json!(facts.operator_version));
    }
}

/// An update that leaves out what the graph was stamped with, as `kubectl replace` does, does not take it away.
fn put_back(object: &mut Value, old: &Value) {
    for key in [annotations::WORKLOAD_PROVIDER, annotations::ORIGIN_VERSION] {
        if let Some(value) = old.pointer("/metadata/annotations").and_then(|all| all.get(key))
            && let Some(all) = object_at(object, &["metadata", "annotations"])
        {
            all.entry(key).or_insert_with(|| value.clone());
        }
    }
}

/// Fields that the user left out, and what they get.
fn missing(object: &Value, old: Option<&Value>) -> Vec<(FieldPath, Value)> {
    let (root, graph) = (FieldNode::root(object), subject::graph(object));
    let old = old.map(subject::graph);
    let provider = ProviderChoice::of(&graph.metadata);
    let mut found = Vec::new();
    for (path, fragment, place) in fragment::of_graph(&graph.spec) {
        let target = fragment::default_target(fragment, place, provider);
        found.extend(target.map(|target| (root.at(&path).field("target").path, json!(target))));
    }
    for node in root.fields(&["spec", "components"]).items() {
        let name = node.field("name").text();
        let Some(component) = graph.spec.components.iter().find(|one| one.name == name) else { continue };
        let [number, min_available] = ["replicas", "minAvailable"].map(|field| node.field(field));
        // A number that does not fit is for the schema to refuse.
        let replicas =
            replicas(&graph, component, old.as_ref()).filter(|_| component.replicas.is_some() || !number.is_set());
        found.extend(replicas.map(|replicas| (number.path.clone(), json!(replicas))));
        if provider.is_grove() && !min_available.is_set() {
            found.push((min_available.path.clone(), json!(1)));
        }
    }
    found
}

fn set(object: &mut Value, path: &FieldPath, value: Value) {
    if let Some((parent, field)) = path.split_last()
        && let Some(Value::Object(fields)) = parent.find_mut(object)
    {
        fields.insert(field.to_owned(), value);
    }
}

/// Repository of the image that profiles models; its tags are versions of the operator.
const PROFILER: &str = "nvcr.io/nvidia/ai-dynamo/dynamo-planner";

/// The image that profiles the model. Without a version of the operator there is none to be derived.
fn profiler_image(facts: &Facts) -> Option<String> {
    let given = facts.request_image.clone().filter(|image| !image.is_empty());
    given.or_else(|| Some(format!("{PROFILER}:{}", Version::lenient(&facts.operator_version)?.as_tag())))
}
