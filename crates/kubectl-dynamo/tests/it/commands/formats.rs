//! All commands: their formats, and the exit codes that the docs have.

use std::{collections::BTreeSet, process::Command};

use clap::CommandFactory;
use kubectl_dynamo::KubectlDynamoArgs;
use serde_json::{Value, json};

use super::harness::Team;

/// Commands with `--output` and the arguments of a run.
const FORMATTED: [(&str, &[&str]); 8] = [
    ("why", &["why", "chat"]),
    ("tree", &["tree", "chat"]),
    ("status", &["status", "chat"]),
    ("status", &["status"]),
    ("top", &["top", "chat"]),
    ("history", &["history", "chat"]),
    ("doctor", &["doctor"]),
    ("plan", &["plan", "chat"]),
];

/// Runs the program; its exit code and standard output.
fn program(team: &Team, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-dynamo"));
    command.arg("--kubeconfig").arg(team.access.kubeconfig()).args(["-n", &team.namespace]).args(args);
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn every_command_with_a_format_has_all_of_them() {
    let team = Team::new("plugin-formats").await;
    team.graph(false, json!({ "limits": { "nvidia.com/gpu": "4000" } })).await;
    team.causes_with("chat", "NoGpu").await;
    let cli = KubectlDynamoArgs::command();
    let with_format = cli.get_subcommands().filter(|one| one.get_arguments().any(|arg| arg.get_id() == "output"));
    let with_format: BTreeSet<_> = with_format.map(clap::Command::get_name).collect();
    assert_eq!(with_format, FORMATTED.map(|(name, _)| name).into());
    let page = include_str!("../../../../../docs/kubectl-dynamo.md");
    let listed = "`why`, `tree`, `status`, `top`, `history`, `doctor` and `plan` have `-o`";
    assert!(page.contains(listed), "the page does not list them");
    for (_, args) in FORMATTED {
        let run = |format: &str| program(&team, &[args, &["-o", format]].concat());
        let (code, table) = run("table");
        assert_eq!(program(&team, args).0, code, "{args:?}");
        assert!(table.lines().count() > 0, "{args:?}");
        let (wide_code, wide) = run("wide");
        assert!(wide_code == code && wide.lines().count() > 0, "{args:?}: {wide}");
        let (json_code, text) = run("json");
        let json: Value = serde_json::from_str(&text).unwrap();
        let (yaml_code, text) = run("yaml");
        let yaml: Value = serde_saphyr::from_str(&text).unwrap();
        let (name_code, names) = run("name");
        assert_eq!((json_code, yaml_code, name_code), (code, code, code), "{args:?}");
        assert_eq!(keys(&json), keys(&yaml), "{args:?}");
        assert!(names.lines().count() > 0 && names.lines().all(|line| !line.is_empty()), "{args:?}: {names}");
        let are_objects = ["why", "tree", "status", "plan"].contains(&args[0]);
        let is_object = |line: &str| {
            let (kind, name) = line.split_once('/').unwrap_or_default();
            !kind.is_empty() && !name.is_empty() && line == line.to_lowercase() && !line.contains(' ')
        };
        assert!(!are_objects || names.lines().all(is_object), "{args:?}: {names}");
    }
}

/// The shape of data: keys of objects, without values, which may change between two runs.
fn keys(data: &Value) -> Value {
    match data {
        Value::Object(all) => all.iter().map(|(key, value)| (key.clone(), keys(value))).collect(),
        Value::Array(all) => all.first().map_or(json!([]), |first| json!([keys(first)])),
        _ => Value::Null,
    }
}

#[tokio::test]
async fn every_command_has_the_exit_codes_of_the_docs() {
    let team = Team::new("plugin-codes").await;
    assert_eq!(program(&team, &["plan", "--all"]).0, 0, "a namespace without graphs");
    team.graph(true, json!({})).await;
    let file = team.folder().join("graph.yaml").to_string_lossy().into_owned();
    let text = "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {name: other}\nspec: {}\n";
    std::fs::write(&file, text).unwrap();
    let archive = team.folder().join("chat.tar.gz").to_string_lossy().into_owned();
    let mut covered = BTreeSet::new();
    for (code, args) in [
        (0, &["why", "chat"][..]),
        (2, &["why", "nothing"]),
        (2, &["why", "pod/chat"]),
        (0, &["tree", "chat"]),
        (2, &["tree", "nothing"]),
        (0, &["status", "chat"]),
        (0, &["status"]),
        (2, &["status", "nothing"]),
        (2, &["status", "chat", "--all-namespaces"]),
        (0, &["top", "chat"]),
        (2, &["top", "nothing"]),
        (0, &["history", "chat"]),
        (2, &["history", "nothing"]),
        (2, &["history"]),
        // No kubelet answers for a fake node.
        (1, &["logs", "chat"]),
        (2, &["logs", "chat", "nothing"]),
        (1, &["scale", "chat", "decode=2"]),
        (2, &["scale", "chat", "decode"]),
        (2, &["scale", "chat", "nothing=1"]),
        (1, &["rollout", "resume", "chat"]),
        (0, &["rollout", "pause", "chat"]),
        (1, &["rollout", "pause", "chat"]),
        (0, &["rollout", "resume", "chat"]),
        (1, &["rollout", "undo", "chat"]),
        (0, &["rollout", "step", "chat", "50%"]),
        (1, &["rollout", "step", "chat", "half"]),
        (0, &["rollout", "step", "chat", "none"]),
        (0, &["rollout", "status", "chat", "--timeout", "0"]),
        (2, &["rollout", "status", "nothing"]),
        (0, &["rollout", "restart", "chat"]),
        // No controller acts on it.
        (1, &["rollout", "status", "chat", "--timeout", "0"]),
        (2, &["rollout", "restart", "nothing"]),
        (1, &["doctor"]),
        (0, &["bundle", "chat", "--file", &archive]),
        (2, &["bundle", "chat", "--file", &archive]),
        (0, &["convert", "-f", &file]),
        (2, &["convert", "-f", "no-such-file"]),
        (2, &["convert", "-f", &file, "--to", "v9"]),
        (1, &["plan", "chat"]),
        (1, &["plan", "chat", "--image", "decode=r/engine:2"]),
        (2, &["plan", "nothing"]),
        (2, &["plan", "chat", "--image", "nothing=r/engine:2"]),
        (3, &["plan", "chat", "--set", "components[decode].typo=1"]),
        (0, &["completion", "bash"]),
        (2, &["completion", "sh"]),
        (2, &["no-such-command"]),
        (2, &["--context", "nothing", "status"]),
    ] {
        let (found, output) = program(&team, args);
        assert_eq!(found, code, "{args:?}: {output}");
        covered.insert(args[0]);
    }
    let cli = KubectlDynamoArgs::command();
    let missed: Vec<_> =
        cli.get_subcommands().map(clap::Command::get_name).filter(|one| !covered.contains(one)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
