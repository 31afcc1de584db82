//! A prediction beside what the controllers have written.

use std::collections::{BTreeMap, BTreeSet};

use api_types::labels::BASE_MODEL_HASH;
use controller_kit::apply::semantic_diff;
use kubectl_dynamo::preview::{ObjectChange, Prediction, field_changes, replaced};
use serde_json::Value;

use super::harness::Objects;

/// Written by the controller of Deployments.
const FOREIGN: &str = "metadata.annotations[deployment.kubernetes.io/revision]";

/// Kinds of Grove.
const GROVES: [&str; 2] = ["PodClique", "PodCliqueScalingGroup"];

/// In what the objects and pods differ from a prediction.
pub fn mismatches(
    prediction: &Prediction,
    (before, after): (&Objects, &Objects),
    (pods_before, pods_after): (&BTreeMap<String, String>, &BTreeMap<String, String>),
) -> Vec<String> {
    let mut found = Vec::new();
    let predicted: BTreeMap<(&str, &str), &ObjectChange> =
        prediction.changes.iter().map(|change| ((change.kind.as_str(), change.name.as_str()), change)).collect();
    let names: BTreeSet<&(String, String)> = before.keys().chain(after.keys()).collect();
    let names: BTreeSet<(&str, &str)> = names.into_iter().map(|(kind, name)| (kind.as_str(), name.as_str())).collect();
    for (kind, name) in names.into_iter().chain(predicted.keys().copied()).collect::<BTreeSet<_>>() {
        let key = (kind.to_owned(), name.to_owned());
        let change = predicted.get(&(kind, name)).copied();
        if [before, after].iter().filter_map(|all| all.get(&key)).any(is_of_set) {
            continue;
        }
        if GROVES.contains(&kind) {
            found.extend(
                scale_mismatch(change, before.get(&key), after.get(&key)).map(|text| format!("{kind} {name}: {text}")),
            );
            continue;
        }
        if let Some(text) = mismatch(change, before.get(&key), after.get(&key)) {
            found.push(format!("{kind} {name}: {text}"));
        }
    }
    found.extend(pod_mismatches(prediction, pods_before, pods_after));
    found
}

/// The manager of LeaderWorkerSets makes a Service for each.
fn is_of_set(object: &Value) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "LeaderWorkerSet"))
}

/// Grove makes and changes these objects; the controllers only scale them.
fn scale_mismatch(predicted: Option<&ObjectChange>, before: Option<&Value>, after: Option<&Value>) -> Option<String> {
    let replicas = |object: &Value| object["spec"]["replicas"].clone();
    let expected = match predicted.map(|change| change.after.as_ref()) {
        Some(expected) => expected.map(replicas),
        // Grove's own are no part of a prediction before they are scaled.
        None if before.is_none() => return None,
        None => before.map(replicas),
    };
    let actual = after.map(replicas);
    (expected != actual).then(|| format!("predicted {expected:?} replicas, and they are {actual:?}"))
}

fn mismatch(predicted: Option<&ObjectChange>, before: Option<&Value>, after: Option<&Value>) -> Option<String> {
    let verb = match (before, after) {
        (None, None) => None,
        (None, Some(_)) => Some("create"),
        (Some(_), None) => Some("delete"),
        (Some(before), Some(after)) if before["metadata"]["uid"] != after["metadata"]["uid"] => Some("replace"),
        (Some(before), Some(after)) => {
            let changed = field_changes(before, after).into_iter().any(|change| change.path != FOREIGN);
            changed.then_some("change")
        }
    };
    // The garbage collector and the next owner race for the Service of a model whose only owner goes.
    let is_shared = after.is_some_and(|after| !after["metadata"]["labels"][BASE_MODEL_HASH].is_null());
    let known = |verb: &'static str| if is_shared && verb == "replace" { "change" } else { verb };
    if predicted.map(|change| known(change.verb)) != verb.map(known) {
        let fields = before.zip(after).map(|(before, after)| field_changes(before, after));
        return Some(format!("predicted {predicted:?}, and it is {verb:?} {fields:?}"));
    }
    let (predicted, after) = (predicted?, after?);
    if let Some(before) = before.filter(|_| Some(predicted.verb) == verb) {
        let paths = |changes: &[kubectl_dynamo::preview::FieldChange]| {
            let paths = changes.iter().map(|change| change.path.clone()).filter(|path| path != FOREIGN);
            paths.collect::<BTreeSet<_>>()
        };
        let (expected, actual) = (paths(&predicted.fields), paths(&field_changes(before, after)));
        if expected != actual {
            return Some(format!("predicted fields {expected:?}, and they are {actual:?}"));
        }
    }
    let expected = without_uids(predicted.after.clone()?);
    let different = semantic_diff(&without_uids(after.clone()), &expected);
    (!different.is_empty()).then(|| format!("other values: {different:?}"))
}

/// Uids of new objects cannot be predicted, nor is what the controller of Deployments writes.
fn without_uids(mut object: Value) -> Value {
    if let Some(all) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        all.remove("deployment.kubernetes.io/revision");
    }
    if let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) {
        owners.iter_mut().for_each(|owner| owner["uid"] = Value::Null);
    }
    object
}

fn pod_mismatches(
    prediction: &Prediction,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut actual: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (_, component) in after.iter().filter(|(uid, _)| !before.contains_key(*uid)) {
        actual.entry(component).or_default().0 += 1;
    }
    for (_, component) in before.iter().filter(|(uid, _)| !after.contains_key(*uid)) {
        actual.entry(component).or_default().1 += 1;
    }
    // A pod that comes and goes in between is not there before, nor after.
    let names = |verb: &str| {
        let pods = prediction.pods.iter().filter(|pod| pod.verb == verb);
        pods.map(|pod| pod.name.as_str()).collect::<BTreeSet<_>>()
    };
    let (made, gone) = (names("create"), names("delete"));
    let lasting = prediction.pods.iter().filter(|pod| !(made.contains(&*pod.name) && gone.contains(&*pod.name)));
    let lasting: Vec<_> = lasting.cloned().collect();
    let expected = replaced(&lasting);
    if actual == expected { Vec::new() } else { vec![format!("predicted pods {expected:?}, and they are {actual:?}")] }
}
