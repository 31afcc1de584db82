//! What this process may do, as data. The role of its ServiceAccount is made from this list.

use controller_kit::access::{Access, Verb};

/// Every right of the process, and why it needs it. All of them hold in one namespace.
pub const ACCESS: &[Access] = &[
    Access {
        group: "coordination.k8s.io",
        resource: "leases",
        subresource: None,
        verbs: &[Verb::Get, Verb::Create, Verb::Update, Verb::Delete],
        why: "takes, renews and gives back the marker of the namespace",
    },
    Access {
        group: "apps",
        resource: "deployments",
        subresource: None,
        verbs: &[Verb::List],
        why: "tells whether the rest of the install is available before it takes the namespace",
    },
];
