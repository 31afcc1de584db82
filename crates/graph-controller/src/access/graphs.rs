//! Rights for graphs, on any workload provider and on Grove alone.

use controller_kit::{
    access::{Access, Verb},
    device_claims, events, pods,
};

use super::{dynamo, dynamo_status};

pub(super) const GRAPHS: &[Access] = &[
    dynamo("dynamographdeployments", Verb::CACHE, "the objects it serves"),
    dynamo(
        "dynamographdeployments",
        &[Verb::Patch],
        "removes the finalizer that the Go operator left on a graph that is being deleted; sets the replicas of components \
         with a scaling adapter; notes the live worker revision, where the Go operator reads it",
    ),
    dynamo_status("dynamographdeployments", "writes the status of graphs"),
    Access::owner(api_types::GROUP, "dynamographdeployments"),
    dynamo("dynamocomponentdeployments", Verb::OWN, "the components of a graph, one object for each revision"),
    dynamo(
        "dynamocomponents",
        Verb::OWN,
        "the builds of images that graphs of the legacy API run; their status shows when an image exists",
    ),
    dynamo(
        "dynamocheckpoints",
        Verb::OWN,
        "the checkpoints that components of a graph start from, one for each revision",
    ),
    Access::owner(api_types::GROUP, "dynamocheckpoints"),
    dynamo("dynamographdeploymentscalingadapters", Verb::OWN, "the replicas of components that another client scales"),
    dynamo_status(
        "dynamographdeploymentscalingadapters",
        "writes replicas and selector into the status of scaling adapters",
    ),
    Access::new(
        "autoscaling",
        "horizontalpodautoscalers",
        Verb::OWN,
        "scale the adapters of components whose autoscaling is enabled in v1alpha1",
    ),
    Access::new(
        "",
        "nodes",
        &[Verb::Get],
        "where workers are that exchange key-value caches; done without in installs for one namespace",
    ),
    Access::new("", "pods", &[Verb::Patch], "sets topology labels of nodes on those workers"),
    Access::new(
        "",
        "pods",
        &[Verb::Delete],
        "engines of a group that has lost one, and restored pods whose memory is gone, begin anew",
    ),
    Access::new("", "serviceaccounts", Verb::KEEP, "the accounts under which pods run"),
    Access::new(
        "rbac.authorization.k8s.io",
        "roles",
        Verb::CACHE,
        "whether the Role is there that another operator has made for a graph; it stays bound until the graph is \
         deleted",
    ),
    Access::new("rbac.authorization.k8s.io", "rolebindings", Verb::OWN, "that accounts may do what they need"),
    Access::new("", "configmaps", Verb::OWN, "configuration of endpoint pickers; the program that waits for a leader"),
    Access::new(
        "",
        "secrets",
        Verb::CACHE,
        "reads whether the SSH key for MPI is in the namespaces of graphs whose replicas span nodes; finds image pull \
         secrets by registry for graphs on Grove, of which only host names are kept; reads the one Secret with credentials \
         for NATS and etcd, if the configuration names it",
    ),
    Access::new(
        "",
        "persistentvolumeclaims",
        &[Verb::Get, Verb::Create, Verb::Patch],
        "creates the PersistentVolumeClaims of a v1alpha1 graph once, and never deletes one",
    ),
    Access::new("resource.k8s.io", "resourceclaimtemplates", Verb::OWN, "GPUs that the processes of one pod share"),
    Access::new(
        "inference.networking.k8s.io",
        "inferencepools",
        Verb::OWN,
        "the workers among which a gateway's endpoint picker chooses",
    ),
    Access::new("networking.istio.io", "destinationrules", Verb::OWN, "how Istio connects to endpoint pickers"),
    Access::new(
        "",
        "pods",
        Verb::CACHE,
        "waits for the last old worker pod before a Recreate goes on; why pods on Grove do not serve; why a profiler \
         does not start, or how it failed",
    ),
    pods::ACCESS,
    events::ACCESS,
];

/// Group of the kinds of Grove.
const GROVE: &str = "grove.io";

pub(super) const ON_GROVE: &[Access] = &[
    Access::new(
        "apps",
        "daemonsets",
        Verb::CACHE,
        "reads the checkpoint storage of the restoring agents, for graphs on Grove",
    ),
    Access::new(GROVE, "podcliquesets", Verb::KEEP, "a graph on Grove"),
    Access::new(GROVE, "podcliques", Verb::CACHE, "how far a graph on Grove is"),
    Access::sub(GROVE, "podcliques", "scale", &[Verb::Patch], "replicas of a component on Grove"),
    Access::new(GROVE, "podcliquescalinggroups", Verb::CACHE, "how far a graph on Grove is"),
    Access::sub(
        GROVE,
        "podcliquescalinggroups",
        "scale",
        &[Verb::Patch],
        "replicas of a component on Grove that is several cliques",
    ),
    Access::new(GROVE, "clustertopologybindings", &[Verb::Get], "the domains that a policy for key-value caches names"),
    Access::new("scheduling.run.ai", "queues", &[Verb::Get], "a graph is not started in a queue that does not exist"),
    Access::new("", "services", Verb::OWN, "how the components of a graph on Grove are reached"),
    Access::new(
        "networking.k8s.io",
        "ingresses",
        Verb::OWN,
        "the way in to a frontend on Grove; deleted when the frontend needs none",
    ),
    Access::new(
        "networking.istio.io",
        "virtualservices",
        Verb::OWN,
        "the way in to a frontend on Grove through Istio; deleted when the frontend needs none",
    ),
    device_claims::READS_TEMPLATES,
    device_claims::READS_CLAIMS,
    device_claims::READS_CLASSES,
];
