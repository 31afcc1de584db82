//! Diagnoses pods of a graph on Grove that do not become ready.

use std::collections::BTreeMap;

use api_types::{labels, v1beta1::DynamoGraphDeployment};
use controller_kit::pods::{PodDiagnostics, PodsOf};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::graph::model::Troubles;

/// All pods of a graph.
pub fn pods_of(graph: &DynamoGraphDeployment) -> PodsOf<'_> {
    let metadata = &graph.metadata;
    PodsOf {
        uid: metadata.uid.as_deref().unwrap_or_default(),
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        selector: format!("{}={}", labels::GRAPH, graph.name_any()),
    }
}

/// The most urgent trouble of each component; `None` if all pods serve.
pub async fn troubles(diagnostics: &PodDiagnostics<Troubles>, pods: Vec<Pod>) -> Option<Troubles> {
    let mut by_component: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
    for pod in pods {
        let Some(component) = pod.labels().get(labels::COMPONENT).cloned() else { continue };
        by_component.entry(component).or_default().push(pod);
    }
    let mut all = Troubles::new();
    for (component, pods) in by_component {
        all.extend(diagnostics.diagnose(&pods).await.map(|trouble| (component, trouble)));
    }
    Some(all).filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use kube::{Client, Config};
    use rendering::Cause;
    use serde_json::{Value, json};

    use super::*;

    /// No server listens there, and no request is sent.
    fn diagnostics() -> PodDiagnostics<Troubles> {
        PodDiagnostics::new(Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap())
    }

    #[tokio::test]
    async fn every_component_has_the_pod_that_tells_why() {
        let pod = |name: &str, component: Value, reason: &str| -> Pod {
            let condition =
                json!({ "type": "PodScheduled", "status": "False", "reason": reason, "message": "no node" });
            let labels = json!({ labels::COMPONENT: component });
            let status = json!({ "phase": "Pending", "conditions": [condition] });
            serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels }, "status": status })).unwrap()
        };
        let serving: Pod =
            serde_json::from_value(json!({ "metadata": { "labels": { labels::COMPONENT: "C" } } })).unwrap();
        assert_eq!(troubles(&diagnostics(), vec![serving.clone()]).await, None);
        let (gated, unplaced) = ("SchedulingGated", "Unschedulable");
        let pods =
            vec![pod("a-1", json!("A"), gated), pod("a-2", json!("A"), unplaced), pod("b", json!("B"), gated), serving];
        let found = troubles(&diagnostics(), pods).await.unwrap();
        let causes: Vec<_> = found.iter().map(|(name, trouble)| (name.as_str(), trouble.cause)).collect();
        assert_eq!(causes, [("A", Cause::Unschedulable), ("B", Cause::Gated)]);
        assert_eq!(found["A"].message, "pod a-2: no node");
    }
}
