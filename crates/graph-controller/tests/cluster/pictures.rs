//! Plans on old pictures: the cache is fed by hand with what was live before, as after a restart against an API
//! server whose own cache lags. One pass on such a picture costs a request, and no worker that serves.

use std::collections::BTreeMap;

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use controller_kit::{
    apply::{Applier, RequestError},
    events::EventSink,
    metrics::Metrics,
    settings::{DISCOVERY_ROLE, OperatorConfiguration},
    store::{Packed, Scope, Store},
};
use graph_controller::{
    NAME,
    graph::{
        apply,
        caches::{GraphCaches, GroveCaches},
        observe::cached,
        plan,
        settings::GraphSettings,
        validate::validate,
    },
};
use k8s_openapi::jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    runtime::watcher::Event,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::harness::{Harness, graph};

type Component = DynamoComponentDeployment;

const DESIRED: i32 = 4;
const STEPS: usize = 12;

/// A cache that holds exactly these objects.
fn store<K>(objects: &[K]) -> Store<Packed<K>>
where
    K: kube::Resource<DynamicType = ()> + Serialize,
{
    let store = Store::new();
    store.handle(Event::Init);
    for object in objects {
        let mut value = json!(object);
        (value["apiVersion"], value["kind"]) = (json!(K::api_version(&())), json!(K::kind(&())));
        store.handle(Event::InitApply(Packed::from_value(value).unwrap()));
    }
    store.handle(Event::InitDone);
    store
}

fn caches(graph: &DynamoGraphDeployment, components: &[Component]) -> GraphCaches {
    GraphCaches {
        graphs: store(std::slice::from_ref(graph)),
        components: store(components),
        accounts: Store::new(),
        roles: Store::new(),
        bindings: Store::new(),
        worker_pods: Store::new(),
        config_maps: Store::new(),
        claim_templates: Store::new(),
        pools: Store::new(),
        destination_rules: Store::new(),
        adapters: Store::new(),
        mpi_keys: Store::new(),
        checkpoints: Store::new(),
        agents: None,
        services: Store::new(),
        ingresses: Store::new(),
        virtual_services: Store::new(),
        autoscalers: Store::new(),
        model_services: Store::new(),
        builds: Store::new(),
        grove: GroveCaches { sets: Store::new(), cliques: Store::new(), groups: Store::new(), pull_secrets: None },
    }
}

/// One pass over the graph, on this picture of its components.
async fn pass(harness: &Harness, picture: &[Component]) -> Result<(), RequestError> {
    let graph = harness.api::<DynamoGraphDeployment>().get("chat").await.unwrap();
    let caches = caches(&graph, picture);
    let client = harness.client_of_controller();
    let applier = Applier::new(client.clone(), NAME, Metrics::new(), Vec::new());
    let scope = Scope::Namespace(harness.namespace.clone());
    let mut configuration = OperatorConfiguration::default();
    configuration.rbac.discovery_role_name = DISCOVERY_ROLE.to_owned();
    let settings = GraphSettings::of(&configuration, &scope);
    let observed = cached(&caches, &settings, &caches.graphs.all().pop().unwrap(), graph).unwrap();
    let valid = validate(&observed, &settings).unwrap();
    let plan = plan::plan(&valid, &observed, Timestamp::now());
    let applied = apply::apply(&applier, &EventSink::new(client, NAME), &caches, &observed, &plan).await;
    applied.tally.failed.into_iter().next().map_or(Ok(()), Err)
}

/// Two worker components of an image.
fn chat(image: u32, recreate: bool) -> Value {
    graph("chat", |g| {
        let components = g["spec"]["components"].as_array_mut().unwrap();
        let worker = &mut components[1];
        worker["replicas"] = json!(DESIRED);
        let main = format!("registry.example.com/worker:1.{image}.0");
        worker["podTemplate"]["spec"]["containers"][0]["image"] = json!(main);
        if recreate {
            let strategy = json!({ "nvidia.com/deployment-strategy": "Recreate" });
            worker["podTemplate"]["metadata"] = json!({ "annotations": strategy });
        }
        let mut prefill = worker.clone();
        (prefill["name"], prefill["type"]) = (json!("Prefill"), json!("prefill"));
        components.push(prefill);
    })
}

async fn workers(harness: &Harness) -> Vec<Component> {
    let mut all = harness.components("chat").await;
    all.retain(|d| d.spec.component.is_worker());
    all
}

fn serving(d: &Component) -> i32 {
    let status = d.status.as_ref().and_then(|status| status.component.as_ref());
    let available = status.and_then(|status| status.available_replicas).unwrap_or(0);
    available.min(d.spec.component.desired_replicas())
}

/// Workers of the least served component that serve.
async fn least(harness: &Harness) -> i32 {
    let mut all: BTreeMap<String, i32> = BTreeMap::new();
    for d in workers(harness).await {
        *all.entry(d.spec.component.name.clone()).or_default() += serving(&d);
    }
    all.into_values().min().unwrap()
}

/// Writes the status that the component controller reports when this number of workers serves.
async fn set_serving(harness: &Harness, d: &Component, serving: i32) {
    harness.serve(d).await;
    let replicas = d.spec.component.desired_replicas();
    let counts = json!({ "replicas": replicas, "availableReplicas": serving, "readyReplicas": serving });
    let patch = Patch::Merge(json!({ "status": { "component": counts } }));
    harness.api::<Component>().patch_status(&d.name_any(), &PatchParams::default(), &patch).await.unwrap();
}

async fn all_serve(harness: &Harness) {
    for d in harness.components("chat").await {
        harness.serve(&d).await;
    }
}

/// A graph whose first revision serves alone. Gives the picture of it.
async fn first(harness: &Harness, recreate: bool) -> Vec<Component> {
    harness.apply(&chat(1, recreate)).await;
    pass(harness, &[]).await.unwrap();
    all_serve(harness).await;
    harness.components("chat").await
}

/// Passes on true pictures until the second revision serves alone.
async fn roll(harness: &Harness, recreate: bool) {
    harness.apply(&chat(2, recreate)).await;
    for _ in 0..STEPS {
        pass(harness, &harness.components("chat").await).await.unwrap();
        all_serve(harness).await;
    }
    let all: Vec<_> = workers(harness).await.iter().map(serving).collect();
    assert_eq!(all, [DESIRED, DESIRED], "the second revision serves alone");
}

/// A picture from before the target revision was made: it is found, and keeps its workers.
#[tokio::test]
async fn workers_that_the_cache_lacks_are_not_taken_away() {
    for recreate in [false, true] {
        let harness = Harness::without_controller("lacks", false).await;
        let before = first(&harness, recreate).await;
        roll(&harness, recreate).await;
        let error = pass(&harness, &before).await.unwrap_err();
        assert!(matches!(error, RequestError::Changed { .. }), "{error}");
        assert_eq!(least(&harness).await, DESIRED, "with Recreate: {recreate}");
    }
}

/// An object that the watch does not select any more, because a label was taken off it, gets the label back and keeps
/// its workers.
#[tokio::test]
async fn a_label_is_brought_back_and_the_workers_stay() {
    let harness = Harness::without_controller("label", false).await;
    first(&harness, false).await;
    let decode = harness.component("chat", "Decode").await;
    let label = "nvidia.com/dynamo-graph-deployment-name";
    let patch = Patch::Merge(json!({ "metadata": { "labels": { label: null } }, "spec": { "replicas": 5 } }));
    let api = harness.api::<Component>();
    api.patch(&decode.name_any(), &PatchParams::default(), &patch).await.unwrap();
    let error = pass(&harness, &harness.components("chat").await).await.unwrap_err();
    assert!(matches!(error, RequestError::Changed { .. }), "{error}");
    let repaired = api.get(&decode.name_any()).await.unwrap();
    assert!(repaired.labels().contains_key(label));
    assert_eq!(repaired.spec.component.replicas, Some(5), "planned when the cache shows it");
    pass(&harness, &harness.components("chat").await).await.unwrap();
    assert_eq!(api.get(&decode.name_any()).await.unwrap().spec.component.replicas, Some(DESIRED));
}

/// In each phase of a rollout, with components that come up independently of each other, a pass on each picture since
/// the beginning leaves enough workers of every component.
#[tokio::test]
async fn no_picture_of_a_rollout_takes_away_workers_that_serve() {
    // Seeds of a linear congruential generator; each makes other components lag.
    for seed in [1_u64, 7, 23] {
        let harness = Harness::without_controller("phases", false).await;
        let mut dice = seed;
        let mut pictures = vec![first(&harness, false).await];
        harness.apply(&chat(2, false)).await;
        for step in 0..STEPS {
            let picture = harness.components("chat").await;
            pass(&harness, &picture).await.unwrap();
            pictures.push(picture);
            for d in workers(&harness).await {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (before, expected) = (serving(&d), d.spec.component.desired_replicas());
                let all = step + 3 > STEPS;
                set_serving(&harness, &d, if all || dice >> 63 == 1 { expected } else { before }).await;
            }
            for old in &pictures {
                let target = |all: &[Component]| -> BTreeMap<String, i32> {
                    let newest = all.iter().filter(|d| d.spec.component.is_worker());
                    newest.map(|d| (d.name_any(), serving(d))).collect()
                };
                let before = target(&harness.components("chat").await);
                if let Err(error) = pass(&harness, old).await {
                    assert_eq!(error.class(), controller_kit::failure::Class::Transient, "{error}");
                }
                let after = target(&harness.components("chat").await);
                assert!(least(&harness).await >= DESIRED - 1, "seed {seed}, step {step}: {before:?} -> {after:?}");
            }
        }
    }
}

/// An old worker that was deleted by hand is not made again by a picture that still has it.
#[tokio::test]
async fn an_object_that_is_gone_is_not_made_again() {
    let harness = Harness::without_controller("gone", false).await;
    let mut picture = first(&harness, false).await;
    let decode = harness.component("chat", "Decode").await;
    harness.api::<Component>().delete(&decode.name_any(), &DeleteParams::default()).await.unwrap();
    harness.gone::<Component>(&decode.name_any()).await;
    for d in &mut picture {
        d.spec.component.replicas = Some(1);
    }
    pass(&harness, &picture).await.unwrap_err();
    assert!(harness.api::<Component>().get_opt(&decode.name_any()).await.unwrap().is_none());
}
