//! Tests of plans.

use std::sync::Arc;

use api_types::{annotations, external::VirtualService, labels};
use controller_kit::{
    apply::{Write, plan_write},
    store::Packed,
};
use expect_test::expect;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use rendering::{DiscoveryBackend, ExposureSettings, PullSecretIndex, RegistryHosts};
use serde_json::{Value, json};

use super::*;
use crate::component::{model::NamedPullSecrets, validate::validate_spec};

mod account;
mod checkpoint;

const UID: &str = "uid-of-the-component";

fn component(type_: &str) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoComponentDeployment",
        "metadata": {
            "name": "chat-worker", "namespace": "team", "uid": UID, "generation": 1,
            "labels": { "nvidia.com/dynamo-graph-deployment-name": "chat" },
        },
        "spec": {
            "backendFramework": "vllm",
            "name": "Worker",
            "type": type_,
            "replicas": 2,
            "podTemplate": { "spec": { "containers": [{
                "name": "main",
                "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0",
                "command": ["python3"],
                "args": ["-m", "dynamo.vllm", "--model", "m"],
            }] } },
        },
    })
}

fn observed(component: Value) -> ComponentObserved {
    ComponentObserved {
        component: serde_json::from_value(component).unwrap(),
        uid: UID.to_owned(),
        deployment: None,
        leader_worker_set: None,
        serves_leader_worker_sets: true,
        namespace: "ns".to_owned(),
        service: None,
        ingress: None,
        virtual_service: None,
        serves_virtual_services: true,
        autoscaler: None,
        models: Vec::new(),
        obsolete: Vec::new(),
        pull_secrets: Arc::default(),
        named_pull_secrets: NamedPullSecrets::default(),
        accounts: Vec::new(),
        checkpoint: Default::default(),
        legacy: Default::default(),
        legacy_needs: Ok(LegacyNeeds::NONE),
        claimed_gpus: Ok(0),
    }
}

fn live<K>(value: Value) -> Option<LiveObject<K>>
where
    K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned,
{
    Some(LiveObject::from_packed(&Packed::<K>::from_value(value).unwrap()).unwrap())
}

fn etcd() -> PodSettings {
    PodSettings { discovery_backend: DiscoveryBackend::Etcd, ..PodSettings::default() }
}

fn planned(observed: &ComponentObserved, settings: &PodSettings) -> ComponentPlan {
    plan_with(observed, settings, Some(0))
}

fn plan_with(observed: &ComponentObserved, settings: &PodSettings, claimed_gpus: Option<u32>) -> ComponentPlan {
    let valid = validate_spec(&observed.component, None).unwrap();
    let start = rendering::checkpoint::start(&valid, &observed.checkpoint).unwrap();
    plan(observed, &valid, settings, &start, claimed_gpus).unwrap()
}

fn workload(observed: &ComponentObserved) -> Desired {
    planned(observed, &PodSettings::default()).workload.unwrap()
}

fn service(step: &ChildStep) -> &Value {
    let ChildStep::Apply(desired) = step else { panic!("{step:?}") };
    desired.object()
}

fn word(step: &ChildStep) -> &'static str {
    match step {
        ChildStep::Apply(_) => "apply",
        ChildStep::Delete => "delete",
        ChildStep::Release(_) | ChildStep::Nothing => "nothing",
    }
}

/// Metadata of an owned child.
fn owned_by(uid: &str) -> Value {
    json!({ "metadata": {
        "name": "chat-worker", "namespace": "team", "uid": "uid-of-the-child",
        "ownerReferences": [{
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
            "name": "chat-worker", "uid": uid, "controller": true,
        }],
    } })
}

/// Returns the live object after `desired` is applied, with a uid and a version of its own.
fn applied(desired: &Desired) -> Value {
    let mut object = desired.object().clone();
    object["metadata"]["uid"] = json!("uid-of-the-child");
    object["metadata"]["resourceVersion"] = json!("1");
    object
}

/// A change of the operator's own annotations on the object must roll no pod.
#[test]
fn annotations_of_the_operator_reach_no_child() {
    let mut worker = component("worker");
    worker["metadata"]["annotations"] = json!({ "operator.dynamo/generation-fingerprint": "v1:0" });
    let before = planned(&observed(worker.clone()), &PodSettings::default());
    worker["metadata"]["annotations"][annotations::PREVIOUS_REVISIONS] = json!("[]");
    let after = planned(&observed(worker), &PodSettings::default());
    let workload = |plan: &ComponentPlan| plan.workload.as_ref().unwrap().object().clone();
    assert_eq!(workload(&before), workload(&after));
    assert_eq!(service(&before.service), service(&after.service));
    let template = workload(&after)["spec"]["template"]["metadata"].to_string();
    assert!(!template.contains("operator.dynamo/"), "{template}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a snapshot")]
fn a_worker_gets_a_deployment_and_a_service() {
    let planned = planned(&observed(component("worker")), &PodSettings::default());
    let deployment = planned.workload.as_ref().unwrap().object();
    let mut summary = json!({
        "deployment": {
            "metadata": deployment["metadata"],
            "replicas": deployment["spec"]["replicas"],
            "selector": deployment["spec"]["selector"],
            "strategy": deployment["spec"]["strategy"],
            "podLabels": deployment["spec"]["template"]["metadata"]["labels"],
        },
        "service": service(&planned.service),
    });
    for pointer in ["/deployment/metadata/annotations", "/service/metadata/annotations"] {
        for value in summary.pointer_mut(pointer).unwrap().as_object_mut().unwrap().values_mut() {
            *value = json!("…");
        }
    }
    expect![[r#"
        {
          "deployment": {
            "metadata": {
              "annotations": {
                "operator.dynamo/applied": "…",
                "operator.dynamo/template-digest": "…"
              },
              "labels": {
                "nvidia.com/dynamo-component": "Worker",
                "nvidia.com/dynamo-graph-deployment-name": "chat",
                "nvidia.com/dynamo-namespace": "team-chat"
              },
              "name": "chat-worker",
              "namespace": "team",
              "ownerReferences": [
                {
                  "apiVersion": "nvidia.com/v1beta1",
                  "blockOwnerDeletion": true,
                  "controller": true,
                  "kind": "DynamoComponentDeployment",
                  "name": "chat-worker",
                  "uid": "uid-of-the-component"
                }
              ]
            },
            "podLabels": {
              "nvidia.com/dynamo-component": "Worker",
              "nvidia.com/dynamo-component-type": "worker",
              "nvidia.com/dynamo-discovery-backend": "kubernetes",
              "nvidia.com/dynamo-discovery-enabled": "true",
              "nvidia.com/dynamo-graph-deployment-name": "chat",
              "nvidia.com/dynamo-namespace": "team-chat",
              "nvidia.com/metrics-enabled": "true",
              "nvidia.com/selector": "chat-worker"
            },
            "replicas": 2,
            "selector": {
              "matchLabels": {
                "nvidia.com/selector": "chat-worker"
              }
            },
            "strategy": {
              "rollingUpdate": {
                "maxSurge": "25%",
                "maxUnavailable": "25%"
              },
              "type": "RollingUpdate"
            }
          },
          "service": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
              "annotations": {
                "operator.dynamo/applied": "…"
              },
              "labels": {
                "nvidia.com/dynamo-component": "Worker",
                "nvidia.com/dynamo-discovery-backend": "kubernetes",
                "nvidia.com/dynamo-discovery-enabled": "true",
                "nvidia.com/dynamo-graph-deployment-name": "chat",
                "nvidia.com/dynamo-namespace": "team-chat"
              },
              "name": "chat-worker",
              "namespace": "team",
              "ownerReferences": [
                {
                  "apiVersion": "nvidia.com/v1beta1",
                  "blockOwnerDeletion": true,
                  "controller": true,
                  "kind": "DynamoComponentDeployment",
                  "name": "chat-worker",
                  "uid": "uid-of-the-component"
                }
              ]
            },
            "spec": {
              "ports": [
                {
                  "name": "system",
                  "port": 9090,
                  "protocol": "TCP",
                  "targetPort": "system"
                }
              ],
              "selector": {
                "nvidia.com/dynamo-component": "Worker",
                "nvidia.com/dynamo-component-type": "worker",
                "nvidia.com/dynamo-namespace": "team-chat"
              }
            }
          }
        }"#]]
    .assert_eq(&format!("{summary:#}"));
}

#[test]
fn planning_again_on_what_was_applied_writes_nothing() {
    let mut observed = observed(component("worker"));
    let first = planned(&observed, &PodSettings::default());
    observed.deployment = live(applied(first.workload.as_ref().unwrap()));
    let ChildStep::Apply(desired) = &first.service else { panic!("{first:?}") };
    observed.service = live(applied(desired));
    let second = planned(&observed, &PodSettings::default());
    let plan = |desired: &Desired, live: &Value| plan_write(desired.object(), live, UID, false);
    assert_eq!(plan(second.workload.as_ref().unwrap(), &observed.deployment.as_ref().unwrap().value), Write::Skip);
    let ChildStep::Apply(desired) = &second.service else { panic!("{second:?}") };
    assert_eq!(plan(desired, &observed.service.as_ref().unwrap().value), Write::Skip);
}

/// Upstream: without a gateway in the settings, what was made for one stayed for ever.
#[test]
fn a_way_in_goes_with_its_setting_and_only_if_it_is_ours() {
    let step = |gateway: Option<&str>, live_one: Option<Value>| {
        let mut observed = observed(component("frontend"));
        observed.virtual_service = live_one.and_then(|mut live_one| {
            live_one["spec"] = json!({ "hosts": [], "gateways": [], "http": [] });
            live::<VirtualService>(live_one)
        });
        let exposure = ExposureSettings { gateway: gateway.map(str::to_owned), ..ExposureSettings::default() };
        word(&planned(&observed, &PodSettings { exposure, ..PodSettings::default() }).virtual_service)
    };
    assert_eq!(step(Some("istio/gateway"), Some(owned_by(UID))), "apply");
    assert_eq!(step(None, Some(owned_by(UID))), "delete");
    assert_eq!(step(None, Some(owned_by("another"))), "nothing");
    assert_eq!(step(None, None), "nothing");
}

/// No watch shows that the API is installed.
#[test]
fn a_way_in_whose_api_is_missing_is_waited_for() {
    let lacks = |gateway: Option<&str>, serves: bool| {
        let mut observed = observed(component("frontend"));
        observed.serves_virtual_services = serves;
        let exposure = ExposureSettings { gateway: gateway.map(str::to_owned), ..ExposureSettings::default() };
        let planned = planned(&observed, &PodSettings { exposure, ..PodSettings::default() });
        (planned.lacks_api, planned.waiting.len())
    };
    assert_eq!(lacks(Some("istio/gateway"), false), (true, 1));
    assert_eq!(lacks(Some("istio/gateway"), true), (false, 0));
    assert_eq!(lacks(None, false), (false, 0));
}

#[test]
fn a_service_goes_only_if_it_is_ours_and_not_desired() {
    let mut going = owned_by(UID);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let unowned = json!({ "metadata": { "name": "chat-worker", "namespace": "team", "uid": "s" } });
    let step = |type_: &str, settings: &PodSettings, service: Option<Value>| {
        let mut observed = observed(component(type_));
        observed.service = service.and_then(live::<Service>);
        word(&planned(&observed, settings).service)
    };
    let kubernetes = PodSettings::default();
    assert_eq!(step("worker", &kubernetes, None), "apply");
    assert_eq!(step("frontend", &etcd(), None), "apply");
    assert_eq!(step("worker", &etcd(), None), "nothing");
    assert_eq!(step("worker", &etcd(), Some(owned_by(UID))), "delete");
    assert_eq!(step("worker", &etcd(), Some(owned_by("another"))), "nothing");
    assert_eq!(step("worker", &etcd(), Some(unowned)), "nothing");
    assert_eq!(step("worker", &etcd(), Some(going)), "nothing");
}

fn secrets(names: &[&str]) -> Arc<PullSecretIndex> {
    let hosts = || RegistryHosts::parse(br#"{"auths":{"nvcr.io":{}}}"#).unwrap();
    Arc::new(PullSecretIndex::new(names.iter().map(|name| ((*name).to_owned(), hosts()))))
}

#[test]
fn a_secret_that_appears_reaches_pods_that_never_came_up() {
    let mut observed = observed(component("worker"));
    let first = workload(&observed);
    assert_eq!(first.object()["spec"]["template"]["spec"].get("imagePullSecrets"), None);
    observed.deployment = live(applied(&first));
    observed.pull_secrets = secrets(&["late"]);
    let second = workload(&observed);
    assert_eq!(second.object()["spec"]["template"]["spec"]["imagePullSecrets"], json!([{ "name": "late" }]));
}

#[test]
fn a_secret_that_appears_rolls_nothing_that_serves() {
    let template = |observed: &ComponentObserved| workload(observed).object()["spec"]["template"].clone();
    let mut observed = observed(component("worker"));
    observed.pull_secrets = secrets(&["one"]);
    let first = workload(&observed);
    assert_eq!(first.object()["spec"]["template"]["spec"]["imagePullSecrets"], json!([{ "name": "one" }]));
    let mut serving = applied(&first);
    serving["status"] = json!({ "replicas": 2, "availableReplicas": 1 });
    observed.deployment = live(serving);
    observed.pull_secrets = secrets(&["one", "two"]);
    assert_eq!(template(&observed), first.object()["spec"]["template"]);
    // The next change of the template rolls anyway, and takes it along.
    let main = &mut observed.component.spec.component.pod_template.as_mut().unwrap().spec.as_mut().unwrap().containers;
    main[0].args.as_mut().unwrap().push("--more".to_owned());
    assert_eq!(template(&observed)["spec"]["imagePullSecrets"], json!([{ "name": "one" }, { "name": "two" }]));
}

#[test]
fn a_prefill_component_that_was_selected_as_worker_stays_one() {
    let mut observed = observed(component("prefill"));
    let pod_type = |observed: &ComponentObserved| {
        let planned = planned(observed, &PodSettings::default());
        let labels = &planned.workload.as_ref().unwrap().object()["spec"]["template"]["metadata"]["labels"];
        (
            labels[labels::COMPONENT_TYPE].clone(),
            service(&planned.service)["spec"]["selector"][labels::COMPONENT_TYPE].clone(),
        )
    };
    assert_eq!(pod_type(&observed), (json!("prefill"), json!("prefill")));
    observed.service = live(json!({
        "metadata": { "name": "chat-worker", "namespace": "team" },
        "spec": { "selector": { labels::COMPONENT_TYPE: "worker" } },
    }));
    assert_eq!(pod_type(&observed), (json!("worker"), json!("worker")));
}

#[test]
fn the_go_operators_bookkeeping_is_not_ours_to_say() {
    let mut observed = observed(component("worker"));
    let first = workload(&observed);
    let mut theirs = applied(&first);
    theirs["metadata"]["annotations"] = json!({ annotations::LAST_APPLIED_HASH: "h" });
    observed.deployment = live::<Deployment>(theirs.clone());
    let second = workload(&observed);
    let Write::Update { differences, .. } = plan_write(second.object(), &theirs, UID, false) else {
        panic!("our own marks are missing, so there is something to write")
    };
    let paths: Vec<&str> = differences.iter().map(|d| d.path.as_str()).collect();
    assert!(paths.iter().all(|path| path.starts_with("metadata.annotations")), "{paths:?}");
    assert!(!second.object()["metadata"]["annotations"].to_string().contains(annotations::LAST_APPLIED_HASH));
}

/// A component whose replicas span four nodes.
fn spanning(type_: &str) -> Value {
    let mut component = component(type_);
    component["spec"]["multinode"] = json!({ "nodeCount": 4 });
    component
}

#[test]
fn replicas_that_span_nodes_are_groups_of_a_leader_worker_set() {
    let planned = planned(&observed(spanning("worker")), &PodSettings::default());
    assert_eq!(planned.workload.as_ref().unwrap().id().to_string(), "LeaderWorkerSet team/chat-worker-0");
    let set = planned.workload.as_ref().unwrap().object();
    assert_eq!(set["apiVersion"], "leaderworkerset.x-k8s.io/v1");
    assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], UID);
    let spec = &set["spec"];
    assert_eq!((&spec["replicas"], &spec["startupPolicy"]), (&json!(2), &json!("LeaderCreated")));
    let group = &spec["leaderWorkerTemplate"];
    assert_eq!(group["size"], 4);
    for role in ["leader", "worker"] {
        let pod_labels = &group[format!("{role}Template")]["metadata"]["labels"];
        assert_eq!(pod_labels[labels::ROLE], role);
        assert_eq!(pod_labels.get(labels::SELECTOR), None, "the set selects its pods itself");
    }
    let selector = &service(&planned.service)["spec"]["selector"];
    assert_eq!(selector[labels::ROLE], "leader", "only leaders serve requests");
}

#[test]
fn planning_again_on_an_applied_set_writes_nothing_and_zero_is_only_a_count() {
    let mut observed = observed(spanning("worker"));
    let first = workload(&observed);
    observed.leader_worker_set = live(applied(&first));
    let plan = |observed: &ComponentObserved| {
        let second = workload(observed);
        plan_write(second.object(), &observed.leader_worker_set.as_ref().unwrap().value, UID, false)
    };
    assert_eq!(plan(&observed), Write::Skip);
    observed.component.spec.component.replicas = Some(0);
    let Write::Update { differences, .. } = plan(&observed) else { panic!("the count differs") };
    let paths: Vec<&str> = differences.iter().map(|d| d.path.as_str()).collect();
    assert!(paths.iter().all(|path| *path == "spec.replicas" || path.starts_with("metadata.annotations")), "{paths:?}");
}

#[test]
fn a_secret_that_appears_restarts_no_group_that_serves() {
    let mut observed = observed(spanning("worker"));
    observed.pull_secrets = secrets(&["one"]);
    let first = workload(&observed);
    let mut serving = applied(&first);
    serving["status"] = json!({ "replicas": 2, "readyReplicas": 1, "updatedReplicas": 2 });
    observed.leader_worker_set = live(serving);
    observed.pull_secrets = secrets(&["one", "two"]);
    let second = workload(&observed);
    assert_eq!(second.object()["spec"], first.object()["spec"]);
}

#[test]
fn what_keeps_a_group_from_running_is_reported_with_its_field() {
    let violation = |change: fn(&mut Value)| {
        let mut component = spanning("worker");
        change(&mut component);
        validate_spec(&serde_json::from_value(component).unwrap(), None).unwrap_err()
    };
    let nothing = violation(|component| {
        let main = &mut component["spec"]["podTemplate"]["spec"]["containers"][0];
        main.as_object_mut().unwrap().retain(|key, _| key != "command" && key != "args");
    });
    assert!(nothing.starts_with("spec.podTemplate.spec.containers[main].args: is empty"), "{nothing}");
    let long = violation(|component| component["metadata"]["name"] = json!("a".repeat(49)));
    assert!(long.starts_with("metadata.name (") && long.contains("52 characters"), "{long}");
}

/// The same, with as many GPUs as a claim has.
fn claiming() -> Value {
    let mut component = spanning("worker");
    let pod = &mut component["spec"]["podTemplate"]["spec"];
    pod["containers"][0]["args"] = json!(["-m", "dynamo.vllm", "--tensor-parallel-size", "16"]);
    pod["containers"][0]["resources"] = json!({ "claims": [{ "name": "gpu" }] });
    pod["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimTemplateName": "eight" }]);
    component
}

#[test]
fn no_pod_starts_before_the_gpus_that_are_claimed_can_be_counted() {
    let mut observed = observed(claiming());
    let workload_with =
        |observed: &ComponentObserved, gpus| plan_with(observed, &PodSettings::default(), gpus).workload;
    assert!(workload_with(&observed, None).is_none());
    let first = workload_with(&observed, Some(8)).unwrap();
    assert!(first.object().to_string().contains("ray start --head"), "one model over all nodes");
    observed.leader_worker_set = live(applied(&first));
    assert!(workload_with(&observed, None).is_none(), "what runs goes on as it is");
    observed.component.spec.component.replicas = Some(0);
    let scaled = workload_with(&observed, None).unwrap();
    let live = &observed.leader_worker_set.as_ref().unwrap().value;
    let Write::Update { differences, .. } = plan_write(scaled.object(), live, UID, false) else { panic!() };
    let paths: Vec<&str> = differences.iter().map(|d| d.path.as_str()).filter(|p| p.starts_with("spec")).collect();
    assert_eq!(paths, ["spec.replicas"], "an old revision can go although its claim has gone");
}
