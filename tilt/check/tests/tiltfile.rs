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
    evaluate_with(scene, &DEPLOYMENTS)
}

/// The same, with a chart that has these Deployments.
fn evaluate_with(scene: &Scene, deployments: &[&str]) -> Result<Vec<Call>, String> {
    let mut objects: Vec<Value> = deployments
        .iter()
        .map(|name| {
            json!({
                "kind": "Deployment", "metadata": {"name": format!("dynamo-dynamo-operator-{name}")},
                "spec": {"template": {"spec": {"containers": [{"name": name, "volumeMounts": [{"name": "config"}]}]}}},
            })
        })
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

fn words(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

fn command(build: &Value) -> Vec<String> {
    words(&build["command"])
}

/// The step that makes an image and brings it to the cluster under both its tags.
fn image(via: &str, repository: &str, tag: &str, tail: &[&str]) -> Vec<String> {
    let step = ["cargo", "xtask", "tilt", "image", "--via", via, "--repository", repository, "--lasting-tag", tag];
    step.iter().chain(tail).map(|word| (*word).to_owned()).collect()
}

fn helm(calls: &[Call]) -> Vec<String> {
    let command = calls.iter().find(|call| call.what == "local" && call.args[0][0] == "helm").unwrap();
    words(&command.args[0])
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
    let repository = "registry.example.com/me/controller";
    for program in DEPLOYMENTS {
        let build = named(&calls, "custom_build", &format!("{repository}/{program}"));
        assert_eq!(command(build), image("docker", repository, "tilt-dev", &["--push", program]));
        assert_eq!(build["deps"], json!([format!("../target/tilt/{program}")]));
        assert_eq!(build["live_update"], json!([]));
    }
    let builds = calls.iter().filter(|call| call.what == "custom_build");
    assert_eq!(builds.count(), DEPLOYMENTS.len(), "what is not deployed is not built");
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
        // The next build is another image of the same name.
        "dynamo-operator.graph-controller.image.pullPolicy=Always",
        "dynamo-operator.upgradeCRD=false",
        "global.nats.install=true",
        "dynamo-operator.imagePullSecrets[0].name=pull",
        "dynamo-operator.gpuDiscovery.enabled=false",
    ] {
        assert!(helm.contains(&value.to_owned()), "{value}");
    }
}

/// Objects that an older version has stored are read through the webhook server, which the definitions come before.
#[test]
fn every_loop_applies_definitions_first_and_migrates_objects_when_the_webhook_server_is_ready() {
    let registry = || json!({"registry": "registry.example.com/me"});
    for scene in [
        Scene { settings: registry(), ..Scene::default() },
        Scene { context: "k3d-dynamo", arguments: json!({"k3d": true}), ..Scene::default() },
        Scene { arguments: registry(), settings: json!({"skip_codegen": true}), ..Scene::default() },
    ] {
        let calls = evaluate(&scene).unwrap();
        let [first, second] = ["crds", "migrate-crds"].map(|name| named(&calls, "local_resource", name));
        assert_eq!(first["resource_deps"], json!(["manager-build"]));
        for name in ["operator", "webhook-server"] {
            let dependencies = words(&named(&calls, "k8s_resource", name)["resource_deps"]);
            assert!(dependencies.contains(&"crds".to_owned()), "{name}: {dependencies:?}");
            assert!(!dependencies.contains(&"migrate-crds".to_owned()), "{name} would wait for itself");
        }
        assert_eq!(second["resource_deps"], json!(["crds", "webhook-server"]));
        assert_eq!(second["labels"], json!(["operator"]));
        let [first_run, second_run] = [first, second].map(|step| words(&step["cmd"]).pop().unwrap());
        assert!(first_run.ends_with(" --skip-migration"), "{first_run}");
        let applies = r#"../target/tilt/crds apply --context "$CONTEXT" --webhook-service "$SERVICE""#;
        assert_eq!(second_run, applies);
        assert_eq!(first["env"], second["env"]);
        assert_eq!(second["env"]["SERVICE"], "dynamo-system/dynamo-dynamo-operator-webhook-service");
    }
}

/// Values of the chart may leave the webhook server out: nothing waits for it then.
#[test]
fn without_a_webhook_server_nothing_is_migrated() {
    let calls = evaluate_with(&Scene::default(), &["graph-controller"]).unwrap();
    assert!(!calls.iter().any(|call| call.what == "local_resource" && call.args[0] == "migrate-crds"));
}

#[test]
fn the_environment_s_registry_wins() {
    let scene = Scene {
        settings: json!({"registry": "one.example.com"}),
        environment: json!({"REGISTRY": "two.example.com/x"}),
        ..Scene::default()
    };
    named(&evaluate(&scene).unwrap(), "custom_build", "two.example.com/x/controller/webhook-server");
}

#[test]
fn the_k3d_loop_imports_and_never_pulls() {
    let arguments = json!({"k3d": true, "triggers": true, "namespace": "mine"});
    let calls = evaluate(&Scene { context: "k3d-dynamo", arguments, ..Scene::default() }).unwrap();
    let build = named(&calls, "custom_build", "controller/graph-controller");
    assert_eq!(build["disable_push"], json!(true));
    assert_eq!(build["outputs_image_ref_to"], json!("../target/tilt/graph-controller.ref"));
    let tail = ["--context", "k3d-dynamo", "graph-controller"];
    assert_eq!(command(build), image("k3d", "controller", "abc123", &tail));
    let helm = helm(&calls);
    for value in ["image.pullPolicy=Never", "image.tag=abc123", "image.repository=controller"] {
        assert!(helm.contains(&format!("dynamo-operator.controllerManager.manager.{value}")), "{value}");
    }
    assert!(!helm.iter().any(|value| value.contains("Always")));
    assert_eq!(named(&calls, "local_resource", "bootstrap")["labels"], json!(["infrastructure"]));
    assert_eq!(named(&calls, "k8s_resource", "webhook-echo")["resource_deps"], json!(["bootstrap"]));
    // The sink is where the Secret is that it may read.
    let sink = json!({"kind": "Deployment", "metadata": {"name": "from dev/echo.yaml", "namespace": "mine"}});
    assert!(calls.iter().any(|call| call.what == "k8s_yaml" && call.args[0] == json!([sink])));
    let graphs = named(&calls, "k8s_resource", "broken-graphs");
    assert_eq!(graphs["labels"], json!(["triggers"]));
    // Admission has to answer before the first graph is applied.
    assert_eq!(graphs["resource_deps"], json!(["crds", "operator", "webhook-server"]));
}

#[test]
fn kind_without_a_registry_gets_images_by_import() {
    let calls = evaluate(&Scene::default()).unwrap();
    let build = named(&calls, "custom_build", "controller/graph-controller");
    assert_eq!(command(build), image("kind", "controller", "abc123", &["--context", "kind-dev", "graph-controller"]));
    assert!(helm(&calls).contains(&"dynamo-operator.controllerManager.manager.image.tag=abc123".to_owned()));
}

#[test]
fn images_stay_where_the_cluster_runs_on_the_runtime_that_made_them() {
    let calls = evaluate(&Scene { context: "minikube", ..Scene::default() }).unwrap();
    let build = named(&calls, "custom_build", "controller/graph-controller");
    assert_eq!(command(build), image("docker", "controller", "tilt-dev", &["graph-controller"]));
    assert!(!helm(&calls).iter().any(|value| value.contains("Always")));
}

#[test]
fn live_updates_replace_the_program_in_a_volume_and_the_file_system_stays_read_only() {
    let scene = Scene {
        arguments: json!({"live_update": true}),
        settings: json!({"registry": "r.example.com"}),
        ..Scene::default()
    };
    let calls = evaluate(&scene).unwrap();
    let build = named(&calls, "custom_build", "r.example.com/controller/model-controller");
    let tail = ["--push", "--live", "model-controller"];
    assert_eq!(command(build), image("docker", "r.example.com/controller", "tilt-dev", &tail));
    assert_eq!(build["live_update"][0], json!(["sync", "../target/tilt/model-controller", "/live/model-controller"]));
    let applied = calls.iter().find(|call| call.what == "k8s_yaml").unwrap();
    let deployments: Vec<&Value> =
        applied.args[0].as_array().unwrap().iter().filter(|it| it["kind"] == "Deployment").collect();
    assert_eq!(deployments.len(), DEPLOYMENTS.len());
    for deployment in deployments {
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"], json!([{"name": "live", "emptyDir": {}}]));
        let mounts = json!([{"name": "config"}, {"name": "live", "mountPath": "/live"}]);
        assert_eq!(pod["containers"][0]["volumeMounts"], mounts);
    }
}

#[test]
fn the_version_that_graphs_are_stamped_with_can_be_set() {
    let scene = |settings| Scene { settings, ..Scene::default() };
    let told = |calls: &[Call]| helm(calls).into_iter().find(|value| value.contains("--operator-version"));
    assert_eq!(told(&evaluate(&scene(json!({}))).unwrap()), None);
    let calls = evaluate(&scene(json!({"operator_version": "1.4.0"}))).unwrap();
    assert_eq!(told(&calls).unwrap(), "dynamo-operator.webhook-server.args[0]=--operator-version=1.4.0");
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
    // The cluster cannot pull before.
    let dependencies = json!(["manager-build", "crds", "registry-secret"]);
    assert_eq!(named(&calls, "k8s_resource", "operator")["resource_deps"], dependencies);
    // Pods of our controllers find their image by the commit.
    let repository = "registry.example.com/me/controller";
    let build = named(&calls, "custom_build", &format!("{repository}/graph-controller"));
    assert_eq!(command(build), image("podman", repository, "abc123", &["--push", "graph-controller"]));
    assert!(helm.contains(&"dynamo-operator.controllerManager.manager.image.tag=abc123".to_owned()));
    assert!(helm.contains(&"dynamo-operator.graph-controller.image.pullPolicy=Always".to_owned()));
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
    let no_import = Scene { context: "k3d-dynamo", ..Scene::default() };
    assert!(refusal(no_import).contains("use --k3d"));
    let nowhere = Scene { context: "minikube", arguments: json!({"container_runtime": "podman"}), ..Scene::default() };
    assert!(refusal(nowhere).contains("podman brings images to a registry"));
    let live = Scene { arguments: json!({"live_update": true}), ..Scene::default() };
    assert!(refusal(live).contains("live_update needs images"));
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
