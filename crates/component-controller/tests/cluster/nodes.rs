//! Replicas that span nodes. No controller here runs LeaderWorkerSets, so the tests write their status.

use api_types::{
    annotations, labels,
    v1beta1::{ComponentKind, DynamoComponentDeployment},
};
use component_controller::{NAME, access::ACCESS, component::model::PodGroup};
use k8s_openapi::api::{
    apps::v1::Deployment,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
    resource::v1::{DeviceClass, ResourceClaimTemplate},
};
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use rendering::LeaderWorkerSet;
use serde_json::{Value, json};

use crate::harness::{Harness, NAME_OF_COMPONENT, component, condition, is_current, leader_worker_sets, uid, until};

pub const SET: &str = "chat-worker-0";

/// A component of two replicas, each on two nodes.
pub fn spanning() -> Value {
    let mut component = component();
    component["spec"]["replicas"] = json!(2);
    component["spec"]["multinode"] = json!({ "nodeCount": 2 });
    let main = &mut component["spec"]["podTemplate"]["spec"]["containers"][0];
    main["args"] = json!(["-m", "dynamo.vllm", "--tensor-parallel-size", "16"]);
    main["resources"] = json!({ "limits": { "nvidia.com/gpu": "8" } });
    component
}

fn sets(harness: &Harness) -> Api<LeaderWorkerSet> {
    harness.api()
}

/// Says that all groups of the set serve, as its controller would.
async fn play_ready(harness: &Harness) -> LeaderWorkerSet {
    let generation = sets(harness).get(SET).await.unwrap().metadata.generation;
    play(harness, generation, None).await
}

/// Says that all groups serve, and how many have the current template. Controllers of older releases set no
/// generation.
async fn play(harness: &Harness, observed_generation: Option<i64>, updated: Option<i32>) -> LeaderWorkerSet {
    let groups = sets(harness).get(SET).await.unwrap().spec.replicas.unwrap();
    let status = json!({ "status": {
        "observedGeneration": observed_generation,
        "replicas": groups, "readyReplicas": groups, "updatedReplicas": updated.unwrap_or(groups),
        "conditions": [{
            "type": "Available", "status": "True", "reason": "AllGroupsReady", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    } });
    sets(harness).patch_status(SET, &PatchParams::default(), &Patch::Merge(status)).await.unwrap()
}

async fn until_set(harness: &Harness, what: &str, fits: impl Fn(&LeaderWorkerSet) -> bool) -> LeaderWorkerSet {
    until(&sets(harness), SET, what, fits).await
}

async fn until_ready(harness: &Harness) -> DynamoComponentDeployment {
    harness.until_condition("Available", "True", "LeaderWorkerSetReady").await
}

/// A namespace with a running controller, if LeaderWorkerSets can be had.
async fn harness(prefix: &str) -> Option<Harness> {
    leader_worker_sets()?;
    Some(Harness::new(prefix).await)
}

#[tokio::test]
async fn groups_of_pods_become_ready_with_few_writes() {
    let Some(harness) = harness("nodes").await else { return };
    harness.apply::<DynamoComponentDeployment>(&spanning()).await;
    let set = until_set(&harness, "made", |_| true).await;
    let waiting = harness.until_condition("Available", "False", "LeaderWorkerSetNotReady").await;
    let message = condition(&waiting, "Ready").unwrap().2;
    assert!(message.starts_with("LeaderWorkerSet chat-worker-0: 0 of 2 desired groups"), "{message}");
    assert_eq!(set.spec.leader_worker_template.size, Some(2));
    play_ready(&harness).await;
    let ready = until_ready(&harness).await;
    for type_ in ["DynamoComponentReady", "Ready"] {
        assert_eq!(condition(&ready, type_).unwrap().0, "True", "{type_}");
    }
    let counts = ready.status.unwrap().component.unwrap();
    assert_eq!(counts.component_kind, ComponentKind::LeaderWorkerSet);
    assert_eq!(counts.component_names, [SET]);
    assert_eq!((counts.replicas, counts.ready_replicas, counts.available_replicas), (2, Some(2), None));
    assert_eq!(harness.service().await.spec.unwrap().selector.unwrap()[labels::ROLE], "leader");
    let status_writes = harness.status_writes();
    harness.apply::<DynamoComponentDeployment>(&spanning()).await;
    harness.until_reconciled().await;
    assert_eq!((harness.writes_of("LeaderWorkerSet"), harness.writes_of("Service")), (1, 1));
    assert_eq!((harness.writes_of("Deployment"), harness.status_writes()), (0, status_writes));
    harness.delete(PropagationPolicy::Foreground).await;
    // A garbage collector without the kind yet lets the component go first.
    let gone = async || match sets(&harness).get_opt(SET).await {
        Ok(None) => Ok(()),
        Ok(Some(set)) => Err(format!("{:?}", set.metadata)),
        Err(error) => Err(error.to_string()),
    };
    test_cluster::wait::until("the set to go with its component", crate::harness::LIMIT, gone).await.unwrap();
}

/// Defect: with LeaderWorkerSets up to 0.8, whose status has no observed generation, a component was ready at once
/// after an edit, and a restart was over before the first pod ended.
#[tokio::test]
async fn a_set_without_observed_generation_is_not_ready_before_its_controller_has_seen_an_edit() {
    let Some(harness) = harness("nodes-older").await else { return };
    harness.apply::<DynamoComponentDeployment>(&spanning()).await;
    until_set(&harness, "made", |_| true).await;
    let before = play(&harness, None, None).await;
    until_ready(&harness).await;
    let mut restarted = spanning();
    restarted["spec"]["podTemplate"]["metadata"]["annotations"]["nvidia.com/restartAt"] = json!("r1");
    harness.apply::<DynamoComponentDeployment>(&restarted).await;
    until_set(&harness, "changed", |set| set.metadata.generation > before.metadata.generation).await;
    let edited = harness.until_condition("Available", "False", "LeaderWorkerSetNotReady").await;
    assert!(is_current(&edited));
    harness.until_reconciled().await;
    let live = harness.api::<DynamoComponentDeployment>().get(NAME_OF_COMPONENT).await.unwrap();
    assert_eq!(condition(&live, "Available").unwrap().0, "False", "reconciled with the same status");
    play(&harness, None, Some(1)).await;
    harness
        .until("one updated", |component: &DynamoComponentDeployment| {
            let counts = component.status.as_ref().and_then(|status| status.component.as_ref());
            counts.is_some_and(|counts| counts.updated_replicas == 1)
        })
        .await;
    assert_eq!(harness.writes_of("LeaderWorkerSet"), 2);
    play(&harness, None, None).await;
    // The condition of the set has another time by then.
    let status = json!({ "status": { "conditions": [{ "type": "Available", "status": "True", "reason": "AllGroupsReady",
        "message": "", "lastTransitionTime": "2026-01-01T00:05:00Z" }] } });
    sets(&harness).patch_status(SET, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    until_ready(&harness).await;
}

#[tokio::test]
async fn zero_is_a_normal_state_and_changes_only_the_count() {
    let Some(harness) = harness("nodes-zero").await else { return };
    harness.apply::<DynamoComponentDeployment>(&spanning()).await;
    let before = until_set(&harness, "made", |_| true).await;
    play_ready(&harness).await;
    until_ready(&harness).await;
    for replicas in [0, 2] {
        let mut scaled = spanning();
        scaled["spec"]["replicas"] = json!(replicas);
        harness.apply::<DynamoComponentDeployment>(&scaled).await;
        until_set(&harness, "scaled", |set| set.spec.replicas == Some(replicas)).await;
        let set = play_ready(&harness).await;
        assert_eq!(set.spec.leader_worker_template, before.spec.leader_worker_template);
        harness
            .until(&format!("ready with {replicas}"), |component: &DynamoComponentDeployment| {
                let counts = component.status.as_ref().and_then(|status| status.component.as_ref());
                is_current(component)
                    && condition(component, "Ready").is_some_and(|ready| ready.0 == "True")
                    && counts.is_some_and(|counts| counts.replicas == replicas)
            })
            .await;
    }
}

#[tokio::test]
async fn a_change_reaches_both_templates_once_and_drift_is_repaired() {
    let Some(harness) = harness("nodes-change").await else { return };
    harness.apply::<DynamoComponentDeployment>(&spanning()).await;
    until_set(&harness, "made", |_| true).await;
    let before = play_ready(&harness).await;
    until_ready(&harness).await;
    let mut changed = spanning();
    changed["spec"]["podTemplate"]["spec"]["containers"][0]["image"] = json!("registry.example.com/other:1.6.0");
    harness.apply::<DynamoComponentDeployment>(&changed).await;
    let set = until_set(&harness, "changed", |set| set.metadata.generation > before.metadata.generation).await;
    let template = json!(set.spec.leader_worker_template);
    for role in ["leaderTemplate", "workerTemplate"] {
        assert_eq!(template[role]["spec"]["containers"][0]["image"], "registry.example.com/other:1.6.0");
    }
    // Its status is still about the old template.
    harness.until_condition("Available", "False", "LeaderWorkerSetNotReady").await;
    play_ready(&harness).await;
    until_ready(&harness).await;
    assert_eq!(harness.writes_of("LeaderWorkerSet"), 2);

    let edit = Patch::Merge(json!({ "spec": { "replicas": 5 } }));
    sets(&harness).patch(SET, &PatchParams::default(), &edit).await.unwrap();
    let old = uid(&until_set(&harness, "back at two groups", |set| set.spec.replicas == Some(2)).await);
    sets(&harness).delete(SET, &DeleteParams::background()).await.unwrap();
    until_set(&harness, "made again", |set| uid(set) != old).await;
}

#[tokio::test]
async fn a_set_of_the_go_operator_is_taken_over_as_it_is() {
    let Some(mut harness) = harness("nodes-takeover").await else { return };
    harness.apply::<DynamoComponentDeployment>(&spanning()).await;
    let ours = until_set(&harness, "made", |_| true).await;
    harness.stop().await;
    sets(&harness).delete(SET, &DeleteParams::background()).await.unwrap();
    let mut theirs = json!({
        "apiVersion": LeaderWorkerSet::api_version(&()), "kind": LeaderWorkerSet::kind(&()),
        "metadata": {
            "name": SET, "labels": ours.metadata.labels, "ownerReferences": ours.metadata.owner_references,
            "annotations": { annotations::LAST_APPLIED_HASH: "0123", annotations::LAST_APPLIED_GENERATION: "1" },
        },
        "spec": ours.spec,
    });
    // What Go writes although it says nothing.
    theirs["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["metadata"]["creationTimestamp"] = Value::Null;
    let theirs: LeaderWorkerSet = {
        let params = PostParams { field_manager: Some("manager".to_owned()), ..PostParams::default() };
        let request = kube::core::Request::new(LeaderWorkerSet::url_path(&(), Some(&harness.namespace)));
        let request = request.create(&params, serde_json::to_vec(&theirs).unwrap()).unwrap();
        harness.client.request(request).await.unwrap()
    };
    harness.start();
    let taken = until_set(&harness, "marked as ours", |set| {
        set.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::TEMPLATE_DIGEST))
    })
    .await;
    assert_eq!((uid(&taken), &taken.spec), (uid(&theirs), &theirs.spec));
    assert_eq!(taken.metadata.generation, theirs.metadata.generation, "its groups do not notice");
    assert_eq!(taken.metadata.annotations.unwrap()[annotations::LAST_APPLIED_HASH], "0123");
}

/// Says what Kubernetes has for an engine's claims, one thing after the other.
#[tokio::test]
async fn all_nodes_start_together_once_the_gpus_they_claim_can_be_counted() {
    let Some(harness) = harness("nodes-claims").await else { return };
    let mut component = spanning();
    let pod = &mut component["spec"]["podTemplate"]["spec"];
    pod["containers"][0]["resources"] = json!({ "claims": [{ "name": "gpu" }] });
    pod["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimName": "shared" }]);
    harness.apply::<DynamoComponentDeployment>(&component).await;
    let until_recorded = async |what: &str| {
        harness
            .until(what, |component: &DynamoComponentDeployment| {
                let reported = condition(component, "Reconciling");
                reported.is_some_and(|reported| reported.1 == "GpuCountUnknown" && reported.2.contains(what))
            })
            .await
    };
    until_recorded("ResourceClaim shared does not exist; create it").await;
    let pod = &mut component["spec"]["podTemplate"]["spec"];
    pod["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimTemplateName": "eight" }]);
    harness.apply::<DynamoComponentDeployment>(&component).await;
    until_recorded("ResourceClaimTemplate eight does not exist; create it").await;

    // DeviceClasses belong to the whole cluster.
    let class = format!("class-{}", harness.namespace);
    let request = json!({ "name": "gpus", "exactly": { "deviceClassName": class, "count": 8 } });
    let template = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": "eight" },
        "spec": { "spec": { "devices": { "requests": [request] } } },
    });
    harness.apply::<ResourceClaimTemplate>(&template).await;
    until_recorded("which the operator has no right to read; let its account get deviceclasses.resource.k8s.io").await;
    let group = "rbac.authorization.k8s.io";
    let held = ACCESS.iter().find(|right| right.resource == "deviceclasses").unwrap();
    let rule = json!({ "apiGroups": [held.group], "resources": [held.resource], "verbs": held.verbs });
    let role = json!({ "metadata": { "name": class }, "rules": [rule] });
    create::<ClusterRole>(&harness, &role).await;
    let account = json!({ "kind": "ServiceAccount", "name": NAME, "namespace": harness.namespace });
    let bound = json!({ "apiGroup": group, "kind": "ClusterRole", "name": class });
    create::<ClusterRoleBinding>(
        &harness,
        &json!({ "metadata": { "name": class }, "roleRef": bound, "subjects": [account] }),
    )
    .await;
    until_recorded(&format!("DeviceClass {class}, which does not exist")).await;
    assert_eq!(harness.writes_of("LeaderWorkerSet"), 0, "each node would start alone");

    let selector = json!({ "cel": { "expression": "device.driver == 'gpu.example.com'" } });
    create::<DeviceClass>(&harness, &json!({ "metadata": { "name": class }, "spec": { "selectors": [selector] } }))
        .await;
    let set = until_set(&harness, "made", |_| true).await;
    let template = json!(set.spec.leader_worker_template);
    for role in ["leaderTemplate", "workerTemplate"] {
        assert!(template[role]["spec"]["containers"][0]["args"].to_string().contains("ray start"), "{template}");
    }
    harness.until_condition("Available", "False", "LeaderWorkerSetNotReady").await;
}

async fn create<K>(harness: &Harness, object: &Value)
where
    K: Resource<DynamicType = ()> + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object.clone()).unwrap();
    Api::<K>::all(harness.client.clone()).create(&PostParams::default(), &object).await.unwrap();
}

/// An object of the component that nothing needs any more.
fn obsolete<K: Resource<DynamicType = ()>>(owner: &DynamoComponentDeployment, name: &str, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {
            "name": name, "ownerReferences": [owner.controller_owner_ref(&()).unwrap()],
            "labels": { labels::COMPONENT: "Worker", labels::LEGACY_INSTANCE: "1" },
        },
    });
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

/// A set and a pod group for each replica; a Deployment where the API of sets was missing.
#[tokio::test]
async fn what_other_operators_made_for_the_same_pods_goes() {
    let Some(mut harness) = harness("nodes-obsolete").await else { return };
    harness.stop().await;
    let owner = harness.apply::<DynamoComponentDeployment>(&spanning()).await;
    let pod = json!({ "containers": [{ "name": "main", "image": "i" }] });
    let set = json!({ "spec": { "leaderWorkerTemplate": { "workerTemplate": { "spec": pod }, "size": 2 } } });
    harness.apply::<LeaderWorkerSet>(&obsolete::<LeaderWorkerSet>(&owner, "chat-worker-1", &set)).await;
    harness.apply::<PodGroup>(&obsolete::<PodGroup>(&owner, "chat-worker-1", &json!({}))).await;
    let app = json!({ "app": "x" });
    let deployment = json!({ "spec": {
        "replicas": 0, "selector": { "matchLabels": app },
        "template": { "metadata": { "labels": app }, "spec": pod },
    } });
    harness.apply::<Deployment>(&obsolete::<Deployment>(&owner, NAME_OF_COMPONENT, &deployment)).await;
    harness.start();
    until_set(&harness, "made", |_| true).await;
    harness.gone::<Deployment>().await;
    let gone = async || {
        let set = sets(&harness).get_opt("chat-worker-1").await.unwrap();
        let group = harness.api::<PodGroup>().get_opt("chat-worker-1").await.unwrap();
        (set.is_none() && group.is_none()).then_some(())
    };
    test_cluster::wait::until("the rest to be gone", crate::harness::LIMIT, gone).await.unwrap();
}

#[tokio::test]
async fn without_the_api_the_component_says_what_is_missing() {
    let mut harness = Harness::without_controller("nodes-missing").await;
    harness.settings().orchestrators.lws.enabled = Some(false);
    harness.start();
    harness.apply::<DynamoComponentDeployment>(&spanning()).await;
    let stuck = harness.until_condition("Stalled", "True", "ApiMissing").await;
    assert!(condition(&stuck, "Ready").unwrap().2.contains("leaderworkerset.x-k8s.io"));
    assert_eq!(condition(&stuck, "Available").unwrap().1, "LeaderWorkerSetNotReady");
    assert_eq!(
        (harness.writes_of("Deployment"), harness.writes_of("Service")),
        (0, 0),
        "half of it would only hold GPUs"
    );
}
