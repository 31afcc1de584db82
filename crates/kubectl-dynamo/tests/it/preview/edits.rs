//! Random edits of a graph, as users make them.

use serde_json::{Map, Value, json};

use super::harness::WorkloadKind;

/// Path of the main container of a component.
const MAIN: &str = "/podTemplate/spec/containers/0";

/// Changes a component, and says how.
type ComponentEdit = fn(&mut Random, &mut Value) -> String;
/// Changes a graph, and says how.
type GraphEdit = fn(&mut Random, &mut Manifest) -> String;

/// For components of every kind.
const OF_ALL: [ComponentEdit; 14] = [
    image,
    image,
    replicas,
    replicas,
    env,
    labels,
    model,
    probes,
    volume,
    shared_memory,
    sidecar,
    tolerations,
    version,
    adapter,
];
/// Strategies are those of Deployments, and engines that span nodes need their flags and GPUs.
const OF_SINGLE_NODES: [ComponentEdit; 4] = [resources, args, steps, strategy];
/// For components whose replicas span nodes.
const OF_SEVERAL_NODES: [ComponentEdit; 1] = [nodes];
/// For graphs on every kind of workload.
const OF_GRAPHS: [GraphEdit; 7] = [prefill, planner, rename, order, graph_env, graph_labels, restart];
/// Only the controllers' own workloads have a controlled rollout.
const OF_COMPONENT_WORKLOADS: [GraphEdit; 3] = [control, control, control];

/// Manifest of a user.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    pub annotations: Map<String, Value>,
    pub spec: Value,
}

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
    spec_on(WorkloadKind::Deployments)
}

/// The same, with workers that need this kind of workload.
pub fn spec_on(kind: WorkloadKind) -> Value {
    let mut components = vec![component("Frontend", "frontend"), component("Decode", "decode")];
    let spanning = |name: &str, type_: &str| {
        let mut spanning = component(name, type_);
        spanning["multinode"] = json!({ "nodeCount": 2 });
        main(&mut spanning)["resources"] = json!({ "limits": { "nvidia.com/gpu": "1" } });
        spanning
    };
    match kind {
        WorkloadKind::Deployments => {}
        WorkloadKind::LeaderWorkerSets => components[1] = spanning("Decode", "decode"),
        WorkloadKind::Grove => components.push(spanning("Prefill", "prefill")),
    }
    json!({ "backendFramework": "vllm", "components": components })
}

fn component(name: &str, type_: &str) -> Value {
    let main = json!({ "name": "main", "image": "registry.example.com/engine:1", "command": ["python3"],
        "args": ["-m", "dynamo.vllm"] });
    json!({ "name": name, "type": type_, "replicas": 1, "podTemplate": { "spec": { "containers": [main] } } })
}

/// The next manifest, and what was done to get there.
pub fn edit(random: &mut Random, kind: WorkloadKind, last: &Manifest, history: &[Manifest]) -> (Manifest, String) {
    let mut next = last.clone();
    let mut done = Vec::new();
    for _ in 0..=random.below(2) {
        done.push(match random.below(9) {
            0 if !history.is_empty() => {
                next = random.pick(history);
                "revert".to_owned()
            }
            0..=2 => {
                let own: &[GraphEdit] = if kind == WorkloadKind::Grove { &[] } else { &OF_COMPONENT_WORKLOADS };
                random.pick(&[&OF_GRAPHS, own].concat())(random, &mut next)
            }
            _ => {
                let components = next.spec["components"].as_array_mut().unwrap();
                let index = random.below(components.len());
                edit_component(random, kind, &mut components[index])
            }
        });
    }
    keep_scaled(last, &mut next);
    (next, done.join("; "))
}

fn edit_component(random: &mut Random, kind: WorkloadKind, component: &mut Value) -> String {
    let own: &[ComponentEdit] = match (component.get("multinode").is_some(), kind) {
        (true, _) => &OF_SEVERAL_NODES,
        (false, WorkloadKind::Grove) => &OF_SINGLE_NODES[..2],
        (false, _) => &OF_SINGLE_NODES,
    };
    let what = random.pick(&[&OF_ALL, own].concat())(random, component);
    format!("{}: {what}", component["name"].as_str().unwrap())
}

/// A component with a scaling adapter keeps its replicas: admission rejects another number.
fn keep_scaled(last: &Manifest, next: &mut Manifest) {
    let scaled: Vec<Value> = components(last).filter(|one| one.get("scalingAdapter").is_some()).cloned().collect();
    for component in next.spec["components"].as_array_mut().unwrap() {
        let known = scaled.iter().find(|one| one["name"] == component["name"]);
        if let Some(known) = known.filter(|_| component.get("scalingAdapter").is_some()) {
            component["replicas"] = known["replicas"].clone();
        }
    }
}

fn components(manifest: &Manifest) -> impl Iterator<Item = &Value> {
    manifest.spec["components"].as_array().into_iter().flatten()
}

fn main(component: &mut Value) -> &mut Value {
    component.pointer_mut(MAIN).unwrap()
}

/// Sets a field, or removes it.
fn set(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object[field] = value,
        None => drop(object.as_object_mut().unwrap().remove(field)),
    }
}

fn image(random: &mut Random, component: &mut Value) -> String {
    let image = format!("registry.example.com/engine:{}", random.below(4));
    main(component)["image"] = json!(image);
    format!("image {image}")
}

fn replicas(random: &mut Random, component: &mut Value) -> String {
    let least = usize::from(component["type"] == "frontend");
    let replicas = least + random.below(4 - least);
    component["replicas"] = json!(replicas);
    format!("replicas {replicas}")
}

fn variables(random: &mut Random) -> Value {
    let all = (0..random.below(4)).map(|n| json!({ "name": format!("V{n}"), "value": random.below(3).to_string() }));
    all.collect()
}

fn env(random: &mut Random, component: &mut Value) -> String {
    let env = variables(random);
    main(component)["env"] = env.clone();
    format!("env {env}")
}

fn labels(random: &mut Random, component: &mut Value) -> String {
    let labels = random.pick(&[json!({}), json!({ "team": "a" }), json!({ "team": "b", "tier": "1" })]);
    component["podTemplate"]["metadata"]["labels"] = labels.clone();
    format!("labels {labels}")
}

fn model(random: &mut Random, component: &mut Value) -> String {
    let model = random.pick(&[None, Some(json!({ "name": "org/model" })), Some(json!({ "name": "org/other" }))]);
    set(component, "modelRef", model.clone());
    format!("model {model:?}")
}

fn probes(random: &mut Random, component: &mut Value) -> String {
    let probe = |path: &str, period: u8| json!({ "httpGet": { "path": path, "port": 9090 }, "periodSeconds": period });
    let probe = random.pick(&[None, Some(probe("/live", 10)), Some(probe("/health", 5))]);
    let field = random.pick(&["livenessProbe", "readinessProbe", "startupProbe"]);
    set(main(component), field, probe.clone());
    format!("{field} {probe:?}")
}

fn volume(random: &mut Random, component: &mut Value) -> String {
    let size = random.pick(&[None, Some("1Gi"), Some("2Gi")]);
    let volume = size.map(|size| json!([{ "name": "scratch", "emptyDir": { "sizeLimit": size } }]));
    set(&mut component["podTemplate"]["spec"], "volumes", volume);
    set(main(component), "volumeMounts", size.map(|_| json!([{ "name": "scratch", "mountPath": "/scratch" }])));
    format!("volume {size:?}")
}

fn shared_memory(random: &mut Random, component: &mut Value) -> String {
    let size = random.pick(&[None, Some(json!("0")), Some(json!("16Gi"))]);
    set(component, "sharedMemorySize", size.clone());
    format!("shared memory {size:?}")
}

fn sidecar(random: &mut Random, component: &mut Value) -> String {
    let image = random.pick(&[None, Some("registry.example.com/log:1"), Some("registry.example.com/log:2")]);
    let containers = component["podTemplate"]["spec"]["containers"].as_array_mut().unwrap();
    containers.truncate(1);
    containers.extend(image.map(|image| json!({ "name": "log", "image": image })));
    format!("sidecar {image:?}")
}

fn tolerations(random: &mut Random, component: &mut Value) -> String {
    let all = random.pick(&[json!([]), json!([{ "key": "gpu", "operator": "Exists" }])]);
    let grace = random.pick(&[None, Some(json!(10)), Some(json!(60))]);
    component["podTemplate"]["spec"]["tolerations"] = all.clone();
    set(&mut component["podTemplate"]["spec"], "terminationGracePeriodSeconds", grace.clone());
    format!("tolerations {all}, grace period {grace:?}")
}

fn version(random: &mut Random, component: &mut Value) -> String {
    let version = random.pick(&[None, Some(json!("1.0.0")), Some(json!("1.2.0"))]);
    set(component, "runtimeVersionOverride", version.clone());
    format!("version {version:?}")
}

fn adapter(random: &mut Random, component: &mut Value) -> String {
    let adapter = random.pick(&[None, Some(json!({}))]);
    set(component, "scalingAdapter", adapter.clone());
    format!("scaling adapter {}", adapter.is_some())
}

fn resources(random: &mut Random, component: &mut Value) -> String {
    let resources = random.pick(&[
        json!({ "limits": {} }),
        json!({ "limits": { "cpu": "1" } }),
        json!({ "limits": { "cpu": "500m", "memory": "1Gi" }, "requests": { "cpu": "250m" } }),
    ]);
    main(component)["resources"] = resources.clone();
    format!("resources {resources}")
}

fn args(random: &mut Random, component: &mut Value) -> String {
    let args = random.pick(&[json!(["-m", "dynamo.vllm"]), json!(["-m", "dynamo.vllm", "--model", "x/y"]), json!([])]);
    main(component)["args"] = args.clone();
    format!("args {args}")
}

fn steps(random: &mut Random, component: &mut Value) -> String {
    let (surge, unavailable) = random.pick(&[("1", "0"), ("0", "1"), ("100%", "50%")]);
    component["podTemplate"]["metadata"]["annotations"] = json!({
        "nvidia.com/deployment-rolling-update-max-surge": surge,
        "nvidia.com/deployment-rolling-update-max-unavailable": unavailable });
    format!("surge {surge}, unavailable {unavailable}")
}

fn strategy(random: &mut Random, component: &mut Value) -> String {
    let strategy = random.pick(&[json!({}), json!({ "nvidia.com/deployment-strategy": "Recreate" })]);
    component["podTemplate"]["metadata"]["annotations"] = strategy.clone();
    format!("strategy {strategy}")
}

fn nodes(random: &mut Random, component: &mut Value) -> String {
    let count = 2 + random.below(2);
    component["multinode"] = json!({ "nodeCount": count });
    format!("{count} nodes")
}

/// Adds a component of a type, or removes it.
fn toggle(manifest: &mut Manifest, name: &str, type_: &str) -> String {
    let components = manifest.spec["components"].as_array_mut().unwrap();
    match components.iter().position(|component| component["type"] == type_) {
        Some(index) => format!("removed {}", components.remove(index)["name"]),
        None => {
            components.push(component(name, type_));
            format!("added {name}")
        }
    }
}

fn prefill(_: &mut Random, manifest: &mut Manifest) -> String {
    toggle(manifest, "Prefill", "prefill")
}

fn planner(_: &mut Random, manifest: &mut Manifest) -> String {
    toggle(manifest, "Planner", "planner")
}

fn rename(random: &mut Random, manifest: &mut Manifest) -> String {
    let components = manifest.spec["components"].as_array_mut().unwrap();
    let index = random.below(components.len());
    let component = &mut components[index];
    let before = component["name"].as_str().unwrap().to_owned();
    let after = before.strip_suffix("-b").map_or_else(|| format!("{before}-b"), str::to_owned);
    component["name"] = json!(after);
    format!("{before} renamed to {after}")
}

fn order(random: &mut Random, manifest: &mut Manifest) -> String {
    let components = manifest.spec["components"].as_array_mut().unwrap();
    let by = random.below(components.len());
    components.rotate_left(by);
    "another order".to_owned()
}

fn graph_env(random: &mut Random, manifest: &mut Manifest) -> String {
    let env = variables(random);
    manifest.spec["env"] = env.clone();
    format!("env of the graph {env}")
}

fn graph_labels(random: &mut Random, manifest: &mut Manifest) -> String {
    let field = random.pick(&["labels", "annotations"]);
    let pairs = random.pick(&[None, Some(json!({ "owner": "x" })), Some(json!({ "owner": "y", "cost": "1" }))]);
    set(&mut manifest.spec, field, pairs.clone());
    format!("{field} of the graph {pairs:?}")
}

fn restart(random: &mut Random, manifest: &mut Manifest) -> String {
    let strategy = random.pick(&[None, Some(json!({ "type": "Parallel" })), Some(json!({ "type": "Sequential" }))]);
    let mut restart = json!({ "id": random.below(1000).to_string() });
    set(&mut restart, "strategy", strategy);
    manifest.spec["restart"] = restart.clone();
    format!("restart {restart}")
}

fn control(random: &mut Random, manifest: &mut Manifest) -> String {
    let pair = random.pick(&[
        None,
        None,
        Some(("operator.dynamo/rollout", "paused")),
        Some(("operator.dynamo/rollout", "undone")),
        Some(("operator.dynamo/rollout-step", "1")),
        Some(("operator.dynamo/rollout-step", "50%")),
        Some(("operator.dynamo/progress-deadline", "1h")),
    ]);
    manifest.annotations = pair.map(|(key, value)| (key.to_owned(), json!(value))).into_iter().collect();
    format!("control {pair:?}")
}
