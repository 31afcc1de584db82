//! Rights to what requests need, and roles of pods, which the chart makes and this controller binds in the namespaces
//! of graphs.

use controller_kit::access::{Access, Verb};

use super::{EVERYTHING, dynamo, dynamo_status};

/// Group of the kinds of endpoint pickers that are not stable yet.
pub(super) const POOLS_ALPHA: &str = "inference.networking.x-k8s.io";

/// The role of the discovery accounts of graphs. Also a Role, where an install serves one namespace.
pub const DISCOVERY: &[Access] = &[
    Access::new("", "endpoints", Verb::CACHE, DISCOVERS),
    Access::new("", "pods", Verb::CACHE, DISCOVERS),
    SLICES,
    WORKERS,
];

/// The ClusterRole of planners.
pub const PLANNER: &[Access] = &[
    dynamo(
        "dynamographdeployments",
        &[Verb::Get, Verb::List, Verb::Create, Verb::Update, Verb::Patch],
        "reads its graph, and sets replicas of components without adapter",
    ),
    Access::sub(
        api_types::GROUP,
        "dynamographdeploymentscalingadapters",
        "scale",
        &[Verb::Patch],
        "sets replicas of components with adapter",
    ),
    Access::new("", "pods", &[Verb::List], "adds up the power of GPUs"),
    SLICES,
    WORKERS,
];

/// The ClusterRole of endpoint pickers.
pub const PICKER: &[Access] = &[
    Access::new(POOLS_ALPHA, "inferencepools", Verb::CACHE, CHOOSES),
    Access::new(POOLS_ALPHA, "inferenceobjectives", Verb::CACHE, CHOOSES),
    Access::new(POOLS_ALPHA, "inferencemodelrewrites", Verb::CACHE, CHOOSES),
    Access::new("inference.networking.k8s.io", "inferencepools", Verb::CACHE, CHOOSES),
    Access::new("", "pods", Verb::CACHE, CHOOSES),
    SLICES,
    WORKERS,
];

/// The ClusterRole of profiling Jobs.
pub const PROFILER: &[Access] = &[
    Access::new(
        "",
        "configmaps",
        &[Verb::Create, Verb::Get, Verb::Update, Verb::Patch, Verb::Delete],
        "hands its output over",
    ),
    Access::new(
        "",
        "pods",
        &[Verb::List, Verb::Get, Verb::Create, Verb::Delete],
        "whether the profiler has ended; measures",
    ),
    Access::sub("", "pods", "log", &[Verb::Get], "measures"),
    dynamo("dynamographdeploymentrequests", &[Verb::Get], "reads its request"),
    dynamo(
        "dynamographdeployments",
        &[Verb::Get, Verb::Create, Verb::Delete, Verb::List, Verb::Watch],
        "creates graphs for trials",
    ),
];

const DISCOVERS: &str = "the runtime's discovery";
const CHOOSES: &str = "lists the workers that it selects from";
const SLICES: Access = Access::new("discovery.k8s.io", "endpointslices", Verb::CACHE, DISCOVERS);
const WORKERS: Access = dynamo("dynamoworkermetadatas", EVERYTHING, DISCOVERS);

pub(super) const REQUESTS: &[Access] = &[
    dynamo(
        "dynamographdeploymentrequests",
        &[Verb::Get, Verb::List, Verb::Watch, Verb::Patch],
        "the requests it serves; removes the finalizer that the Go operator left on one that is being deleted",
    ),
    dynamo_status("dynamographdeploymentrequests", "writes the status of requests"),
    Access::owner(api_types::GROUP, "dynamographdeploymentrequests"),
    Access::new("batch", "jobs", Verb::OWN, "profile for requests"),
    Access::new(
        "",
        "persistentvolumeclaims",
        &[Verb::Get],
        "whether the claim exists that a request names for the weights of its model",
    ),
    Access::new(
        "",
        "nodes",
        &[Verb::List],
        "the GPUs that a request is planned with; done without in installs for one namespace",
    ),
    dynamo("dynamographdeployments", &[Verb::Create], "makes the graphs of requests"),
];
