//! Namespaces of the upstream operator on Grove, as the conformance kit has recorded them, taken over: no pod is
//! replaced, and then everything goes on as if they had always been ours.

#[path = "../conformance_kit/mod.rs"]
mod conformance_kit;

use api_types::{
    grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet},
    names,
    v1beta1::DynamoGraphDeployment,
};
use kube::{
    ResourceExt,
    api::{Api, DeleteParams, DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use test_cluster::{conformance_kit, wait};

use self::conformance_kit::{Case, differ};
use crate::{
    grove::{make_children, serve},
    harness::{Harness, LIMIT, is_ready},
};

/// Kinds of what the upstream operator makes for a graph on Grove, except Secrets.
const KINDS: [&str; 6] = ["ConfigMap", "PodCliqueSet", "Role", "RoleBinding", "Service", "ServiceAccount"];

/// Creates the graph of a case and its objects, as the upstream operator left them.
async fn load(
    harness: &Harness,
    case: &Case,
    (graph, stored): (DynamoGraphDeployment, Value),
) -> DynamoGraphDeployment {
    let elsewhere = graph.namespace().unwrap();
    let here = |value: &Value| -> Value {
        serde_json::from_str(&value.to_string().replace(&elsewhere, &harness.namespace)).unwrap()
    };
    let params = PostParams { field_manager: Some("manager".to_owned()), ..PostParams::default() };
    let mut stored = here(&stored);
    stored["metadata"]["uid"] = Value::Null;
    stored["metadata"]["finalizers"] = json!(["nvidia.com/finalizer"]);
    stored["metadata"]["annotations"]["nvidia.com/dynamo-operator-origin-version"] = json!("1.5.0");
    let graph = serde_json::from_value(stored).unwrap();
    let graph = harness.api::<DynamoGraphDeployment>().create(&params, &graph).await.unwrap();
    for recorded in KINDS.iter().flat_map(|kind| case.objects(kind)) {
        let mut object = here(recorded);
        for owner in object["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
            owner["uid"] = json!(graph.uid());
        }
        if object["spec"]["clusterIP"].as_str().is_some_and(|address| address != "None") {
            // The API server chooses another one.
            let spec = object["spec"].as_object_mut().unwrap();
            ["clusterIP", "clusterIPs"].iter().for_each(|field| drop(spec.remove(*field)));
        }
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let gvk = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
        let resource = ApiResource::from_gvk(&gvk);
        let api: Api<DynamicObject> = Api::namespaced_with(harness.client.clone(), &harness.namespace, &resource);
        api.create(&params, &object).await.unwrap_or_else(|e| panic!("{} {}: {e}", gvk.kind, object.name_any()));
    }
    graph
}

/// Changes a graph as the user does.
async fn edit(harness: &Harness, name: &str, change: impl Fn(&mut DynamoGraphDeployment)) {
    let api = harness.api::<DynamoGraphDeployment>();
    let attempt = async || {
        let mut graph = api.get(name).await.map_err(|e| e.to_string())?;
        change(&mut graph);
        // The status may be written meanwhile.
        api.replace(name, &PostParams::default(), &graph).await.map(drop).map_err(|e| e.to_string())
    };
    wait::until("the edit to be taken", LIMIT, attempt).await.unwrap();
}

async fn replicas(harness: &Harness, child: &str) -> i32 {
    match harness.api::<PodClique>().get_opt(child).await.unwrap() {
        Some(clique) => clique.spec.replicas,
        None => harness.api::<PodCliqueScalingGroup>().get(child).await.unwrap().spec.replicas,
    }
}

/// Takes a case over, and then scales, edits and deletes.
async fn take_over(prefix: &str, name: &str) {
    let Some(kit) = conformance_kit() else { return };
    let Some(harness) = Harness::on_grove(prefix).await else { return };
    let case = conformance_kit::cases(&kit, "grove").into_iter().find(|case| case.name == name).unwrap();
    let graph = load(&harness, &case, case.graphs(&kit).remove(0)).await;
    let (name, sets) = (graph.name_any(), harness.api::<PodCliqueSet>());
    let before = sets.list(&Default::default()).await.unwrap().items.remove(0);
    let set = before.name_any();
    make_children(&harness, &before).await;
    serve(&harness).await;
    harness.start();
    harness.until(&name, "ready", is_ready).await;
    harness.until_reconciled(&name).await;
    let taken = sets.get(&set).await.unwrap();
    let mut lines = Vec::new();
    differ(&json!(before.spec), &json!(taken.spec), "spec", &mut lines);
    assert_eq!((lines.as_slice(), taken.uid()), (&[][..], before.uid()));
    assert_eq!(taken.metadata.generation, before.metadata.generation, "Grove does not notice");

    let worker = graph.spec.components.iter().position(|component| component.is_worker()).unwrap();
    let child = names::grove_child(&set, &graph.spec.components[worker].name);
    let expected = replicas(&harness, &child).await + 1;
    edit(&harness, &name, |graph| graph.spec.components[worker].replicas = Some(expected)).await;
    let look = async || match replicas(&harness, &child).await {
        now if now == expected => Ok(()),
        now => Err(now),
    };
    wait::until("the worker to be scaled", LIMIT, look).await.unwrap();
    serve(&harness).await;
    harness.until(&name, "ready", is_ready).await;
    let scaled = sets.get(&set).await.unwrap();
    assert_eq!(scaled.metadata.generation, before.metadata.generation, "scaling is no change of the template");

    let image = |graph: &mut DynamoGraphDeployment| {
        let template = graph.spec.components[worker].pod_template.as_mut().unwrap();
        template.spec.as_mut().unwrap().containers[0].image = Some("registry.example.com/other:2.0.0".to_owned());
    };
    edit(&harness, &name, image).await;
    let is_newer = |set: &PodCliqueSet| set.metadata.generation > before.metadata.generation;
    let edited = harness.until(&set, "changed", is_newer).await;
    let numbers = |set: &PodCliqueSet| {
        let cliques = set.spec.template.cliques.iter().map(|clique| (clique.name.clone(), Some(clique.spec.replicas)));
        let groups = set.spec.template.pod_clique_scaling_groups.iter();
        cliques.chain(groups.map(|group| (group.name.clone(), group.replicas))).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&edited), numbers(&before), "replicas are Grove's");
    serve(&harness).await;
    harness.until(&name, "ready", is_ready).await;
    assert_eq!(replicas(&harness, &child).await, expected);

    harness.api::<DynamoGraphDeployment>().delete(&name, &DeleteParams::foreground()).await.unwrap();
    harness.gone::<DynamoGraphDeployment>(&name).await;
    harness.gone::<PodCliqueSet>(&set).await;
}

#[tokio::test]
async fn disaggregated_workers() {
    take_over("takeover-disagg", "examples__backends__sglang__deploy__disagg").await;
}

#[tokio::test]
async fn replicas_over_several_nodes() {
    take_over("takeover-nodes", "examples__backends__vllm__deploy__disagg-multinode").await;
}
