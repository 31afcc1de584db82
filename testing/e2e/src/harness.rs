//! The cluster with its real node, and what the checks do in it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use api_types::v1beta1::DynamoGraphDeployment;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{
    Client, ResourceExt,
    api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use test_cluster::{
    Cluster,
    assets::{Assets, Tool},
    wait,
};

use super::{REPOSITORY, TAG, node};

/// Everything here happens in seconds; this is for machines that are very busy.
pub(super) const PATIENCE: Duration = Duration::from_secs(240);
/// The timeout of helm's `--wait`.
pub(super) const HELM_TIMEOUT: &str = "--timeout=300s";

/// The cluster.
pub(super) struct Harness {
    pub(super) cluster: Cluster,
    pub(super) client: Client,
    /// Directory of the image archives.
    pub(super) images: PathBuf,
    helm: PathBuf,
}

impl Harness {
    /// Starts control plane and node, and imports the images.
    pub(super) async fn start(images: &Path) -> Result<Self> {
        node::prepare()?;
        let cluster = Cluster::start(node::options()).await?;
        node::start(&cluster, images).await?;
        let (client, helm) = (cluster.client()?, Assets::from_env()?.find(Tool::Helm)?);
        Ok(Self { cluster, client, images: images.to_owned(), helm })
    }

    /// Ends the cluster.
    pub(super) async fn stop(self) -> Result<()> {
        Ok(self.cluster.stop().await?)
    }

    /// Keeps the logs of node and control plane, and what the pods said, in a directory.
    pub(super) async fn keep_logs(&self, dir: &Path) {
        // What cannot be kept is not worth another error.
        let _ = fs::remove_dir_all(dir);
        let _ = fs::create_dir_all(dir);
        for program in ["kubelet", "containerd", "kube-proxy", "kube-apiserver", "kube-controller-manager"] {
            let _ = fs::copy(self.cluster.log(program), dir.join(format!("{program}.log")));
        }
        if let Ok(audit) = self.cluster.audit_log() {
            let _ = fs::copy(audit, dir.join("audit.log"));
        }
        let pods: Api<Pod> = Api::all(self.client.clone());
        for pod in pods.list(&ListParams::default()).await.into_iter().flatten() {
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let status = serde_json::to_string_pretty(&pod.status).unwrap_or_default();
            let said = self.logs(&namespace, &name).await.unwrap_or_else(|error| format!("{error:#}"));
            let before = LogParams { previous: true, ..LogParams::default() };
            let said_before = self.pods(&namespace).logs(&name, &before).await.unwrap_or_default();
            let _ =
                fs::write(dir.join(format!("{namespace}-{name}.log")), format!("{said_before}\n{said}\n{status}\n"));
        }
    }

    /// Makes a namespace that takes only pods which keep to the `restricted` standard, or any.
    pub(super) async fn namespace(&self, name: &str, standard: &str) -> Result<()> {
        let labels = json!({"pod-security.kubernetes.io/enforce": standard});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        Ok(self.cluster.apply(&[namespace]).await?)
    }

    /// `helm install` of the whole chart, with our images; returns when everything in the release is ready.
    pub(super) async fn install(&self, release: &str, namespace: &str, values: &[&str]) -> Result<()> {
        let values: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
        self.install_with(release, namespace, &values).await
    }

    /// The same with more arguments of helm.
    pub(super) async fn install_with(&self, release: &str, namespace: &str, more: &[&str]) -> Result<()> {
        let (chart, image) = (chart("dynamo-platform"), "dynamo-operator.controllerManager.manager.image");
        let (repository, tag) = (format!("{image}.repository={REPOSITORY}"), format!("{image}.tag={TAG}"));
        let args = ["install", release, &chart, "--namespace", namespace, "--wait", HELM_TIMEOUT];
        self.helm(&[&args, &["--set", &repository, "--set", &tag] as &[&str], more].concat()).await.map(drop)
    }

    /// `helm uninstall`; returns when what it installed is gone.
    pub(super) async fn uninstall(&self, release: &str, namespace: &str) -> Result<()> {
        self.uninstall_with(release, namespace, &[]).await
    }

    /// The same with more arguments of helm.
    pub(super) async fn uninstall_with(&self, release: &str, namespace: &str, more: &[&str]) -> Result<()> {
        let args = ["uninstall", release, "--namespace", namespace, "--wait", HELM_TIMEOUT];
        self.helm(&[&args, more].concat()).await.map(drop)
    }

    /// Runs helm.
    pub(super) async fn helm(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.helm);
        command.args(args).arg("--kubeconfig").arg(self.cluster.kubeconfig());
        command
            .env("HELM_CACHE_HOME", "/run/helm")
            .env("HELM_CONFIG_HOME", "/run/helm")
            .env("HELM_DATA_HOME", "/run/helm");
        let output = tokio::task::spawn_blocking(move || command.output()).await?.context("cannot run helm")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "helm {} failed: {error}", args.join(" "));
        String::from_utf8(output.stdout).context("the output of helm is no text")
    }

    /// Graphs of a namespace.
    pub(super) fn graphs(&self, namespace: &str) -> Api<DynamoGraphDeployment> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Pods of a namespace.
    pub(super) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Applies a graph as its user.
    pub(super) async fn apply(&self, namespace: &str, graph: &Value) -> kube::Result<DynamoGraphDeployment> {
        let name = graph["metadata"]["name"].as_str().unwrap_or_default();
        self.graphs(namespace).patch(name, &PatchParams::apply("user").force(), &Patch::Apply(graph)).await
    }

    /// Deletes a graph and returns when it and its pods are gone.
    pub(super) async fn delete(&self, namespace: &str, name: &str) -> Result<()> {
        self.graphs(namespace).delete(name, &DeleteParams::foreground()).await?;
        wait::until(format!("graph {name} to go"), PATIENCE, async || {
            match self.graphs(namespace).get_opt(name).await.map_err(|error| error.to_string())? {
                None if self.serving(namespace, name).await?.is_empty() => Ok(()),
                None => Err("it has pods".to_owned()),
                Some(graph) => Err(serde_json::to_string(&graph.metadata).unwrap_or_default()),
            }
        })
        .await?;
        Ok(())
    }

    /// Waits until a graph says of its present generation that it is ready.
    pub(super) async fn ready(&self, namespace: &str, name: &str) -> Result<()> {
        wait::until(format!("graph {name} to be ready"), PATIENCE, async || {
            let graph = self.graphs(namespace).get(name).await.map_err(|error| error.to_string())?;
            if readiness(&graph) == Some("True") { Ok(()) } else { Err(self.troubles(namespace, &graph).await) }
        })
        .await?;
        Ok(())
    }

    /// Describes why a graph is not ready: its conditions, and the states of its containers.
    async fn troubles(&self, namespace: &str, graph: &DynamoGraphDeployment) -> String {
        let pods = self.pods(namespace).list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let states = pods.iter().map(|pod| {
            let status = pod.status.clone().unwrap_or_default();
            let containers: Vec<_> = containers(pod).iter().map(|c| serde_json::to_string(&c.state)).collect();
            format!("\n  {} {:?} {containers:?} {:?}", pod.name_any(), status.phase, status.message)
        });
        let states: String = states.collect();
        serde_json::to_string(&graph.status.as_ref().map(|status| &status.conditions)).unwrap_or_default() + &states
    }

    /// Pods of a graph that are not ending.
    pub(super) async fn serving(&self, namespace: &str, graph: &str) -> Result<Vec<Pod>, String> {
        let of_graph = ListParams::default().labels(&format!("{}={graph}", api_types::labels::GRAPH));
        let list = self.pods(namespace).list(&of_graph).await.map_err(|error| error.to_string())?;
        Ok(list.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
    }

    /// The one pod of a graph's worker, running.
    pub(super) async fn worker(&self, namespace: &str, graph: &str) -> Result<Pod> {
        let pod = wait::until(format!("one worker of {graph} to run"), PATIENCE, async || {
            let pods = self.serving(namespace, graph).await?;
            let workers = pods.into_iter().filter(|pod| pod.name_any().contains("worker"));
            let mut running = workers.filter(|pod| containers(pod).iter().any(|container| container.ready));
            running.next().ok_or_else(|| "none is ready".to_owned())
        });
        Ok(pod.await?)
    }

    /// Returns the log of a pod, through the kubelet.
    pub(super) async fn logs(&self, namespace: &str, pod: &str) -> Result<String> {
        let logs = self.pods(namespace).logs(pod, &LogParams::default()).await;
        logs.with_context(|| format!("cannot read the log of {namespace}/{pod}"))
    }
}

/// A chart of the repository, by its path below `deploy/helm`.
pub(super) fn chart(path: &str) -> String {
    repository::root().join("deploy/helm").join(path).to_string_lossy().into_owned()
}

/// The status of `Ready`, if it is about the present generation.
pub(super) fn readiness(graph: &DynamoGraphDeployment) -> Option<&str> {
    let conditions = &graph.status.as_ref()?.conditions;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    (ready.observed_generation == graph.metadata.generation).then_some(ready.status.as_str())
}

/// The containers of a pod, as the kubelet sees them.
pub(super) fn containers(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

/// A graph of a frontend and one worker, both played by the mock engine.
pub(super) fn graph(name: &str, revision: &str) -> Value {
    let component = |component: &str, kind: &str| {
        json!({
            "name": component, "type": kind, "replicas": 1, "runtimeVersionOverride": "1.5.0",
            "podTemplate": {"spec": {
                "terminationGracePeriodSeconds": 5,
                "containers": [{
                    "name": "main",
                    "image": format!("{REPOSITORY}/mock-engine:{TAG}"),
                    "command": ["/mock-engine"],
                    "env": [{"name": "REVISION", "value": revision}],
                    "resources": {"limits": {"memory": "128Mi"}},
                }],
            }},
        })
    };
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": name},
        "spec": {"components": [component("Frontend", "frontend"), component("Worker", "worker")]},
    })
}
