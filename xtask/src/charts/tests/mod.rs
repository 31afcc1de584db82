//! The chart, rendered by the pinned helm.

mod alerts;
mod alone;
mod definitions;
mod hardened;
mod independence;
mod long_names;
mod metrics;
mod neighbours;
mod nulls;
mod one_namespace;
mod placement;
mod reference;
mod rights;
mod second_operator;
mod write_sets;

use std::process::Command;

use repository::chart::{self, platform};
use serde_json::{Value, json};
use test_cluster::assets::{Assets, Tool};

/// Renders the chart as release `rel` in namespace `dyn`.
pub(super) fn render(values: &[&str]) -> Result<Vec<Value>, String> {
    chart::render("rel", "dyn", values).map_err(|error| format!("{error:#}"))
}

pub(super) const RESTRICTED: [&str; 1] = ["dynamo-operator.namespaceRestriction.enabled=true"];

/// A restricted install with the webhook configurations, which belong to the cluster.
pub(super) const WITH_WEBHOOKS: [&str; 2] = [RESTRICTED[0], "dynamo-operator.webhook-server.enabled=true"];

pub(super) fn names<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a str> {
    objects.iter().filter(|o| o["kind"] == kind).map(|o| o["metadata"]["name"].as_str().unwrap()).collect()
}

pub(super) fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}; there are {:?}", names(objects, kind)))
}

pub(super) fn containers(objects: &[Value]) -> impl Iterator<Item = (&Value, &Value)> {
    let pods = objects.iter().filter_map(|o| o.pointer("/spec/template/spec"));
    pods.flat_map(|pod| pod["containers"].as_array().unwrap().iter().map(move |container| (pod, container)))
}

#[test]
fn lint_is_content() {
    let helm = Assets::from_env().unwrap().find(Tool::Helm).unwrap();
    let output = Command::new(helm).args(["lint", "--strict"]).arg(platform()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_cluster_wide_install_has_each_program_with_its_own_account_and_role() {
    let objects = render(&[]).unwrap();
    let programs = ["graph-controller", "component-controller", "model-controller", "crds", "webhook-server"];
    let deployments: Vec<String> = programs.iter().map(|p| format!("rel-dynamo-operator-{p}")).collect();
    assert_eq!(names(&objects, "Deployment"), deployments);
    for name in &deployments {
        find(&objects, "ServiceAccount", name);
        assert!(!find(&objects, "ClusterRole", name)["rules"].as_array().unwrap().is_empty());
        assert_eq!(find(&objects, "ClusterRoleBinding", name)["subjects"][0]["name"], name.as_str());
    }
    assert_eq!(names(&objects, "ValidatingWebhookConfiguration"), ["rel-dynamo-operator-validating"]);
    assert_eq!(names(&objects, "MutatingWebhookConfiguration"), ["rel-dynamo-operator-mutating"]);
    find(&objects, "Service", "rel-dynamo-operator-webhook-service");
}

#[test]
fn no_program_reads_secrets_of_the_cluster_unless_values_enable_it() {
    let reads_secrets = |objects: &[Value]| {
        let roles = objects.iter().filter(|o| o["kind"] == "ClusterRole");
        let rules = roles.flat_map(|role| role["rules"].as_array().unwrap().clone());
        let of_all = |rule: &Value| rule["resourceNames"].is_null();
        let reads = |rule: &Value| rule["resources"].as_array().is_some_and(|all| all.contains(&"secrets".into()));
        rules.into_iter().any(|rule| reads(&rule) && of_all(&rule))
    };
    assert!(!reads_secrets(&render(&[]).unwrap()));
    assert!(reads_secrets(&render(&["dynamo-operator.imagePullSecretDiscovery.enabled=true"]).unwrap()));
}

#[test]
fn the_graph_controller_sees_the_mpi_key_and_the_webhook_server_makes_it() {
    for (kind, values) in
        [("ClusterRole", &["dynamo-operator.dynamo.mpiRun.secretName=key"][..]), ("Role", &WITH_WEBHOOKS)]
    {
        let objects = render(values).unwrap();
        let role = find(&objects, kind, "rel-dynamo-operator-graph-controller");
        let rules = role["rules"].as_array().unwrap().iter();
        let secrets: Vec<_> = rules.filter(|rule| rule["resources"] == json!(["secrets"])).collect();
        let name = if kind == "Role" { "mpi-run-ssh-secret" } else { "key" };
        assert_eq!(secrets[0]["resourceNames"], json!([name]), "{kind}");
        assert_eq!(secrets[0]["verbs"], json!(["get", "list", "watch"]), "{kind}");
        assert_eq!(secrets.len(), 1, "{kind}");
        let role = find(&objects, kind, "rel-dynamo-operator-webhook-server");
        let mut rules = role["rules"].as_array().unwrap().iter();
        let secrets = rules.find(|rule| rule["resources"] == json!(["secrets"])).unwrap();
        assert_eq!(secrets["resourceNames"], json!([name]), "{kind}");
        assert_eq!(secrets["verbs"], json!(["create", "patch"]), "{kind}");
    }
}

#[test]
fn images_are_looked_for_with_the_secret_and_the_authorities_that_are_named() {
    let builds = "dynamo-operator.component-controller.imageBuilds.registry";
    let given = [format!("{builds}.secretName=login"), format!("{builds}.caConfigMap=trusted")];
    for (kind, more) in [("ClusterRole", &[][..]), ("Role", &RESTRICTED)] {
        let values: Vec<&str> = given.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let objects = render(&values).unwrap();
        let role = find(&objects, kind, "rel-dynamo-operator-component-controller");
        let rules = role["rules"].as_array().unwrap().iter();
        let secrets: Vec<_> = rules.filter(|rule| rule["resources"] == json!(["secrets"])).collect();
        assert_eq!((secrets.len(), &secrets[0]["resourceNames"]), (1, &json!(["login"])), "{kind}");
        assert_eq!(secrets[0]["verbs"], json!(["get"]), "{kind}");
        let deployment = find(&objects, "Deployment", "rel-dynamo-operator-component-controller");
        let pod = &deployment["spec"]["template"]["spec"];
        let volume = pod["volumes"].as_array().unwrap().iter().find(|volume| volume["configMap"]["name"] == "trusted");
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        let mount = mounts.iter().find(|mount| mount["name"] == volume.unwrap()["name"]).unwrap();
        let file = json!({ "name": "DOCKER_REGISTRY_CA_FILE", "value": format!("{}/ca.crt", mount["mountPath"].as_str().unwrap()) });
        assert!(pod["containers"][0]["env"].as_array().unwrap().contains(&file), "{pod}");
    }
}

#[test]
fn the_graph_controller_binds_the_roles_of_its_release_and_no_other() {
    let binds = |objects: &[Value], kind: &str| {
        let role = find(objects, kind, "rel-dynamo-operator-graph-controller");
        let rules = role["rules"].as_array().unwrap().iter();
        rules.filter(|rule| rule["verbs"].as_array().unwrap().contains(&"bind".into())).cloned().collect::<Vec<_>>()
    };
    let objects = render(&[]).unwrap();
    let found = binds(&objects, "ClusterRole");
    let bound = |rule: &Value| (rule["resources"].clone(), rule["resourceNames"].clone());
    let discovery = json!(["dynamo-operator-discovery"]);
    assert_eq!((found.len(), &found[0]["resources"]), (2, &json!(["clusterroles"])));
    assert_eq!(bound(&found[1]), (json!(["clusterroles"]), discovery.clone()));
    let config = find(&objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"].as_str().unwrap();
    for name in found[0]["resourceNames"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        find(&objects, "ClusterRole", name);
        assert!(config.contains(&format!("ClusterRoleName: {name}\n")), "{name} is not in {config}");
    }
    assert_eq!(found[0]["resourceNames"].as_array().map(Vec::len), Some(3));
    let restricted = binds(&render(&RESTRICTED).unwrap(), "Role");
    assert_eq!(restricted.len(), 1, "the chart has bound the others: {restricted:?}");
    assert_eq!(bound(&restricted[0]), (json!(["roles"]), discovery));
}

#[test]
fn every_pod_keeps_to_the_restricted_standard() {
    let values = ["global.nats.install=true", "global.etcd.install=true"];
    for objects in [render(&values).unwrap(), render(&WITH_WEBHOOKS).unwrap()] {
        for (pod, container) in containers(&objects) {
            let name = &container["name"];
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{name}");
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{name}");
            let own = &container["securityContext"];
            assert_eq!(own["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(own["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(own["capabilities"]["drop"][0], "ALL", "{name}");
        }
    }
}

#[test]
fn a_restricted_install_has_no_right_in_the_cluster_but_to_name_its_ca() {
    let objects = render(&WITH_WEBHOOKS).unwrap();
    assert_eq!(names(&objects, "ClusterRole"), ["rel-dynamo-operator-webhook-server-dyn-injector"]);
    let external = [&WITH_WEBHOOKS[..], &["dynamo-operator.webhook.certificateSecret.external=true"]].concat();
    let objects = render(&external).unwrap();
    assert!(names(&objects, "ClusterRole").is_empty() && names(&objects, "ClusterRoleBinding").is_empty());
    let marking = &find(&objects, "Deployment", "rel-dynamo-operator-lease-scope")["spec"];
    // One renews the marker, and the other takes over.
    assert_eq!((&marking["replicas"], &marking["strategy"]["rollingUpdate"]["maxUnavailable"]), (&json!(2), &json!(0)));
    find(&objects, "PodDisruptionBudget", "rel-dynamo-operator-lease-scope");
    for account in ["planner-serviceaccount", "epp-serviceaccount", "dgdr-profiling-job"] {
        find(&objects, "ServiceAccount", account);
    }
    let configuration = find(&objects, "ValidatingWebhookConfiguration", "rel-dynamo-operator-validating-dyn");
    let selector = &configuration["webhooks"][0]["namespaceSelector"]["matchLabels"];
    assert_eq!(selector["kubernetes.io/metadata.name"], "dyn");
    let config = find(&objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"].as_str().unwrap();
    assert!(config.contains("restricted: \"dyn\"") && config.contains("owner: \"dyn/rel\""), "{config}");
}

#[test]
fn a_target_namespace_of_its_own_gets_the_roles() {
    let values = [&RESTRICTED[..], &["dynamo-operator.namespaceRestriction.targetNamespace=team"]].concat();
    let objects = render(&values).unwrap();
    let role = find(&objects, "Role", "rel-dynamo-operator-graph-controller");
    assert_eq!(role["metadata"]["namespace"], "team");
    let accounts = objects.iter().filter(|o| o["kind"] == "ServiceAccount" && o["metadata"]["namespace"] == "team");
    assert_eq!(accounts.count(), 4, "components, planner, picker and profiler run where the graphs are");
}

#[test]
fn values_of_one_program_reach_it_and_no_other() {
    let builds = "dynamo-operator.component-controller.imageBuilds";
    let servers = "dynamo-operator.graph-controller.infrastructure";
    let values = [
        format!("{builds}.engine=buildkit"),
        format!("{builds}.concurrency=2"),
        format!("{builds}.timeout=90m"),
        format!("{builds}.maxTimeout=12h"),
        format!("{builds}.registry.secure=false"),
        format!("{builds}.registry.insecureHosts=b.io:5000"),
    ];
    let secret = [format!("{servers}.secretName=servers"), format!("{servers}.secretNamespace=team")];
    let values: Vec<&str> = values.iter().chain(&secret).map(String::as_str).collect();
    let given = |objects: &[Value]| {
        let names = ["DYNAMO_IMAGE_BUILD_", "DOCKER_REGISTRY_"];
        let found = containers(objects).flat_map(|(_, container)| {
            let env = container["env"].as_array().cloned().unwrap_or_default();
            let ours =
                env.into_iter().filter(|one| names.iter().any(|name| one["name"].as_str().unwrap().starts_with(name)));
            ours.map(|one| format!("{} {}={}", container["name"], one["name"], one["value"])).collect::<Vec<_>>()
        });
        found.collect::<Vec<_>>().join("\n").replace('"', "")
    };
    let objects = render(&values).unwrap();
    let expected = [
        "DOCKER_REGISTRY_INSECURE_HOSTS=b.io:5000",
        "DOCKER_REGISTRY_SECURE=false",
        "DYNAMO_IMAGE_BUILD_CONCURRENCY=2",
        "DYNAMO_IMAGE_BUILD_ENGINE=buildkit",
        "DYNAMO_IMAGE_BUILD_MAX_TIMEOUT=12h",
        "DYNAMO_IMAGE_BUILD_TIMEOUT=90m",
    ];
    assert_eq!(given(&objects), expected.map(|one| format!("component-controller {one}")).join("\n"));
    let config = find(&objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"].as_str().unwrap();
    assert!(config.contains("secretName: \"servers\"\n  secretNamespace: \"team\"\n"), "{config}");
    let role = find(&objects, "Role", "rel-dynamo-operator-graph-controller-infrastructure");
    assert_eq!(role["metadata"]["namespace"], "team");
    assert_eq!(
        role["rules"],
        json!([
            { "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["servers"], "verbs": ["get"] }
        ])
    );
    // Without them, programs keep to their own defaults and read no such Secret.
    let objects = render(&[]).unwrap();
    assert_eq!(given(&objects), "");
    assert!(!names(&objects, "Role").contains(&"rel-dynamo-operator-graph-controller-infrastructure"));
}

#[test]
fn documented_commands_have_their_effect() {
    let values = [
        "dynamo-operator.controllerManager.manager.image.repository=example.com/team",
        "dynamo-operator.controllerManager.manager.image.tag=9.9.9",
        "dynamo-operator.natsAddr=nats://elsewhere:4222",
        "dynamo-operator.discoveryBackend=etcd",
        "dynamo-operator.controllerManager.replicas=2",
    ];
    let objects = render(&values).unwrap();
    let images: Vec<_> = containers(&objects).map(|(_, container)| container["image"].as_str().unwrap()).collect();
    assert!(images.contains(&"example.com/team/graph-controller:9.9.9"), "{images:?}");
    assert!(images.iter().all(|image| image.ends_with(":9.9.9")), "{images:?}");
    let config = find(&objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"].as_str().unwrap();
    assert!(config.contains("natsAddress: \"nats://elsewhere:4222\"") && config.contains("backend: etcd"), "{config}");
    assert_eq!(find(&objects, "Deployment", "rel-dynamo-operator-model-controller")["spec"]["replicas"], 2);
    find(&objects, "PodDisruptionBudget", "rel-dynamo-operator-model-controller");
}

/// Pods that the graph controller makes run the image that the chart names to it, whatever its own Deployment runs.
#[test]
fn the_graph_controller_gets_its_image_for_pods_that_it_creates() {
    let values = [
        "dynamo-operator.controllerManager.manager.image.repository=example.com/team/controller",
        "dynamo-operator.controllerManager.manager.image.tag=abc123-dirty",
        "dynamo-operator.graph-controller.image.pullPolicy=Always",
    ];
    let objects = render(&values).unwrap();
    let given = |flag: &str| {
        let args = containers(&objects).flat_map(|(_, container)| container["args"].as_array().unwrap());
        let found: Vec<&str> = args.filter_map(|arg| arg.as_str()?.strip_prefix(flag)).collect();
        found.join(",")
    };
    assert_eq!(given("--operator-image="), "example.com/team/controller/graph-controller:abc123-dirty");
    assert_eq!(given("--operator-image-pull-policy="), "Always");
}

#[test]
fn every_program_understands_the_configuration_of_every_install() {
    let mesh = ["dynamo-operator.dynamo.serviceMesh.enabled=true", "dynamo-operator.checkpoint.enabled=true"];
    let schedulers = ["global.kai-scheduler.enabled=true", "global.grove.enabled=true", "global.nats.install=true"];
    let receiver = [
        "dynamo-operator.notifications.receivers[0].name=a",
        "dynamo-operator.notifications.receivers[0].urlFile=/etc/notifications/url",
        "dynamo-operator.notifications.receivers[0].format=Slack",
    ];
    for values in [&[][..], &RESTRICTED, &mesh, &schedulers, &receiver] {
        let objects = render(values).unwrap();
        let config = find(&objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"].clone();
        let (_, warnings) = controller_kit::settings::parse(config.as_str().unwrap()).unwrap();
        assert!(warnings.is_empty(), "{values:?}: {warnings:?}");
    }
}

#[test]
fn what_cannot_work_is_refused_with_the_remedy() {
    for (values, expected) in [
        (
            &["dynamo-operator.namespaceRestriction.enabled=true", "dynamo-operator.upgradeCRD=true"][..],
            "leave dynamo-operator.upgradeCRD out",
        ),
        (&["dynamo-operator.discoveryBackend=consul"], "use kubernetes or etcd"),
        (&["dynamo-operator.webhook.namespaceSelector.matchLabels.a=b"], "has to be empty"),
        (&["dynamo-operator.controllerManager.leaderElection.id=mine"], "must stay empty in a cluster-wide install"),
        (
            &["dynamo-operator.controllerManager.leaderElection.namespace=dyn"],
            "must not be the namespace of the release",
        ),
        (&["dynamo-operator.nats.enabled=true"], "use global.nats.install"),
        (&["global.grove.install=true"], "set global.grove.enabled=true"),
        (&["global.kai-scheduler.enabled=true", "global.volcano-scheduler.enabled=true"], "exclude each other"),
    ] {
        let rejection = render(values).err().unwrap_or_else(|| panic!("{values:?} is accepted"));
        assert!(rejection.contains(expected), "{values:?}: {rejection}");
    }
}

#[test]
fn schemas_and_readme_are_those_of_the_values() {
    let files = super::values::files(&platform()).unwrap();
    assert!(files.iter().any(|(path, _)| path.ends_with("charts/crds/README.md")), "the chart of each program has one");
    for (path, expected) in files {
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{}: run `cargo xtask charts generate`", path.display());
    }
}

#[test]
fn a_value_of_another_type_is_refused_with_its_place() {
    for (value, place) in [
        ("dynamo-operator.controllerManager.replicas=two", "/controllerManager/replicas"),
        ("dynamo-operator.graph-controller.concurrency=many", "/concurrency"),
        ("global.nats.install=maybe", "/global/nats/install"),
        ("dynamo-operator.imagePullSecrets=mine", "/imagePullSecrets"),
    ] {
        let rejection = render(&[value]).err().unwrap_or_else(|| panic!("{value} is accepted"));
        assert!(rejection.contains(place), "{value}: {rejection}");
    }
}

/// In a file of values, a tag of digits is a number, and a large one.
/// A tag can be moved; a digest names one content.
#[test]
fn an_image_may_be_named_by_its_digest() {
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let (graphs, nats, etcd) = ("dynamo-operator.graph-controller.image.tag", "nats.image.tag", "etcd.image.tag");
    let tags = [graphs, nats, etcd].map(|value| format!("{value}={digest}"));
    let servers = ["global.nats.install=true", "global.etcd.install=true"];
    let objects = render(&[&servers[..], &tags.each_ref().map(String::as_str)].concat()).unwrap();
    let images: Vec<&str> = containers(&objects).map(|(_, container)| container["image"].as_str().unwrap()).collect();
    for name in ["graph-controller", "nats", "etcd"] {
        let named = format!("{name}@{digest}");
        assert!(images.iter().any(|image| image.ends_with(&named)), "{name}: {images:?}");
    }
}

#[test]
fn a_tag_may_look_like_a_number() {
    let helm = Assets::from_env().unwrap().find(Tool::Helm).unwrap();
    let tag = "dynamo-operator.controllerManager.manager.image.tag";
    for (how, given, expected) in [
        ("--set", "9", "9"),
        ("--set", "20260822", "20260822"),
        ("--set-json", "20260822", "20260822"),
        ("--set-json", "1.5", "1.5"),
    ] {
        let mut command = Command::new(&helm);
        command.args(["template", "rel"]).arg(platform()).args([chart::KUBE_VERSION, how, &format!("{tag}={given}")]);
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let images: Vec<_> = text.lines().filter_map(|line| line.trim().strip_prefix("image: ")).collect();
        assert_eq!(images.len(), 5, "{how} {given}: {images:?}");
        assert!(images.iter().all(|image| image.ends_with(&format!(":{expected}"))), "{how} {given}: {images:?}");
    }
}
