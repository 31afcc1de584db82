//! Rights of the controller. The role of its ServiceAccount is generated from them.

use api_types::GROUP;
use controller_kit::{
    access::{Access, Verb},
    events,
};

/// Every right of the controller, with the reason.
pub const ACCESS: &[Access] = &[
    Access::new(GROUP, "dynamomodels", Verb::CACHE, "the objects it serves"),
    Access::new(
        GROUP,
        "dynamomodels",
        &[Verb::Patch],
        "its finalizer: adapters are unloaded before their model goes; and the memory of what was loaded, where the status \
         has no field for it",
    ),
    Access::sub(
        GROUP,
        "dynamomodels",
        "status",
        &[Verb::Patch],
        "writes the status of models, and records what was loaded",
    ),
    Access::new("discovery.k8s.io", "endpointslices", Verb::CACHE, "finds the workers of a base model"),
    Access::new(
        "",
        "pods",
        &[Verb::List],
        "verifies that an endpoint has the address of its pod; leaves out pods that answer no requests, and reports which \
         workers may do without adapters of their own",
    ),
    events::ACCESS,
];

#[cfg(test)]
mod tests {
    use controller_kit::access::role;
    use expect_test::expect;

    use super::ACCESS;

    #[test]
    fn the_role_grants_what_is_needed_and_no_more() {
        expect![[r#"
            apiVersion: rbac.authorization.k8s.io/v1
            kind: Role
            metadata:
              name: r
              namespace: team
            rules:
            - apiGroups:
              - ""
              resources:
              - pods
              verbs:
              - list
            - apiGroups:
              - discovery.k8s.io
              resources:
              - endpointslices
              verbs:
              - get
              - list
              - watch
            - apiGroups:
              - events.k8s.io
              resources:
              - events
              verbs:
              - create
              - patch
            - apiGroups:
              - nvidia.com
              resources:
              - dynamomodels
              verbs:
              - get
              - list
              - watch
              - patch
            - apiGroups:
              - nvidia.com
              resources:
              - dynamomodels/status
              verbs:
              - patch
            - apiGroups:
              - coordination.k8s.io
              resourceNames:
              - dynamo-operator-namespace-scope
              resources:
              - leases
              verbs:
              - get
              - list
              - watch
        "#]]
        .assert_eq(&serde_saphyr::to_string(&role("r", Some("team"), ACCESS)).unwrap());
    }
}
