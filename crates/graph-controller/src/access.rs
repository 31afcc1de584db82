//! What this controller may do, as data. The role of its ServiceAccount is made from this list.

use controller_kit::access::{Access, Verb};

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
        why: "removes the finalizer that the Go operator left on a graph that is being deleted",
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
        group: "",
        resource: "serviceaccounts",
        subresource: None,
        verbs: Verb::OWN,
        why: "the account under which a graph's pods discover each other",
    },
    Access {
        group: "rbac.authorization.k8s.io",
        resource: "roles",
        subresource: None,
        verbs: Verb::OWN,
        why: "what that account may do",
    },
    Access {
        group: "rbac.authorization.k8s.io",
        resource: "rolebindings",
        subresource: None,
        verbs: Verb::OWN,
        why: "that it may do it",
    },
    Access {
        group: "",
        resource: "pods",
        subresource: None,
        verbs: Verb::CACHE,
        why: "waits for the last old worker pod before a Recreate goes on; granted to discovery accounts",
    },
    Access {
        group: "",
        resource: "endpoints",
        subresource: None,
        verbs: Verb::CACHE,
        why: "granted to discovery accounts: nobody can grant what it does not hold",
    },
    Access {
        group: "discovery.k8s.io",
        resource: "endpointslices",
        subresource: None,
        verbs: Verb::CACHE,
        why: "granted to discovery accounts: nobody can grant what it does not hold",
    },
    Access {
        group: api_types::GROUP,
        resource: "dynamoworkermetadatas",
        subresource: None,
        verbs: &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete],
        why: "granted to discovery accounts: nobody can grant what it does not hold",
    },
    Access {
        group: "events.k8s.io",
        resource: "events",
        subresource: None,
        verbs: &[Verb::Create, Verb::Patch],
        why: "says what changed",
    },
];
