//! Random edits of a graph.

use serde_json::{Value, json};

use crate::harness::Provider;

/// A source of random numbers whose sequence follows from a seed (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(limit).unwrap()).unwrap()
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

/// A frontend and a worker.
pub fn first_spec() -> Value {
    spec_on(Provider::Deployments)
}

/// The same, with workers that need the provider.
pub fn spec_on(provider: Provider) -> Value {
    let mut components = vec![component("Frontend", "frontend"), component("Decode", "decode")];
    let spanning = |name: &str, type_: &str| {
        let mut spanning = component(name, type_);
        spanning["multinode"] = json!({ "nodeCount": 2 });
        spanning.pointer_mut("/podTemplate/spec/containers/0").unwrap()["resources"] =
            json!({ "limits": { "nvidia.com/gpu": "1" } });
        spanning
    };
    match provider {
        Provider::Deployments => {}
        Provider::LeaderWorkerSets => components[1] = spanning("Decode", "decode"),
        Provider::Grove => components.push(spanning("Prefill", "prefill")),
    }
    json!({ "backendFramework": "vllm", "components": components })
}

fn component(name: &str, type_: &str) -> Value {
    let main = json!({ "name": "main", "image": "registry.example.com/engine:1", "command": ["python3"],
        "args": ["-m", "dynamo.vllm"] });
    json!({ "name": name, "type": type_, "replicas": 1, "podTemplate": { "spec": { "containers": [main] } } })
}

/// The next spec, and what was done to get there.
pub fn edit(random: &mut Random, provider: Provider, spec: &Value, history: &[Value]) -> (Value, String) {
    let mut spec = spec.clone();
    let count = spec["components"].as_array().unwrap().len();
    let mut done = Vec::new();
    for _ in 0..=random.below(2) {
        let index = random.below(count.min(spec["components"].as_array().unwrap().len()));
        let name = spec["components"][index]["name"].as_str().unwrap().to_owned();
        let component = &mut spec["components"][index];
        let main = "/podTemplate/spec/containers/0";
        let spans = component.get("multinode").is_some();
        let what = match random.below(13) {
            // Strategies are those of Deployments, and engines that span nodes need their flags and GPUs.
            5 | 6 | 8 | 9 if spans => "nothing".to_owned(),
            8 | 9 | 11 if provider == Provider::Grove => "nothing".to_owned(),
            0 | 1 => {
                let image = format!("registry.example.com/engine:{}", random.below(4));
                component.pointer_mut(main).unwrap()["image"] = json!(image);
                format!("image {image}")
            }
            2 | 3 => {
                let least = usize::from(name == "Frontend");
                let replicas = least + random.below(4 - least);
                component["replicas"] = json!(replicas);
                format!("replicas {replicas}")
            }
            4 => {
                let env: Vec<Value> = (0..random.below(4))
                    .map(|n| json!({ "name": format!("V{n}"), "value": random.below(3).to_string() }))
                    .collect();
                component.pointer_mut(main).unwrap()["env"] = json!(env);
                format!("env {env:?}")
            }
            5 => {
                let limits =
                    random.pick(&[json!({}), json!({ "cpu": "1" }), json!({ "cpu": "500m", "memory": "1Gi" })]);
                component.pointer_mut(main).unwrap()["resources"] = json!({ "limits": limits });
                format!("limits {limits}")
            }
            6 => {
                let args = random.pick(&[
                    json!(["-m", "dynamo.vllm"]),
                    json!(["-m", "dynamo.vllm", "--model", "x/y"]),
                    json!([]),
                ]);
                component.pointer_mut(main).unwrap()["args"] = args.clone();
                format!("args {args}")
            }
            7 => {
                let labels = random.pick(&[json!({}), json!({ "team": "a" }), json!({ "team": "b", "tier": "1" })]);
                component["podTemplate"]["metadata"]["labels"] = labels.clone();
                format!("labels {labels}")
            }
            8 => {
                let steps =
                    random.pick(&[(json!("1"), json!("0")), (json!("0"), json!("1")), (json!("100%"), json!("50%"))]);
                component["podTemplate"]["metadata"]["annotations"] = json!({
                    "nvidia.com/deployment-rolling-update-max-surge": steps.0,
                    "nvidia.com/deployment-rolling-update-max-unavailable": steps.1 });
                format!("rolling update {steps:?}")
            }
            9 => {
                let strategy = random.pick(&[json!({}), json!({ "nvidia.com/deployment-strategy": "Recreate" })]);
                component["podTemplate"]["metadata"]["annotations"] = strategy.clone();
                format!("strategy {strategy}")
            }
            10 => {
                let has_model = random.below(2) == 0;
                match has_model {
                    true => component["modelRef"] = json!({ "name": "org/model" }),
                    false => drop(component.as_object_mut().unwrap().remove("modelRef")),
                }
                format!("model {has_model}")
            }
            11 => toggle(&mut spec),
            _ if !history.is_empty() => {
                spec = random.pick(history);
                "revert".to_owned()
            }
            _ => "nothing".to_owned(),
        };
        done.push(format!("{name}: {what}"));
    }
    (spec, done.join("; "))
}

/// Adds a component or removes it.
fn toggle(spec: &mut Value) -> String {
    let components = spec["components"].as_array_mut().unwrap();
    match components.iter().position(|component| component["name"] == "Prefill") {
        Some(index) => {
            components.remove(index);
            "removed Prefill".to_owned()
        }
        None => {
            components.push(component("Prefill", "prefill"));
            "added Prefill".to_owned()
        }
    }
}
