//! Rights for graphs on Grove.

use controller_kit::{
    access::{Access, Verb},
    claims,
};

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
