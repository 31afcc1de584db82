//! Accounts of a graph's pods: the one with which they find each other through the Kubernetes API, and those of
//! planners and endpoint pickers, which all graphs of a namespace share.

#[cfg(test)]
mod tests;

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

use super::metadata;
use crate::graph::{
    model::{GraphObjects, SharedAccount, ValidGraph},
    settings::role_ref,
};

/// Adds the discovery account of a graph and its rights. `has_own_role`: another operator has made a Role for it and
/// bound it; both stay as they are until the graph is deleted. The API server allows a change of such a binding only to
/// who holds the rights of the Role.
pub fn add_discovery_access(objects: &mut GraphObjects, graph: &ValidGraph<'_>, has_own_role: bool) {
    let (name, role) = (names::discovery_service_account(&graph.name), names::discovery_role(&graph.name));
    let metadata = |object: String| metadata_of(&graph.namespace, &name, object);
    objects.account = Some(ServiceAccount { metadata: metadata(name.clone()), ..ServiceAccount::default() });
    let mut binding = binding(metadata(names::discovery_role_binding(&graph.name)), &name, role_ref("Role", &role));
    (objects.role, objects.binding) = match &graph.settings.discovery_role {
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
        None => (Some(Role { metadata: metadata(role), rules: Some(rules()) }), Some(binding)),
    };
}

/// Binds an account to a role, in the namespace of the binding.
fn binding(metadata: ObjectMeta, account: &str, role_ref: RoleRef) -> RoleBinding {
    let subject = Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.to_owned(),
        namespace: metadata.namespace.clone(),
        ..Subject::default()
    };
    RoleBinding { metadata, role_ref, subjects: Some(vec![subject]) }
}

/// The upstream operator's hash of a binding. It does not compare a binding that carries the hash of what it desires,
/// so it leaves one that names another role. An attempt to change the role would fail.
fn content_hash(binding: &RoleBinding) -> String {
    let content = json!({ "roleRef": binding.role_ref, "subjects": binding.subjects });
    names::sha256_hex(content.to_string().as_bytes(), 64)
}

/// Metadata of an account, or of an object that grants rights to it.
fn metadata_of(namespace: &str, account: &str, name: String) -> ObjectMeta {
    let labels = [
        (labels::APP_COMPONENT, labels::RBAC.to_owned()),
        (labels::APP_NAME, names::label_value(account)),
        (labels::MANAGED_BY, labels::OPERATOR.to_owned()),
    ];
    metadata(namespace, name, labels)
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
    let runs_planner = graph.spec.components.iter().any(|component| component.type_ == Some(ComponentType::Planner));
    let desired = [
        (runs_planner, names::PLANNER_SERVICE_ACCOUNT, &roles.planner_cluster_role_name),
        (runs_picker(graph), names::EPP_SERVICE_ACCOUNT, &roles.epp_cluster_role_name),
    ];
    let desired = desired.into_iter().filter(|(used, ..)| *used);
    desired.map(|(_, account, role)| shared_account(&graph.namespace, account, role)).collect()
}

/// An endpoint picker may run under an account of the user's.
fn runs_picker(graph: &ValidGraph<'_>) -> bool {
    let default = |component: &ComponentSpec| {
        let named = component.pod_spec().and_then(|pod| pod.service_account_name.as_deref());
        named.is_none_or(|name| name.is_empty() || name == names::EPP_SERVICE_ACCOUNT)
    };
    graph.endpoint_picker().is_some_and(default)
}

/// The account of that name, bound to a ClusterRole.
pub fn shared_account(namespace: &str, name: &str, role: &str) -> SharedAccount {
    let metadata = |object: String| metadata_of(namespace, name, object);
    let account = ServiceAccount { metadata: metadata(name.to_owned()), ..ServiceAccount::default() };
    let binding = binding(metadata(names::account_binding(name)), name, role_ref("ClusterRole", role));
    SharedAccount { account, binding }
}
