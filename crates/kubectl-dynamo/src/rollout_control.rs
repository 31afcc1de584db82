//! Changes of the annotations that control a rollout. Pure.

use std::collections::BTreeMap;

use api_types::{
    annotations::{PROVIDER_GROVE, ROLLOUT, ROLLOUT_STEP, WORKLOAD_PROVIDER},
    rollout_control::{PAUSED, UNDONE, rollout_control},
    v1beta1::{ComponentKind, DynamoGraphDeployment},
};
use kube::ResourceExt;

/// A request about the rollout of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutRequest<'a> {
    /// Stop it where it is.
    Pause,
    /// End a pause or an undo.
    Resume,
    /// Return to the older of this number of live revisions.
    Undo(usize),
    /// Hold the new revision at a count or percentage, or no longer.
    Step(Option<&'a str>),
}

/// A change of annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationChange {
    /// The annotation.
    pub key: &'static str,
    /// Its value; `None` removes it.
    pub value: Option<String>,
    /// The change as one word, or a few, after the name of the graph.
    pub done: String,
    /// Further information for the user.
    pub note: Option<String>,
}

/// The change that a request needs.
///
/// # Errors
/// The reason why the graph cannot be changed so, for the user.
pub fn change(graph: &DynamoGraphDeployment, request: RolloutRequest<'_>) -> Result<AnnotationChange, String> {
    let name = graph.name_any();
    let annotations = graph.annotations();
    let present = |key: &str| annotations.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let refused = |text: &str| Err(format!("dynamographdeployments.nvidia.com {name:?} {text}"));
    let (key, value, done) = match (request, present(ROLLOUT)) {
        (RolloutRequest::Pause, Some(PAUSED)) => return refused("is already paused"),
        (RolloutRequest::Pause, _) => (ROLLOUT, Some(PAUSED), "paused".to_owned()),
        (RolloutRequest::Resume, None) => return refused("is not paused"),
        (RolloutRequest::Resume, Some(_)) => (ROLLOUT, None, "resumed".to_owned()),
        (RolloutRequest::Undo(_), Some(UNDONE)) => return refused("is already rolled back"),
        (RolloutRequest::Undo(0 | 1), _) if !is_on_grove(graph) => {
            return refused(
                "has no rollout in progress: objects of replaced revisions are deleted; apply the former spec to \
                 return to it",
            );
        }
        (RolloutRequest::Undo(_), _) => (ROLLOUT, Some(UNDONE), "rolled back".to_owned()),
        (RolloutRequest::Step(None), _) if present(ROLLOUT_STEP).is_none() => return refused("is not held at a step"),
        (RolloutRequest::Step(None), _) => (ROLLOUT_STEP, None, "no longer held at a step".to_owned()),
        (RolloutRequest::Step(Some(step)), _) => (ROLLOUT_STEP, Some(step), format!("held at {step}")),
    };
    check(graph, key, value)?;
    let note = match request {
        RolloutRequest::Resume => present(ROLLOUT_STEP).map(|step| {
            format!("new workers are held at {step}; `kubectl dynamo rollout step {name} none` lets them go on")
        }),
        RolloutRequest::Undo(_) => {
            Some(format!("set the workers in the spec back, then run `kubectl dynamo rollout resume {name}`"))
        }
        RolloutRequest::Step(_) if present(ROLLOUT) == Some(PAUSED) => {
            Some(format!("the rollout is paused; `kubectl dynamo rollout resume {name}` lets it go on"))
        }
        RolloutRequest::Pause | RolloutRequest::Step(_) => None,
    };
    Ok(AnnotationChange { key, value: value.map(str::to_owned), done, note })
}

/// Admission has the same rules. Where no webhook server runs, a violation would be reported later, in the status.
fn check(graph: &DynamoGraphDeployment, key: &str, value: Option<&str>) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let all = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let violations = rollout_control(&all, is_on_grove(graph), &[]).err().unwrap_or_default();
    match violations.first() {
        Some(violation) => Err(format!("graph {}: {violation}", graph.name_any())),
        None => Ok(()),
    }
}

fn is_on_grove(graph: &DynamoGraphDeployment) -> bool {
    let kinds = graph.status.iter().flat_map(|status| status.components.values()).map(|counts| counts.component_kind);
    let mut of_grove =
        kinds.filter(|kind| matches!(kind, ComponentKind::PodClique | ComponentKind::PodCliqueScalingGroup));
    of_grove.next().is_some() || graph.annotations().get(WORKLOAD_PROVIDER).is_some_and(|name| name == PROVIDER_GROVE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn graph(annotations: &[(&str, &str)]) -> DynamoGraphDeployment {
        let all: BTreeMap<_, _> = annotations.iter().copied().collect();
        serde_json::from_value(json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": { "name": "chat", "annotations": all }, "spec": { "components": [] },
        }))
        .unwrap()
    }

    #[test]
    fn one_annotation_is_set_or_removed() {
        let (paused, undone, held) = ((ROLLOUT, PAUSED), (ROLLOUT, UNDONE), (ROLLOUT_STEP, "25%"));
        for (before, request, key, value, done) in [
            (vec![], RolloutRequest::Pause, ROLLOUT, Some(PAUSED), "paused"),
            (vec![undone], RolloutRequest::Pause, ROLLOUT, Some(PAUSED), "paused"),
            (vec![paused], RolloutRequest::Resume, ROLLOUT, None, "resumed"),
            (vec![undone], RolloutRequest::Resume, ROLLOUT, None, "resumed"),
            (vec![paused], RolloutRequest::Undo(2), ROLLOUT, Some(UNDONE), "rolled back"),
            (vec![], RolloutRequest::Step(Some("25%")), ROLLOUT_STEP, Some("25%"), "held at 25%"),
            (vec![held], RolloutRequest::Step(Some("2")), ROLLOUT_STEP, Some("2"), "held at 2"),
            (vec![held], RolloutRequest::Step(None), ROLLOUT_STEP, None, "no longer held at a step"),
        ] {
            let change = change(&graph(&before), request).unwrap();
            assert_eq!((change.key, change.value.as_deref(), change.done.as_str()), (key, value, done), "{request:?}");
        }
    }

    #[test]
    fn what_holds_beside_it_is_said() {
        let note = |before: &[(&str, &str)], request| change(&graph(before), request).unwrap().note;
        let resumed = note(&[(ROLLOUT, PAUSED), (ROLLOUT_STEP, "25%")], RolloutRequest::Resume);
        assert!(resumed.unwrap().contains("held at 25%"));
        assert_eq!(note(&[(ROLLOUT, PAUSED)], RolloutRequest::Resume), None);
        assert!(note(&[(ROLLOUT, PAUSED)], RolloutRequest::Step(Some("1"))).unwrap().contains("is paused"));
    }

    #[test]
    fn what_would_change_nothing_or_be_rejected_is_refused() {
        for (before, request, text) in [
            (vec![(ROLLOUT, PAUSED)], RolloutRequest::Pause, "is already paused"),
            (vec![], RolloutRequest::Resume, "is not paused"),
            (vec![(ROLLOUT, UNDONE)], RolloutRequest::Undo(2), "is already rolled back"),
            (vec![], RolloutRequest::Undo(1), "has no rollout in progress"),
            (vec![], RolloutRequest::Step(None), "is not held at a step"),
            (vec![], RolloutRequest::Step(Some("half")), "is neither a count"),
            (vec![(WORKLOAD_PROVIDER, PROVIDER_GROVE)], RolloutRequest::Pause, "Grove replaces the pods"),
            (vec![(WORKLOAD_PROVIDER, PROVIDER_GROVE)], RolloutRequest::Undo(0), "Grove replaces the pods"),
        ] {
            let refused = change(&graph(&before), request).unwrap_err();
            assert!(refused.contains(text), "{request:?}: {refused}");
        }
    }
}
