//! Spread constraints count the pods of one revision of workers.
//!
//! A user's selector does not select by revision: while workers change it counts the pods that go too, and when they
//! are gone the new ones sit where the old ones left room. So a revision of ours says that only its own pods count.

use api_types::{grove::PodCliqueTemplate, labels, v1beta1::DynamoComponentDeployment};
use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use serde_json::Value;

/// Scopes the spread constraints of a worker to its revision. What is live under the same name keeps what it has: a
/// revision that another operator has made would be rolled by it.
pub fn scope(desired: &mut DynamoComponentDeployment, live: Option<&DynamoComponentDeployment>) {
    let has_revision = desired.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::WORKER_HASH));
    let is_scoped = |live: &DynamoComponentDeployment| constraints(live).iter().any(names_revision);
    if !has_revision || live.is_some_and(|live| !is_scoped(live)) {
        return;
    }
    let template = desired.spec.component.pod_template.as_mut();
    add(template.and_then(|template| template.spec.as_mut()?.topology_spread_constraints.as_mut()));
}

/// The same for the pods of a clique. One revision follows the other within a clique: what is live counts as long as it
/// is of the same.
pub fn scope_clique(desired: &mut PodCliqueTemplate, live: Option<&PodCliqueTemplate>) {
    let Some(revision) = desired.labels.get(labels::WORKER_HASH) else { return };
    let same = live.filter(|live| live.labels.get(labels::WORKER_HASH) == Some(revision));
    let is_scoped =
        |live: &PodCliqueTemplate| live.spec.pod_spec.topology_spread_constraints.iter().flatten().any(names_revision);
    if same.is_none_or(is_scoped) {
        add(desired.spec.pod_spec.topology_spread_constraints.as_mut());
    }
}

fn add(constraints: Option<&mut Vec<TopologySpreadConstraint>>) {
    for constraint in constraints.into_iter().flatten().filter(|constraint| !names_revision(constraint)) {
        // Without a selector no pod counts, and the API server rejects further keys.
        if constraint.label_selector.is_some() {
            constraint.match_label_keys.get_or_insert_default().push(labels::WORKER_HASH.to_owned());
        }
    }
}

fn constraints(object: &DynamoComponentDeployment) -> &[TopologySpreadConstraint] {
    let pod = object.spec.component.pod_spec();
    pod.and_then(|pod| pod.topology_spread_constraints.as_deref()).unwrap_or_default()
}

/// Whether a constraint distinguishes revisions, by its selector or beside it.
fn names_revision(constraint: &TopologySpreadConstraint) -> bool {
    let by_key = constraint.match_label_keys.iter().flatten().any(|key| key == labels::WORKER_HASH);
    let selector = constraint.label_selector.as_ref();
    let label = selector.and_then(|selector| selector.match_labels.as_ref()?.get(labels::WORKER_HASH)).is_some();
    let expressions = selector.and_then(|selector| selector.match_expressions.as_ref()).into_iter().flatten();
    by_key || label || expressions.into_iter().any(|expression| expression.key == labels::WORKER_HASH)
}

/// Takes what [`scope`] adds out of a spec as JSON: a revision is the same with and without it.
pub fn without_scope(spec: &mut Value) {
    let constraints = spec.pointer_mut("/podTemplate/spec/topologySpreadConstraints").and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten().filter_map(Value::as_object_mut) {
        let Some(keys) = constraint.get_mut("matchLabelKeys").and_then(Value::as_array_mut) else { continue };
        keys.retain(|key| key != labels::WORKER_HASH);
        if keys.is_empty() {
            constraint.remove("matchLabelKeys");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn worker(revision: Option<&str>, constraints: Value) -> DynamoComponentDeployment {
        let labels = revision.map(|revision| json!({ labels::WORKER_HASH: revision }));
        let pod = json!({ "containers": [], "topologySpreadConstraints": constraints });
        let component = json!({ "name": "w", "podTemplate": { "spec": pod } });
        serde_json::from_value(json!({ "metadata": { "name": "w", "labels": labels }, "spec": component })).unwrap()
    }

    fn constraint(more: Value) -> Value {
        let mut constraint = json!({
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": "w" } },
        });
        constraint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        constraint
    }

    fn scoped(
        desired: &DynamoComponentDeployment,
        live: Option<&DynamoComponentDeployment>,
    ) -> Vec<Option<Vec<String>>> {
        let mut desired = desired.clone();
        scope(&mut desired, live);
        constraints(&desired).iter().map(|constraint| constraint.match_label_keys.clone()).collect()
    }

    #[test]
    fn the_pods_of_one_revision_count() {
        let by_author = constraint(json!({ "matchLabelKeys": ["mine"] }));
        let unselective = json!({ "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway" });
        let desired = worker(Some("1a"), json!([constraint(json!({})), by_author, unselective]));
        let ours = labels::WORKER_HASH.to_owned();
        let expected = [Some(vec![ours.clone()]), Some(vec!["mine".to_owned(), ours]), None];
        assert_eq!(scoped(&desired, None), expected);
        assert_eq!(scoped(&worker(None, json!([constraint(json!({}))])), None), [None], "there are no revisions");
    }

    #[test]
    fn what_runs_keeps_its_constraints() {
        let plain = worker(Some("1a"), json!([constraint(json!({}))]));
        assert_eq!(scoped(&plain, Some(&plain)), [None], "another operator has made it");
        let mut made = plain.clone();
        scope(&mut made, None);
        assert_eq!(scoped(&plain, Some(&made)), scoped(&plain, None), "ours stays as it was made");
    }

    #[test]
    fn a_selector_by_revision_is_kept() {
        for selector in [
            json!({ "matchLabels": { labels::WORKER_HASH: "1a" } }),
            json!({ "matchExpressions": [{ "key": labels::WORKER_HASH, "operator": "Exists" }] }),
        ] {
            let desired = worker(Some("1a"), json!([constraint(json!({ "labelSelector": selector }))]));
            assert_eq!(scoped(&desired, None), [None]);
        }
    }

    #[test]
    fn a_revision_is_the_same_with_and_without() {
        let plain =
            worker(Some("1a"), json!([constraint(json!({})), constraint(json!({ "matchLabelKeys": ["mine"] }))]));
        let mut made = plain.clone();
        scope(&mut made, None);
        assert_ne!(json!(made.spec), json!(plain.spec));
        let mut spec = json!(made.spec);
        without_scope(&mut spec);
        assert_eq!(spec, json!(plain.spec));
    }
}
