//! Tests of `discovery`.

use api_types::v1beta1::DynamoGraphDeployment;
use kube::ResourceExt;
use serde_json::json;

use super::*;
use crate::graph::{
    fixtures::{NOW, graph, graph_with, grove, observed, settings, valid, valid_with},
    plan::plan,
    settings::GraphSettings,
};

fn access(role: Option<RoleRef>, has_own_role: bool) -> GraphObjects {
    access_of(&graph(), role, has_own_role)
}

fn access_of(graph: &DynamoGraphDeployment, role: Option<RoleRef>, has_own_role: bool) -> GraphObjects {
    let settings = GraphSettings { discovery_role: role, ..GraphSettings::default() };
    let mut objects = GraphObjects::default();
    add_discovery_access(&mut objects, &valid_with(graph, &settings), has_own_role);
    objects
}

fn shared(kind: &str) -> Option<RoleRef> {
    Some(RoleRef { kind: kind.to_owned(), name: "shared".to_owned(), ..RoleRef::default() })
}

fn bound(access: &GraphObjects) -> [&str; 4] {
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
    assert_eq!(access.account.unwrap().metadata.name.as_deref(), Some(ACCOUNT));
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
    let binding = access_of(&recorded, shared("ClusterRole"), false).binding.unwrap();
    let notes = binding.metadata.annotations.unwrap();
    assert_eq!(
        notes[annotations::LAST_APPLIED_HASH],
        "818ba2fb27b4d0c6c86fb6c5fdabec74bc1d0b35ad10d472446cb760ed55b314"
    );
    assert_eq!(notes[annotations::LAST_APPLIED_GENERATION], "1");
}

fn accounts(types: [&str; 2], account: Option<&str>, settings: &GraphSettings) -> Vec<String> {
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
    let restricted = GraphSettings { roles: None, ..GraphSettings::default() };
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
