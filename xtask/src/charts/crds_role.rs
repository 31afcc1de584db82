//! Rights of `crds serve`: to the definitions, and to all objects of ours, which it writes again in the version that is
//! stored.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use anyhow::{Context, Result};
use repository::{files, read_yaml};
use serde_json::Value;

/// The role, from the definitions in a directory.
pub(super) fn role(definitions: &Path) -> Result<String> {
    let mut kinds = BTreeMap::new();
    for path in files(definitions, &["yaml"])? {
        let definition: Value = read_yaml(&path)?;
        let plural = definition.pointer("/spec/names/plural").and_then(Value::as_str);
        let plural = plural.with_context(|| format!("{} defines nothing", path.display()))?.to_owned();
        kinds.insert(plural, has_status(&definition));
    }
    Ok(text(&kinds))
}

fn has_status(definition: &Value) -> bool {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    versions.into_iter().flatten().any(|version| version.pointer("/subresources/status").is_some())
}

/// Kinds by plural, with whether their status is a subresource.
fn text(kinds: &BTreeMap<String, bool>) -> String {
    let mut text = "# What `crds serve` asks for: the definitions, and the objects that are stored anew in the version that is stored.\n\
                    # A creation by server-side apply has the name of the object.\n\
                    rules:\n\
                    - apiGroups: [apiextensions.k8s.io]\n  resources: [customresourcedefinitions]\n  \
                    verbs: [get, list, watch]\n"
        .to_owned();
    for (resource, verbs) in
        [("customresourcedefinitions", "create, patch"), ("customresourcedefinitions/status", "patch")]
    {
        // Writing into memory cannot fail.
        let _ = writeln!(text, "- apiGroups: [apiextensions.k8s.io]\n  resources: [{resource}]\n  resourceNames:");
        for kind in kinds.keys() {
            let _ = writeln!(text, "  - {kind}.{}", api_types::GROUP);
        }
        let _ = writeln!(text, "  verbs: [{verbs}]");
    }
    let objects: Vec<String> = kinds.keys().cloned().collect();
    let statuses: Vec<String> =
        kinds.iter().filter(|(_, status)| **status).map(|(kind, _)| format!("{kind}/status")).collect();
    for (resources, verbs) in [(objects, "get, list, patch"), (statuses, "patch")] {
        let _ = writeln!(text, "- apiGroups: [{}]\n  resources:", api_types::GROUP);
        for resource in resources {
            let _ = writeln!(text, "  - {resource}");
        }
        let _ = writeln!(text, "  verbs: [{verbs}]");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_stored_anew() {
        let role: Value = serde_saphyr::from_str(&role(&repository::root().join("deploy/crds")).unwrap()).unwrap();
        let resources = role["rules"][3]["resources"].as_array().unwrap();
        assert!(
            resources.contains(&"dynamomodels".into()) && resources.contains(&"dynamoworkermetadatas".into()),
            "{role}"
        );
        let written = &role["rules"][1];
        assert_eq!(written["verbs"], serde_json::json!(["create", "patch"]), "{role}");
        assert_eq!(written["resourceNames"].as_array().unwrap().len(), resources.len(), "{role}");
        let statuses = role["rules"][4]["resources"].as_array().unwrap();
        assert!(!statuses.contains(&"dynamoworkermetadatas/status".into()), "it has no status: {role}");
    }
}
