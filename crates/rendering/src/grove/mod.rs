//! Graphs that run on Grove: one PodCliqueSet for all components, and a Service for each.
//!
//! ```text
//! check(&DynamoGraphDeployment)             -> Vec<Violation>    violations that only Grove makes violations
//! render_pod_clique_set(&GroveGraph)        -> PodCliqueSet    without owner
//! render_service(&GroveGraph, &component)   -> Option<Service> without owner; None: there must be none
//! render_ray_head_service(&GroveGraph, &component) -> Option<Service>   the same, for others to join an elastic worker
//! render_ingress, render_virtual_service(&component) -> Option<…>   the way in from outside, likewise
//! child_of(&ComponentSpec)                  -> ChildKind       what Grove makes of a component, and scales
//! clique_readiness, group_readiness         -> GroveReadiness  of what Grove made
//! ```
//!
//! Violations that only Grove makes violations are in this file.
//!
//! | file | what |
//! |---|---|
//! | `roles` | which cliques a component has |
//! | `clique` | one clique: labels, annotations, pod, scheduler |
//! | `topology` | where things are placed, the user's fragments included |
//! | `service` | how components are reached |
//! | `readiness` | what Grove's status means |

mod clique;
mod readiness;
pub(crate) mod roles;
mod service;
mod topology;

use std::collections::BTreeMap;

use api_types::{
    annotations::GROVE_UPDATE_STRATEGY,
    limits::MEMORY_RANKS,
    names::GROVE_COMBINED_MAX,
    v1beta1::{ComponentSpec, DynamoGraphDeployment, DynamoGraphDeploymentSpec},
    violations::{self, Violation},
};
pub(crate) use roles::only_assists;

pub use self::{
    clique::Scheduler,
    readiness::{Classification, GroveReadiness, TemplateProgress, clique_readiness, group_readiness},
    roles::{ChildKind, child_of, set_name},
    service::{render_ingress, render_pod_clique_set, render_ray_head_service, render_service, render_virtual_service},
    topology::has_topology,
};
use crate::{RenderInput, ValidatedComponent, rules};

/// A graph as it is rendered for Grove.
#[derive(Clone, Debug)]
pub struct GroveGraph<'a> {
    /// Name of the graph.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its own annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// Its spec.
    pub spec: &'a DynamoGraphDeploymentSpec,
    /// Name of the PodCliqueSet.
    pub set_name: &'a str,
    /// The components, in the order of the spec.
    pub components: &'a [GroveComponent<'a>],
    /// Settings of the operator for Grove.
    pub grove: &'a GroveSettings,
}

/// One component of it.
#[derive(Clone, Debug)]
pub struct GroveComponent<'a> {
    /// The component as its user wrote it.
    pub declared: &'a ComponentSpec,
    /// The component with what holds for the whole graph merged in.
    pub valid: ValidatedComponent<'a>,
    /// A type that no version of the API has, as the user of an older version wrote it. It means no particular role,
    /// but pods and Services bear it.
    pub unknown_type: Option<&'a str>,
    /// Id of the restart that its pods must have gone through.
    pub restart_at: Option<&'a str>,
    /// Everything else that its pods depend on.
    pub input: RenderInput<'a>,
}

/// Settings of the operator for Grove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroveSettings {
    /// Longest time for which less than the minimum may be available before a gang is restarted, as a Go duration such
    /// as `15m0s`; Grove's default if `None`.
    pub termination_delay: Option<String>,
    /// Scheduler that places the pods.
    pub scheduler: Scheduler,
}

/// Looks for every violation in a graph for Grove that its components do not show by themselves.
pub fn check(graph: &DynamoGraphDeployment) -> Vec<Violation> {
    let strategy = graph.metadata.annotations.as_ref().and_then(|all| all.get(GROVE_UPDATE_STRATEGY));
    let path = format!("metadata.annotations[{GROVE_UPDATE_STRATEGY}]");
    let strategy = strategy.and_then(|value| rules::grove_update_strategy(path, value));
    let found = strategy.into_iter().chain(check_names(graph)).chain(check_ranks(&graph.spec.components));
    found.chain(topology::check(&graph.spec)).collect()
}

/// Grove puts the names of a graph and of what is below it into one name, which must not become too long.
pub(crate) fn check_names(graph: &DynamoGraphDeployment) -> Vec<Violation> {
    let set = roles::set_name(graph.metadata.name.as_deref().unwrap_or_default(), &graph.spec.components);
    let too_long = |component: &ComponentSpec| {
        let length = set.len() + roles::names_beside_set(component);
        (length > GROVE_COMBINED_MAX).then(|| {
            let (name, problem) = (component.name.as_str(), violations::combined_name(length));
            Violation::invalid(format!("spec.components[{name}].name"), name, problem, violations::COMBINED_NAME_REMEDY)
        })
    };
    graph.spec.components.iter().filter_map(too_long).collect()
}

/// Grove has two cliques for each rank whose engines share memory between pods. All of them are parts of one object.
fn check_ranks(components: &[ComponentSpec]) -> Option<Violation> {
    let sharing = || components.iter().filter(|component| roles::shares_memory_between_pods(component));
    let ranks = sharing().fold(0, |ranks: i32, component| ranks.saturating_add(component.node_count().max(1)));
    let largest = sharing().max_by_key(|component| component.node_count()).filter(|_| ranks > MEMORY_RANKS)?;
    let path = format!("spec.components[{}].multinode.nodeCount", largest.name);
    let problem =
        format!("makes {ranks} ranks in the graph that share GPU memory between pods, and {MEMORY_RANKS} are possible");
    Some(Violation::invalid(path, largest.node_count().to_string(), problem, "use fewer nodes, or mode IntraPod"))
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
    fn what_grove_would_reject_is_reported_before() {
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
