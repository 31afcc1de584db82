//! What this controller may do, as data. The role of its ServiceAccount is made from this list.

use controller_kit::access::{Access, NamedAccess, Verb};
use controller_kit::settings::{PICKER_ROLE, PLANNER_ROLE, PROFILING_ROLE};

const GRANTED_TO_DISCOVERY: &str = "granted to discovery accounts: nobody can grant what it does not hold";

/// Group of the kinds of Grove.
const GROVE: &str = "grove.io";

/// Group of the kinds of endpoint pickers that are not stable yet.
const POOLS_ALPHA: &str = "inference.networking.x-k8s.io";

/// What those get who keep objects of a kind themselves.
const EVERYTHING: &[Verb] =
    &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];

/// Every right of the controller, and why it needs it.
pub const ACCESS: &[Access] = &[
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeployments",
        subresource: None,
        verbs: Verb::CACHE,
        why: "the objects it serves",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeployments",
        subresource: None,
        verbs: &[Verb::Patch],
        why: "removes the finalizer that the Go operator left on a graph that is being deleted; sets the replicas of components \
              with a scaling adapter; notes the live worker generation, where the Go operator looks for it",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeployments",
        subresource: Some("status"),
        verbs: &[Verb::Patch],
        why: "says how far a graph is",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeployments",
        subresource: Some("finalizers"),
        verbs: &[Verb::Update],
        why: "children block the deletion of their owner in the foreground; clusters with the admission plugin \
              OwnerReferencesPermissionEnforcement ask for this right before they accept such an owner",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamocomponentdeployments",
        subresource: None,
        verbs: Verb::OWN,
        why: "the components of a graph, one object for each generation",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamocomponents",
        subresource: None,
        verbs: Verb::OWN,
        why: "the builds of images that graphs of 2025 run; their status tells when an image is there",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamocheckpoints",
        subresource: None,
        verbs: Verb::OWN,
        why: "the checkpoints that components of a graph start from, one for each generation",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamocheckpoints",
        subresource: Some("finalizers"),
        verbs: &[Verb::Update],
        why: "the same for the claims of captured pods as for the children of graphs",
    },
    Access {
        group: "apps",
        resource: "daemonsets",
        subresource: None,
        verbs: Verb::CACHE,
        why: "the agents that restore checkpoints tell where they keep them, for graphs on Grove",
    },
    Access { group: GROVE, resource: "podcliquesets", subresource: None, verbs: Verb::OWN, why: "a graph on Grove" },
    Access {
        group: GROVE,
        resource: "podcliques",
        subresource: None,
        verbs: Verb::CACHE,
        why: "how far a graph on Grove is",
    },
    Access {
        group: GROVE,
        resource: "podcliques",
        subresource: Some("scale"),
        verbs: &[Verb::Get, Verb::Patch],
        why: "replicas of a component on Grove",
    },
    Access {
        group: GROVE,
        resource: "podcliquescalinggroups",
        subresource: None,
        verbs: Verb::CACHE,
        why: "how far a graph on Grove is",
    },
    Access {
        group: GROVE,
        resource: "podcliquescalinggroups",
        subresource: Some("scale"),
        verbs: &[Verb::Get, Verb::Patch],
        why: "replicas of a component on Grove that is several cliques",
    },
    Access {
        group: GROVE,
        resource: "clustertopologybindings",
        subresource: None,
        verbs: &[Verb::Get],
        why: "the domains that a policy for key-value caches names",
    },
    Access {
        group: "scheduling.run.ai",
        resource: "queues",
        subresource: None,
        verbs: &[Verb::Get],
        why: "a graph is not started in a queue that does not exist",
    },
    Access {
        group: "",
        resource: "services",
        subresource: None,
        verbs: Verb::OWN,
        why: "how the components of a graph on Grove are reached",
    },
    Access {
        group: "networking.k8s.io",
        resource: "ingresses",
        subresource: None,
        verbs: Verb::OWN,
        why: "the way in to a frontend on Grove; deleted when it shall have none",
    },
    Access {
        group: "networking.istio.io",
        resource: "virtualservices",
        subresource: None,
        verbs: Verb::OWN,
        why: "the way in to a frontend on Grove through Istio; deleted when it shall have none",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeploymentscalingadapters",
        subresource: None,
        verbs: Verb::OWN,
        why: "the replicas of components that somebody else scales",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeploymentscalingadapters",
        subresource: Some("status"),
        verbs: &[Verb::Patch],
        why: "says how many replicas there are, and which pods they are",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeploymentrequests",
        subresource: None,
        verbs: &[Verb::Get, Verb::List, Verb::Watch, Verb::Patch],
        why: "the requests it serves; removes the finalizer that the Go operator left on one that is being deleted",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeploymentrequests",
        subresource: Some("status"),
        verbs: &[Verb::Patch],
        why: "says how far a request is",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeploymentrequests",
        subresource: Some("finalizers"),
        verbs: &[Verb::Update],
        why: "the same for the Jobs of requests as for the children of graphs",
    },
    Access { group: "batch", resource: "jobs", subresource: None, verbs: Verb::OWN, why: "profile for requests" },
    Access {
        group: "",
        resource: "persistentvolumeclaims",
        subresource: None,
        verbs: &[Verb::Get],
        why: "whether the claim exists that a request names for the weights of its model",
    },
    Access {
        group: "",
        resource: "nodes",
        subresource: None,
        verbs: &[Verb::List],
        why: "the GPUs that a request is planned with; done without in installs for one namespace",
    },
    Access {
        group: "",
        resource: "nodes",
        subresource: None,
        verbs: &[Verb::Get],
        why: "where workers are that exchange key-value caches; done without in installs for one namespace",
    },
    Access {
        group: "",
        resource: "pods",
        subresource: None,
        verbs: &[Verb::Patch],
        why: "tells those workers where they are, by labels of their nodes",
    },
    Access {
        group: "",
        resource: "pods",
        subresource: None,
        verbs: &[Verb::Delete],
        why: "engines of a group that has lost one, and restored pods whose memory is gone, begin anew",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeployments",
        subresource: None,
        verbs: &[Verb::Create],
        why: "makes the graphs of requests",
    },
    Access {
        group: "",
        resource: "serviceaccounts",
        subresource: None,
        verbs: Verb::KEEP,
        why: "the accounts under which pods run",
    },
    Access {
        group: "rbac.authorization.k8s.io",
        resource: "roles",
        subresource: None,
        verbs: Verb::KEEP,
        why: "what the discovery account of a graph may do",
    },
    Access {
        group: "rbac.authorization.k8s.io",
        resource: "rolebindings",
        subresource: None,
        verbs: Verb::OWN,
        why: "that accounts may do what they need",
    },
    Access {
        group: "",
        resource: "configmaps",
        subresource: None,
        verbs: Verb::OWN,
        why: "configuration of endpoint pickers; the program that waits for a leader",
    },
    Access {
        group: "",
        resource: "secrets",
        subresource: None,
        verbs: Verb::CACHE,
        why: "tells whether the SSH key for MPI is in the namespaces of graphs whose replicas span nodes; finds image pull \
              secrets by registry for graphs on Grove, of which only host names are kept; reads the one Secret with credentials \
              for NATS and etcd, if the configuration names it",
    },
    Access {
        group: "",
        resource: "persistentvolumeclaims",
        subresource: None,
        verbs: &[Verb::Get, Verb::Create, Verb::Patch],
        why: "makes the claims that a graph of v1alpha1 asks for, once, and never deletes one",
    },
    Access {
        group: "resource.k8s.io",
        resource: "resourceclaimtemplates",
        subresource: None,
        verbs: Verb::OWN,
        why: "GPUs that the processes of one pod share; counts the GPUs of engines on Grove whose replicas span nodes",
    },
    Access {
        group: "resource.k8s.io",
        resource: "resourceclaims",
        subresource: None,
        verbs: &[Verb::Get],
        why: "counts the GPUs of engines on Grove whose replicas span nodes",
    },
    Access {
        group: "resource.k8s.io",
        resource: "deviceclasses",
        subresource: None,
        verbs: &[Verb::Get],
        why: "tells which of the devices that are claimed are GPUs",
    },
    Access {
        group: "inference.networking.k8s.io",
        resource: "inferencepools",
        subresource: None,
        verbs: Verb::OWN,
        why: "the workers among which a gateway's endpoint picker chooses",
    },
    Access {
        group: "networking.istio.io",
        resource: "destinationrules",
        subresource: None,
        verbs: Verb::OWN,
        why: "how Istio speaks to endpoint pickers",
    },
    Access {
        group: "",
        resource: "pods",
        subresource: None,
        verbs: Verb::CACHE,
        why: "waits for the last old worker pod before a Recreate goes on; why pods on Grove do not serve; why a profiler does not start, or how it failed; granted \
              to discovery accounts",
    },
    Access { group: "", resource: "endpoints", subresource: None, verbs: Verb::CACHE, why: GRANTED_TO_DISCOVERY },
    Access {
        group: "discovery.k8s.io",
        resource: "endpointslices",
        subresource: None,
        verbs: Verb::CACHE,
        why: GRANTED_TO_DISCOVERY,
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamoworkermetadatas",
        subresource: None,
        verbs: EVERYTHING,
        why: GRANTED_TO_DISCOVERY,
    },
    Access {
        group: "",
        resource: "events",
        subresource: None,
        verbs: &[Verb::List],
        why: "why pods do not come up where pods do not tell: volumes that cannot be mounted, and pods that are refused",
    },
    Access {
        group: "events.k8s.io",
        resource: "events",
        subresource: None,
        verbs: &[Verb::Create, Verb::Patch],
        why: "says what changed",
    },
];

/// Rights on single objects of the cluster. The chart gives the ClusterRoles of its release their names.
pub const BINDS: &[NamedAccess] = &[NamedAccess {
    group: "rbac.authorization.k8s.io",
    resource: "clusterroles",
    names: &[PLANNER_ROLE, PICKER_ROLE, PROFILING_ROLE],
    verbs: &[Verb::Bind],
    why: "binds accounts of pods to the roles below, whose rights it does not have itself; in an install for one namespace the \
          chart has bound them",
}];

/// The ClusterRole of planners, which the chart makes and this controller binds in the namespaces of graphs.
pub const PLANNER: &[Access] = &[
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeployments",
        subresource: None,
        verbs: &[Verb::Get, Verb::List, Verb::Create, Verb::Update, Verb::Patch],
        why: "reads its graph, and sets replicas of components without adapter",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeploymentscalingadapters",
        subresource: Some("scale"),
        verbs: &[Verb::Patch],
        why: "sets replicas of components with adapter",
    },
    Access { group: "", resource: "pods", subresource: None, verbs: &[Verb::List], why: "adds up the power of GPUs" },
    SLICES,
    WORKERS,
];

/// The ClusterRole of endpoint pickers, likewise.
pub const PICKER: &[Access] = &[
    Access { group: POOLS_ALPHA, resource: "inferencepools", subresource: None, verbs: Verb::CACHE, why: CHOOSES },
    Access { group: POOLS_ALPHA, resource: "inferenceobjectives", subresource: None, verbs: Verb::CACHE, why: CHOOSES },
    Access {
        group: POOLS_ALPHA,
        resource: "inferencemodelrewrites",
        subresource: None,
        verbs: Verb::CACHE,
        why: CHOOSES,
    },
    Access {
        group: "inference.networking.k8s.io",
        resource: "inferencepools",
        subresource: None,
        verbs: Verb::CACHE,
        why: CHOOSES,
    },
    Access { group: "", resource: "pods", subresource: None, verbs: Verb::CACHE, why: CHOOSES },
    SLICES,
    WORKERS,
    Access {
        group: "authentication.k8s.io",
        resource: "tokenreviews",
        subresource: None,
        verbs: &[Verb::Create],
        why: "protects its metrics",
    },
    Access {
        group: "authorization.k8s.io",
        resource: "subjectaccessreviews",
        subresource: None,
        verbs: &[Verb::Create],
        why: "protects its metrics",
    },
];

/// The ClusterRole of profiling Jobs, likewise.
pub const PROFILER: &[Access] = &[
    Access {
        group: "",
        resource: "configmaps",
        subresource: None,
        verbs: &[Verb::Create, Verb::Get, Verb::Update, Verb::Patch, Verb::Delete],
        why: "hands its output over",
    },
    Access {
        group: "",
        resource: "pods",
        subresource: None,
        verbs: &[Verb::List, Verb::Get, Verb::Create, Verb::Delete],
        why: "whether the profiler has ended; measures",
    },
    Access { group: "", resource: "pods", subresource: Some("log"), verbs: &[Verb::Get], why: "measures" },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeploymentrequests",
        subresource: None,
        verbs: &[Verb::Get],
        why: "reads its request",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeployments",
        subresource: None,
        verbs: &[Verb::Get, Verb::Create, Verb::Delete, Verb::List, Verb::Watch],
        why: "tries graphs",
    },
];

const CHOOSES: &str = "knows the workers it chooses from";
const SLICES: Access = Access {
    group: "discovery.k8s.io",
    resource: "endpointslices",
    subresource: None,
    verbs: Verb::CACHE,
    why: "the runtime's discovery",
};
const WORKERS: Access = Access {
    group: api_types::GROUP,
    resource: "dynamoworkermetadatas",
    subresource: None,
    verbs: EVERYTHING,
    why: "the runtime's discovery",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::decide::discovery;

    fn holds(group: &str, resource: &str, verb: &str) -> bool {
        ACCESS.iter().any(|own| {
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
