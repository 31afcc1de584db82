//! A shell with kubectl and the plugin, a cluster of its own, and the controllers of the operator in it.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use controller_kit::{scope::Fence, settings, store::Scope};
use repository::chart;
use serde_json::{Value, json};
use test_cluster::{
    Cluster, Options,
    assets::{Assets, Tool},
    wait,
};
use tokio::task::spawn_blocking;

use super::harness::LIMIT;
use crate::{controllers::Controllers, definitions};

/// Namespace of the graph.
pub const NAMESPACE: &str = "team-a";
/// Namespace of the operator.
const SYSTEM: &str = "dynamo-system";

/// A shell. Its folder goes with the cluster.
pub struct Shell {
    folder: PathBuf,
    _controllers: Controllers,
    _cluster: Cluster,
}

impl Shell {
    /// Starts a cluster with the objects of the chart, and the controllers within this process: pods on fake nodes run
    /// nothing. Nothing would answer webhooks, and there are none.
    pub async fn start() -> Self {
        let cluster = Cluster::start(Options { crds: definitions::own(), ..Options::with_nodes(1) }).await.unwrap();
        for namespace in [NAMESPACE, SYSTEM] {
            let manifest = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
            cluster.apply(&[manifest]).await.unwrap();
        }
        let rendered = spawn_blocking(|| chart::render("dynamo", SYSTEM, &[])).await.unwrap().unwrap();
        let is_webhook = |object: &Value| object["kind"].as_str().unwrap().ends_with("WebhookConfiguration");
        let install: Vec<Value> = rendered.into_iter().filter(|object| !is_webhook(object)).collect();
        cluster.apply(&install).await.unwrap();
        let controllers = run_controllers(&cluster, &install);
        let folder = cluster.dir().join("session");
        let programs = folder.join("bin");
        fs::create_dir_all(&programs).unwrap();
        let kubectl = spawn_blocking(|| Assets::from_env()?.find(Tool::Kubectl)).await.unwrap().unwrap();
        symlink(kubectl, programs.join("kubectl")).unwrap();
        for name in ["kubectl-dynamo", "kubectl_complete-dynamo"] {
            symlink(env!("CARGO_BIN_EXE_kubectl-dynamo"), programs.join(name)).unwrap();
        }
        write_kubeconfig(cluster.kubeconfig(), &folder.join("kubeconfig"));
        let shell = Self { folder, _controllers: controllers, _cluster: cluster };
        let installed = format!("kubectl wait --for=condition=Available deployment --all -n {SYSTEM} --timeout=90s");
        let output = shell.run(&installed).await;
        assert!(output.lines().all(|line| line.ends_with("condition met")), "{output}");
        shell
    }

    /// Writes a file to the folder of the shell.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).unwrap();
    }

    /// Runs a line in the shell; returns both of its outputs.
    pub async fn run(&self, line: &str) -> String {
        let path = env::var("PATH").unwrap();
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("exec 2>&1; {line}")]).current_dir(&self.folder);
        bash.env("PATH", format!("{}:{path}", self.folder.join("bin").display()));
        bash.env("KUBECONFIG", self.folder.join("kubeconfig")).env("HOME", &self.folder).env("LC_ALL", "C");
        let output = spawn_blocking(move || bash.output()).await.unwrap().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a line until its output contains all of these texts, and none of those after `!`; returns the output.
    pub async fn run_until(&self, line: &str, texts: &[&str]) -> String {
        let look = async || {
            let output = self.run(line).await;
            let holds = |text: &&str| match text.strip_prefix('!') {
                Some(text) => !output.contains(text),
                None => output.contains(*text),
            };
            if texts.iter().all(holds) { Ok(output) } else { Err(output) }
        };
        wait::until(format!("{texts:?} of {line}"), LIMIT, look).await.unwrap()
    }
}

/// Runs the controllers with the configuration of the install.
fn run_controllers(cluster: &Cluster, install: &[Value]) -> Controllers {
    let configuration = install.iter().find_map(|object| object["data"]["config.yaml"].as_str()).unwrap();
    let (settings, _) = settings::parse(configuration).unwrap();
    let controllers = Controllers::new(settings, Scope::Cluster, Fence::unfenced());
    controllers.start(&cluster.client().unwrap());
    controllers
}

/// Writes a kubeconfig whose context has the namespace.
fn write_kubeconfig(from: &Path, to: &Path) {
    let mut kubeconfig: Value = serde_json::from_str(&fs::read_to_string(from).unwrap()).unwrap();
    kubeconfig["contexts"][0]["context"]["namespace"] = json!(NAMESPACE);
    fs::write(to, kubeconfig.to_string()).unwrap();
}
