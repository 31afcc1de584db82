//! Objects that violate one rule each, of those that the API server checks by itself.

use api_types::violations;
use serde_json::{Value, json};

pub const GRAPH: &str = "DynamoGraphDeployment";
pub const COMPONENT: &str = "DynamoComponentDeployment";

/// An object that is refused.
pub struct Example {
    pub kind: &'static str,
    pub version: &'static str,
    /// As it was before, if the change is what is wrong.
    pub old: Option<Value>,
    pub new: Value,
    /// The field at fault.
    pub path: String,
    /// Reason for the rejection.
    pub text: String,
}

/// Message of a rule; some messages name the kind that would have to be created anew.
enum Text {
    Fixed(String),
    Stays(&'static str),
}

impl Text {
    fn of(&self, kind: &str) -> String {
        match self {
            Self::Fixed(text) => text.clone(),
            Self::Stays(what) => format!("{what}; {}", violations::anew(kind)),
        }
    }
}

const IMMUTABLE: Text = Text::Stays("field is immutable");

fn fixed(text: &str) -> Text {
    Text::Fixed(text.to_owned())
}

/// A component in one version: what is changed of one that is in order, and the field at fault.
struct Row {
    text: Text,
    version: &'static str,
    kinds: &'static [&'static str],
    old: Option<Value>,
    new: Value,
    tail: String,
}

const BOTH: &[&str] = &[GRAPH, COMPONENT];

fn row(version: &'static str, text: Text, new: Value, tail: impl Into<String>) -> Row {
    Row { text, version, kinds: BOTH, old: None, new, tail: tail.into() }
}

fn change(version: &'static str, text: Text, old: Value, new: Value, tail: impl Into<String>) -> Row {
    Row { old: Some(old), ..row(version, text, new, tail) }
}

/// All of them.
pub fn examples() -> Vec<Example> {
    let mut rows: Vec<Row> = beta().into_iter().chain(alpha()).collect();
    let mut all = Vec::new();
    for version in ["v1alpha1", "v1beta1"] {
        rows.extend(both(version));
        rows.extend(changes(version));
        all.extend(graphs(version));
    }
    all.extend(rows.iter().flat_map(|row| row.kinds.iter().map(move |kind| example(kind, row))));
    all.extend(others());
    all
}

fn example(kind: &'static str, row: &Row) -> Example {
    let component = |edit: &Value| match row.version {
        "v1beta1" => merged(
            json!({
                "name": "decode", "type": "decode", "replicas": 2,
                "podTemplate": { "spec": { "containers": [{
                    "name": "main", "image": "vllm-runtime:1.5.0", "resources": { "limits": { "nvidia.com/gpu": "1" } },
                }] } },
            }),
            edit,
        ),
        _ => merged(
            json!({
                "componentType": "worker", "subComponentType": "decode", "replicas": 2,
                "resources": { "limits": { "gpu": "1" } },
                "extraPodSpec": { "mainContainer": { "image": "vllm-runtime:1.5.0" } },
            }),
            edit,
        ),
    };
    let whole = |edit: &Value| match (kind, row.version) {
        (GRAPH, "v1beta1") => merged(graph(row.version), &json!({ "spec": { "components": [component(edit)] } })),
        (GRAPH, _) => merged(graph(row.version), &json!({ "spec": { "services": { "decode": component(edit) } } })),
        _ => object(kind, row.version, component(edit)),
    };
    let base = match (kind, row.version) {
        (GRAPH, "v1beta1") => "spec.components[0]",
        (GRAPH, _) => "spec.services[decode]",
        _ => "spec",
    };
    Example {
        kind,
        version: row.version,
        old: row.old.as_ref().map(whole),
        new: whole(&row.new),
        path: format!("{base}{}", row.tail),
        text: row.text.of(kind),
    }
}

fn object(kind: &str, version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("nvidia.com/{version}"), "kind": kind,
        "metadata": { "name": "llama", "namespace": "team" }, "spec": spec,
    })
}

/// A graph on Grove that is in order, but for its components, of which it has none.
fn graph(version: &str) -> Value {
    let topology = if version == "v1beta1" { "clusterTopologyName" } else { "topologyProfile" };
    let mut graph =
        object(GRAPH, version, json!({ "backendFramework": "vllm", "topologyConstraint": { "packDomain": "zone" } }));
    graph["spec"]["topologyConstraint"][topology] = json!("fabric");
    graph["metadata"]["annotations"] = json!({ "nvidia.com/workload-provider": "grove" });
    graph
}

/// `value` with what a merge patch says.
pub fn merged(mut value: Value, patch: &Value) -> Value {
    let (Value::Object(fields), Value::Object(patch)) = (&mut value, patch) else { return patch.clone() };
    for (key, patch) in patch {
        if patch.is_null() {
            fields.remove(key);
        } else {
            let before = fields.remove(key).unwrap_or(json!({}));
            fields.insert(key.clone(), merged(before, patch));
        }
    }
    value
}

/// Spelling, in one version, of common parts.
#[derive(Clone, Copy)]
struct Spelling {
    is_beta: bool,
}

impl Spelling {
    fn of(version: &str) -> Self {
        Self { is_beta: version == "v1beta1" }
    }

    /// A component of a type, and with more.
    fn typed(self, component_type: &str, more: &Value) -> Value {
        let field = if self.is_beta { "type" } else { "componentType" };
        merged(json!({ (field): component_type, "subComponentType": null }), more)
    }

    /// A component with these features of its engine.
    fn engine(self, features: Value) -> Value {
        if self.is_beta { json!({ "experimental": features }) } else { features }
    }

    /// A field of those features.
    fn at(self, field: &str) -> String {
        let parent = if self.is_beta { ".experimental" } else { "" };
        format!("{parent}.{field}")
    }

    /// A feature that is on.
    fn on(self) -> Value {
        if self.is_beta { json!({}) } else { json!({ "enabled": true }) }
    }

    fn within_pods(self) -> Value {
        if self.is_beta { json!({ "mode": "IntraPod" }) } else { json!({ "enabled": true, "mode": "intraPod" }) }
    }

    fn between_pods(self) -> Value {
        if self.is_beta { json!({ "mode": "InterPod" }) } else { json!({ "enabled": true, "mode": "interPod" }) }
    }
}

/// Rules of components that both versions have.
fn both(version: &'static str) -> Vec<Row> {
    let spelling = Spelling::of(version);
    let row = |text: &str, new: Value, tail: &str| row(version, fixed(text), new, tail);
    let config = json!({ "replicas": 1, "eppConfig": { "config": { "plugins": [], "schedulingProfiles": [] } } });
    let picker = |more: Value| spelling.typed("epp", &merged(config.clone(), &more));
    let engine = |text, features: Value, field| row(text, spelling.engine(features), &spelling.at(field));
    let (on, between) = (spelling.on(), spelling.between_pods());
    let frontend = spelling.typed("frontend", &spelling.engine(json!({ "gpuMemoryService": on })));
    let checkpoint = json!({ "enabled": true });
    let clients = json!({ "enabled": false, "job": { "gmsClientContainers": ["main"] } });
    let gang = row(violations::ONLY_ON_GROVE, json!({ "minAvailable": 1 }), ".minAvailable");
    vec![
        row(violations::PICKER_NODES, picker(json!({ "multinode": { "nodeCount": 2 } })), ".multinode"),
        row(violations::PICKER_REPLICAS, picker(json!({ "replicas": 2 })), ".replicas"),
        row(violations::PICKER_CONFIG, picker(json!({ "eppConfig": null })), ".eppConfig"),
        row(
            violations::PICKER_CONFIG_MAP,
            picker(json!({ "eppConfig": { "config": null, "configMapRef": { "key": "k" } } })),
            ".eppConfig.configMapRef.name",
        ),
        row(violations::MEMORY_TYPE, frontend, &spelling.at("gpuMemoryService")),
        engine(violations::FAILOVER_ALONE, json!({ "failover": on }), "failover"),
        engine(violations::FAILOVER_MODE, json!({ "gpuMemoryService": between, "failover": on }), "failover.mode"),
        engine(
            violations::SHADOWS,
            json!({ "gpuMemoryService": on, "failover": merged(on.clone(), &json!({ "numShadows": 2 })) }),
            "failover.numShadows",
        ),
        engine(
            violations::CHECKPOINT_BETWEEN_PODS,
            json!({ "gpuMemoryService": between, "checkpoint": checkpoint }),
            "checkpoint",
        ),
        engine(
            violations::CHECKPOINT_FAILOVER,
            json!({ "gpuMemoryService": on, "failover": on, "checkpoint": checkpoint }),
            "checkpoint",
        ),
        engine(violations::CLIENTS_ALONE, json!({ "checkpoint": clients }), "checkpoint.job.gmsClientContainers"),
        engine(
            violations::CLIENTS_BETWEEN_PODS,
            json!({ "gpuMemoryService": between, "checkpoint": clients }),
            "checkpoint.job.gmsClientContainers",
        ),
        Row { kinds: &[COMPONENT], ..gang },
    ]
}

/// Changes of components that both versions refuse.
fn changes(version: &'static str) -> Vec<Row> {
    let spelling = Spelling::of(version);
    let change = |text, old: Value, new: Value, tail: &str| change(version, text, old, new, tail);
    let engine = |text, old: &Value, new: &Value, field| {
        change(text, spelling.engine(old.clone()), spelling.engine(new.clone()), &spelling.at(field))
    };
    let memory = |mode: Value| json!({ "gpuMemoryService": mode });
    let [within, between] = [spelling.within_pods(), spelling.between_pods()].map(memory);
    let failover = |shadows: u8| {
        let failover = merged(spelling.between_pods(), &json!({ "numShadows": shadows }));
        merged(between.clone(), &json!({ "failover": failover }))
    };
    let packed = |domain: &str| json!({ "topologyConstraint": { "packDomain": domain } });
    vec![
        change(
            Text::Stays(violations::NODES_STAY),
            json!({}),
            json!({ "multinode": { "nodeCount": 2 } }),
            ".multinode",
        ),
        engine(Text::Stays(violations::MEMORY_STAYS), &within, &between, "gpuMemoryService.mode"),
        engine(Text::Stays(violations::FAILOVER_STAYS), &between, &failover(1), "failover"),
        engine(IMMUTABLE, &failover(1), &failover(2), "failover.numShadows"),
        change(IMMUTABLE, packed("rack"), packed("host"), ".topologyConstraint"),
        change(IMMUTABLE, packed("rack"), json!({}), ".topologyConstraint"),
    ]
}

/// Returns the cases that only v1beta1 has, or rejects.
fn beta() -> Vec<Row> {
    let row = |text: &str, new: Value, tail: &str| row("v1beta1", fixed(text), new, tail);
    let forced = json!({ "experimental": { "grove": { "forceScalingGroup": true } } });
    let forced_field = ".experimental.grove.forceScalingGroup";
    let negative = violations::negative(violations::MEMORY_SIZE);
    vec![
        row(&negative, json!({ "sharedMemorySize": "-8Gi" }), ".sharedMemorySize"),
        row(&negative, json!({ "sharedMemorySize": -1 }), ".sharedMemorySize"),
        row(violations::SIDECAR_UNKNOWN, json!({ "frontendSidecar": "" }), ".frontendSidecar"),
        row(
            violations::SIDECAR_WITHOUT_POD,
            json!({ "frontendSidecar": "front", "podTemplate": null }),
            ".podTemplate.spec.containers",
        ),
        Row { kinds: &[COMPONENT], ..row(violations::ONLY_ON_GROVE, forced.clone(), forced_field) },
        change("v1beta1", IMMUTABLE, json!({}), forced, forced_field),
    ]
}

/// Returns the cases that only v1alpha1 has, or rejects.
fn alpha() -> Vec<Row> {
    let row = |text: &str, new: Value, tail: &str| row("v1alpha1", fixed(text), new, tail);
    let picker = Spelling::of("v1alpha1").typed("epp", &json!({ "replicas": 1, "eppConfig": {} }));
    vec![
        row(violations::PICKER_ONE_CONFIG, picker, ".eppConfig"),
        row(violations::INGRESS_HOST, json!({ "ingress": { "enabled": true } }), ".ingress.host"),
    ]
}

/// Rules of graphs, which say the same in both versions.
fn graphs(version: &'static str) -> Vec<Example> {
    let (topology, components) = if version == "v1beta1" {
        ("clusterTopologyName", "components[0]")
    } else {
        ("topologyProfile", "services[decode]")
    };
    let component = |fields: &Value| match version {
        "v1beta1" => json!({ "components": [merged(json!({ "name": "decode" }), fields)] }),
        _ => json!({ "services": { "decode": fields } }),
    };
    let with = |spec: &Value| {
        let graph = merged(graph(version), &json!({ "spec": component(&json!({})) }));
        merged(graph, &json!({ "spec": spec }))
    };
    let example = |text: Text, old: Option<Value>, new: Value, path: &str| Example {
        kind: GRAPH,
        version,
        old: old.map(|old| with(&old)),
        new: with(&new),
        path: path.to_owned(),
        text: text.of(GRAPH),
    };
    let policy = |policy: Value| json!({ "experimental": { "kvTransferPolicy": policy } });
    let near = |domain: &str| policy(json!({ "labelKey": "zone", "domain": domain }));
    let parallel = json!({ "id": "1", "strategy": { "type": "Parallel", "order": ["decode"] } });
    let mut nowhere = component(&json!({ "topologyConstraint": { "packDomain": "rack" } }));
    nowhere["topologyConstraint"] = Value::Null;
    let constraint = |domain: Value| json!({ "topologyConstraint": { (topology): "fabric", "packDomain": domain } });
    let mut all = vec![
        example(
            fixed(violations::PARALLEL_ORDER),
            Some(json!({})),
            json!({ "restart": parallel }),
            "spec.restart.strategy.order",
        ),
        example(fixed(violations::TOPOLOGY), None, nowhere, "spec.topologyConstraint"),
        example(fixed(violations::PACK_DOMAIN), None, constraint(Value::Null), "spec.topologyConstraint.packDomain"),
        example(
            fixed(violations::OBJECT_NAME),
            None,
            policy(json!({ "clusterTopologyName": "No_Name", "domain": "rack" })),
            "spec.experimental.kvTransferPolicy.clusterTopologyName",
        ),
        example(IMMUTABLE, Some(json!({})), json!({ "backendFramework": "sglang" }), "spec.backendFramework"),
        example(IMMUTABLE, Some(json!({})), constraint(json!("rack")), "spec.topologyConstraint"),
        example(IMMUTABLE, Some(near("zone")), near("rack"), "spec.experimental.kvTransferPolicy"),
        example(IMMUTABLE, Some(near("zone")), json!({ "experimental": null }), "spec.experimental.kvTransferPolicy"),
        example(IMMUTABLE, Some(json!({})), near("rack"), "spec.experimental.kvTransferPolicy"),
    ];
    let mut restart = example(
        fixed(violations::RESTART_IN_UPDATE),
        Some(json!({})),
        json!({ "restart": { "id": "2" } }),
        "spec.restart.id",
    );
    for object in restart.old.iter_mut().chain([&mut restart.new]) {
        object["status"] = json!({ "state": "pending", "rollingUpdate": { "phase": "InProgress" } });
    }
    all.push(restart);
    if version == "v1alpha1" {
        all.push(example(
            fixed(violations::CLAIM_NAME),
            None,
            json!({ "pvcs": [{ "name": "" }] }),
            "spec.pvcs[0].name",
        ));
    }
    for place in ["", "multinode.leader", "multinode.worker"] {
        let at = |fragment: Value| {
            let role = place.split('.').rev().filter(|step| !step.is_empty());
            let fields = role.fold(json!({ "providerOverride": fragment }), |below, step| json!({ (step): below }));
            component(&merged(json!({ "multinode": { "nodeCount": 2 } }), &fields))
        };
        let path = ["spec", components, place, "providerOverride"];
        let path = path.into_iter().filter(|step| !step.is_empty()).collect::<Vec<_>>().join(".");
        all.extend(fragments(&path, at).map(|(text, old, new, path)| example(text, old, new, &path)));
    }
    let at = |fragment: Value| json!({ "providerOverride": fragment });
    all.extend(fragments("spec.providerOverride", at).map(|(text, old, new, path)| example(text, old, new, &path)));
    all
}

/// Fragments in Grove's API that are wrong, where `at` puts them.
fn fragments(path: &str, at: impl Fn(Value) -> Value) -> [(Text, Option<Value>, Value, String); 2] {
    let of = |version: &str, target: &str| at(json!({ "apiVersion": version, "target": target, "value": {} }));
    let grove = api_types::grove::API_VERSION;
    [
        (
            Text::Fixed(violations::supported(&[grove])),
            None,
            of("grove.io/v1", "PodCliqueSet"),
            format!("{path}.apiVersion"),
        ),
        (IMMUTABLE, Some(of(grove, "PodCliqueSet")), of(grove, "PodClique"), format!("{path}.target")),
    ]
}

/// Rules of the other kinds.
fn others() -> Vec<Example> {
    let example = |kind, version, old: Option<Value>, new, path: &str, text: String| {
        let old = old.map(|old| object(kind, version, old));
        Example { kind, version, old, new: object(kind, version, new), path: path.to_owned(), text }
    };
    let lora = |edit: Value| {
        let spec =
            json!({ "modelName": "m", "baseModelName": "b", "modelType": "lora", "source": { "uri": "hf://m" } });
        merged(spec, &edit)
    };
    let model = |old, edit: Value, path: &str, text: &str| {
        example("DynamoModel", "v1alpha1", old, lora(edit), path, text.to_owned())
    };
    let stays = violations::immutable(violations::anew("DynamoModel"));
    let checkpoint = json!({
        "identity": { "model": "m", "backendFramework": "vllm" },
        "job": { "podTemplateSpec": { "spec": { "containers": [{ "name": "main", "image": "vllm:1.5.0" }] } } },
        "gpuMemoryService": { "enabled": true, "mode": "interPod" },
    });
    let request = json!({ "model": "m", "backend": "auto", "image": "planner:1.5.0", "searchStrategy": "thorough" });
    vec![
        model(None, json!({ "modelName": "" }), "spec.modelName", violations::MODEL_NAME),
        model(None, json!({ "baseModelName": "" }), "spec.baseModelName", violations::BASE_MODEL_NAME),
        model(None, json!({ "source": null }), "spec.source", &violations::source()),
        model(None, json!({ "source": { "uri": "" } }), "spec.source.uri", &violations::source()),
        model(
            None,
            json!({ "source": { "uri": "https://ann:secret@host/m" } }),
            "spec.source.uri",
            &violations::scheme(),
        ),
        model(Some(lora(json!({}))), json!({ "baseModelName": "c" }), "spec.baseModelName", &stays),
        model(Some(lora(json!({}))), json!({ "modelType": "base" }), "spec.modelType", &stays),
        example(
            "DynamoCheckpoint",
            "v1alpha1",
            None,
            checkpoint,
            "spec.gpuMemoryService.mode",
            violations::supported(&["intraPod"]),
        ),
        example(
            "DynamoGraphDeploymentRequest",
            "v1beta1",
            None,
            request,
            "spec.searchStrategy",
            violations::THOROUGH.to_owned(),
        ),
    ]
}
