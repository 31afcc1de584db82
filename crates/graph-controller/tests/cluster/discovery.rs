//! Rights of the account with which a graph's pods discover each other.

use api_types::{annotations, v1beta1::DynamoGraphDeployment};
use controller_kit::{access::Verb, settings::DISCOVERY_ROLE};
use graph_controller::access::DISCOVERY;
use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    core::v1::ServiceAccount,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::harness::{Harness, LIMIT, graph, rules};

const ACCOUNT: &str = "chat-k8s-service-discovery";
const OWN_ROLE: &str = "chat-k8s-service-discovery-role";
const BINDING: &str = "chat-k8s-service-discovery-binding";

/// A RoleBinding of the graph's account.
fn binding(
    harness: &Harness,
    name: &str,
    (kind, role): (&str, &str),
    owner: Option<&DynamoGraphDeployment>,
) -> RoleBinding {
    let value = json!({
        "metadata": metadata(name, owner),
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": harness.namespace }],
    });
    serde_json::from_value(value).unwrap()
}

fn own_role(owner: Option<&DynamoGraphDeployment>) -> Role {
    serde_json::from_value(json!({ "metadata": metadata(OWN_ROLE, owner), "rules": rules(DISCOVERY) })).unwrap()
}

/// Metadata as the Go operator writes it.
fn metadata(name: &str, owner: Option<&DynamoGraphDeployment>) -> Value {
    let labels = json!({ "app.kubernetes.io/component": "rbac", "app.kubernetes.io/managed-by": "dynamo-operator",
        "app.kubernetes.io/name": ACCOUNT });
    let owners: Vec<_> = owner
        .map(|graph| {
            json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "name": graph.name_any(),
                "uid": graph.uid(), "controller": true, "blockOwnerDeletion": true })
        })
        .into_iter()
        .collect();
    json!({ "name": name, "labels": labels, "ownerReferences": owners })
}

fn names_a(role: &str) -> impl Fn(&RoleBinding) -> bool {
    move |binding| binding.role_ref.name == role
}

/// Whether the graph's account may do something in its namespace.
async fn may(harness: &Harness, verb: &str, group: &str, resource: &str) -> bool {
    let attributes = json!({ "namespace": harness.namespace, "verb": verb, "group": group, "resource": resource });
    let user = format!("system:serviceaccount:{}:{ACCOUNT}", harness.namespace);
    let spec = json!({ "user": user, "resourceAttributes": attributes });
    let review: SubjectAccessReview = serde_json::from_value(json!({ "spec": spec })).unwrap();
    let answer = Api::all(harness.client.clone()).create(&PostParams::default(), &review).await.unwrap();
    answer.status.unwrap().allowed
}

async fn until_pods_discover(harness: &Harness) {
    let look = async || match may(harness, "watch", "discovery.k8s.io", "endpointslices").await
        && may(harness, "create", "nvidia.com", "dynamoworkermetadatas").await
    {
        true => Ok(()),
        false => Err("the account lacks rights"),
    };
    wait::until("the rights of the account", LIMIT, look).await.unwrap();
}

#[tokio::test]
async fn a_new_graph_has_no_role_of_its_own() {
    let harness = Harness::new("discovery").await;
    let chat = harness.apply(&graph("chat", |_| {})).await;
    harness.ready("chat").await;
    let bound = harness.until(BINDING, "bound", names_a(DISCOVERY_ROLE)).await;
    assert_eq!(bound.role_ref.kind, "Role", "this install is for one namespace");
    assert_eq!(bound.metadata.owner_references.as_ref().unwrap()[0].uid, chat.uid().unwrap());
    until_pods_discover(&harness).await;
    assert!(!may(&harness, "create", "", "pods").await);
    let all = harness.api::<Role>().list(&Default::default()).await.unwrap().items;
    assert!(!all.iter().any(|role| role.name_any().starts_with("chat")), "{all:?}");

    // The Go operator has been there meanwhile: it makes its Role, and leaves a binding that carries its hash.
    assert!(bound.annotations().contains_key(annotations::LAST_APPLIED_HASH), "{bound:?}");
    let role = harness.api::<Role>().create(&PostParams::default(), &own_role(Some(&chat))).await.unwrap();
    harness.until_reconciled("chat").await;
    harness.until_reconciled("chat").await;
    assert_eq!(harness.api::<Role>().get(OWN_ROLE).await.unwrap(), role);
    assert_eq!(harness.api::<RoleBinding>().get(BINDING).await.unwrap(), bound);
}

#[tokio::test]
async fn what_a_predecessor_made_stays_until_the_graph_goes() {
    let harness = Harness::without_controller("discovery-taken", false).await;
    let chat = harness.apply(&graph("chat", |_| {})).await;
    let role = harness.api::<Role>().create(&PostParams::default(), &own_role(Some(&chat))).await.unwrap();
    let own = binding(&harness, BINDING, ("Role", OWN_ROLE), Some(&chat));
    let own = harness.api::<RoleBinding>().create(&PostParams::default(), &own).await.unwrap();
    harness.start();
    harness.ready("chat").await;
    harness.until_reconciled("chat").await;
    assert_eq!(harness.api::<Role>().get(OWN_ROLE).await.unwrap(), role);
    assert_eq!(harness.api::<RoleBinding>().get(BINDING).await.unwrap(), own);

    harness.api::<DynamoGraphDeployment>().delete("chat", &DeleteParams::default()).await.unwrap();
    harness.gone::<Role>(OWN_ROLE).await;
    harness.gone::<RoleBinding>(BINDING).await;
    harness.gone::<ServiceAccount>(ACCOUNT).await;
}

#[tokio::test]
async fn pods_get_the_shared_role_when_their_own_is_gone() {
    let harness = Harness::without_controller("discovery-lost", false).await;
    let chat = harness.apply(&graph("chat", |_| {})).await;
    harness.api::<Role>().create(&PostParams::default(), &own_role(Some(&chat))).await.unwrap();
    let own = binding(&harness, BINDING, ("Role", OWN_ROLE), Some(&chat));
    harness.api::<RoleBinding>().create(&PostParams::default(), &own).await.unwrap();
    harness.start();
    harness.ready("chat").await;
    harness.api::<Role>().delete(OWN_ROLE, &DeleteParams::default()).await.unwrap();
    harness.until(BINDING, "bound anew", names_a(DISCOVERY_ROLE)).await;
    until_pods_discover(&harness).await;
}

/// Deleted with `--cascade=orphan` and applied again: the controller may not change such a binding.
#[tokio::test]
async fn a_binding_that_an_earlier_graph_has_left_is_made_anew() {
    let harness = Harness::without_controller("discovery-orphan", false).await;
    harness.api::<Role>().create(&PostParams::default(), &own_role(None)).await.unwrap();
    let mut left = binding(&harness, BINDING, ("Role", OWN_ROLE), None);
    left.annotations_mut().insert(annotations::LAST_APPLIED_HASH.to_owned(), "h".to_owned());
    harness.api::<RoleBinding>().create(&PostParams::default(), &left).await.unwrap();
    harness.start();
    let chat = harness.apply(&graph("chat", |_| {})).await;
    harness.ready("chat").await;
    let bound = harness.until(BINDING, "bound anew", names_a(DISCOVERY_ROLE)).await;
    assert_eq!(bound.metadata.owner_references.unwrap()[0].uid, chat.uid().unwrap());
}

/// The role of a binding cannot be changed. A namespace goes from an install for the cluster to one of its own.
#[tokio::test]
async fn a_binding_to_the_role_of_another_install_is_made_anew() {
    let harness = Harness::without_controller("discovery-moved", false).await;
    let chat = harness.apply(&graph("chat", |_| {})).await;
    let before = binding(&harness, BINDING, ("ClusterRole", "of-the-cluster"), Some(&chat));
    let before = harness.api::<RoleBinding>().create(&PostParams::default(), &before).await.unwrap();
    harness.start();
    let after = harness.until(BINDING, "bound anew", names_a(DISCOVERY_ROLE)).await;
    assert_ne!(after.uid(), before.uid());
    harness.ready("chat").await;
    until_pods_discover(&harness).await;
}

/// A binding that is not the graph's belongs to the user, whatever it grants.
#[tokio::test]
async fn a_foreign_binding_of_that_name_is_not_touched() {
    let harness = Harness::without_controller("discovery-foreign", false).await;
    let mut foreign = binding(&harness, BINDING, ("ClusterRole", "of-another"), None);
    foreign.metadata.labels = None;
    let before = harness.api::<RoleBinding>().create(&PostParams::default(), &foreign).await.unwrap();
    harness.start();
    harness.apply(&graph("chat", |_| {})).await;
    let named = |chat: &DynamoGraphDeployment| {
        let mut conditions = chat.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| condition.type_ == "Stalled" && condition.message.contains("RoleBinding"))
    };
    harness.until("chat", "stalled", named).await;
    assert_eq!(harness.api::<RoleBinding>().get(BINDING).await.unwrap(), before);
}

/// A controller that is taken over grants no rights but its own and those of the role that it may bind.
#[tokio::test]
async fn no_other_role_can_be_bound_and_none_can_be_made() {
    let harness = Harness::new("discovery-rights").await;
    let secrets = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] }]);
    let strong: Role = serde_json::from_value(json!({ "metadata": { "name": "strong" }, "rules": secrets })).unwrap();
    harness.api::<Role>().create(&PostParams::default(), &strong).await.unwrap();
    let bindings = Api::<RoleBinding>::namespaced(harness.client_of_controller(), &harness.namespace);
    let bind = async |(kind, role): (&str, &str)| {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let answer = bindings.create(&dry, &binding(&harness, "any", (kind, role), None)).await;
        answer.map(drop).map_err(|error| error.to_string())
    };
    bind(("Role", DISCOVERY_ROLE)).await.unwrap();
    for role in [("Role", "strong"), ("ClusterRole", "admin"), ("ClusterRole", DISCOVERY_ROLE)] {
        let refused = bind(role).await.unwrap_err();
        let reasons = ["attempting to grant RBAC permissions", "not found"];
        assert!(reasons.iter().any(|text| refused.contains(text)), "{role:?}: {refused}");
    }
    let roles = Api::<Role>::namespaced(harness.client_of_controller(), &harness.namespace);
    let refused = roles.create(&PostParams::default(), &own_role(None)).await.unwrap_err().to_string();
    assert!(refused.contains("cannot create resource \"roles\""), "{refused}");
}

/// A configuration of an earlier release names no role, and the rights are those of that release.
#[tokio::test]
async fn without_a_role_for_all_each_graph_has_its_own() {
    let mut harness = Harness::without_controller("discovery-own", false).await;
    harness.settings().rbac.discovery_role_name = String::new();
    let mut granted = rules(DISCOVERY);
    let group = "rbac.authorization.k8s.io";
    granted.as_array_mut().unwrap().push(json!({ "apiGroups": [group], "resources": ["roles"], "verbs": Verb::KEEP }));
    harness.grant("roles", granted).await;
    harness.until_allowed(json!({ "group": group, "resource": "roles", "verb": "patch" })).await;
    harness.start();
    harness.apply(&graph("chat", |_| {})).await;
    harness.ready("chat").await;
    harness.until(BINDING, "bound", names_a(OWN_ROLE)).await;
    harness.until(OWN_ROLE, "there", |role: &Role| role.rules.as_ref().is_some_and(|rules| rules.len() == 3)).await;
    until_pods_discover(&harness).await;
}
