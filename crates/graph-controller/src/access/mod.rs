//! What this controller may do, as data. The role of its ServiceAccount is made from this list.

mod graphs;
mod grove;
mod pods;
mod requests;

use controller_kit::{
    access::{Access, NamedAccess, Verb},
    settings::{PICKER_ROLE, PLANNER_ROLE, PROFILING_ROLE},
};

pub use self::pods::{PICKER, PLANNER, PROFILER};
use self::{graphs::GRAPHS, grove::ON_GROVE, requests::REQUESTS};

/// What those get who keep objects of a kind themselves.
const EVERYTHING: &[Verb] =
    &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];

/// Every right of the controller, and why it needs it.
#[must_use]
pub fn rights() -> Vec<Access> {
    [GRAPHS, ON_GROVE, REQUESTS].concat()
}

/// Rights on single objects of the cluster. The chart gives the ClusterRoles of its release their names.
pub const BINDS: &[NamedAccess] = &[NamedAccess {
    group: "rbac.authorization.k8s.io",
    resource: "clusterroles",
    names: &[PLANNER_ROLE, PICKER_ROLE, PROFILING_ROLE],
    verbs: &[Verb::Bind],
    why: "binds accounts of pods to their roles, whose rights it does not have itself; in an install for one namespace the \
          chart has bound them",
}];

#[cfg(test)]
mod tests {
    use super::{BINDS, pods::POOLS_ALPHA, rights};
    use crate::graph::plan::discovery;

    fn holds(group: &str, resource: &str, verb: &str) -> bool {
        rights().iter().any(|own| {
            let path = own.subresource.map_or(own.resource.to_owned(), |part| format!("{}/{part}", own.resource));
            (own.group, path.as_str()) == (group, resource) && own.verbs.iter().any(|own| own.as_str() == verb)
        })
    }

    /// Nobody who takes over this account can make, change or delete a Secret.
    #[test]
    fn secrets_are_never_written() {
        let writes = ["create", "update", "patch", "delete", "deletecollection"];
        assert!(writes.iter().all(|verb| !holds("", "secrets", verb)));
    }

    /// The API server refuses a role that holds more than the one who makes it.
    #[test]
    fn what_a_discovery_account_gets_is_held() {
        for rule in discovery::rules() {
            for resource in rule.resources.unwrap() {
                let group = &rule.api_groups.as_ref().unwrap()[0];
                assert!(rule.verbs.iter().all(|verb| holds(group, &resource, verb)), "{resource}");
            }
        }
    }

    /// Who takes over this account cannot do what planners, pickers and profilers may.
    #[test]
    fn what_is_only_bound_is_not_held() {
        for (group, resource, verb) in [
            (api_types::GROUP, "dynamographdeployments", "delete"),
            (api_types::GROUP, "dynamographdeploymentscalingadapters/scale", "patch"),
            ("", "pods", "create"),
            ("", "pods/log", "get"),
            ("authentication.k8s.io", "tokenreviews", "create"),
            (POOLS_ALPHA, "inferencepools", "list"),
        ] {
            assert!(!holds(group, resource, verb), "{verb} {resource}");
        }
        assert!(BINDS.iter().all(|access| !access.names.is_empty()), "no role but those of the chart");
    }
}
