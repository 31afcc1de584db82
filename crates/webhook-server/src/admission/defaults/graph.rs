//! Defaults of a DynamoGraphDeployment.

use api_types::annotations;
use rendering::{
    WorkloadProvider,
    rules::{ProviderChoice, fragment, provider_of_new},
};
use serde_json::{Value, json};

use super::{object_at, replicas};
use crate::admission::{
    Facts, Operation,
    field::{FieldPath, Node},
    subject,
};

/// Fills in what the user left out. `old` is the graph as it is stored.
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

/// A new graph gets the program that runs it, whatever its user wrote, and the operator's version.
fn stamp(object: &mut Value, facts: &Facts) {
    let provider = match provider_of_new(&subject::graph(object).0.metadata, facts.features.grove) {
        WorkloadProvider::Grove => annotations::PROVIDER_GROVE,
        WorkloadProvider::Component => annotations::PROVIDER_COMPONENT,
    };
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

/// Fields that the user left out, and what they get.
fn missing(object: &Value, old: Option<&Value>) -> Vec<(FieldPath, Value)> {
    let (root, graph) = (Node::root(object), subject::graph(object).0);
    let old = old.map(|old| subject::graph(old).0);
    let provider = ProviderChoice::of(&graph.metadata);
    let mut found = Vec::new();
    for (path, fragment, place) in fragment::of_graph(&graph.spec) {
        let target = fragment::default_target(fragment, place, provider);
        found.extend(target.map(|target| (root.at(&path).field("target").path().clone(), json!(target))));
    }
    for node in root.fields(&["spec", "components"]).items() {
        let Some(component) =
            graph.spec.components.iter().find(|component| component.name == node.field("name").text())
        else {
            continue;
        };
        let [number, min_available] = ["replicas", "minAvailable"].map(|field| node.field(field));
        // A number that does not fit is for the schema to refuse.
        let replicas =
            replicas(&graph, component, old.as_ref()).filter(|_| component.replicas.is_some() || !number.is_set());
        found.extend(replicas.map(|replicas| (number.path().clone(), json!(replicas))));
        if provider.is_grove() && !min_available.is_set() {
            found.push((min_available.path().clone(), json!(1)));
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
