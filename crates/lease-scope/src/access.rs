//! Rights of the process. The role of its ServiceAccount is generated from them.

use controller_kit::{
    access::{Access, Verb},
    scope::MARKER_LEASE,
};

/// Every right of the process, with the reason. All of them are in one namespace.
pub const ACCESS: &[Access] = &[
    Access::new(
        "coordination.k8s.io",
        "leases",
        &[Verb::Create],
        "takes the marker of the namespace; a creation has no name to check",
    ),
    Access::new(
        "apps",
        "deployments",
        &[Verb::List],
        "shows whether the rest of the install is available before the namespace is taken, and whether it goes when this process ends",
    ),
    Access::named(
        "coordination.k8s.io",
        "leases",
        &[MARKER_LEASE],
        &[Verb::Get, Verb::Update, Verb::Delete],
        "renews the marker of the namespace, and releases it when the install is removed",
    ),
];
