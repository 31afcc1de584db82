//! Accounts of a graph's pods: the one with which they find each other through the Kubernetes API, and those of
//! planners and endpoint pickers, which all graphs of a namespace share.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api_types::{
    annotations, labels, names,
    v1beta1::{ComponentSpec, ComponentType},
};
use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::graph::model::{SharedAccount, ValidGraph};

/// ServiceAccount of a graph and its rights, without owner.
pub struct DiscoveryAccess {
    /// The account that the pods run under.
    pub account: ServiceAccount,
    /// A Role for this account alone.
    pub role: Option<Role>,
    /// Its binding to that Role, or to the one that all graphs share; none where the rights of the account stay as they
    /// are.
    pub binding: Option<RoleBinding>,
}

/// Builds the discovery account of a graph. `has_own_role`: another operator has made a Role for it and bound it; both
/// stay as they are until the graph is deleted. The API server allows a change of such a binding only to who holds the
/// rights of the Role.
pub fn discovery_access(graph: &ValidGraph<'_>, has_own_role: bool) -> DiscoveryAccess {
    let account = ServiceAccount {
        metadata: metadata(graph, names::discovery_service_account(&graph.name)),
        ..ServiceAccount::default()
    };
    let mut binding = own_binding(graph);
    let (role, binding) = match &graph.settings.discovery_role {
        Some(_) if has_own_role => (None, None),
        Some(shared) => {
            let notes = [
                (annotations::LAST_APPLIED_HASH, content_hash(&binding)),
                (annotations::LAST_APPLIED_GENERATION, "1".to_owned()),
            ];
            binding.metadata.annotations = Some(notes.map(|(key, value)| (key.to_owned(), value)).into());
            binding.role_ref = shared.clone();
            (None, Some(binding))
        }
        None => {
            let role = metadata(graph, names::discovery_role(&graph.name));
            (Some(Role { metadata: role, rules: Some(rules()) }), Some(binding))
        }
    };
    DiscoveryAccess { account, role, binding }
}

/// The binding of the account to a Role of its own.
fn own_binding(graph: &ValidGraph<'_>) -> RoleBinding {
    RoleBinding {
        metadata: metadata(graph, names::discovery_role_binding(&graph.name)),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name: names::discovery_role(&graph.name),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: names::discovery_service_account(&graph.name),
            namespace: Some(graph.namespace.clone()),
            ..Subject::default()
        }]),
    }
}

/// The upstream operator's hash of a binding. It does not compare a binding that carries the hash of what it desires,
/// so it leaves one that names another role. An attempt to change the role would fail.
fn content_hash(binding: &RoleBinding) -> String {
    let content = json!({ "roleRef": binding.role_ref, "subjects": binding.subjects });
    Sha256::digest(content.to_string()).iter().fold(String::new(), |hash, byte| hash + &format!("{byte:02x}"))
}

fn metadata(graph: &ValidGraph<'_>, name: String) -> ObjectMeta {
    let account = names::discovery_service_account(&graph.name);
    ObjectMeta {
        name: Some(name),
        namespace: Some(graph.namespace.clone()),
        labels: Some(BTreeMap::from([
            (labels::APP_COMPONENT.to_owned(), labels::RBAC.to_owned()),
            (labels::APP_NAME.to_owned(), names::label_value(&account)),
            (labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned()),
        ])),
        ..ObjectMeta::default()
    }
}

/// Rules of a graph's own Role. `access::DISCOVERY` has the same rights.
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

/// The accounts that pods of this graph run under; none where the chart has made them.
pub fn shared_accounts(graph: &ValidGraph<'_>) -> Vec<SharedAccount> {
    let Some(roles) = &graph.settings.roles else { return Vec::new() };
    let desired = [
        (runs_planner(graph), names::PLANNER_SERVICE_ACCOUNT, &roles.planner_cluster_role_name),
        (runs_picker(graph), names::EPP_SERVICE_ACCOUNT, &roles.epp_cluster_role_name),
    ];
    let desired = desired.into_iter().filter(|(used, ..)| *used);
    desired.map(|(_, account, role)| shared_account(&graph.namespace, account, role)).collect()
}

fn runs_planner(graph: &ValidGraph<'_>) -> bool {
    graph.spec.components.iter().any(|component| component.type_ == Some(ComponentType::Planner))
}

/// An endpoint picker may run under an account of the user's.
fn runs_picker(graph: &ValidGraph<'_>) -> bool {
    let default = |component: &ComponentSpec| {
        let pod = component.pod_template.as_ref().and_then(|template| template.spec.as_ref());
        let named = pod.and_then(|pod| pod.service_account_name.as_deref()).filter(|name| !name.is_empty());
        named.is_none_or(|name| name == names::EPP_SERVICE_ACCOUNT)
    };
    graph.endpoint_picker().is_some_and(default)
}

/// The account of that name, bound to a ClusterRole.
pub fn shared_account(namespace: &str, name: &str, role: &str) -> SharedAccount {
    let metadata = |object: String| ObjectMeta {
        name: Some(object),
        namespace: Some(namespace.to_owned()),
        labels: Some(BTreeMap::from([
            (labels::APP_COMPONENT.to_owned(), labels::RBAC.to_owned()),
            (labels::APP_NAME.to_owned(), name.to_owned()),
            (labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned()),
        ])),
        ..ObjectMeta::default()
    };
    SharedAccount {
        account: ServiceAccount { metadata: metadata(name.to_owned()), ..ServiceAccount::default() },
        binding: RoleBinding {
            metadata: metadata(names::account_binding(name)),
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "ClusterRole".to_owned(),
                name: role.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: name.to_owned(),
                namespace: Some(namespace.to_owned()),
                ..Subject::default()
            }]),
        },
    }
}
