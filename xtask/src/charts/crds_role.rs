//! Rights of `crds serve`: to the definitions, and to all objects of ours, which it writes again in the version that is
//! stored.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};
use repository::{files, read_yaml};
use serde_json::{Value, json};

const HEAD: &str = "\
# Rights of `crds serve`: the definitions, and the objects that are stored anew in the version that is stored.
# A creation by server-side apply has the name of the object.
";

/// The role, from the definitions in a directory.
pub(super) fn role(definitions: &Path) -> Result<String> {
    let mut kinds = BTreeMap::new();
    for path in files(definitions, &["yaml"])? {
        let definition: Value = read_yaml(&path)?;
        let plural = definition.pointer("/spec/names/plural").and_then(Value::as_str);
        let plural = plural.with_context(|| format!("{} defines nothing", path.display()))?.to_owned();
        kinds.insert(plural, has_status(&definition));
    }
    text(&kinds)
}

fn has_status(definition: &Value) -> bool {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    versions.into_iter().flatten().any(|version| version.pointer("/subresources/status").is_some())
}

/// Kinds by plural, with whether their status is a subresource.
fn text(kinds: &BTreeMap<String, bool>) -> Result<String> {
    let names: Vec<String> = kinds.keys().map(|kind| format!("{kind}.{}", api_types::GROUP)).collect();
    let objects: Vec<&String> = kinds.keys().collect();
    let with_status = kinds.iter().filter(|(_, status)| **status);
    let statuses: Vec<String> = with_status.map(|(kind, _)| format!("{kind}/status")).collect();
    let (group, definitions) = ("apiextensions.k8s.io", "customresourcedefinitions");
    let status = format!("{definitions}/status");
    let rules = json!({ "rules": [
        { "apiGroups": [group], "resources": [definitions], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [group], "resources": [definitions], "resourceNames": names, "verbs": ["create", "patch"] },
        { "apiGroups": [group], "resources": [status], "resourceNames": names, "verbs": ["patch"] },
        { "apiGroups": [api_types::GROUP], "resources": objects, "verbs": ["get", "list", "patch"] },
        { "apiGroups": [api_types::GROUP], "resources": statuses, "verbs": ["patch"] },
    ] });
    Ok(HEAD.to_owned() + &serde_saphyr::to_string(&rules)?)
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
        assert_eq!(written["verbs"], json!(["create", "patch"]), "{role}");
        assert_eq!(written["resourceNames"].as_array().unwrap().len(), resources.len(), "{role}");
        let statuses = role["rules"][4]["resources"].as_array().unwrap();
        assert!(!statuses.contains(&"dynamoworkermetadatas/status".into()), "it has no status: {role}");
    }
}
