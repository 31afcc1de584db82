//! Graphs on Grove. No controller here runs Grove, so the tests make what it would make of a PodCliqueSet, and say how
//! far it is.

use api_types::{
    external::VirtualService,
    grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet},
    v1beta1::DynamoGraphDeployment,
};
use k8s_openapi::api::{
    core::v1::{Pod, Secret, Service},
    networking::v1::Ingress,
    resource::v1::{DeviceClass, ResourceClaim},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::harness::{Harness, LIMIT, condition, graph, is_ready};

const FRONTEND: &str = "chat-0-frontend";
pub const DECODE: &str = "chat-0-decode";

/// A frontend, and a worker whose replicas each span two nodes.
pub fn spanning() -> Value {
    graph("chat", |g| {
        let decode = &mut g["spec"]["components"][1];
        decode["multinode"] = json!({ "nodeCount": 2 });
        let main = &mut decode["podTemplate"]["spec"]["containers"][0];
        main["args"] = json!(["-m", "dynamo.vllm", "--tensor-parallel-size", "16"]);
        main["resources"] = json!({ "limits": { "nvidia.com/gpu": "8" } });
    })
}

pub async fn until_set(harness: &Harness, what: &str, fits: impl Fn(&PodCliqueSet) -> bool) -> PodCliqueSet {
    harness.until("chat", what, fits).await
}

/// Makes the children of the set, as Grove does once.
pub async fn make_children(harness: &Harness, set: &PodCliqueSet) {
    let template = &set.spec.template;
    let owner = json!([set.controller_owner_ref(&()).unwrap()]);
    let child = |kind: &str, name: &str, labels: Value, spec: Value| {
        json!({
            "apiVersion": "grove.io/v1alpha1", "kind": kind,
            "metadata": { "name": name, "labels": labels, "ownerReferences": owner }, "spec": spec,
        })
    };
    let (params, name) = (PatchParams::apply("grove"), |part: &str| format!("{}-0-{part}", set.name_any()));
    let grouped = |name: &String| template.pod_clique_scaling_groups.iter().any(|g| g.clique_names.contains(name));
    for clique in template.cliques.iter().filter(|clique| !grouped(&clique.name)) {
        let name = name(&clique.name);
        let clique = child("PodClique", &name, json!(clique.labels), json!(clique.spec));
        harness.api::<PodClique>().patch(&name, &params, &Patch::Apply(clique)).await.unwrap();
    }
    for group in &template.pod_clique_scaling_groups {
        let name = name(&group.name);
        let spec = json!({ "cliqueNames": group.clique_names, "replicas": group.replicas, "minAvailable": 1 });
        let group = child("PodCliqueScalingGroup", &name, json!({}), spec);
        harness.api::<PodCliqueScalingGroup>().patch(&name, &params, &Patch::Apply(group)).await.unwrap();
    }
}

/// Says that everything serves, as Grove does.
pub async fn serve(harness: &Harness) {
    let (params, all, hash) = (PatchParams::default(), ListParams::default(), "revision");
    let (sets, cliques) = (harness.api::<PodCliqueSet>(), harness.api::<PodClique>());
    for set in sets.list(&all).await.unwrap() {
        let status = json!({ "status": {
            "observedGeneration": set.metadata.generation, "currentGenerationHash": hash,
            "availableReplicas": 1, "updatedReplicas": 1, "replicas": 1,
        } });
        sets.patch_status(&set.name_any(), &params, &Patch::Merge(status)).await.unwrap();
    }
    for clique in cliques.list(&all).await.unwrap() {
        let n = clique.spec.replicas;
        let status = json!({ "status": {
            "observedGeneration": clique.metadata.generation, "currentPodCliqueSetGenerationHash": hash, "replicas": n,
            "updatedReplicas": n, "readyReplicas": n, "scheduledReplicas": n, "scheduleGatedReplicas": 0,
        } });
        cliques.patch_status(&clique.name_any(), &params, &Patch::Merge(status)).await.unwrap();
    }
    let groups = harness.api::<PodCliqueScalingGroup>();
    for group in groups.list(&all).await.unwrap() {
        let n = group.spec.replicas;
        let status = json!({ "status": {
            "observedGeneration": group.metadata.generation, "currentPodCliqueSetGenerationHash": hash, "replicas": n,
            "updatedReplicas": n, "availableReplicas": n, "scheduledReplicas": n,
        } });
        groups.patch_status(&group.name_any(), &params, &Patch::Merge(status)).await.unwrap();
    }
}

async fn until_ready(harness: &Harness) -> DynamoGraphDeployment {
    serve(harness).await;
    harness.until("chat", "ready", is_ready).await
}

/// A graph that serves on Grove.
pub async fn served(harness: &Harness) -> PodCliqueSet {
    harness.apply(&spanning()).await;
    let set = until_set(harness, "made", |_| true).await;
    make_children(harness, &set).await;
    until_ready(harness).await;
    set
}

async fn replicas(harness: &Harness) -> i32 {
    harness.api::<PodCliqueScalingGroup>().get(DECODE).await.unwrap().spec.replicas
}

/// An install for one namespace cannot read the class of the devices; the request says itself whose devices it asks
/// for.
#[tokio::test]
async fn nothing_is_made_on_grove_before_the_gpus_that_are_claimed_can_be_counted() {
    let Some(harness) = Harness::on_grove("grove-claims").await else { return };
    let driver = json!({ "cel": { "expression": "device.driver == 'gpu.example.com'" } });
    made_when_counted(&harness, "gpus", json!([driver])).await;
}

/// An install for the whole cluster finds the driver in the class.
#[tokio::test]
async fn the_class_of_the_devices_says_that_they_are_gpus() {
    let Some(harness) = Harness::on_grove("grove-classes").await else { return };
    harness.grant_everywhere("resource.k8s.io", "deviceclasses").await;
    let class = format!("gpus-{}", harness.namespace);
    let driver = json!({ "cel": { "expression": "device.driver == 'gpu.example.com'" } });
    let object = json!({ "metadata": { "name": class }, "spec": { "selectors": [driver] } });
    let object: DeviceClass = serde_json::from_value(object).unwrap();
    Api::<DeviceClass>::all(harness.client.clone()).create(&PostParams::default(), &object).await.unwrap();
    made_when_counted(&harness, &class, json!([])).await;
}

/// Claims eight devices of a class for a worker that spans two nodes.
async fn made_when_counted(harness: &Harness, class: &str, selectors: Value) {
    harness.start();
    let mut claiming = spanning();
    let pod = &mut claiming["spec"]["components"][1]["podTemplate"]["spec"];
    pod["containers"][0]["command"] = json!(["python3"]);
    pod["containers"][0]["resources"] = json!({ "claims": [{ "name": "gpu" }] });
    pod["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimName": "eight" }]);
    harness.apply(&claiming).await;
    let reported = |graph: &DynamoGraphDeployment| {
        let found = condition(graph, "Reconciling", "True").filter(|c| c.reason == "GpuCountUnknown");
        found.map(|c| c.message.clone())
    };
    let waiting = harness.until("chat", "waiting for its claim", |graph| reported(graph).is_some()).await;
    assert!(
        reported(&waiting).unwrap().contains("ResourceClaim eight does not exist; create it"),
        "{:?}",
        reported(&waiting)
    );
    assert!(harness.api::<PodCliqueSet>().get_opt("chat").await.unwrap().is_none());

    let exactly = json!({ "deviceClassName": class, "count": 8, "selectors": selectors });
    let claim = json!({
        "metadata": { "name": "eight" },
        "spec": { "devices": { "requests": [{ "name": "gpus", "exactly": exactly }] } },
    });
    let claim: ResourceClaim = serde_json::from_value(claim).unwrap();
    harness.api::<ResourceClaim>().create(&PostParams::default(), &claim).await.unwrap();
    let set = until_set(harness, "made", |_| true).await;
    for clique in set.spec.template.cliques.iter().filter(|clique| clique.name != "frontend") {
        let main = json!(clique.spec.pod_spec.containers[0]);
        assert!(main["args"].to_string().contains("--nnodes"), "{}: {main}", clique.name);
    }
}

#[tokio::test]
async fn a_graph_is_one_set_and_becomes_ready_with_few_writes() {
    let Some(harness) = Harness::on_grove("grove").await else { return };
    harness.start();
    let set = served(&harness).await;
    assert_eq!(set.spec.template.cliques.len(), 3, "the frontend, and leader and workers of the worker");
    assert!(harness.components("chat").await.is_empty());
    let service: Service = harness.api().get("chat-frontend").await.unwrap();
    assert!(service.metadata.owner_references.unwrap().iter().any(|owner| owner.kind == "DynamoGraphDeployment"));
    let ready: DynamoGraphDeployment = harness.api().get("chat").await.unwrap();
    let counts = &ready.status.unwrap().components["Decode"];
    assert_eq!((counts.component_names.as_slice(), counts.replicas), ([DECODE.to_owned()].as_slice(), 1));
    let writes = || ["PodCliqueSet", "PodCliqueScalingGroup", "Service"].map(|kind| harness.writes_of(kind));
    let before = writes();
    harness.until_reconciled("chat").await;
    assert_eq!(writes(), before);
    assert_eq!(before[..2], [1, 0]);

    harness.api::<DynamoGraphDeployment>().delete("chat", &DeleteParams::foreground()).await.unwrap();
    harness.gone::<DynamoGraphDeployment>("chat").await;
    harness.gone::<PodCliqueSet>("chat").await;
}

/// A pod as Grove makes it: with the labels of its clique.
async fn stuck_pod(harness: &Harness, set: &PodCliqueSet) {
    let clique = set.spec.template.cliques.iter().find(|clique| clique.name == "frontend").unwrap();
    // No scheduler binds it.
    let spec = json!({ "schedulerName": "no-scheduler", "serviceAccountName": clique.spec.pod_spec.service_account_name,
        "containers": [{ "name": "main", "image": "registry.example.com/none:1" }] });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "chat-0-frontend-x", "labels": clique.labels }, "spec": spec,
    });
    let pods = harness.api::<Pod>();
    let params = PatchParams::apply("grove");
    pods.patch("chat-0-frontend-x", &params, &Patch::Apply(pod)).await.unwrap();
    let waiting = json!({ "waiting": { "reason": "ImagePullBackOff", "message": "manifest unknown" } });
    let main = json!({ "name": "main", "image": "registry.example.com/none:1", "imageID": "", "ready": false,
        "restartCount": 0, "state": waiting });
    let status = Patch::Merge(json!({ "status": { "phase": "Pending", "containerStatuses": [main] } }));
    pods.patch_status("chat-0-frontend-x", &PatchParams::default(), &status).await.unwrap();
}

#[tokio::test]
async fn the_status_names_the_pod_that_does_not_come_up() {
    let Some(harness) = Harness::on_grove("grove-pods").await else { return };
    harness.start();
    let set = served(&harness).await;
    stuck_pod(&harness, &set).await;
    let none = json!({ "status": { "readyReplicas": 0 } });
    harness.api::<PodClique>().patch_status(FRONTEND, &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    let names_it = |graph: &DynamoGraphDeployment| {
        let working = condition(graph, "Reconciling", "True");
        working.is_some_and(|c| c.reason == "ImagePullFailed" && c.message.contains("chat-0-frontend-x"))
    };
    harness.until("chat", "in trouble", names_it).await;
    until_ready(&harness).await;
}

#[tokio::test]
async fn the_way_in_is_the_graphs_and_goes_when_it_is_no_longer_desired() {
    let Some(mut harness) = Harness::on_grove("grove-ingress").await else { return };
    harness.settings().ingress.virtual_service_gateway = "istio-system/public".to_owned();
    let (ingresses, routes) = (harness.api::<Ingress>(), harness.api::<VirtualService>());
    let theirs = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": "theirs", "labels": { "operator.dynamo/graph": "chat" } },
        "spec": { "defaultBackend": { "service": { "name": "x", "port": { "number": 80 } } } },
    });
    ingresses.patch("theirs", &PatchParams::apply("another-manager"), &Patch::Apply(theirs)).await.unwrap();
    harness.start();
    harness.apply(&spanning()).await;
    let open = |ingress: &Ingress| {
        let class = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref());
        let owners = ingress.owner_references().iter();
        class == Some("nginx") && owners.map(|owner| owner.kind.as_str()).eq(["DynamoGraphDeployment"])
    };
    harness.until("chat-frontend", "open", open).await;
    let other = Patch::Merge(json!({ "spec": { "ingressClassName": "other" } }));
    ingresses.patch("chat-frontend", &PatchParams::default(), &other).await.unwrap();
    harness.until("chat-frontend", "brought back", open).await;
    let routed = |route: &VirtualService| route.spec.gateways == ["istio-system/public"];
    harness.until("chat-frontend", "routed", routed).await;
    let other = Patch::Merge(json!({ "spec": { "gateways": ["mesh"] } }));
    routes.patch("chat-frontend", &PatchParams::default(), &other).await.unwrap();
    harness.until("chat-frontend", "brought back", routed).await;

    let mut inside = spanning();
    inside["spec"]["components"].as_array_mut().unwrap().remove(0);
    harness.apply(&inside).await;
    harness.gone::<Ingress>("chat-frontend").await;
    harness.gone::<VirtualService>("chat-frontend").await;
    assert!(ingresses.get("theirs").await.is_ok(), "foreign objects stay");
}

/// Grove takes a changed template for a change of all pods.
#[tokio::test]
async fn replicas_go_through_scale_and_never_through_the_template() {
    let Some(harness) = Harness::on_grove("grove-scale").await else { return };
    harness.start();
    let set = served(&harness).await;
    for expected in [3, 0, 2] {
        let mut scaled = spanning();
        scaled["spec"]["components"][1]["replicas"] = json!(expected);
        harness.apply(&scaled).await;
        let is_scaled = |group: &PodCliqueScalingGroup| group.spec.replicas == expected;
        harness.until(DECODE, "scaled", is_scaled).await;
        let ready = until_ready(&harness).await;
        assert_eq!(ready.status.unwrap().components["Decode"].replicas, expected);
    }
    // A foreign edit is reverted to the spec of the graph.
    let other = Patch::Merge(json!({ "spec": { "replicas": 7 } }));
    harness.api::<PodCliqueScalingGroup>().patch_scale(DECODE, &PatchParams::default(), &other).await.unwrap();
    harness.until(DECODE, "brought back", |group: &PodCliqueScalingGroup| group.spec.replicas == 2).await;
    let after = until_set(&harness, "there", |_| true).await;
    assert_eq!((after.metadata.generation, &after.spec), (set.metadata.generation, &set.spec));
    assert_eq!((harness.writes_of("PodCliqueSet"), harness.writes_of("PodCliqueScalingGroup")), (1, 4));
}

#[tokio::test]
async fn another_image_changes_the_template_once_and_no_replicas() {
    let Some(harness) = Harness::on_grove("grove-image").await else { return };
    harness.start();
    let set = served(&harness).await;
    let mut changed = spanning();
    let decode = &mut changed["spec"]["components"][1];
    decode["replicas"] = json!(2);
    decode["podTemplate"]["spec"]["containers"][0]["image"] = json!("registry.example.com/other:1.6.0");
    harness.apply(&changed).await;
    let after = until_set(&harness, "changed", |now| now.metadata.generation > set.metadata.generation).await;
    harness.until(DECODE, "scaled", |group: &PodCliqueScalingGroup| group.spec.replicas == 2).await;
    let groups = |set: &PodCliqueSet| set.spec.template.pod_clique_scaling_groups[0].replicas;
    assert_eq!(groups(&after), groups(&set));
    until_ready(&harness).await;
    assert_eq!((harness.writes_of("PodCliqueSet"), replicas(&harness).await), (2, 2));
}

#[tokio::test]
async fn a_set_of_the_go_operator_is_taken_over_as_it_is() {
    let Some(harness) = Harness::on_grove("grove-takeover").await else { return };
    let first = Harness::on_grove("grove-pattern").await.unwrap();
    first.start();
    first.apply(&spanning()).await;
    let pattern = until_set(&first, "made", |_| true).await;

    let owner = harness.apply(&spanning()).await;
    let spec = json!(pattern.spec).to_string().replace(&first.namespace, &harness.namespace);
    let theirs: PodCliqueSet = serde_json::from_value(json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": {
            "name": "chat", "labels": pattern.metadata.labels,
            "annotations": { "nvidia.com/last-applied-hash": "0123" },
            "ownerReferences": [owner.controller_owner_ref(&()).unwrap()],
        },
        "spec": serde_json::from_str::<Value>(&spec).unwrap(),
    }))
    .unwrap();
    let params = PostParams { field_manager: Some("manager".to_owned()), ..PostParams::default() };
    let theirs = harness.api::<PodCliqueSet>().create(&params, &theirs).await.unwrap();
    make_children(&harness, &theirs).await;
    harness.start();
    until_ready(&harness).await;
    let taken = until_set(&harness, "there", |_| true).await;
    assert_eq!((taken.uid(), &taken.spec), (theirs.uid(), &theirs.spec));
    assert_eq!(taken.metadata.generation, theirs.metadata.generation, "Grove does not notice");
    assert!(harness.components("chat").await.is_empty());

    let writes = harness.writes_of("PodCliqueSet");
    assert!(writes <= 1, "{writes} writes, where the metadata needs one");
    harness.until_reconciled("chat").await;
    assert_eq!(harness.writes_of("PodCliqueSet"), writes);
}

/// The webhook server hears of it and makes the Secret; nothing else waits for that.
#[tokio::test]
async fn a_graph_whose_replicas_span_nodes_says_that_the_mpi_key_is_missing() {
    let Some(mut harness) = Harness::on_grove("mpi-key").await else { return };
    harness.settings().mpi.ssh_secret_name = "mpi-key".to_owned();
    harness.start();
    harness.apply(&spanning()).await;
    let reported = |graph: &DynamoGraphDeployment| {
        condition(graph, "MPIKeyAvailable", "False").map(|condition| condition.message.clone())
    };
    until_set(&harness, "made", |_| true).await;
    let graph = harness.until("chat", "without the key", |graph| reported(graph).is_some()).await;
    let message = reported(&graph).unwrap();
    assert!(message.starts_with(&format!("Secret {}/mpi-key: ", harness.namespace)), "{message}");

    let copy = Secret {
        metadata: kube::core::ObjectMeta { name: Some("mpi-key".into()), ..Default::default() },
        ..Secret::default()
    };
    harness.api::<Secret>().create(&PostParams::default(), &copy).await.unwrap();
    harness.until("chat", "content with the key", |graph| reported(graph).is_none()).await;
}

/// An install for one namespace has no right to what belongs to the cluster: the workers run, and the graph says what
/// is missing.
#[tokio::test]
async fn a_topology_that_may_not_be_read_keeps_no_graph_from_running() {
    let Some(harness) = Harness::on_grove("grove-hidden").await else { return };
    harness.start();
    let topology = format!("racks-{}", harness.namespace);
    harness
        .apply(&graph("chat", |g| {
            let policy = json!({ "clusterTopologyName": topology, "domain": "rack" });
            g["spec"]["experimental"] = json!({ "kvTransferPolicy": policy });
        }))
        .await;
    until_set(&harness, "made", |_| true).await;
    let reported = |text: &str| {
        let text = text.to_owned();
        move |graph: &DynamoGraphDeployment| {
            condition(graph, "SpecServed", "False").is_some_and(|condition| condition.message.contains(&text))
        }
    };
    harness.until("chat", "reported", reported("clustertopologybindings.grove.io")).await;

    // An install for the whole cluster reads it.
    harness.grant_everywhere("grove.io", "clustertopologybindings").await;
    let missing = format!("there is no ClusterTopologyBinding {topology}");
    let read = async || {
        harness.until_reconciled("chat").await;
        let graph = harness.api::<DynamoGraphDeployment>().get("chat").await.unwrap();
        let conditions = graph.status.unwrap().conditions;
        let reported = conditions.iter().any(|condition| condition.message.contains(&missing));
        if reported { Ok(()) } else { Err(format!("{conditions:?}")) }
    };
    wait::until("the graph to say that its topology is missing", LIMIT, read).await.unwrap();
}

/// With the right to read queues, which an install for one namespace does not have, a graph waits for its own.
#[tokio::test]
async fn a_graph_is_not_started_in_a_queue_that_does_not_exist() {
    let Some(mut harness) = Harness::on_grove("grove-queue").await else { return };
    harness.settings().orchestrators.kai_scheduler.enabled = Some(true);
    harness.grant_everywhere("scheduling.run.ai", "queues").await;
    harness.start();
    harness
        .apply(&graph("chat", |g| g["metadata"]["annotations"] = json!({ "nvidia.com/kai-scheduler-queue": "team" })))
        .await;
    let reported = |graph: &DynamoGraphDeployment| {
        let conditions = graph.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| condition.message.contains("there is no Queue team"))
    };
    harness.until("chat", "waiting for its queue", reported).await;
    assert!(harness.api::<PodCliqueSet>().get_opt("chat").await.unwrap().is_none());
}
