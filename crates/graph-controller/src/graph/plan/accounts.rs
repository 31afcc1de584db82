//! Accounts of planners and endpoint pickers. All graphs of a namespace share them.

use std::collections::BTreeMap;

use api_types::{
    labels, names,
    v1beta1::{ComponentSpec, ComponentType},
};
use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::graph::model::{SharedAccount, ValidGraph};

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

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;
    use crate::graph::{
        fixtures::{NOW, graph_with, grove, observed, settings, valid, valid_with},
        plan::plan,
        settings::Settings,
    };

    fn accounts(types: [&str; 2], account: Option<&str>, settings: &Settings) -> Vec<String> {
        let graph = graph_with(|g| {
            for (component, type_) in types.iter().enumerate() {
                g["spec"]["components"][component]["type"] = json!(type_);
            }
            g["spec"]["components"][0]["podTemplate"]["spec"]["serviceAccountName"] = json!(account);
            if types[0] == "epp" {
                g["spec"]["components"][0]["eppConfig"] = json!({ "configMapRef": { "name": "c", "key": "k" } });
            }
        });
        let all = shared_accounts(&valid_with(&graph, settings));
        all.iter().map(|shared| format!("{}: {}", shared.account.name_any(), shared.binding.role_ref.name)).collect()
    }

    /// Upstream makes the planner's account in the namespace of every graph.
    #[test]
    fn an_account_is_made_only_where_a_pod_runs_under_it() {
        let cluster = settings();
        assert_eq!(accounts(["frontend", "decode"], None, cluster), [""; 0]);
        let (planner, picker) = ("planner-serviceaccount: p", "epp-serviceaccount: e");
        assert_eq!(accounts(["planner", "decode"], None, cluster), [planner]);
        assert_eq!(accounts(["epp", "planner"], None, cluster), [planner, picker]);
        assert_eq!(accounts(["epp", "decode"], Some("mine"), cluster), [""; 0]);
        let restricted = Settings { roles: None, ..Settings::default() };
        assert_eq!(accounts(["epp", "planner"], None, &restricted), [""; 0], "the chart has made them");
    }

    /// On Grove, the upstream operator leaves it to the user, whose account has no rights.
    #[test]
    fn a_planner_runs_under_the_account_that_has_its_rights_on_grove_too() {
        let planner = |account: Option<&str>| {
            graph_with(|g| {
                g["spec"]["components"][0]["type"] = json!("planner");
                g["spec"]["components"][0]["podTemplate"]["spec"]["serviceAccountName"] = json!(account);
            })
        };
        let as_component = |account| {
            let graph = planner(account);
            let all = plan(&valid(&graph), &observed(&graph, vec![]), NOW).components;
            let planner = all.into_iter().map(|component| component.spec.component);
            let mut planner = planner.filter(|component| component.type_ == Some(ComponentType::Planner));
            planner.next()?.pod_template?.spec?.service_account_name
        };
        let on_grove = |account| {
            let set = grove::planned(&grove::observed(&planner(account))).grove?.set;
            let clique = set.spec.template.cliques.into_iter().find(|clique| clique.name == "frontend")?;
            clique.spec.pod_spec.service_account_name
        };
        for named in [None, Some("mine")] {
            for account in [as_component(named), on_grove(named)] {
                assert_eq!(account.as_deref(), Some(names::PLANNER_SERVICE_ACCOUNT), "{named:?}");
            }
        }
    }
}
