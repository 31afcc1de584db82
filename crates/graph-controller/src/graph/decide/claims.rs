//! Storage that a graph of v1alpha1 names beside its components.

use std::collections::BTreeMap;

use api_types::conversion::preserved::{PreservedClaim, claims_of_graph};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use workload::legacy::render_claim;

use crate::graph::validate::ValidGraph;

/// A claim that pods of the graph mount. One that exists is used as it is, whoever made it: what it holds is the author's.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageClaim {
    /// Its name.
    pub name: String,
    /// The claim to be made if there is none, without owner; `None` if the author makes it.
    pub make: Option<PersistentVolumeClaim>,
}

/// The claims that the graph names, each once. One that it names no longer is nobody's to delete: it goes with the graph.
/// Those `of_components` count as named too.
pub fn storage_claims(graph: &ValidGraph<'_>, of_components: &[PreservedClaim]) -> Vec<StorageClaim> {
    let all = of_components.iter().cloned().chain(claims_of_graph(graph.annotations));
    let named: BTreeMap<String, PreservedClaim> = all.map(|claim| (claim.name.clone(), claim)).collect();
    let made = |claim: &PreservedClaim| claim.create.then(|| render_claim(claim, &graph.namespace));
    named.into_values().map(|claim| StorageClaim { make: made(&claim), name: claim.name }).collect()
}

#[cfg(test)]
mod tests {
    use api_types::conversion::{ApiVersion, convert};
    use serde_json::{Value, json};

    use super::*;
    use crate::graph::fixtures::valid;

    fn claims(pvcs: Value) -> Vec<StorageClaim> {
        let alpha = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
            "metadata": { "name": "chat", "namespace": "team-a", "uid": "u" },
            "spec": { "pvcs": pvcs, "services": { "Frontend": { "componentType": "frontend",
                "extraPodSpec": { "mainContainer": { "image": "registry.example/frontend:1.5.0" } } } } },
        });
        let graph = serde_json::from_value(convert(alpha, ApiVersion::V1Beta1).unwrap()).unwrap();
        storage_claims(&valid(&graph), &[])
    }

    #[test]
    fn a_claim_is_made_only_if_the_author_says_so() {
        let shared =
            json!({ "name": "models", "storageClass": "fast", "size": "100Gi", "volumeAccessMode": "ReadWriteMany" });
        assert_eq!(claims(json!([shared])), [StorageClaim { name: "models".to_owned(), make: None }]);
        let mut made = shared.clone();
        made["create"] = json!(true);
        let [claim] = <[_; 1]>::try_from(claims(json!([shared, made]))).unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "models", "namespace": "team-a" },
            "spec": { "accessModes": ["ReadWriteMany"], "storageClassName": "fast",
                      "resources": { "requests": { "storage": "100Gi" } } },
        });
        assert_eq!(serde_json::to_value(claim.make.unwrap()).unwrap(), expected);
    }

    #[test]
    fn what_the_author_leaves_out_is_the_clusters_choice() {
        let [claim] = <[_; 1]>::try_from(claims(json!([{ "name": "models", "create": true }]))).unwrap();
        assert_eq!(serde_json::to_value(claim.make.unwrap()).unwrap()["spec"], json!({}));
    }
}
