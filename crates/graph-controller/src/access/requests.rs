//! Rights for requests.

use controller_kit::access::{Access, Verb};

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
