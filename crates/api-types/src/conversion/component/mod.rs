//! The component of a graph, which is also the spec of a `DynamoComponentDeployment`, and its status, which is part of
//! the status of a graph.

mod alpha;
mod alpha_saved;
mod beta;
mod beta_saved;
mod main_container;

use serde_json::{Value, json};

use super::value::{Object, list, name_of, object, put, text};

/// Name of the container that the operator fills in.
const MAIN: &str = "main";
/// Name of the container that a v1alpha1 `frontendSidecar` becomes.
const SIDECAR: &str = "sidecar-frontend";

/// Fields that are the same in both versions.
const SAME: [&str; 9] = [
    "providerOverride",
    "runtimeVersionOverride",
    "globalDynamoNamespace",
    "replicas",
    "minAvailable",
    "multinode",
    "modelRef",
    "topologyConstraint",
    "eppConfig",
];

/// Source of a component's name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Name<'a> {
    /// In a graph, v1alpha1 has it as the key of a map.
    Key(&'a str),
    /// On its own, it has a name, or that of its object.
    Object(Option<&'a str>),
}

/// A component in v1alpha1.
pub(super) struct Alpha<'a>(pub Name<'a>);

/// A component in v1beta1.
pub(super) struct Beta<'a>(pub Name<'a>);

/// The containers of a component in v1beta1.
fn live_containers(beta: &mut Object) -> Option<&mut Vec<Value>> {
    beta.get_mut("podTemplate")?.get_mut("spec")?.get_mut("containers")?.as_array_mut()
}

/// The container of that name of a component in v1beta1.
fn live_container<'a>(beta: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    live_containers(beta)?.iter_mut().find(|container| name_of(container) == Some(name))?.as_object_mut()
}

/// The status of a service in v1beta1, which only has a list of names.
pub(super) fn replicas_to_beta(alpha: &Object) -> Object {
    let mut beta = alpha.clone();
    beta.remove("componentName");
    if let (true, Some(name)) = (list(alpha, "componentNames").is_empty(), text(alpha, "componentName")) {
        beta.insert("componentNames".to_owned(), json!([name]));
    }
    beta
}

/// The status of a component in v1alpha1, which has the last name a second time and requires it.
pub(super) fn replicas_to_alpha(beta: &Object) -> Object {
    let mut alpha = beta.clone();
    let last = list(beta, "componentNames").last().and_then(Value::as_str);
    alpha.insert("componentName".to_owned(), json!(last.unwrap_or_default()));
    alpha
}

/// Names of a service that v1beta1 cannot say; none if it can.
pub(super) fn saved_names(original: &Object, rebuilt: Option<&Object>) -> Option<Object> {
    let lost = |key: &str| rebuilt.is_none_or(|rebuilt| rebuilt.get(key) != original.get(key));
    (lost("componentName") || lost("componentNames")).then(|| {
        let keys = ["componentName", "componentNames"].into_iter();
        keys.filter_map(|key| Some((key.to_owned(), original.get(key)?.clone()))).collect()
    })
}

/// Puts the names of the service at `path` back, if it is there.
pub(super) fn put_names(body: &mut Object, path: &[&str], saved: &Object) {
    let service = path.iter().try_fold(body, |parent, key| parent.get_mut(*key)?.as_object_mut());
    let Some(service) = service else { return };
    for key in ["componentName", "componentNames"] {
        put(service, &[key], saved.get(key).cloned());
    }
}

/// A status in the other version: what is the same, without a state that says nothing. An empty state is not among
/// those that the schema has.
pub(super) fn common(status: &Object, renamed: &[&str]) -> Object {
    let says_nothing = |key: &str, value: &Value| value.is_null() || (key == "state" && value == "");
    let common = status.iter().filter(|(key, value)| !renamed.contains(&key.as_str()) && !says_nothing(key, value));
    common.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Every object in the map `key`, changed, as a map.
pub(super) fn each(status: &Object, key: &str, change: impl Fn(&Object) -> Object) -> Option<Value> {
    let entries = object(status, key)?.iter();
    let changed = entries.filter_map(|(name, entry)| Some((name.clone(), Value::Object(change(entry.as_object()?)))));
    Some(Value::Object(changed.collect()))
}
