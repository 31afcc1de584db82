//! The roles of pods that a graph runs, which the chart's templates write: they grant what the graph controller says.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use repository::chart::render;
use serde_json::Value;

use super::list;

/// Names of the pods for `graph-controller access --of`, and the names of their ClusterRoles.
const PODS: [(&str, &str); 4] = [
    ("discovery", "dynamo-operator-discovery"),
    ("planner", "rel-dynamo-operator-planner"),
    ("epp", "rel-dynamo-operator-epp"),
    ("profiling", "rel-dynamo-operator-dgdr-profiling"),
];

/// Fails if a role of the chart grants something else than the program, which is built already, prints.
pub(super) fn check() -> Result<()> {
    let objects = render("rel", "dyn", &["dynamo-operator.planner.powerAwareness.enabled=true"])?;
    for (pods, name) in PODS {
        let printed = super::role("graph-controller", &["access", "--of", pods])?;
        let role = objects.iter().find(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == name);
        let (granted, desired) = (rights(role.with_context(|| format!("the chart has no {name}"))?), rights(&printed));
        let different: Vec<&String> = granted.symmetric_difference(&desired).collect();
        ensure!(
            different.is_empty(),
            "ClusterRole {name} and `graph-controller access --of {pods}` differ in {different:?}; correct _component-accounts.tpl"
        );
    }
    Ok(())
}

/// Everything that a role grants, but for rights on single objects: every program follows the markers of namespaces,
/// pods do not.
fn rights(role: &Value) -> BTreeSet<String> {
    let rules = role["rules"].as_array().into_iter().flatten().filter(|rule| rule["resourceNames"].is_null());
    let rights = rules.flat_map(|rule| {
        list(&rule["apiGroups"]).flat_map(move |group| {
            let resources = list(&rule["resources"]);
            resources
                .flat_map(move |resource| list(&rule["verbs"]).map(move |verb| format!("{verb} {group}/{resource}")))
        })
    });
    rights.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rights_do_not_depend_on_how_rules_are_cut() {
        let rule = |resources: &[&str]| json!({"apiGroups": ["g"], "resources": resources, "verbs": ["get", "list"]});
        let named = json!({"apiGroups": ["g"], "resources": ["c"], "resourceNames": ["one"], "verbs": ["get"]});
        let one = json!({"rules": [rule(&["a", "b"]), named]});
        let other = json!({"rules": [rule(&["b"]), rule(&["a"])]});
        assert_eq!(rights(&one), rights(&other));
        assert_eq!(rights(&one).into_iter().collect::<Vec<_>>(), ["get g/a", "get g/b", "list g/a", "list g/b"]);
        assert_ne!(rights(&one), rights(&json!({"rules": [rule(&["a"])]})));
    }
}
