//! Components to render.

use api_types::v1beta1::DynamoComponentDeployment;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, PodSpec, PodTemplateSpec, Service},
};
use rendering::{
    PodSettings, PullSecretIndex, RenderInput, checkpoint::Start, render_deployment, render_service, validate,
};
use serde_json::{Value, json};

/// A component `ns/graph-worker-0a1b2c3d` of the graph `graph`, as the API server returns it.
pub fn component(spec: Value) -> DynamoComponentDeployment {
    serde_json::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoComponentDeployment",
        "metadata": {
            "name": "graph-worker-0a1b2c3d", "namespace": "ns", "uid": "component-uid",
            "labels": {
                "nvidia.com/dynamo-component": "Worker",
                "nvidia.com/dynamo-graph-deployment-name": "graph",
                "nvidia.com/dynamo-namespace": "ns-graph",
                "nvidia.com/dynamo-worker-hash": "0a1b2c3d",
            },
            "ownerReferences": [{
                "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "name": "graph", "uid": "graph-uid",
            }],
        },
        "spec": spec,
    }))
    .unwrap()
}

/// A worker with these fields of its pod spec beside the main container, and these fields of the main container.
pub fn worker(pod: Value, main: Value) -> DynamoComponentDeployment {
    component(spec("worker", pod, main))
}

/// A spec of that type with these fields of its pod spec and of its main container.
pub fn spec(component_type: &str, pod: Value, main: Value) -> Value {
    let main = merged(json!({"name": "main", "image": "nvcr.io/runtime:1.5.0"}), main);
    let mut pod = merged(json!({"containers": []}), pod);
    pod["containers"].as_array_mut().unwrap().insert(0, main);
    json!({"name": "Worker", "type": component_type, "podTemplate": {"spec": pod}})
}

/// `base` with the top-level fields of `more`.
pub fn merged(mut base: Value, more: Value) -> Value {
    base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    base
}

/// Everything that surrounds a component, at its defaults.
#[derive(Default)]
pub struct Surroundings {
    pub settings: PodSettings,
    pub pull_secrets: PullSecretIndex,
    pub fallback_service_account: Option<String>,
    pub legacy_type_is_worker: bool,
    pub restore: Option<Start>,
    pub claimed_gpus: u32,
}

impl Surroundings {
    pub fn input(&self) -> RenderInput<'_> {
        RenderInput {
            settings: &self.settings,
            pull_secrets: &self.pull_secrets,
            fallback_service_account: self.fallback_service_account.as_deref(),
            legacy_type_is_worker: self.legacy_type_is_worker,
            restore: self.restore.as_ref().unwrap_or(&Start::Cold),
            claimed_gpus: self.claimed_gpus,
        }
    }

    pub fn deployment(&self, component: &DynamoComponentDeployment) -> Deployment {
        render_deployment(&self.input(), &validate(component).unwrap())
    }

    pub fn service(&self, component: &DynamoComponentDeployment) -> Option<Service> {
        render_service(&self.input(), &validate(component).unwrap())
    }

    pub fn template(&self, component: &DynamoComponentDeployment) -> PodTemplateSpec {
        self.deployment(component).spec.unwrap().template
    }

    pub fn pod(&self, component: &DynamoComponentDeployment) -> PodSpec {
        self.template(component).spec.unwrap()
    }
}

/// The pod of a component with default surroundings.
pub fn pod(component: &DynamoComponentDeployment) -> PodSpec {
    Surroundings::default().pod(component)
}

/// The main container of a component with default surroundings.
pub fn main_of(component: &DynamoComponentDeployment) -> Container {
    pod(component).containers.remove(0)
}

/// Any Kubernetes object as JSON.
pub fn json_of(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap()
}
