//! The storage that a graph of v1alpha1 names beside its components.

use std::collections::BTreeMap;

use api_types::conversion::preserved::{PreservedClaim, claims_of_graph};
use rendering::legacy::render_claim;

use crate::graph::model::{GraphVolume, ValidGraph};

/// The claims that the graph names, each once. One that it names no longer is not deleted: it goes with the
/// graph. Those `of_components` count as named too.
pub fn volumes(graph: &ValidGraph<'_>, of_components: &[PreservedClaim]) -> Vec<GraphVolume> {
    let all = of_components.iter().cloned().chain(claims_of_graph(graph.annotations));
    let named: BTreeMap<String, PreservedClaim> = all.map(|claim| (claim.name.clone(), claim)).collect();
    let made = |claim: &PreservedClaim| claim.create.then(|| render_claim(claim, &graph.namespace));
    named.into_values().map(|claim| GraphVolume { make: made(&claim), name: claim.name }).collect()
}

#[cfg(test)]
mod tests {
    use api_types::conversion::{ApiVersion, convert};
    use serde_json::{Value, json};

    use super::*;
    use crate::graph::fixtures::valid;

    fn claims(pvcs: Value) -> Vec<GraphVolume> {
        let alpha = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
            "metadata": { "name": "chat", "namespace": "team-a", "uid": "u" },
            "spec": { "pvcs": pvcs, "services": { "Frontend": { "componentType": "frontend",
                "extraPodSpec": { "mainContainer": { "image": "registry.example/frontend:1.5.0" } } } } },
        });
        let graph = serde_json::from_value(convert(alpha, ApiVersion::V1Beta1).unwrap()).unwrap();
        volumes(&valid(&graph), &[])
    }

    #[test]
    fn a_claim_is_made_only_if_the_author_says_so() {
        let shared =
            json!({ "name": "models", "storageClass": "fast", "size": "100Gi", "volumeAccessMode": "ReadWriteMany" });
        assert_eq!(claims(json!([shared])), [GraphVolume { name: "models".to_owned(), make: None }]);
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
