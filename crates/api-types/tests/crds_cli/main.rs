//! The program `crds`, as its users run it.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod apply;
#[path = "../support/converter.rs"]
mod converter;
mod every_kind;
mod faults;
mod migration;
mod releases;
mod serve;

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

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
fn errors_differ_by_exit_code_and_text() {
    let (code, text) = failure({
        let mut command = crds();
        command.args(["print", "--format", "toml"]);
        command
    });
    assert_eq!(code, 2, "{text}");

    let (code, text) = failure(apply(Path::new("/nowhere/kubeconfig")));
    assert!(code == 1 && text.contains("cannot read the kubeconfig /nowhere/kubeconfig"), "{text}");

    // A free port: taken and given back.
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
