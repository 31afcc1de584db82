//! The Tiltfile, evaluated for each way of working, with Tilt's functions replaced by ones that write down their calls.

#![cfg(test)]

mod documents;

use std::process::Command;

use serde_json::{Value, json};
use starlark::{
    environment::{GlobalsBuilder, LibraryExtension, Module},
    eval::Evaluator,
    syntax::{AstModule, Dialect, DialectTypes},
};

const TILTFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Tiltfile");
const STUBS: &str = include_str!("stubs.star");
const DEPLOYMENTS: [&str; 5] =
    ["graph-controller", "component-controller", "model-controller", "crds", "webhook-server"];

/// Settings, arguments and cluster of a developer.
struct Scene {
    context: &'static str,
    arguments: Value,
    /// tilt_config.json at the root of the repository.
    root: Value,
    settings: Value,
    environment: Value,
}

impl Default for Scene {
    fn default() -> Self {
        Self { context: "kind-dev", arguments: json!({}), root: json!({}), settings: json!({}), environment: json!({}) }
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
        "CONTEXT = {:?}\n{}{}{}{}{}{STUBS}\n{tiltfile}\n",
        scene.context,
        constant("ARGUMENTS", &scene.arguments),
        constant("ROOT", &scene.root),
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

fn helm(calls: &[Call]) -> &Call {
    calls.iter().find(|call| call.what == "local" && call.args[0][0] == "helm").unwrap()
}

/// The values of the chart: helm reads them from its input.
fn values(calls: &[Call]) -> Value {
    let helm = helm(calls);
    assert!(words(&helm.args[0]).ends_with(&["--values".to_owned(), "-".to_owned()]), "{}", helm.args[0]);
    serde_json::from_str(helm.named["stdin"].as_str().unwrap()).unwrap()
}

fn manager_image(calls: &[Call]) -> Value {
    values(calls)["dynamo-operator"]["controllerManager"]["manager"]["image"].clone()
}

#[test]
fn the_registry_loop_builds_in_order_and_deploys_the_chart() {
    let scene = Scene {
        context: "team-dev",
        arguments: json!({"live_update": false}),
        settings: json!({
            "allowed_contexts": ["team-dev"], "registry": "registry.example.com/me/",
            "image_pull_secret": "pull", "helm_values": {"dynamo-operator.gpuDiscovery.enabled": "false"},
        }),
        ..Scene::default()
    };
    let calls = evaluate(&scene).unwrap();
    assert_eq!(calls.iter().find(|call| call.what == "allow_k8s_contexts").unwrap().args[0], json!(["team-dev"]));
    assert_eq!(named(&calls, "local_resource", "manager-build")["labels"], json!(["operator"]));
    let repository = "registry.example.com/me";
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
    // It listens on no port.
    assert_eq!(named(&calls, "k8s_resource", "crds-bundle")["port_forwards"], json!([]));
    assert_eq!(named(&calls, "k8s_resource", "dynamo-nats")["labels"], json!(["infrastructure"]));
    let values = values(&calls);
    let image = json!({"repository": repository, "tag": "tilt-dev", "pullPolicy": "IfNotPresent"});
    assert_eq!(manager_image(&calls), image);
    let operator = &values["dynamo-operator"];
    // The next build is another image of the same name.
    assert_eq!(operator["graph-controller"]["image"]["pullPolicy"], "Always");
    assert_eq!((&operator["enabled"], &operator["upgradeCRD"]), (&json!(true), &json!(false)));
    assert_eq!(operator["imagePullSecrets"], json!([{"name": "pull"}]));
    assert_eq!(operator["gpuDiscovery"], json!({"enabled": false}));
    assert_eq!(values["global"]["nats"]["install"], json!(true));
    assert_eq!(values["global"]["grove"]["enabled"], json!(false));
    assert!(!calls.iter().any(|call| call.what == "local_resource" && call.args[0] == "grove"));
}

#[test]
fn grove_and_the_kai_scheduler_are_installed_before_the_operator() {
    let settings = json!({"enable_grove": true, "enable_kai_scheduler": true});
    let calls = evaluate(&Scene { settings, ..Scene::default() }).unwrap();
    for (name, chart) in [
        ("grove", "oci://ghcr.io/ai-dynamo/grove/grove-charts"),
        ("kai-scheduler", "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler"),
    ] {
        let install = words(&named(&calls, "local_resource", name)["cmd"]);
        assert_eq!(install[..5], ["helm", "upgrade", "--install", name, chart]);
        assert!(install.windows(2).any(|pair| pair == ["--kube-context", "kind-dev"]));
    }
    let dependencies = json!(["manager-build", "crds", "grove", "kai-scheduler"]);
    assert_eq!(named(&calls, "k8s_resource", "operator")["resource_deps"], dependencies);
    assert_eq!(values(&calls)["global"]["grove"]["enabled"], json!(true));
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
        // Applied is what the program holds, so its next build is what there is to apply.
        assert_eq!(first["deps"], json!(["../target/tilt/crds"]));
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

/// Tilt reads what is ignored as paths below the folder of the Tiltfile.
#[test]
fn what_does_not_start_a_build_is_named_where_it_is() {
    let calls = evaluate(&Scene::default()).unwrap();
    let build = named(&calls, "local_resource", "manager-build");
    for ignored in words(&build["ignore"]) {
        assert!(words(&build["deps"]).iter().any(|dep| ignored.starts_with(&format!("{dep}/"))), "{ignored}");
    }
}

#[test]
fn a_key_of_the_settings_without_a_value_is_one_that_is_not_there() {
    let settings = json!({
        "allowed_contexts": null, "registry": null, "namespace": null, "enable_nats": null, "helm_values": null,
        "image_pull_secret": null, "operator_version": null,
    });
    let calls = evaluate(&Scene { settings, ..Scene::default() }).unwrap();
    assert_eq!(values(&calls), values(&evaluate(&Scene::default()).unwrap()));
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
    named(&evaluate(&scene).unwrap(), "custom_build", "two.example.com/x/webhook-server");
}

#[test]
fn the_k3d_loop_imports_and_never_pulls() {
    let arguments = json!({"also": ["triggers"], "namespace": "mine"});
    let calls = evaluate(&Scene { context: "k3d-dynamo", arguments, ..Scene::default() }).unwrap();
    let build = named(&calls, "custom_build", "controller/graph-controller");
    assert_eq!(build["disable_push"], json!(true));
    assert_eq!(build["outputs_image_ref_to"], json!("../target/tilt/graph-controller.ref"));
    let tail = ["--context", "k3d-dynamo", "graph-controller"];
    assert_eq!(command(build), image("k3d", "controller", "abc123", &tail));
    let image = json!({"repository": "controller", "tag": "abc123", "pullPolicy": "Never"});
    assert_eq!(manager_image(&calls), image);
    assert!(!values(&calls).to_string().contains("Always"));
    assert_eq!(named(&calls, "local_resource", "bootstrap")["labels"], json!(["infrastructure"]));
    assert_eq!(named(&calls, "k8s_resource", "webhook-echo")["resource_deps"], json!(["bootstrap"]));
    // The sink is where the Secret is that it may read.
    let sink = json!({"kind": "Deployment", "metadata": {"name": "from dev/echo.yaml", "namespace": "mine"}});
    assert!(calls.iter().any(|call| call.what == "k8s_yaml" && call.args[0] == json!([sink])));
    let receivers = json!([{"name": "webhook-echo", "url": "http://webhook-echo.mine"}]);
    assert_eq!(values(&calls)["dynamo-operator"]["notifications"]["receivers"], receivers);
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
    assert_eq!(manager_image(&calls)["tag"], "abc123");
}

#[test]
fn images_stay_where_the_cluster_runs_on_the_runtime_that_made_them() {
    let arguments = json!({"live_update": false});
    let calls = evaluate(&Scene { context: "minikube", arguments, ..Scene::default() }).unwrap();
    let build = named(&calls, "custom_build", "controller/graph-controller");
    assert_eq!(command(build), image("docker", "controller", "tilt-dev", &["graph-controller"]));
    assert!(!values(&calls).to_string().contains("Always"));
}

#[test]
fn live_updates_replace_the_program_in_a_volume_and_the_file_system_stays_read_only() {
    let scene = Scene { settings: json!({"registry": "r.example.com"}), ..Scene::default() };
    let calls = evaluate(&scene).unwrap();
    let build = named(&calls, "custom_build", "r.example.com/model-controller");
    let tail = ["--push", "--live", "model-controller"];
    assert_eq!(command(build), image("docker", "r.example.com", "tilt-dev", &tail));
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
    let given = |calls: &[Call]| values(calls)["dynamo-operator"]["webhook-server"]["args"].clone();
    assert_eq!(given(&evaluate(&scene(json!({}))).unwrap()), json!(null));
    let settings =
        json!({"operator_version": "1.4.0", "helm_values": {"dynamo-operator.webhook-server.args[1]": "-v"}});
    let calls = evaluate(&scene(settings)).unwrap();
    assert_eq!(given(&calls), json!(["--operator-version=1.4.0", "-v"]));
}

/// Neither the process list nor the log shows what reaches a command in this way.
#[track_caller]
fn assert_shown_by_nothing_but(way: &str, secret: &str, calls: &[Call]) {
    for call in calls {
        let mut shown = json!([call.args, call.named]);
        shown[1].as_object_mut().unwrap().remove(way);
        assert!(!shown.to_string().contains(secret), "{}", call.what);
    }
}

#[test]
fn credentials_reach_one_step_by_its_environment_and_nothing_else() {
    let arguments = json!({
        "registry": "registry.example.com/me", "namespace": "mine", "container_runtime": "podman",
        "live_update": false, "registry_username": "user-name", "registry_password": "hunter2",
    });
    let scene = Scene { arguments, ..Scene::default() };
    let calls = evaluate(&scene).unwrap();
    let secret = named(&calls, "local_resource", "registry-secret");
    assert_eq!(secret["env"]["REGISTRY_PASSWORD"], json!("hunter2"));
    assert_shown_by_nothing_but("env", "hunter2", &calls);
    assert_eq!(values(&calls)["dynamo-operator"]["imagePullSecrets"], json!([{"name": "registry-secret"}]));
    assert!(words(&helm(&calls).args[0]).windows(2).any(|pair| pair == ["--namespace", "mine"]));
    // The cluster cannot pull before.
    let dependencies = json!(["manager-build", "crds", "registry-secret"]);
    assert_eq!(named(&calls, "k8s_resource", "operator")["resource_deps"], dependencies);
    // Pods of our controllers find their image by the commit.
    let repository = "registry.example.com/me";
    let build = named(&calls, "custom_build", &format!("{repository}/graph-controller"));
    assert_eq!(command(build), image("podman", repository, "abc123", &["--push", "graph-controller"]));
    assert_eq!(manager_image(&calls)["tag"], "abc123");
    assert_eq!(values(&calls)["dynamo-operator"]["graph-controller"]["image"]["pullPolicy"], "Always");
}

#[test]
fn values_of_the_chart_reach_helm_by_its_input_and_nothing_else() {
    let helm_values =
        json!({"dynamo-operator.nats.password": "hunter2", "dynamo-operator": {"etcd": {"token": "hunter2"}}});
    let calls = evaluate(&Scene { settings: json!({"helm_values": helm_values}), ..Scene::default() }).unwrap();
    assert_shown_by_nothing_but("stdin", "hunter2", &calls);
    let operator = &values(&calls)["dynamo-operator"];
    assert_eq!((&operator["nats"]["password"], &operator["etcd"]["token"]), (&json!("hunter2"), &json!("hunter2")));
    assert_eq!(operator["enabled"], json!(true), "maps are joined");
    assert_eq!((&helm(&calls).named["quiet"], &helm(&calls).named["echo_off"]), (&json!(true), &json!(true)));
}

#[test]
fn keys_and_texts_of_values_are_read_as_helm_reads_them_on_its_command_line() {
    for (key, given, path, read) in [
        ("dynamo-operator.natsAddr", json!("nats://x:4222"), "/dynamo-operator/natsAddr", json!("nats://x:4222")),
        ("a.b", json!("TRUE"), "/a/b", json!(true)),
        ("a.b", json!("false"), "/a/b", json!(false)),
        ("a.b", json!("null"), "/a", json!({"b": null})),
        ("a.b", json!("-12"), "/a/b", json!(-12)),
        ("a.b", json!("0"), "/a/b", json!(0)),
        ("a.b", json!("007"), "/a/b", json!("007")),
        ("a.b", json!("1.5"), "/a/b", json!("1.5")),
        ("a.b", json!(""), "/a/b", json!("")),
        ("a.b", json!(r"c\,d\\é=f"), "/a/b", json!(r"c,d\é=f")),
        ("a.b", json!(r"{c,1,d\,e}"), "/a/b", json!(["c", 1, "d,e"])),
        ("a.b", json!("{}"), "/a/b", json!([])),
        (r"a.x\.io/y.b", json!("c"), "/a", json!({"x.io/y": {"b": "c"}})),
        ("a[1].b", json!("c"), "/a", json!([null, {"b": "c"}])),
        ("a[0][1]", json!("c"), "/a", json!([[null, "c"]])),
        // What is no text stays as it is.
        ("a.b", json!(false), "/a/b", json!(false)),
        ("a.b", json!(7), "/a/b", json!(7)),
        ("a.b", json!(["1", {"c.d": 2}]), "/a/b", json!(["1", {"c.d": 2}])),
        ("a.b", json!({"c.d": "1"}), "/a/b", json!({"c.d": "1"})),
        // The developer has the last word.
        ("dynamo-operator.upgradeCRD", json!("true"), "/dynamo-operator/upgradeCRD", json!(true)),
    ] {
        let calls = evaluate(&Scene { settings: json!({"helm_values": {key: given}}), ..Scene::default() }).unwrap();
        assert_eq!(values(&calls).pointer(path), Some(&read), "{key}: {given}");
    }
}

#[test]
fn a_context_that_is_not_allowed_is_refused_before_anything_runs() {
    let error = |scene: Scene| evaluate(&scene).err().unwrap_or_else(|| panic!("not refused"));
    let production = Scene { context: "production", ..Scene::default() };
    assert!(error(production).contains("The context production is not allowed"));
    let remote = Scene { context: "dev", settings: json!({"allowed_contexts": ["dev"]}), ..Scene::default() };
    assert!(error(remote).contains("needs a registry"));
    let kind = Scene { arguments: json!({"k3d": true}), ..Scene::default() };
    assert!(error(kind).contains("the context is kind-dev"));
    let word = Scene { arguments: json!({"also": ["trigger"]}), ..Scene::default() };
    assert!(error(word).contains("unknown argument trigger"));
    let nowhere = Scene { context: "minikube", arguments: json!({"container_runtime": "podman"}), ..Scene::default() };
    assert!(error(nowhere).contains("podman brings images to a registry"));
    let live = Scene { arguments: json!({"live_update": true}), ..Scene::default() };
    assert!(error(live).contains("live_update needs images"));
    let misspelt = Scene { settings: json!({"registri": "x"}), ..Scene::default() };
    assert!(error(misspelt).contains("unknown key registri"));
}

#[test]
fn an_error_comes_before_the_first_command() {
    let source = std::fs::read_to_string(TILTFILE).unwrap();
    let check = source.find("\ncheck_context()\n").unwrap();
    let before = &source[..check];
    for runs_something in ["local(", "local_resource(", "k8s_yaml(", "docker_build(", "custom_build("] {
        assert!(!before.contains(runs_something), "{runs_something} before the check of the context");
    }
}

/// `tilt_config.json` at the root of the repository has the same keys as the one beside the Tiltfile, which wins.
#[test]
fn settings_at_the_root_and_in_the_environment_are_read() {
    let root = json!({
        "registry": "docker.io/me", "namespace": "gpu-operator", "registry_username": "me", "registry_password": "x",
    });
    let calls = evaluate(&Scene { root: root.clone(), ..Scene::default() }).unwrap();
    named(&calls, "custom_build", "docker.io/me/graph-controller");
    named(&calls, "local_resource", "registry-secret");
    assert!(words(&helm(&calls).args[0]).windows(2).any(|pair| pair == ["--namespace", "gpu-operator"]));
    let (arguments, environment) = (json!({"registry": "docker.io/other"}), json!({"NAMESPACE": "mine"}));
    let calls = evaluate(&Scene { root, arguments, environment, ..Scene::default() }).unwrap();
    named(&calls, "custom_build", "docker.io/other/graph-controller");
    assert!(words(&helm(&calls).args[0]).windows(2).any(|pair| pair == ["--namespace", "mine"]));
}

/// Tilt's own evaluator, where tilt and helm are installed: the file is right in each way of working, at the root of
/// the repository too.
#[test]
fn tilt_accepts_the_file() {
    let has = |program: &str| Command::new(program).arg("version").output().is_ok_and(|it| it.status.success());
    if !has("tilt") || !has("helm") {
        eprintln!("skipped: tilt and helm are not installed");
        return;
    }
    let kubeconfig = std::env::temp_dir().join(format!("tiltfile-{}", std::process::id()));
    let cluster = json!([{"name": "k3d-dynamo", "cluster": {"server": "http://127.0.0.1:1"}}]);
    let context = json!([{"name": "k3d-dynamo", "context": {"cluster": "k3d-dynamo", "user": "me"}}]);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "k3d-dynamo", "clusters": cluster, "contexts": context,
        "users": [{"name": "me", "user": {}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    for file in [TILTFILE, concat!(env!("CARGO_MANIFEST_DIR"), "/../../Tiltfile")] {
        for arguments in [&[][..], &["triggers"], &["--registry=localhost:5000/me", "--namespace=dev"]] {
            let mut tilt = Command::new("tilt");
            tilt.args(["alpha", "tiltfile-result", "--file", file, "--"]).args(arguments);
            tilt.env("KUBECONFIG", &kubeconfig).env("TILT_DISABLE_ANALYTICS", "1");
            let output = tilt.output().unwrap();
            assert!(output.status.success(), "{file} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    std::fs::remove_file(kubeconfig).unwrap();
}
