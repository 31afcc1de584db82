//! One manifest of each kind that has two versions, as people write it in either.

use serde_json::{Value, json};

const IMAGE: &str = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0";

/// A kind of object.
pub struct Kind {
    pub name: &'static str,
    /// The manifest in a version, with a number in it, and with or without something that can be left out.
    pub manifest: fn(&str, u32, bool) -> Value,
    /// JSON pointers to the number in v1alpha1 and in v1beta1.
    pub number: [&'static str; 2],
    /// A word that is only in manifests that leave nothing out; none if nothing can be left out.
    pub optional: Option<&'static str>,
}

impl Kind {
    pub fn number_in(&self, version: &str) -> &'static str {
        self.number[usize::from(version != "v1alpha1")]
    }
}

pub static KINDS: [Kind; 4] = [
    Kind {
        name: "DynamoGraphDeployment",
        manifest: |version, number, full| graph(version, number, full.then_some("fast")),
        number: ["/spec/services/Worker/replicas", "/spec/components/1/replicas"],
        optional: Some("MODE"),
    },
    Kind {
        name: "DynamoComponentDeployment",
        manifest: component,
        number: ["/spec/replicas", "/spec/replicas"],
        optional: Some("MODE"),
    },
    Kind {
        name: "DynamoGraphDeploymentRequest",
        manifest: request,
        number: ["/spec/profilingConfig/config/sla/ttft", "/spec/sla/ttft"],
        optional: Some("optimizationType"),
    },
    Kind {
        name: "DynamoGraphDeploymentScalingAdapter",
        manifest: adapter,
        number: ["/spec/replicas", "/spec/replicas"],
        optional: None,
    },
];

fn object(kind: &str, version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("nvidia.com/{version}"), "kind": kind, "metadata": { "name": "chat" }, "spec": spec,
    })
}

/// A worker, but for its name.
fn worker(version: &str, replicas: u32, env: Option<&str>) -> Value {
    let env = env.map(|value| json!([{ "name": "MODE", "value": value }]));
    let mut main = json!({ "image": IMAGE, "args": ["--model", "m"] });
    if version == "v1alpha1" {
        let mut worker = json!({
            "componentType": "worker", "replicas": replicas, "dynamoNamespace": "kept-in-annotations",
            "resources": { "limits": { "gpu": "1" } }, "extraPodSpec": { "mainContainer": main },
        });
        if let Some(env) = env {
            worker["envs"] = env;
        }
        worker
    } else {
        main["name"] = json!("main");
        main["resources"] = json!({ "limits": { "nvidia.com/gpu": "1" } });
        if let Some(env) = env {
            main["env"] = env;
        }
        json!({ "type": "worker", "replicas": replicas, "podTemplate": { "spec": { "containers": [main] } } })
    }
}

/// A graph of a frontend and a worker.
pub fn graph(version: &str, replicas: u32, env: Option<&str>) -> Value {
    let mut worker = worker(version, replicas, env);
    let mut main = json!({ "image": IMAGE });
    let components = if version == "v1alpha1" {
        let frontend = json!({ "componentType": "frontend", "extraPodSpec": { "mainContainer": main } });
        json!({ "services": { "Frontend": frontend, "Worker": worker } })
    } else {
        (main["name"], worker["name"]) = (json!("main"), json!("Worker"));
        let template = json!({ "spec": { "containers": [main] } });
        json!({ "components": [{ "name": "Frontend", "type": "frontend", "podTemplate": template }, worker] })
    };
    let mut graph = object("DynamoGraphDeployment", version, &components);
    graph["spec"]["backendFramework"] = json!("vllm");
    graph
}

fn component(version: &str, number: u32, full: bool) -> Value {
    let mut spec = worker(version, number, full.then_some("fast"));
    let name = if version == "v1alpha1" { "serviceName" } else { "name" };
    spec[name] = json!("chat");
    spec["backendFramework"] = json!("vllm");
    object("DynamoComponentDeployment", version, &spec)
}

fn request(version: &str, number: u32, full: bool) -> Value {
    let image = "nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.5.0";
    let mut sla = json!({ "ttft": number });
    if full {
        sla["optimizationType"] = json!("latency");
    }
    let mut spec = json!({ "model": "m", "backend": "vllm", "autoApply": true });
    if version == "v1alpha1" {
        spec["profilingConfig"] = json!({ "profilerImage": image, "outputPVC": "results", "config": { "sla": sla } });
    } else {
        spec["image"] = json!(image);
        spec["sla"] = sla;
    }
    object("DynamoGraphDeploymentRequest", version, &spec)
}

fn adapter(version: &str, number: u32, _: bool) -> Value {
    let target = if version == "v1alpha1" { "serviceName" } else { "componentName" };
    let spec = json!({ "replicas": number, "dgdRef": { "name": "graph", (target): "Worker" } });
    object("DynamoGraphDeploymentScalingAdapter", version, &spec)
}
