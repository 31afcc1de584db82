//! Large objects of a tenant, and the memory of the controllers of all tenants.

use api_types::{
    annotations, labels,
    v1alpha1::DynamoModel,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use end_to_end::{
    BoxError, COMPONENT_CONTROLLER, GRAPH_CONTROLLER, Harness, MODEL_CONTROLLER, cluster_wide, private_harness,
};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Resource,
    api::{Api, DynamicObject, PostParams},
    core::ApiResource,
};
use serde_json::{Value, json};
use test_cluster::{Process, Signal, wait};

use crate::graphs::disaggregated;

const CONTROLLERS: [&str; 3] = [GRAPH_CONTROLLER, COMPONENT_CONTROLLER, MODEL_CONTROLLER];

/// Objects of each kind.
const OBJECTS: usize = 60;
/// Bytes that fill an object; the API server takes 1 MiB of data in a ConfigMap.
const BYTES: usize = 900_000;
/// Limit of additional memory of a controller because of the objects: a few at a time are read before they are cut.
const MORE: usize = 48 * 1024 * 1024;

/// The most resident memory that a process has had, in bytes.
fn peak(process: &Process) -> Result<usize, BoxError> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kibibytes: usize = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024)
}

/// An object with the labels by which the caches of the controllers select.
fn labelled<K: Resource<DynamicType = ()>>(name: &str, number: usize) -> Value {
    let labels = json!({ labels::GRAPH: "x", labels::REQUEST_NAME: "x", labels::COMPONENT: "x" });
    json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": { "name": format!("{name}-{number}"), "labels": labels },
    })
}

/// A ConfigMap filled with data, or with what is sent of it as metadata.
fn map(number: usize) -> Value {
    let mut map = labelled::<k8s_openapi::api::core::v1::ConfigMap>("large", number);
    if number.is_multiple_of(2) {
        map["data"] = json!({ "x": "a".repeat(BYTES) });
        return map;
    }
    fill_metadata(&mut map);
    map
}

/// Adds 250 KiB of annotations and as much of labels.
fn fill_metadata(object: &mut Value) {
    object["metadata"]["annotations"] = json!({ annotations::APPLIED: "a".repeat(250 * 1024) });
    for label in 0..2_800 {
        object["metadata"]["labels"][format!("example.com/{label}")] = json!("a".repeat(63));
    }
}

/// A container with variables of together [`BYTES`].
fn large_template() -> Value {
    let variable = |number: usize| json!({ "name": format!("V{number}"), "value": "a".repeat(BYTES / 100) });
    let env: Vec<_> = (0..100).map(variable).collect();
    json!({ "spec": { "containers": [{ "name": "main", "image": "registry.example/worker:1", "env": env }] } })
}

fn graph(number: usize) -> Value {
    let mut graph = labelled::<DynamoGraphDeployment>("large", number);
    let component = json!({ "name": "Worker", "type": "worker", "podTemplate": large_template() });
    graph["spec"] = json!({ "backendFramework": "vllm", "components": [component] });
    graph
}

fn component(number: usize) -> Value {
    let mut component = labelled::<DynamoComponentDeployment>("large", number);
    component["spec"] =
        json!({ "backendFramework": "vllm", "name": "Worker", "type": "worker", "podTemplate": large_template() });
    component
}

fn model(number: usize) -> Value {
    let mut model = labelled::<DynamoModel>("large", number);
    fill_metadata(&mut model);
    model["spec"] = json!({ "modelName": "x", "baseModelName": "x" });
    model
}

/// Creates the objects of one kind.
async fn create(harness: &Harness, object: impl Fn(usize) -> Value) -> Result<(), BoxError> {
    let create = async |number| {
        let object: DynamicObject = serde_json::from_value(object(number))?;
        let types = object.types.clone().unwrap_or_default();
        let kind = types.kind.to_lowercase();
        let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
        let gvk = kube::core::GroupVersionKind::gvk(group, version, &types.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &format!("{kind}s"));
        let api: Api<DynamicObject> = Api::namespaced_with(harness.client.clone(), harness.ns(), &resource);
        api.create(&PostParams::default(), &object).await?;
        Ok::<_, BoxError>(())
    };
    stream::iter(0..OBJECTS).map(create).buffer_unordered(4).try_collect().await
}

/// Peak memory of controllers of the whole cluster that start, and make a graph and a model of this namespace ready.
async fn peaks_of_start(victim: &Harness, name: &str) -> Result<[usize; 3], BoxError> {
    let mut processes = Vec::new();
    for controller in CONTROLLERS {
        processes.push(victim.cluster.run(&cluster_wide(controller, victim.cluster.kubeconfig())?).await?);
    }
    let models: Api<DynamoModel> = victim.api();
    let model = json!({ "metadata": { "name": name }, "spec": { "modelName": name, "baseModelName": name } });
    models.create(&PostParams::default(), &serde_json::from_value(model)?).await?;
    victim.apply(&disaggregated(name, "1.0.0", 1, 1)).await?;
    // No object gets a status before every cache of its controller is complete.
    victim.ready(name).await?;
    let has_status = async || match models.get(name).await {
        Ok(model) => model.status.ok_or("no status".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    wait::until("a status of the model", std::time::Duration::from_secs(120), has_status).await?;
    let mut peaks = [0; 3];
    for (place, process) in processes.iter().enumerate() {
        peaks[place] = peak(process)?;
    }
    Ok(peaks)
}

async fn stop(victim: &Harness, name: &str) -> Result<(), BoxError> {
    for controller in CONTROLLERS {
        victim.cluster.stop_program(controller, Signal::Kill).await?;
    }
    victim.api::<DynamoGraphDeployment>().delete(name, &Default::default()).await?;
    Ok(())
}

/// Defect: caches kept every object that carries a public label, and every custom resource, as large as the API server
/// takes it: a tenant could end the controllers of all tenants, again and again.
#[tokio::test]
async fn large_objects_of_a_tenant_take_no_memory_of_the_controllers() -> Result<(), BoxError> {
    let victim = private_harness("victim").await?;
    let tenant = Harness::on(victim.cluster, "tenant").await?;
    let before = peaks_of_start(&victim, "before").await?;
    stop(&victim, "before").await?;
    create(&tenant, map).await?;
    create(&tenant, graph).await?;
    create(&tenant, component).await?;
    create(&tenant, model).await?;
    let after = peaks_of_start(&victim, "after").await?;
    for (controller, (before, after)) in CONTROLLERS.iter().zip(before.into_iter().zip(after)) {
        println!("{controller}: peak of {before} bytes without the tenant's objects, {after} with them");
    }
    for (controller, (before, after)) in CONTROLLERS.iter().zip(before.into_iter().zip(after)) {
        assert!(after < before + MORE, "{controller} has had {after} bytes, and {before} without the tenant's objects");
    }
    let message = tenant.condition("large-0", "Stalled", "True", "InvalidSpec").await?;
    let field = "spec.components[0].podTemplate.spec.containers[0]";
    assert!(message.contains(&format!("cannot be read: {field}")), "{message}");
    Ok(())
}
