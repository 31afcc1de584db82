//! Defaults of a DynamoGraphDeployment.

use api_types::annotations;
use serde_json::{Value, json};

use super::{object_at, replicas::replicas};
use crate::admission::{
    Facts, Operation,
    field::{FieldPath, Node},
    provider_override::{self, Scope},
    view::{Graph, Provider},
};

/// Fills in what the author left out. `old` is the graph as it is stored.
pub(super) fn fill(object: &mut Value, old: Option<&Value>, operation: Operation, facts: &Facts) {
    match old {
        _ if operation == Operation::Create => stamp(object, facts),
        Some(old) => put_back(object, old),
        None => {}
    }
    for (path, value) in missing(object, old) {
        set(object, &path, value);
    }
}

/// A new graph gets the program that runs it, whatever its author wrote, and the operator's version.
fn stamp(object: &mut Value, facts: &Facts) {
    let grove = Provider::of_new(&Graph::new(Node::root(object)), facts) == Provider::Grove;
    let provider = if grove { annotations::PROVIDER_GROVE } else { annotations::PROVIDER_COMPONENT };
    if let Some(all) = object_at(object, &["metadata", "annotations"]) {
        all.insert(annotations::WORKLOAD_PROVIDER.to_owned(), json!(provider));
        all.entry(annotations::ORIGIN_VERSION).or_insert_with(|| json!(facts.operator_version));
    }
}

/// An update that leaves out what the graph was stamped with, as `kubectl replace` does, does not take it away.
fn put_back(object: &mut Value, old: &Value) {
    let stamps = [annotations::WORKLOAD_PROVIDER, annotations::ORIGIN_VERSION];
    let stamps = stamps.map(|key| (key, old.pointer("/metadata/annotations").and_then(|all| all.get(key))));
    for (key, value) in stamps.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        if let Some(all) = object_at(object, &["metadata", "annotations"]) {
            all.entry(key).or_insert_with(|| value.clone());
        }
    }
}

/// Fields that the author left to others, and what they get.
fn missing(object: &Value, old: Option<&Value>) -> Vec<(FieldPath, Value)> {
    let graph = Graph::new(Node::root(object));
    let old = old.map(|old| Graph::new(Node::root(old)));
    let provider = graph.provider();
    let mut found = Vec::new();
    let target = |fragment: &Node<'_>, scope: Scope<'_, '_>| {
        let target = provider_override::default_target(fragment, scope, provider);
        target.map(|target| (fragment.field("target").path().clone(), json!(target)))
    };
    found.extend(target(&graph.spec().field("providerOverride"), Scope::Root));
    for component in graph.components().iter().filter(|component| component.node().value().is_object()) {
        let replicas = replicas(&graph, component, old.as_ref());
        found.extend(replicas.map(|replicas| (component.field("replicas").path().clone(), json!(replicas))));
        let min_available = component.field("minAvailable");
        if provider == Provider::Grove && !min_available.is_set() {
            found.push((min_available.path().clone(), json!(1)));
        }
        found.extend(
            provider_override::of_component(component).iter().filter_map(|(fragment, scope)| target(fragment, *scope)),
        );
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
