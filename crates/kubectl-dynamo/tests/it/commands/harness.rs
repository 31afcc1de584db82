//! A namespace with a graph, as the controllers would leave it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use kubectl_dynamo::CommandOutcome;
use serde_json::{Value, json};
use test_cluster::{Access, TestNamespace, shared, wait};

use crate::{definitions, plugin};

/// Time limit of every operation.
pub const LIMIT: Duration = Duration::from_secs(90);

/// A namespace.
pub struct Team {
    pub namespace: String,
    pub client: Client,
    pub access: &'static Access,
    folder: Folder,
    _guard: TestNamespace,
}

/// A folder that is removed with all that is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Team {
    pub async fn new(prefix: &str) -> Self {
        let access = shared(&definitions::own()).await.unwrap();
        let guard = TestNamespace::new(access, prefix).await.unwrap();
        let folder = Folder(env::temp_dir().join(guard.name()));
        fs::create_dir_all(&folder.0).unwrap();
        Self { namespace: guard.name().to_owned(), client: guard.client(), access, folder, _guard: guard }
    }

    /// Creates the graph `chat` with one component, its Deployment, and their status.
    pub async fn graph(&self, ready: bool, resources: Value) {
        let template =
            json!({ "spec": { "containers": [{ "name": "main", "image": "r/engine:1", "resources": resources }] } });
        let labels = json!({ "nvidia.com/dynamo-graph-deployment-name": "chat", "nvidia.com/dynamo-component": "decode",
                "nvidia.com/dynamo-worker-hash": "1a2b3c4d" });
        let meta = |name: &str, labels: &Value| json!({ "name": name, "namespace": self.namespace, "labels": labels });
        let graph = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": meta("chat", &json!({})),
            "spec": { "components": [{ "name": "decode", "type": "decode", "replicas": 1, "podTemplate": template }] },
        });
        let component = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
            "metadata": meta("chat-decode", &labels),
            "spec": { "name": "decode", "type": "decode", "replicas": 1, "podTemplate": template },
        });
        self.access.apply(&[graph, component]).await.unwrap();
        let components: Api<DynamoComponentDeployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let owner = components.get("chat-decode").await.unwrap().controller_owner_ref(&()).unwrap();
        let mut pod_labels = labels.clone();
        pod_labels["nvidia.com/selector"] = json!("chat-decode");
        let mut pod = template.clone();
        pod["metadata"] = json!({ "labels": pod_labels });
        let mut metadata = meta("chat-decode", &labels);
        metadata["ownerReferences"] = json!([owner]);
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": 1, "selector": { "matchLabels": { "nvidia.com/selector": "chat-decode" } }, "template": pod,
            },
        });
        self.access.apply(&[deployment]).await.unwrap();
        self.set_status(ready).await;
    }

    /// Writes the status of the graph and its component at their latest generation.
    pub async fn set_status(&self, ready: bool) {
        let graphs: Api<DynamoGraphDeployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let components: Api<DynamoComponentDeployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let (word, reason) = match ready {
            true => ("True", "all_resources_are_ready"),
            false => ("False", "some_resources_are_not_ready"),
        };
        let condition = json!([{
            "type": "Ready", "status": word, "reason": reason, "message": "played by a test",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        let ready_replicas = i32::from(ready);
        let counts = json!({
            "componentKind": "Deployment", "replicas": 1, "updatedReplicas": 1, "readyReplicas": ready_replicas,
        });
        let generation = graphs.get("chat").await.unwrap().meta().generation;
        let status = json!({ "status": {
            "state": if ready { "successful" } else { "pending" }, "observedGeneration": generation,
            "conditions": condition, "components": { "decode": counts },
        } });
        graphs.patch_status("chat", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        let component = components.get("chat-decode").await.unwrap();
        let status = json!({ "status": {
            "observedGeneration": component.meta().generation, "conditions": condition, "component": counts,
        } });
        let name = component.name_any();
        components.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }

    /// A folder for files, which goes with the namespace.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// Runs a command as an administrator.
    pub async fn try_run(&self, args: &[&str]) -> anyhow::Result<(CommandOutcome, String)> {
        plugin::command(self.access.kubeconfig(), &self.namespace, args).await
    }

    pub async fn run(&self, args: &[&str]) -> (CommandOutcome, String) {
        self.try_run(args).await.unwrap()
    }

    /// The causes that `why` finds.
    pub async fn causes(&self, graph: &str) -> Value {
        let (_, text) = self.run(&["why", graph, "--output", "json"]).await;
        let diagnosis: Value = serde_json::from_str(&text).unwrap();
        diagnosis["causes"].clone()
    }

    /// The causes, as soon as the first one has this code.
    pub async fn causes_with(&self, target: &str, code: &str) -> Value {
        let found = wait::until(format!("{code} of {target}"), LIMIT, async || {
            let causes = self.causes(target).await;
            if causes[0]["code"] == code { Ok(causes) } else { Err(causes.to_string()) }
        });
        found.await.unwrap()
    }
}
