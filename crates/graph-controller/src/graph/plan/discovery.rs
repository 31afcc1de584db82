//! The account with which a graph's pods find each other through the Kubernetes API.

use std::collections::BTreeMap;

use api_types::{annotations, labels, names};
use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::graph::model::ValidGraph;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{
        fixtures::{graph, graph_with, valid_with},
        settings::Settings,
    };

    fn access(role: Option<RoleRef>, has_own_role: bool) -> DiscoveryAccess {
        let settings = Settings { discovery_role: role, ..Settings::default() };
        discovery_access(&valid_with(&graph(), &settings), has_own_role)
    }

    fn shared(kind: &str) -> Option<RoleRef> {
        Some(RoleRef { kind: kind.to_owned(), name: "shared".to_owned(), ..RoleRef::default() })
    }

    fn bound(access: &DiscoveryAccess) -> [&str; 4] {
        let binding = access.binding.as_ref().unwrap();
        let subjects = binding.subjects.as_deref().unwrap();
        [binding.metadata.name.as_deref().unwrap(), &binding.role_ref.kind, &binding.role_ref.name, &subjects[0].name]
    }

    const ACCOUNT: &str = "chat-k8s-service-discovery";
    const BINDING: &str = "chat-k8s-service-discovery-binding";
    const OWN_ROLE: &str = "chat-k8s-service-discovery-role";

    #[test]
    fn graphs_share_the_role_of_the_chart() {
        for kind in ["ClusterRole", "Role"] {
            let access = access(shared(kind), false);
            assert_eq!(access.role, None);
            assert_eq!(bound(&access), [BINDING, kind, "shared", ACCOUNT]);
        }
    }

    #[test]
    fn a_role_that_another_operator_made_stays_bound_and_neither_is_written() {
        let access = access(shared("ClusterRole"), true);
        assert_eq!((access.role, access.binding), (None, None));
        assert_eq!(access.account.metadata.name.as_deref(), Some(ACCOUNT));
    }

    #[test]
    fn without_such_a_role_a_graph_has_its_own() {
        for has_own_role in [false, true] {
            let access = access(None, has_own_role);
            assert_eq!(access.role.as_ref().unwrap().metadata.name.as_deref(), Some(OWN_ROLE));
            assert_eq!(bound(&access), [BINDING, "Role", OWN_ROLE, ACCOUNT]);
        }
    }

    /// As the upstream operator has noted it on a binding of the conformance kit.
    #[test]
    fn a_binding_carries_the_hash_of_what_the_upstream_operator_desires() {
        let recorded = graph_with(|g| {
            g["metadata"]["name"] = json!("vllm-disagg");
            g["metadata"]["namespace"] = json!("o-1637069a");
        });
        let settings = Settings { discovery_role: shared("ClusterRole"), ..Settings::default() };
        let binding = discovery_access(&valid_with(&recorded, &settings), false).binding.unwrap();
        let notes = binding.metadata.annotations.unwrap();
        assert_eq!(
            notes[annotations::LAST_APPLIED_HASH],
            "818ba2fb27b4d0c6c86fb6c5fdabec74bc1d0b35ad10d472446cb760ed55b314"
        );
        assert_eq!(notes[annotations::LAST_APPLIED_GENERATION], "1");
    }
}
