//! Rights of this controller, as data. The role of its ServiceAccount is generated from this list.

mod graphs;
mod pods;

use controller_kit::{
    access::{Access, Verb},
    settings::{DISCOVERY_ROLE, PICKER_ROLE, PLANNER_ROLE, PROFILING_ROLE},
};
use pods::REQUESTS;

use self::graphs::{GRAPHS, ON_GROVE};
pub use self::pods::{DISCOVERY, PICKER, PLANNER, PROFILER};

/// Verbs of accounts that manage the objects of a kind themselves.
const EVERYTHING: &[Verb] =
    &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];

/// Rights on a kind of Dynamo.
const fn dynamo(resource: &'static str, verbs: &'static [Verb], why: &'static str) -> Access {
    Access::new(api_types::GROUP, resource, verbs, why)
}

/// The right to write the status of a kind of Dynamo.
const fn dynamo_status(resource: &'static str, why: &'static str) -> Access {
    Access::sub(api_types::GROUP, resource, "status", &[Verb::Patch], why)
}

/// Every right of the controller, and why it needs it.
#[must_use]
pub fn rights() -> Vec<Access> {
    [GRAPHS, ON_GROVE, REQUESTS].concat()
}

/// Rights on single objects in an install for the whole cluster. The chart gives the ClusterRoles of its release their
/// names, but for that of discovery accounts, which all releases share.
pub const BINDS: &[Access] = &[
    Access::named(
        RBAC,
        "clusterroles",
        &[PLANNER_ROLE, PICKER_ROLE, PROFILING_ROLE],
        &[Verb::Bind],
        "binds accounts of pods to their roles, whose rights it does not have itself; in an install for one \
         namespace the chart has bound them",
    ),
    Access::named(RBAC, "clusterroles", &[DISCOVERY_ROLE], &[Verb::Bind], DISCOVERY_BOUND),
];

/// Rights on single objects in an install for one namespace.
pub const BINDS_IN_NAMESPACE: &[Access] =
    &[Access::named(RBAC, "roles", &[DISCOVERY_ROLE], &[Verb::Bind], DISCOVERY_BOUND)];

const RBAC: &str = "rbac.authorization.k8s.io";
const DISCOVERY_BOUND: &str =
    "binds the discovery account of each graph to its role, whose rights it does not have itself";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::{BINDS, BINDS_IN_NAMESPACE, DISCOVERY, RBAC, Verb, pods::POOLS_ALPHA, rights};
    use crate::graph::plan::discovery;

    fn holds(group: &str, resource: &str, verb: &str) -> bool {
        rights().iter().any(|own| {
            let path = own.subresource.map_or(own.resource.to_owned(), |part| format!("{}/{part}", own.resource));
            (own.group, path.as_str()) == (group, resource) && own.verbs.iter().any(|own| json!(own) == verb)
        })
    }

    /// An attacker with this account cannot make, change or delete a Secret.
    #[test]
    fn secrets_are_never_written() {
        let writes = ["create", "update", "patch", "delete", "deletecollection"];
        assert!(writes.iter().all(|verb| !holds("", "secrets", verb)));
    }

    /// If the chart has created no role, each graph has one with the same rights.
    #[test]
    fn a_role_of_one_graph_grants_what_the_shared_one_does() {
        let shared = DISCOVERY.iter().flat_map(|access| {
            let name = |verb: &Verb| json!(verb).as_str().unwrap().to_owned();
            access.verbs.iter().map(move |verb| (access.group.to_owned(), access.resource.to_owned(), name(verb)))
        });
        let own = discovery::rules().into_iter().flat_map(|rule| {
            let group = rule.api_groups.unwrap().remove(0);
            let pairs = rule
                .resources
                .unwrap()
                .into_iter()
                .flat_map(move |resource| rule.verbs.clone().into_iter().map(move |verb| (resource.clone(), verb)));
            pairs.map(move |(resource, verb)| (group.clone(), resource, verb)).collect::<Vec<_>>()
        });
        assert_eq!(own.collect::<BTreeSet<_>>(), shared.collect());
    }

    /// A takeover of this account does not give the rights of pods.
    #[test]
    fn what_is_only_bound_is_not_held() {
        for (group, resource, verb) in [
            (api_types::GROUP, "dynamographdeployments", "delete"),
            (api_types::GROUP, "dynamographdeploymentscalingadapters/scale", "patch"),
            ("", "pods", "create"),
            ("", "pods/log", "get"),
            ("authentication.k8s.io", "tokenreviews", "create"),
            (POOLS_ALPHA, "inferencepools", "list"),
            (api_types::GROUP, "dynamoworkermetadatas", "create"),
            ("", "endpoints", "get"),
        ] {
            assert!(!holds(group, resource, verb), "{verb} {resource}");
        }
        let binds = || BINDS.iter().chain(BINDS_IN_NAMESPACE);
        assert!(binds().all(|access| !access.names.is_empty()), "no role but those of the chart");
    }

    /// A role that one can write is one that one can fill with rights.
    #[test]
    fn roles_are_only_bound() {
        for resource in ["roles", "clusterroles", "clusterrolebindings"] {
            let verbs = ["create", "update", "patch", "delete", "bind", "escalate"];
            assert!(verbs.iter().all(|verb| !holds(RBAC, resource, verb)), "{resource}");
        }
    }
}
