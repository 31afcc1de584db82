//! From the text of an input to the documents to apply, with what the input takes for granted.

use std::collections::BTreeSet;

use api_types::GROUP;
use local_operator::manifests::{self, is_ours};
use serde_json::{Map, Value, json};

/// The tag for placeholders in images.
const TAG: &str = "1.5.0";

/// Objects that are applied for a case.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Input {
    /// The documents; those of our group come last.
    pub(super) documents: Vec<Value>,
    /// Claims that the documents name and do not hold.
    pub(super) claims: BTreeSet<String>,
    /// Whether facts about the hardware were filled in, which discovery would find in a cluster with GPUs.
    pub(super) hardware_filled_in: bool,
}

/// Reads an input.
pub(super) fn read(text: &str) -> anyhow::Result<Input> {
    let mut documents = manifests::parse(&manifests::fill_placeholders(text, TAG))?;
    documents.sort_by_key(is_ours);
    let held = documents.iter().filter(|document| kind(document) == "PersistentVolumeClaim");
    let held: BTreeSet<_> =
        held.filter_map(|claim| claim.pointer("/metadata/name")?.as_str()).map(str::to_owned).collect();
    let mut input = Input::default();
    for document in documents.iter_mut().filter(|document| is_ours(document)) {
        input.claims.extend(claims(document));
        if kind(document) == "DynamoGraphDeploymentRequest" && document["apiVersion"] == format!("{GROUP}/v1beta1") {
            input.hardware_filled_in |= fill_in_hardware(document);
        }
    }
    input.claims.retain(|claim| !claim.is_empty() && !held.contains(claim));
    Ok(Input { documents, ..input })
}

fn kind(document: &Value) -> &str {
    document.get("kind").and_then(Value::as_str).unwrap_or_default()
}

fn claims(document: &Value) -> Vec<String> {
    let listed = document.pointer("/spec/pvcs").and_then(Value::as_array).into_iter().flatten();
    let existing = listed.filter(|claim| claim.get("create") != Some(&Value::Bool(true)));
    let names = existing.filter_map(|claim| claim.get("name")?.as_str());
    let cache = document.pointer("/spec/modelCache/pvcName").and_then(Value::as_str);
    let cache = cache.filter(|_| kind(document) == "DynamoGraphDeploymentRequest");
    names.chain(cache).map(str::to_owned).collect()
}

/// Fills in what is missing unless the three facts that matter are there. Says whether it did.
fn fill_in_hardware(request: &mut Value) -> bool {
    let facts = json!({
        "gpuSku": "h100_sxm",
        "vramMb": 81920,
        "numGpusPerNode": 8,
        "totalGpus": 8,
        "interconnect": "nvlink",
        "rdma": false,
    });
    let hardware = object_at(request, "spec").and_then(|spec| {
        let hardware = spec.entry("hardware").or_insert_with(|| json!({}));
        hardware.as_object_mut()
    });
    let (Some(hardware), Value::Object(facts)) = (hardware, facts) else { return false };
    let given = |name: &str| {
        hardware.get(name).is_some_and(|fact| *fact != Value::Null && *fact != json!("") && *fact != json!(0))
    };
    if ["gpuSku", "vramMb", "numGpusPerNode"].into_iter().all(given) {
        return false;
    }
    for (name, fact) in facts {
        hardware.entry(name).or_insert(fact);
    }
    true
}

fn object_at<'a>(document: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    document.as_object_mut()?.entry(field).or_insert_with(|| json!({})).as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_of_our_group_come_last_and_lists_are_taken_apart() {
        let text = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\n---\n\
                    apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n---\n";
        let kinds: Vec<_> = read(text).unwrap().documents.iter().map(|document| kind(document).to_owned()).collect();
        assert_eq!(kinds, ["Secret", "DynamoGraphDeployment"]);
    }

    #[test]
    fn claims_that_are_only_named_are_found() {
        let text = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: here}\n---\n\
                    apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\n\
                    spec: {pvcs: [{name: here}, {name: made, create: true}, {name: cache}]}\n---\n\
                    apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeploymentRequest\nmetadata: {name: r}\n\
                    spec: {modelCache: {pvcName: models}}\n";
        let input = read(text).unwrap();
        assert_eq!(input.claims, ["cache", "models"].map(str::to_owned).into());
        assert!(input.hardware_filled_in);
        assert_eq!(input.documents[2]["spec"]["hardware"]["gpuSku"], "h100_sxm");
    }

    #[test]
    fn hardware_that_is_given_stays() {
        let text = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeploymentRequest\nmetadata: {name: r}\n\
                    spec: {hardware: {gpuSku: a, vramMb: 1, numGpusPerNode: 2}}\n";
        let input = read(text).unwrap();
        assert!(!input.hardware_filled_in);
        assert_eq!(input.documents[0]["spec"]["hardware"], json!({"gpuSku": "a", "vramMb": 1, "numGpusPerNode": 2}));
    }
}
