//! Lookups of the chart in the cluster during rendering, on a real API server.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Output},
};

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ServiceAccount, rbac::v1::ClusterRole},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use test_cluster::{
    Cluster, Controllers, Options, TestNamespace,
    assets::{Assets, Tool},
};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/helm/dynamo-platform");

/// Renders the chart, with the answers of a cluster if one is given.
fn rendered(release: &str, kubeconfig: Option<&Path>) -> Output {
    let mut helm = Command::new(Assets::from_env().unwrap().find(Tool::Helm).unwrap());
    helm.args(["template", release, CHART, "--namespace", "dynamo-system", "--kube-version", "1.36.0"]);
    if let Some(path) = kubeconfig {
        helm.arg("--dry-run=server").arg("--kubeconfig").arg(path);
    }
    helm.output().unwrap()
}

/// In the reference, a release whose name holds that of the operator is taken for another one when it is upgraded.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_install_for_the_whole_cluster_is_refused_and_an_upgrade_is_not() {
    let access = test_cluster::shared(&[]).await.unwrap();
    let release = "our-dynamo-operator";
    let text = String::from_utf8(rendered(release, None).stdout).unwrap();
    let objects = text.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    let of_the_controller = |object: &Value| {
        object["kind"] == "ClusterRole"
            && object["metadata"]["labels"]["app.kubernetes.io/component"] == "graph-controller"
    };
    let installed: Vec<Value> = objects.filter(of_the_controller).take(1).collect();
    let name = installed[0]["metadata"]["name"].as_str().unwrap().to_owned();
    access.apply(&installed).await.unwrap();

    let (upgrade, second) =
        (rendered(release, Some(access.kubeconfig())), rendered("another", Some(access.kubeconfig())));
    let roles: Api<ClusterRole> = Api::all(access.client().unwrap());
    roles.delete(&name, &DeleteParams::default()).await.unwrap();

    assert!(upgrade.status.success(), "{}", String::from_utf8_lossy(&upgrade.stderr));
    let rejection = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        !second.status.success() && rejection.contains("has installed the operator for the whole cluster"),
        "{rejection}"
    );
    assert!(rejection.contains(release), "{rejection}");
}

/// The definitions as a release of their own; Helm keeps them when it goes.
#[tokio::test(flavor = "multi_thread")]
async fn the_definitions_are_installed_alone_and_stay() {
    let cluster = Cluster::start(Options { controllers: Controllers::Off, ..Options::default() }).await.unwrap();
    let helm = |args: &[&str]| {
        let mut helm = Command::new(Assets::from_env().unwrap().find(Tool::Helm).unwrap());
        let output = helm.args(args).arg("--kubeconfig").arg(cluster.kubeconfig()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/helm/dynamo-crds");
    helm(&["install", "dynamo-crds", chart, "--namespace", "default"]);
    helm(&["upgrade", "dynamo-crds", chart, "--namespace", "default", "--set", "webhookService.namespace=team"]);
    helm(&["uninstall", "dynamo-crds", "--namespace", "default"]);
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client().unwrap());
    let graphs = definitions.get("dynamographdeployments.nvidia.com").await.unwrap();
    let webhook = graphs.spec.conversion.unwrap().webhook.unwrap();
    assert_eq!(webhook.client_config.unwrap().service.unwrap().namespace, "team");
}

/// Each program is a release of its own; one name makes them one install. One is upgraded, rolled back and removed
/// alone.
#[tokio::test(flavor = "multi_thread")]
async fn each_program_is_installed_alone() {
    let cluster = Cluster::start(Options { controllers: Controllers::Off, ..Options::default() }).await.unwrap();
    let helm = |args: &[&str]| {
        let mut helm = Command::new(Assets::from_env().unwrap().find(Tool::Helm).unwrap());
        helm.args(args).args(["--namespace", "default", "--kubeconfig"]).arg(cluster.kubeconfig());
        let output = helm.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let chart = |program: &str| format!("{CHART}/charts/dynamo-operator/charts/{program}");
    let programs =
        ["crds", "graph-controller", "component-controller", "model-controller", "webhook-server", "lease-scope"];
    for program in programs {
        let values = format!("fullnameOverride=ours,namespaceRestriction.enabled={}", program != "crds");
        helm(&["install", program, &chart(program), "--set", &values]);
    }
    let deployments: Api<Deployment> = Api::namespaced(cluster.client().unwrap(), "default");
    let images = async || {
        let found = deployments.list(&ListParams::default()).await.unwrap();
        let image = |deployment: Deployment| {
            let containers = deployment.spec.unwrap().template.spec.unwrap().containers;
            let tag = containers[0].image.as_deref().unwrap().rsplit_once(':').unwrap().1.to_owned();
            (deployment.metadata.name.unwrap().trim_start_matches("ours-").to_owned(), tag)
        };
        found.items.into_iter().map(image).collect::<BTreeMap<_, _>>()
    };
    let mut expected: BTreeMap<_, _> =
        programs.into_iter().map(|program| (program.to_owned(), "0.1.0".to_owned())).collect();
    assert_eq!(images().await, expected);

    let models = "model-controller";
    helm(&["upgrade", models, &chart(models), "--reset-then-reuse-values", "--set", "image.tag=0.1.1"]);
    expected.insert(models.to_owned(), "0.1.1".to_owned());
    assert_eq!(images().await, expected);
    helm(&["rollback", models]);
    expected.insert(models.to_owned(), "0.1.0".to_owned());
    assert_eq!(images().await, expected);
    helm(&["uninstall", models]);
    expected.remove(models);
    assert_eq!(images().await, expected);
    let others = deployments.list(&ListParams::default()).await.unwrap();
    assert!(others.iter().all(|deployment| deployment.metadata.generation == Some(1)));
}

/// Runs `helm install` for one namespace as a dry run. It fails if an object of others has a name that it needs.
fn install(release: &str, namespace: &str, kubeconfig: &Path) -> Output {
    let mut helm = Command::new(Assets::from_env().unwrap().find(Tool::Helm).unwrap());
    helm.args(["install", release, CHART, "--namespace", namespace, "--dry-run=server", "--kubeconfig"]);
    helm.arg(kubeconfig).args(["--set", "dynamo-operator.namespaceRestriction.enabled=true"]).output().unwrap()
}

/// An operator for the whole cluster makes the accounts of pods in the namespaces of graphs. In the reference, such a
/// namespace cannot be handed to an install of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_whose_accounts_another_operator_has_made_can_be_handed_over() {
    let access = test_cluster::shared(&[]).await.unwrap();
    let handed = TestNamespace::new(access, "handed").await.unwrap();
    let namespace = handed.name();
    let accounts: Api<ServiceAccount> = Api::namespaced(access.client().unwrap(), namespace);
    let account = |name: &str, annotations: Value| {
        let managed = if annotations.is_null() { "dynamo-operator" } else { "Helm" };
        let labels = json!({ "app.kubernetes.io/managed-by": managed });
        let metadata = json!({ "name": name, "namespace": namespace, "labels": labels, "annotations": annotations });
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata })
    };
    let of_release =
        |release: &str| json!({ "meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace });
    access
        .apply(&[
            account("planner-serviceaccount", Value::Null),
            account("epp-serviceaccount", of_release("gone")),
            account("dgdr-profiling-job", of_release("rel")),
        ])
        .await
        .unwrap();

    let output = install("rel", namespace, access.kubeconfig());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // What to do next, which Helm shows of the chart that is installed, and of no chart in it.
    let notes = text.split_once("\nNOTES:\n").map(|(_, notes)| notes).unwrap_or_default();
    assert!(
        notes.contains(&format!("serves the namespace {namespace}.")) && notes.contains("kubectl rollout"),
        "{text}"
    );
    let makes = |name: &str| text.contains(&format!("kind: ServiceAccount\nmetadata:\n  name: {name}\n"));
    assert!(!makes("planner-serviceaccount") && !makes("epp-serviceaccount"), "they stay as they are: {text}");
    assert!(makes("dgdr-profiling-job"), "it is what an earlier install of this release has left: {text}");

    // Where there is none, it is made, and stays when the release goes.
    accounts.delete("planner-serviceaccount", &DeleteParams::default()).await.unwrap();
    let text = String::from_utf8(install("rel", namespace, access.kubeconfig()).stdout).unwrap();
    let planner =
        text.split("\n---\n").find(|one| one.contains("ServiceAccount\nmetadata:\n  name: planner-serviceaccount\n"));
    assert!(planner.unwrap().contains("helm.sh/resource-policy: keep"), "{planner:?}");
}

/// Pods of graphs have their rights by the role, so it outlives its release, and the next one uses it as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_a_release_has_left_serves_the_next_one() {
    let cluster = Cluster::start(Options { controllers: Controllers::Off, ..Options::default() }).await.unwrap();
    let chart = format!("{CHART}/charts/dynamo-operator/charts/graph-controller");
    let helm = |args: &[&str]| {
        let mut helm = Command::new(Assets::from_env().unwrap().find(Tool::Helm).unwrap());
        helm.args(args).arg("--kubeconfig").arg(cluster.kubeconfig());
        let output = helm.output().unwrap();
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    let roles: Api<ClusterRole> = Api::all(cluster.client().unwrap());
    let name = "dynamo-operator-discovery";
    helm(&["install", "one", &chart, "--namespace", "default"]).unwrap();
    helm(&["uninstall", "one", "--namespace", "default"]).unwrap();
    let left = roles.get(name).await.unwrap();
    helm(&["install", "two", &chart, "--namespace", "other", "--create-namespace"]).unwrap();
    assert_eq!(roles.get(name).await.unwrap(), left);

    let edit = async |patch: Value| {
        roles.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    edit(json!({ "rules": [] })).await;
    let upgrade = ["upgrade", "two", &chart, "--namespace", "other"];
    let rejection = helm(&upgrade).unwrap_err();
    let remedy = format!(
        "kubectl annotate --overwrite clusterrole {name} meta.helm.sh/release-name=two meta.helm.sh/release-namespace=other"
    );
    assert!(rejection.contains(&remedy), "{rejection}");
    let annotations = json!({ "meta.helm.sh/release-name": "two", "meta.helm.sh/release-namespace": "other" });
    edit(json!({ "metadata": { "annotations": annotations } })).await;
    helm(&upgrade).unwrap();
    assert_eq!(roles.get(name).await.unwrap().rules, left.rules);
}
