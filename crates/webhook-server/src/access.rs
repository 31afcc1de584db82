//! Rights of the webhook server, as data. The roles of its ServiceAccount are made from these lists. An install for one
//! namespace has no right that reaches beyond it, except where it makes its own certificates: webhook configurations
//! belong to the cluster.

use api_types::GROUP;
use controller_kit::access::{Access, Verb};

/// Default name of the ConfigMap with the CA bundle for definitions.
pub const CA_CONFIG_MAP: &str = "dynamo-operator-webhook-ca";

/// Rights on objects of the cluster, and why they are needed. It writes single ones, which have the names of an install
/// called `dynamo-operator`; the chart puts those of the release in their place.
pub const CLUSTER: &[Access] = &[
    follows_configurations("validatingwebhookconfigurations"),
    follows_configurations("mutatingwebhookconfigurations"),
    Access::new(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        Verb::CACHE,
        "follows the definitions whose objects it converts: whether they hold its CA",
    ),
    Access::new("grove.io", "clustertopologybindings", &[Verb::Get], "checks the topology that a graph names"),
    sets_authority("validatingwebhookconfigurations", &["dynamo-operator-validating"]),
    sets_authority("mutatingwebhookconfigurations", &["dynamo-operator-mutating"]),
];

const fn follows_configurations(resource: &'static str) -> Access {
    let why = "follows, by their labels, the configurations that name this server";
    Access::new("admissionregistration.k8s.io", resource, Verb::CACHE, why)
}

const fn sets_authority(resource: &'static str, names: &'static [&'static str]) -> Access {
    let why = "sets the CA that the API server verifies this server with";
    Access::named("admissionregistration.k8s.io", resource, names, &[Verb::Patch], why)
}

/// Rights in the namespaces that are served. The chart puts the configured name in place of that of the Secret.
pub const SERVED: &[Access] = &[
    Access::new(
        GROUP,
        "dynamographdeployments",
        Verb::CACHE,
        "reads from their status which namespaces need the SSH key for MPI, and whether a graph has the Dynamo \
         namespace of another one",
    ),
    Access::new(GROUP, "dynamocheckpoints", &[Verb::Get], "finds the checkpoint that a pod is to start from"),
    Access::new(
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        &[Verb::Create],
        "checks whether a user who exposes a frontend may create the Ingress or VirtualService",
    ),
    Access::new("apps", "daemonsets", &[Verb::List], "finds where the snapshot agents of a namespace keep checkpoints"),
    MPI_KEY,
];

/// The right on the Secret with the SSH key of MPI.
pub const MPI_KEY: Access = Access::named(
    "",
    "secrets",
    &["mpi-run-ssh-secret"],
    &[Verb::Create, Verb::Patch],
    "creates the SSH key of MPI in namespaces that need it; an existing Secret is not changed",
);

/// Rights on single objects in the operator's own namespace. The chart puts the configured name in place of this one.
pub const OWN: &[Access] = &[Access::named(
    "",
    "secrets",
    &["webhook-server-cert"],
    &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Patch, Verb::Update],
    "its certificates",
)];

/// Rights on single objects in the operator's own namespace, where definitions are converted. The ConfigMap has the
/// name of an install called `dynamo-operator`; the chart puts that of the release in its place.
pub const OWN_CONVERTING: &[Access] = &[Access::named(
    "",
    "configmaps",
    &[CA_CONFIG_MAP],
    &[Verb::Create, Verb::Patch],
    "publishes the CA for conversion, which the program `crds` sets in the definitions",
)];

#[cfg(test)]
mod tests {
    use super::*;

    /// A user who may write a definition controls the conversion of the objects of all namespaces.
    #[test]
    fn definitions_are_only_read() {
        let all = CLUSTER.iter().map(|line| (line.resource, line.verbs));
        let definitions: Vec<_> = all.filter(|(resource, _)| *resource == "customresourcedefinitions").collect();
        assert_eq!(definitions, [("customresourcedefinitions", Verb::CACHE)]);
    }
}
