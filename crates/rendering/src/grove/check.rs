//! Violations that only Grove makes violations.

use api_types::{
    annotations::GROVE_UPDATE_STRATEGY,
    limits::MEMORY_RANKS,
    names::GROVE_COMBINED_MAX,
    v1beta1::{ComponentSpec, DynamoGraphDeployment},
    violations,
    violations::Violation,
};

use super::{roles, topology};
use crate::{rules, violation::Violations};

/// Looks for every violation in a graph for Grove that its components do not show by themselves.
pub fn check(graph: &DynamoGraphDeployment) -> Vec<Violation> {
    let mut violations = Violations::default();
    let strategy = graph.metadata.annotations.as_ref().and_then(|all| all.get(GROVE_UPDATE_STRATEGY));
    let path = format!("metadata.annotations[{GROVE_UPDATE_STRATEGY}]");
    strategy.and_then(|value| rules::grove_update_strategy(path, value)).into_iter().for_each(|it| violations.push(it));
    check_names(graph).into_iter().for_each(|violation| violations.push(violation));
    check_ranks(&graph.spec.components, &mut violations);
    topology::check(&graph.spec).into_iter().for_each(|violation| violations.push(violation));
    violations.into_inner()
}

/// Grove puts the names of a graph and of what is below it into one name, which must not become too long.
pub(crate) fn check_names(graph: &DynamoGraphDeployment) -> Vec<Violation> {
    let set = roles::set_name(graph.metadata.name.as_deref().unwrap_or_default(), &graph.spec.components);
    let too_long = |component: &ComponentSpec| {
        let length = set.len() + roles::names_beside_set(component);
        (length > GROVE_COMBINED_MAX).then(|| {
            Violation::invalid(
                format!("spec.components[{}].name", component.name),
                component.name.as_str(),
                violations::combined_name(length),
                violations::COMBINED_NAME_REMEDY,
            )
        })
    };
    graph.spec.components.iter().filter_map(too_long).collect()
}

/// Grove has two cliques for each rank whose engines share memory between pods. All of them are parts of one object.
fn check_ranks(components: &[ComponentSpec], violations: &mut Violations) {
    let sharing = || components.iter().filter(|component| roles::shares_memory_between_pods(component));
    let ranks = sharing().fold(0, |ranks: i32, component| ranks.saturating_add(component.node_count().max(1)));
    let largest = sharing().max_by_key(|component| component.node_count());
    if let Some(component) = largest.filter(|_| ranks > MEMORY_RANKS) {
        violations.push(Violation::invalid(
            format!("spec.components[{}].multinode.nodeCount", component.name),
            component.node_count().to_string(),
            format!(
                "makes {ranks} ranks in the graph that share GPU memory between pods, and {MEMORY_RANKS} are possible"
            ),
            "use fewer nodes, or mode IntraPod",
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fields(metadata: Value, spec: Value) -> Vec<String> {
        let graph = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
        check(&graph).into_iter().map(|violation| violation.path).collect()
    }

    #[test]
    fn ranks_that_share_memory_between_pods_fit_into_one_object() {
        let sharing = |name: &str, nodes: i32| {
            let experimental = json!({ "gpuMemoryService": { "mode": "InterPod" } });
            json!({ "name": name, "multinode": { "nodeCount": nodes }, "experimental": experimental })
        };
        let found = |nodes: [i32; 2]| {
            let [a, b] = nodes;
            fields(json!({ "name": "g" }), json!({ "components": [sharing("a", a), sharing("b", b)] }))
        };
        assert_eq!(found([128, 128]), [""; 0]);
        assert_eq!(found([2, 255]), ["spec.components[b].multinode.nodeCount"]);
        assert_eq!(found([i32::MAX, i32::MAX]).len(), 1);
    }

    #[test]
    fn what_grove_would_refuse_is_told_before() {
        let component = |name: &str| json!({ "components": [{ "name": name }] });
        let with = |strategy: &str| json!({ "name": "g", "annotations": { GROVE_UPDATE_STRATEGY: strategy } });
        assert_eq!(fields(with("OnDelete"), component("a")), [""; 0]);
        assert_eq!(fields(with("Never"), component("a")), ["metadata.annotations[nvidia.com/grove-update-strategy]"]);
        let long = "n".repeat(38);
        assert_eq!(
            fields(json!({ "name": "graph-name" }), component(&long)),
            [format!("spec.components[{long}].name")]
        );
        assert_eq!(fields(json!({ "name": "graph-name" }), component(&long[..37])), [""; 0]);
    }
}
