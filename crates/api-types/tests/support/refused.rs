//! Objects that break one rule each: the rules that the API server and the webhook server both hold. Tests of both use them.

use api_types::refusals;
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
    /// Why.
    pub text: String,
}

/// What a rule says; some name the kind that would have to be created anew.
enum Text {
    Fixed(String),
    Stays(&'static str),
}

impl Text {
    fn of(&self, kind: &str) -> String {
        match self {
            Self::Fixed(text) => text.clone(),
            Self::Stays(what) => format!("{what}; {}", refusals::anew(kind)),
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
    tail: &'static str,
}

const BOTH: &[&str] = &[GRAPH, COMPONENT];

fn row(version: &'static str, text: Text, new: Value, tail: &'static str) -> Row {
    Row { text, version, kinds: BOTH, old: None, new, tail }
}

fn beta(text: &str, new: Value, tail: &'static str) -> Row {
    row("v1beta1", fixed(text), new, tail)
}

fn alpha(text: &str, new: Value, tail: &'static str) -> Row {
    row("v1alpha1", fixed(text), new, tail)
}

fn change(version: &'static str, text: Text, old: Value, new: Value, tail: &'static str) -> Row {
    Row { old: Some(old), ..row(version, text, new, tail) }
}

/// All of them.
pub fn examples() -> Vec<Example> {
    let mut all: Vec<Example> = [beta_rows(), beta_changes(), alpha_rows(), alpha_changes()]
        .into_iter()
        .flatten()
        .flat_map(|row| row.kinds.iter().map(|kind| example(kind, &row)).collect::<Vec<_>>())
        .collect();
    for version in ["v1alpha1", "v1beta1"] {
        all.extend(graphs(version));
    }
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

fn picker(type_field: &str, more: &Value) -> Value {
    let config = json!({ "config": { "plugins": [], "schedulingProfiles": [] } });
    let mut picker = json!({ "replicas": 1, "subComponentType": null, "eppConfig": config });
    picker[type_field] = json!("epp");
    merged(picker, more)
}

fn beta_rows() -> Vec<Row> {
    let picker = |more: Value| picker("type", &more);
    let experimental = |fields: Value| json!({ "experimental": fields });
    let clients = json!({ "enabled": false, "job": { "gmsClientContainers": ["main"] } });
    let between = json!({ "mode": "InterPod" });
    let alone = |new: Value, tail| Row { kinds: &[COMPONENT], ..beta(refusals::ONLY_ON_GROVE, new, tail) };
    vec![
        beta(refusals::PICKER_NODES, picker(json!({ "multinode": { "nodeCount": 2 } })), ".multinode"),
        beta(refusals::PICKER_REPLICAS, picker(json!({ "replicas": 2 })), ".replicas"),
        beta(refusals::PICKER_CONFIG, picker(json!({ "eppConfig": null })), ".eppConfig"),
        beta(
            refusals::PICKER_CONFIG_MAP,
            picker(json!({ "eppConfig": { "config": null, "configMapRef": { "key": "k" } } })),
            ".eppConfig.configMapRef.name",
        ),
        beta(refusals::NEGATIVE_MEMORY, json!({ "sharedMemorySize": "-8Gi" }), ".sharedMemorySize"),
        beta(refusals::NEGATIVE_MEMORY, json!({ "sharedMemorySize": -1 }), ".sharedMemorySize"),
        beta(refusals::SIDECAR_UNKNOWN, json!({ "frontendSidecar": "" }), ".frontendSidecar"),
        beta(
            refusals::SIDECAR_WITHOUT_POD,
            json!({ "frontendSidecar": "front", "podTemplate": null }),
            ".podTemplate.spec.containers",
        ),
        beta(
            refusals::MEMORY_TYPE,
            json!({ "type": "frontend", "experimental": { "gpuMemoryService": {} } }),
            ".experimental.gpuMemoryService",
        ),
        beta(refusals::FAILOVER_ALONE, experimental(json!({ "failover": {} })), ".experimental.failover"),
        beta(
            refusals::FAILOVER_MODE,
            experimental(json!({ "gpuMemoryService": between, "failover": {} })),
            ".experimental.failover.mode",
        ),
        beta(
            refusals::SHADOWS,
            experimental(json!({ "gpuMemoryService": {}, "failover": { "numShadows": 2 } })),
            ".experimental.failover.numShadows",
        ),
        beta(
            refusals::CHECKPOINT_BETWEEN_PODS,
            experimental(json!({ "gpuMemoryService": between, "checkpoint": { "enabled": true } })),
            ".experimental.checkpoint",
        ),
        beta(
            refusals::CHECKPOINT_FAILOVER,
            experimental(json!({ "gpuMemoryService": {}, "failover": {}, "checkpoint": { "enabled": true } })),
            ".experimental.checkpoint",
        ),
        beta(
            refusals::CLIENTS_ALONE,
            experimental(json!({ "checkpoint": clients })),
            ".experimental.checkpoint.job.gmsClientContainers",
        ),
        beta(
            refusals::CLIENTS_BETWEEN_PODS,
            experimental(json!({ "gpuMemoryService": between, "checkpoint": clients })),
            ".experimental.checkpoint.job.gmsClientContainers",
        ),
        alone(json!({ "minAvailable": 1 }), ".minAvailable"),
        alone(experimental(json!({ "grove": { "forceScalingGroup": true } })), ".experimental.grove.forceScalingGroup"),
    ]
}

fn beta_changes() -> Vec<Row> {
    let change = |text, old, new, tail| change("v1beta1", text, old, new, tail);
    let memory = |mode: &str| json!({ "experimental": { "gpuMemoryService": { "mode": mode } } });
    let failover = |shadows: u8| {
        let failover = json!({ "experimental": { "failover": { "mode": "InterPod", "numShadows": shadows } } });
        merged(memory("InterPod"), &failover)
    };
    let packed = |domain: &str| json!({ "topologyConstraint": { "packDomain": domain } });
    vec![
        change(Text::Stays(refusals::NODES_STAY), json!({}), json!({ "multinode": { "nodeCount": 2 } }), ".multinode"),
        change(
            Text::Stays(refusals::MEMORY_STAYS),
            memory("IntraPod"),
            memory("InterPod"),
            ".experimental.gpuMemoryService.mode",
        ),
        change(Text::Stays(refusals::FAILOVER_STAYS), memory("InterPod"), failover(1), ".experimental.failover"),
        change(IMMUTABLE, failover(1), failover(2), ".experimental.failover.numShadows"),
        change(
            IMMUTABLE,
            json!({}),
            json!({ "experimental": { "grove": { "forceScalingGroup": true } } }),
            ".experimental.grove.forceScalingGroup",
        ),
        change(IMMUTABLE, packed("rack"), packed("host"), ".topologyConstraint"),
        change(IMMUTABLE, packed("rack"), json!({}), ".topologyConstraint"),
    ]
}

fn alpha_rows() -> Vec<Row> {
    let picker = |more: Value| picker("componentType", &more);
    let on = json!({ "enabled": true });
    let between = json!({ "enabled": true, "mode": "interPod" });
    let clients = json!({ "job": { "gmsClientContainers": ["main"] } });
    vec![
        alpha(refusals::PICKER_NODES, picker(json!({ "multinode": { "nodeCount": 2 } })), ".multinode"),
        alpha(refusals::PICKER_REPLICAS, picker(json!({ "replicas": 2 })), ".replicas"),
        alpha(refusals::PICKER_CONFIG, picker(json!({ "eppConfig": null })), ".eppConfig"),
        alpha(
            refusals::PICKER_CONFIG_MAP,
            picker(json!({ "eppConfig": { "config": null, "configMapRef": { "key": "k" } } })),
            ".eppConfig.configMapRef.name",
        ),
        alpha(refusals::PICKER_ONE_CONFIG, picker(json!({ "eppConfig": { "config": null } })), ".eppConfig"),
        alpha(refusals::INGRESS_HOST, json!({ "ingress": on }), ".ingress.host"),
        alpha(
            refusals::MEMORY_TYPE,
            json!({ "componentType": "frontend", "subComponentType": null, "gpuMemoryService": on }),
            ".gpuMemoryService",
        ),
        alpha(refusals::FAILOVER_ALONE, json!({ "failover": on }), ".failover"),
        alpha(refusals::FAILOVER_MODE, json!({ "gpuMemoryService": between, "failover": on }), ".failover.mode"),
        alpha(
            refusals::SHADOWS,
            json!({ "gpuMemoryService": on, "failover": { "enabled": true, "numShadows": 2 } }),
            ".failover.numShadows",
        ),
        alpha(
            refusals::CHECKPOINT_BETWEEN_PODS,
            json!({ "gpuMemoryService": between, "checkpoint": on }),
            ".checkpoint",
        ),
        alpha(
            refusals::CHECKPOINT_FAILOVER,
            json!({ "gpuMemoryService": on, "failover": on, "checkpoint": on }),
            ".checkpoint",
        ),
        alpha(refusals::CLIENTS_ALONE, json!({ "checkpoint": clients }), ".checkpoint.job.gmsClientContainers"),
        alpha(
            refusals::CLIENTS_BETWEEN_PODS,
            json!({ "gpuMemoryService": between, "checkpoint": clients }),
            ".checkpoint.job.gmsClientContainers",
        ),
        Row { kinds: &[COMPONENT], ..alpha(refusals::ONLY_ON_GROVE, json!({ "minAvailable": 1 }), ".minAvailable") },
    ]
}

fn alpha_changes() -> Vec<Row> {
    let change = |text, old, new, tail| change("v1alpha1", text, old, new, tail);
    let memory = |mode: &str| json!({ "gpuMemoryService": { "enabled": true, "mode": mode } });
    let failover = |shadows: u8| {
        let failover = json!({ "failover": { "enabled": true, "mode": "interPod", "numShadows": shadows } });
        merged(memory("interPod"), &failover)
    };
    let packed = |domain: &str| json!({ "topologyConstraint": { "packDomain": domain } });
    vec![
        change(Text::Stays(refusals::NODES_STAY), json!({}), json!({ "multinode": { "nodeCount": 2 } }), ".multinode"),
        change(Text::Stays(refusals::MEMORY_STAYS), memory("intraPod"), memory("interPod"), ".gpuMemoryService.mode"),
        change(Text::Stays(refusals::FAILOVER_STAYS), memory("interPod"), failover(1), ".failover"),
        change(IMMUTABLE, failover(1), failover(2), ".failover.numShadows"),
        change(IMMUTABLE, packed("rack"), packed("host"), ".topologyConstraint"),
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
            fixed(refusals::PARALLEL_ORDER),
            Some(json!({})),
            json!({ "restart": parallel }),
            "spec.restart.strategy.order",
        ),
        example(fixed(refusals::TOPOLOGY), None, nowhere, "spec.topologyConstraint"),
        example(fixed(refusals::PACK_DOMAIN), None, constraint(Value::Null), "spec.topologyConstraint.packDomain"),
        example(
            fixed(refusals::OBJECT_NAME),
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
        fixed(refusals::RESTART_IN_UPDATE),
        Some(json!({})),
        json!({ "restart": { "id": "2" } }),
        "spec.restart.id",
    );
    for object in restart.old.iter_mut().chain([&mut restart.new]) {
        object["status"] = json!({ "state": "pending", "rollingUpdate": { "phase": "InProgress" } });
    }
    all.push(restart);
    if version == "v1alpha1" {
        all.push(example(fixed(refusals::CLAIM_NAME), None, json!({ "pvcs": [{ "name": "" }] }), "spec.pvcs[0].name"));
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
            Text::Fixed(refusals::supported(&[grove])),
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
    let stays = refusals::immutable(refusals::anew("DynamoModel"));
    let checkpoint = json!({
        "identity": { "model": "m", "backendFramework": "vllm" },
        "job": { "podTemplateSpec": { "spec": { "containers": [{ "name": "main", "image": "vllm:1.5.0" }] } } },
        "gpuMemoryService": { "enabled": true, "mode": "interPod" },
    });
    let request = json!({ "model": "m", "backend": "auto", "image": "planner:1.5.0", "searchStrategy": "thorough" });
    vec![
        model(None, json!({ "modelName": "" }), "spec.modelName", refusals::MODEL_NAME),
        model(None, json!({ "baseModelName": "" }), "spec.baseModelName", refusals::BASE_MODEL_NAME),
        model(None, json!({ "source": null }), "spec.source", refusals::SOURCE),
        model(None, json!({ "source": { "uri": "" } }), "spec.source.uri", refusals::SOURCE),
        model(None, json!({ "source": { "uri": "https://ann:secret@host/m" } }), "spec.source.uri", refusals::SCHEME),
        model(Some(lora(json!({}))), json!({ "baseModelName": "c" }), "spec.baseModelName", &stays),
        model(Some(lora(json!({}))), json!({ "modelType": "base" }), "spec.modelType", &stays),
        example(
            "DynamoCheckpoint",
            "v1alpha1",
            None,
            checkpoint,
            "spec.gpuMemoryService.mode",
            refusals::supported(&["intraPod"]),
        ),
        example(
            "DynamoGraphDeploymentRequest",
            "v1beta1",
            None,
            request,
            "spec.searchStrategy",
            refusals::THOROUGH.to_owned(),
        ),
    ]
}
