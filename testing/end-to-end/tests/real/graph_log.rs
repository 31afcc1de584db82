//! The graphs of a namespace as a watch shows them, for kstatus to judge: every state, not only the last.

use std::{
    path::Path,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
};

use end_to_end::{BoxError, Harness};
use futures::StreamExt;
use kube::{
    api::{Api, DynamicObject},
    core::{ApiResource, GroupVersionKind},
    runtime::watcher::{Config, Event, watcher},
};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::{kstatus, scenarios::WORKERS};

/// Watches until it is dropped.
pub struct GraphLog {
    api: Api<DynamicObject>,
    task: JoinHandle<()>,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl GraphLog {
    /// Begins to watch.
    pub fn start(harness: &Harness) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("nvidia.com", "v1beta1", "DynamoGraphDeployment"));
        let api = Api::namespaced_with(harness.client.clone(), harness.ns(), &resource);
        let (events, seen) = (watcher(api.clone(), Config::default()), Arc::new(Mutex::new(Vec::new())));
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut events = pin!(events);
            while let Some(event) = events.next().await {
                if let Ok(Event::Apply(graph) | Event::InitApply(graph)) = event {
                    let graph = serde_json::to_value(graph).unwrap();
                    shared.lock().unwrap_or_else(PoisonError::into_inner).push(graph);
                }
            }
        });
        Self { api, task, seen }
    }

    /// Returns the present kstatus of a graph.
    pub async fn kstatus(&self, tool: &Path, graph: &str) -> Result<String, BoxError> {
        let object = serde_json::to_value(self.api.get(graph).await?)?;
        Ok(kstatus::statuses(tool, &[object])?.concat())
    }

    /// Checks all states: kstatus never calls a graph failed, and calls it current only if it is ready with all its
    /// workers.
    pub fn check(&self, tool: &Path) -> Result<(), BoxError> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (graph, outcome) in seen.iter().zip(kstatus::statuses(tool, &seen)?) {
            if outcome.starts_with("InProgress ") {
                continue;
            }
            assert!(outcome.starts_with("Current "), "{outcome}: {graph}");
            let conditions = graph["status"]["conditions"].as_array();
            let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
            assert!(conditions.is_some_and(|all| all.iter().any(is_ready)), "{outcome}: {graph}");
            let expected = graph["spec"]["components"]
                .as_array()
                .and_then(|all| all.iter().find(|one| one["name"] == WORKERS).map(|one| one["replicas"].clone()));
            let counts = &graph["status"]["components"][WORKERS];
            // Groups of several nodes on Grove have no number of ready ones.
            let serving = if counts["readyReplicas"].is_null() { "availableReplicas" } else { "readyReplicas" };
            for count in ["replicas", "updatedReplicas", serving] {
                assert_eq!(expected.as_ref(), Some(&counts[count]), "{count}, {outcome}: {graph}");
            }
        }
        Ok(())
    }
}

impl Drop for GraphLog {
    fn drop(&mut self) {
        self.task.abort();
    }
}
