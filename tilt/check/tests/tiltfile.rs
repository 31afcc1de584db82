//! The Tiltfile, evaluated for each way of working, with Tilt's functions replaced by ones that write down their calls.

#![cfg(test)]

use serde_json::{Value, json};
use starlark::environment::{GlobalsBuilder, LibraryExtension, Module};
use starlark::eval::Evaluator;
use starlark::syntax::{AstModule, Dialect, DialectTypes};

const TILTFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Tiltfile");
const STUBS: &str = include_str!("stubs.star");
const DEPLOYMENTS: [&str; 4] = ["graph-controller", "component-controller", "model-controller", "webhook-server"];

/// What a developer has, says and is connected to.
struct Scene {
    context: &'static str,
    arguments: Value,
    settings: Value,
    environment: Value,
}

impl Default for Scene {
    fn default() -> Self {
        Self { context: "kind-dev", arguments: json!({}), settings: json!({}), environment: json!({}) }
    }
}

struct Call {
    what: String,
    args: Vec<Value>,
    named: Value,
}

/// Everything the Tiltfile does, or why it refuses.
fn evaluate(scene: &Scene) -> Result<Vec<Call>, String> {
    let mut objects: Vec<Value> = DEPLOYMENTS
        .iter()
        .map(|name| json!({"kind": "Deployment", "metadata": {"name": format!("dynamo-dynamo-operator-{name}")}}))
        .collect();
    objects.push(json!({"kind": "StatefulSet", "metadata": {"name": "dynamo-nats"}}));
    objects.push(json!({"kind": "ClusterRole", "metadata": {"name": "some-role"}}));
    let tiltfile = std::fs::read_to_string(TILTFILE).unwrap();
    let constant = |name: &str, value: &Value| format!("{name} = json.decode({:?})\n", value.to_string());
    let source = format!(
        "CONTEXT = {:?}\n{}{}{}{}{STUBS}\n{tiltfile}\n",
        scene.context,
        constant("ARGUMENTS", &scene.arguments),
        constant("SETTINGS", &scene.settings),
        constant("ENVIRONMENT", &scene.environment),
        constant("OBJECTS", &json!(objects)),
    );
    let dialect = Dialect { enable_top_level_stmt: true, enable_types: DialectTypes::Disable, ..Dialect::Extended };
    let ast = AstModule::parse("Tiltfile", source, &dialect).map_err(|error| error.to_string())?;
    let globals =
        GlobalsBuilder::extended_by(&[LibraryExtension::StructType, LibraryExtension::Json, LibraryExtension::Map])
            .build();
    Module::with_temp_heap(|module| {
        let result = Evaluator::new(&module).eval_module(ast, &globals).map(|_| ());
        result.map_err(|error| error.to_string())?;
        let calls = module.get("calls").ok_or("no calls")?.to_json_value().map_err(|error| error.to_string())?;
        Ok(calls.as_array().into_iter().flatten().map(call).collect())
    })
}

fn call(value: &Value) -> Call {
    Call {
        what: value["what"].as_str().unwrap().to_owned(),
        args: value["args"].as_array().unwrap().clone(),
        named: value["named"].clone(),
    }
}

fn named<'a>(calls: &'a [Call], what: &str, name: &str) -> &'a Value {
    let is = |call: &&Call| {
        call.what == what && (call.args.first() == Some(&json!(name)) || call.named["new_name"] == json!(name))
    };
    &calls.iter().find(is).unwrap_or_else(|| panic!("no {what} {name}")).named
}

fn helm(calls: &[Call]) -> Vec<String> {
    let command = calls.iter().find(|call| call.what == "local" && call.args[0][0] == "helm").unwrap();
    command.args[0].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_registry_loop_builds_in_order_and_deploys_the_chart() {
    let scene = Scene {
        context: "team-dev",
        settings: json!({
            "allowed_contexts": ["team-dev"], "registry": "registry.example.com/me/", "enable_nats": true,
            "image_pull_secret": "pull", "helm_values": {"dynamo-operator.gpuDiscovery.enabled": "false"},
        }),
        ..Scene::default()
    };
    let calls = evaluate(&scene).unwrap();
    assert_eq!(calls.iter().find(|call| call.what == "allow_k8s_contexts").unwrap().args[0], json!(["team-dev"]));
    assert_eq!(named(&calls, "local_resource", "manager-build")["labels"], json!(["operator"]));
    assert_eq!(named(&calls, "local_resource", "crds")["resource_deps"], json!(["manager-build"]));
    let build = named(&calls, "docker_build", "registry.example.com/me/controller/graph-controller");
    assert_eq!(build["only"], json!(["graph-controller"]));
    assert_eq!(
        build["extra_tag"],
        json!(["tilt-dev", "abc123"].map(|tag| format!("registry.example.com/me/controller/graph-controller:{tag}")))
    );
    assert!(build["dockerfile_contents"].as_str().unwrap().contains("USER 65532:65532"));
    assert_eq!(build["live_update"], json!([]));
    for (index, name) in ["operator", "component-controller", "model-controller", "webhook-server"].iter().enumerate() {
        let resource = named(&calls, "k8s_resource", name);
        assert_eq!(resource["resource_deps"], json!(["manager-build", "crds"]), "{name}");
        assert_eq!(resource["labels"], json!(["operator"]));
        assert_eq!(resource["port_forwards"], json!([format!("{}:8081", 8081 + index)]), "{name}");
    }
    assert_eq!(named(&calls, "k8s_resource", "dynamo-nats")["labels"], json!(["infrastructure"]));
    let helm = helm(&calls);
    for value in [
        "dynamo-operator.controllerManager.manager.image.repository=registry.example.com/me/controller",
        "dynamo-operator.controllerManager.manager.image.tag=tilt-dev",
        "dynamo-operator.upgradeCRD=false",
        "global.nats.install=true",
        "dynamo-operator.imagePullSecrets[0].name=pull",
        "dynamo-operator.gpuDiscovery.enabled=false",
    ] {
        assert!(helm.contains(&value.to_owned()), "{value}");
    }
}

#[test]
fn the_environment_s_registry_wins() {
    let scene = Scene {
        settings: json!({"registry": "one.example.com"}),
        environment: json!({"REGISTRY": "two.example.com/x"}),
        ..Scene::default()
    };
    named(&evaluate(&scene).unwrap(), "docker_build", "two.example.com/x/controller/webhook-server");
}

#[test]
fn the_k3d_loop_imports_and_never_pulls() {
    let arguments = json!({"k3d": true, "triggers": true});
    let calls = evaluate(&Scene { context: "k3d-dynamo", arguments, ..Scene::default() }).unwrap();
    let build = named(&calls, "custom_build", "controller/graph-controller");
    assert_eq!(build["disable_push"], json!(true));
    assert_eq!(build["outputs_image_ref_to"], json!("../target/tilt/graph-controller.ref"));
    assert!(build["command"].as_array().unwrap().contains(&json!("import")));
    assert!(helm(&calls).contains(&"dynamo-operator.controllerManager.manager.image.pullPolicy=Never".to_owned()));
    assert_eq!(named(&calls, "local_resource", "bootstrap")["labels"], json!(["infrastructure"]));
    assert_eq!(named(&calls, "k8s_resource", "webhook-echo")["resource_deps"], json!(["bootstrap"]));
    assert_eq!(named(&calls, "k8s_resource", "broken-graphs")["labels"], json!(["triggers"]));
    assert!(!calls.iter().any(|call| call.what == "docker_build"));
}

#[test]
fn credentials_reach_one_step_by_its_environment_and_nothing_else() {
    let arguments = json!({
        "registry": "registry.example.com/me", "namespace": "mine", "container_runtime": "podman",
        "registry_username": "somebody", "registry_password": "hunter2",
    });
    let calls = evaluate(&Scene { arguments, ..Scene::default() }).unwrap();
    let secret = named(&calls, "local_resource", "registry-secret");
    assert_eq!(secret["env"]["REGISTRY_PASSWORD"], json!("hunter2"));
    for call in &calls {
        let mut shown = json!([call.args, call.named]);
        shown[1].as_object_mut().unwrap().remove("env");
        assert!(!shown.to_string().contains("hunter2"), "{}", call.what);
    }
    let helm = helm(&calls);
    assert!(helm.contains(&"dynamo-operator.imagePullSecrets[0].name=registry-secret".to_owned()));
    assert!(helm.windows(2).any(|pair| pair == ["--namespace", "mine"]));
    let build = named(&calls, "custom_build", "registry.example.com/me/controller/lease-scope");
    assert!(build["command"].as_array().unwrap().contains(&json!("podman")));
}

#[test]
fn a_context_that_is_not_allowed_is_refused_before_anything_runs() {
    let refusal = |scene: Scene| evaluate(&scene).err().unwrap_or_else(|| panic!("not refused"));
    let production = Scene { context: "production", ..Scene::default() };
    assert!(refusal(production).contains("The context production is not allowed"));
    let remote = Scene { context: "dev", settings: json!({"allowed_contexts": ["dev"]}), ..Scene::default() };
    assert!(refusal(remote).contains("needs a registry"));
    let kind = Scene { arguments: json!({"k3d": true}), ..Scene::default() };
    assert!(refusal(kind).contains("the context is kind-dev"));
    let misspelt = Scene { settings: json!({"registri": "x"}), ..Scene::default() };
    assert!(refusal(misspelt).contains("unknown key registri"));
}

#[test]
fn a_refusal_comes_before_the_first_command() {
    let source = std::fs::read_to_string(TILTFILE).unwrap();
    let check = source.find("\ncheck_context()\n").unwrap();
    let before = &source[..check];
    for runs_something in ["local(", "local_resource(", "k8s_yaml(", "docker_build(", "custom_build("] {
        assert!(!before.contains(runs_something), "{runs_something} before the check of the context");
    }
}
