//! The program `crds`, as its users run it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use test_cluster::{Cluster, Controllers, Options};

fn crds() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crds"));
    command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn apply(kubeconfig: &Path) -> Command {
    let mut command = crds();
    command.arg("apply").arg("--kubeconfig").arg(kubeconfig);
    command
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Exit code and standard error of a run that fails.
fn failure(mut command: Command) -> (i32, String) {
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn print_gives_the_same_in_every_form() {
    let expected: Vec<Value> = api_types::crds::all().unwrap().iter().map(|crd| json!(crd)).collect();
    let typed = |value: Value| json!(serde_json::from_value::<CustomResourceDefinition>(value).unwrap());

    let yaml = stdout(&crds().arg("print").output().unwrap());
    let documents: Vec<Value> = serde_saphyr::from_multiple(&yaml).unwrap();
    assert_eq!(documents.into_iter().map(typed).collect::<Vec<_>>(), expected);

    let list = stdout(&crds().args(["print", "--format", "json"]).output().unwrap());
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("v1"), &json!("List")));
    assert_eq!(list["items"], json!(expected));

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crds-print");
    for format in ["yaml", "json"] {
        stdout(&crds().args(["print", "--format", format, "--dir"]).arg(&folder).output().unwrap());
    }
    for crd in &expected {
        let name = crd["spec"]["names"]["plural"].as_str().unwrap();
        for format in ["yaml", "json"] {
            let text = std::fs::read_to_string(folder.join(format!("nvidia.com_{name}.{format}"))).unwrap();
            assert_eq!(typed(serde_saphyr::from_str(&text).unwrap()), *crd, "{name}.{format}");
        }
    }
}

#[test]
fn mistakes_are_told_apart_by_exit_code_and_text() {
    let (code, text) = failure({
        let mut command = crds();
        command.args(["print", "--format", "toml"]);
        command
    });
    assert_eq!(code, 2, "{text}");

    let (code, text) = failure(apply(Path::new("/nowhere/kubeconfig")));
    assert!(code == 1 && text.contains("cannot read the kubeconfig /nowhere/kubeconfig"), "{text}");

    // A port that nobody listens on: taken and given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let kubeconfig = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unreachable.kubeconfig");
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{ "name": "u", "user": {} }],
        "clusters": [{ "name": "s", "cluster": { "server": format!("http://127.0.0.1:{port}") } }],
        "contexts": [{ "name": "c", "context": { "cluster": "s", "user": "u" } }],
    });
    std::fs::write(&kubeconfig, content.to_string()).unwrap();
    let (code, text) = failure(apply(&kubeconfig));
    assert!(code == 1 && text.contains("cannot apply dynamographdeployments.nvidia.com"), "{text}");
}

/// A definition of somebody else that already has the kind of our graphs.
fn rival() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "rivals.nvidia.com" },
        "spec": {
            "group": "nvidia.com",
            "scope": "Namespaced",
            "names": { "plural": "rivals", "kind": "DynamoGraphDeployment" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    }))
    .unwrap()
}

async fn versions(api: &Api<CustomResourceDefinition>) -> Vec<(String, Option<String>)> {
    let crds = api.list(&ListParams::default()).await.unwrap();
    crds.iter().map(|crd| (crd.name_any(), crd.resource_version())).collect()
}

async fn is_established(api: &Api<CustomResourceDefinition>, name: &str) -> bool {
    let crd = api.get_opt(name).await.unwrap();
    let conditions = crd.and_then(|crd| crd.status).and_then(|status| status.conditions).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == "Established" && c.status == "True")
}

/// The life of an installation on a cluster of its own: refused, installed by several at once, left alone, repaired.
#[tokio::test]
async fn apply_installs_once_and_repairs() {
    let cluster = Cluster::start(Options { controllers: Controllers::Off, ..Options::default() }).await.unwrap();
    let client: Client = cluster.client().unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client);
    let kubeconfig = cluster.kubeconfig().to_owned();

    api.create(&PostParams::default(), &rival()).await.unwrap();
    wait(async || is_established(&api, "rivals.nvidia.com").await).await;
    let (code, text) = failure(apply(&kubeconfig));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("dynamographdeployments.nvidia.com was applied but is not served"), "{text}");
    assert!(text.contains("already in use"), "{text}");
    for crd in api.list(&ListParams::default()).await.unwrap() {
        api.delete(&crd.name_any(), &DeleteParams::default()).await.unwrap();
    }
    wait(async || versions(&api).await.is_empty()).await;

    let at_once: Vec<_> = (0..4).map(|_| apply(&kubeconfig).spawn().unwrap()).collect();
    for child in at_once {
        stdout(&child.wait_with_output().unwrap());
    }
    let installed = versions(&api).await;
    let count = api_types::crds::all().unwrap().len();
    assert_eq!(installed.len(), count, "{installed:?}");
    for (name, _) in &installed {
        assert!(is_established(&api, name).await, "{name}");
    }

    let again = stdout(&apply(&kubeconfig).output().unwrap());
    assert!(again.lines().count() == count && again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    assert_eq!(versions(&api).await, installed, "nothing was written");

    let mut changed = api.get("dynamographdeployments.nvidia.com").await.unwrap();
    changed.spec.versions[0].schema = rival().spec.versions[0].schema.clone();
    api.replace("dynamographdeployments.nvidia.com", &PostParams::default(), &changed).await.unwrap();
    let repaired = stdout(&apply(&kubeconfig).output().unwrap());
    assert!(repaired.contains("dynamographdeployments.nvidia.com updated\n"), "{repaired}");
    let schema = api.get("dynamographdeployments.nvidia.com").await.unwrap().spec.versions[0].schema.clone();
    assert_eq!(json!(schema), json!(api_types::crds::all().unwrap()[0].spec.versions[0].schema));
}

async fn wait(condition: impl AsyncFn() -> bool) {
    let what = "the API server to follow";
    test_cluster::wait::until(what, Duration::from_secs(30), async || -> Result<(), &str> {
        if condition().await { Ok(()) } else { Err("not yet") }
    })
    .await
    .unwrap();
}
