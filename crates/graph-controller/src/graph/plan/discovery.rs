//! The account with which a graph's pods find each other through the Kubernetes API.

use std::collections::BTreeMap;

use api_types::{labels, names};
use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::graph::model::ValidGraph;

/// ServiceAccount, Role and RoleBinding of a graph, without owner.
pub struct DiscoveryAccess {
    /// The account that the pods run under.
    pub account: ServiceAccount,
    /// What it may do.
    pub role: Role,
    /// That it may do it.
    pub binding: RoleBinding,
}

/// Builds the discovery account of a graph.
pub fn discovery_access(graph: &ValidGraph<'_>) -> DiscoveryAccess {
    let account_name = names::discovery_service_account(&graph.name);
    let role_name = names::discovery_role(&graph.name);
    let metadata = |name: String| ObjectMeta {
        name: Some(name),
        namespace: Some(graph.namespace.clone()),
        labels: Some(BTreeMap::from([
            (labels::APP_COMPONENT.to_owned(), labels::RBAC.to_owned()),
            (labels::APP_NAME.to_owned(), names::label_value(&account_name)),
            (labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned()),
        ])),
        ..ObjectMeta::default()
    };
    let binding = RoleBinding {
        metadata: metadata(names::discovery_role_binding(&graph.name)),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name: role_name.clone(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account_name.clone(),
            namespace: Some(graph.namespace.clone()),
            ..Subject::default()
        }]),
    };
    DiscoveryAccess {
        account: ServiceAccount { metadata: metadata(account_name.clone()), ..ServiceAccount::default() },
        role: Role { metadata: metadata(role_name), rules: Some(rules()) },
        binding,
    }
}

/// What the runtime's Kubernetes discovery needs. The controller holds the same rights, or it could not grant them.
pub fn rules() -> Vec<PolicyRule> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|r| (*r).to_owned()).collect()),
        verbs: verbs.iter().map(|v| (*v).to_owned()).collect(),
        ..PolicyRule::default()
    };
    const READ: [&str; 3] = ["get", "list", "watch"];
    vec![
        rule("", &["endpoints", "pods"], &READ),
        rule("discovery.k8s.io", &["endpointslices"], &READ),
        rule(
            "nvidia.com",
            &["dynamoworkermetadatas"],
            &["create", "get", "list", "watch", "update", "patch", "delete"],
        ),
    ]
}
