//! Rights to what requests need, and roles of pods, which the chart makes and this controller binds in the namespaces
//! of graphs.

use controller_kit::access::{Access, Verb};

use super::EVERYTHING;

/// Group of the kinds of endpoint pickers that are not stable yet.
pub(super) const POOLS_ALPHA: &str = "inference.networking.x-k8s.io";

/// The role of the discovery accounts of graphs. Also a Role, where an install serves one namespace.
pub const DISCOVERY: &[Access] = &[
    Access { group: "", resource: "endpoints", subresource: None, verbs: Verb::CACHE, why: DISCOVERS },
    Access { group: "", resource: "pods", subresource: None, verbs: Verb::CACHE, why: DISCOVERS },
    SLICES,
    WORKERS,
];

/// The ClusterRole of planners.
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

/// The ClusterRole of endpoint pickers.
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
];

/// The ClusterRole of profiling Jobs.
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

const DISCOVERS: &str = "the runtime's discovery";
const CHOOSES: &str = "knows the workers it chooses from";
const SLICES: Access = Access {
    group: "discovery.k8s.io",
    resource: "endpointslices",
    subresource: None,
    verbs: Verb::CACHE,
    why: DISCOVERS,
};
const WORKERS: Access = Access {
    group: api_types::GROUP,
    resource: "dynamoworkermetadatas",
    subresource: None,
    verbs: EVERYTHING,
    why: DISCOVERS,
};

pub(super) const REQUESTS: &[Access] = &[
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
    Access::owner(api_types::GROUP, "dynamographdeploymentrequests"),
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
        group: api_types::GROUP,
        resource: "dynamographdeployments",
        subresource: None,
        verbs: &[Verb::Create],
        why: "makes the graphs of requests",
    },
];
