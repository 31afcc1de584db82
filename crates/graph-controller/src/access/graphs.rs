//! Rights for graphs, on any program and on Grove.

use controller_kit::{
    access::{Access, Verb},
    claims, events, pods,
};

pub(super) const GRAPHS: &[Access] = &[
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
    Access::owner(api_types::GROUP, "dynamographdeployments"),
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
        why: "the builds of images that graphs of the legacy API run; their status shows when an image exists",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamocheckpoints",
        subresource: None,
        verbs: Verb::OWN,
        why: "the checkpoints that components of a graph start from, one for each generation",
    },
    Access::owner(api_types::GROUP, "dynamocheckpoints"),
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeploymentscalingadapters",
        subresource: None,
        verbs: Verb::OWN,
        why: "the replicas of components that another client scales",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamographdeploymentscalingadapters",
        subresource: Some("status"),
        verbs: &[Verb::Patch],
        why: "says how many replicas there are, and which pods they are",
    },
    Access {
        group: "autoscaling",
        resource: "horizontalpodautoscalers",
        subresource: None,
        verbs: Verb::OWN,
        why: "scale the adapters of components whose autoscaling is enabled in v1alpha1",
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
        why: "sets topology labels of nodes on those workers",
    },
    Access {
        group: "",
        resource: "pods",
        subresource: None,
        verbs: &[Verb::Delete],
        why: "engines of a group that has lost one, and restored pods whose memory is gone, begin anew",
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
        verbs: Verb::CACHE,
        why: "whether the Role is there that another operator has made for a graph; it stays bound until the graph is \
              deleted",
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
        why: "reads whether the SSH key for MPI is in the namespaces of graphs whose replicas span nodes; finds image pull \
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
        why: "GPUs that the processes of one pod share",
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
        why: "waits for the last old worker pod before a Recreate goes on; why pods on Grove do not serve; why a profiler \
              does not start, or how it failed",
    },
    pods::ACCESS,
    events::ACCESS,
];

/// Group of the kinds of Grove.
const GROVE: &str = "grove.io";

pub(super) const ON_GROVE: &[Access] = &[
    Access {
        group: "apps",
        resource: "daemonsets",
        subresource: None,
        verbs: Verb::CACHE,
        why: "the agents that restore checkpoints tell where they keep them, for graphs on Grove",
    },
    Access { group: GROVE, resource: "podcliquesets", subresource: None, verbs: Verb::KEEP, why: "a graph on Grove" },
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
        verbs: &[Verb::Patch],
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
        verbs: &[Verb::Patch],
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
        why: "the way in to a frontend on Grove; deleted when the frontend needs none",
    },
    Access {
        group: "networking.istio.io",
        resource: "virtualservices",
        subresource: None,
        verbs: Verb::OWN,
        why: "the way in to a frontend on Grove through Istio; deleted when the frontend needs none",
    },
    claims::READS_TEMPLATES,
    claims::READS_CLAIMS,
    claims::READS_CLASSES,
];
