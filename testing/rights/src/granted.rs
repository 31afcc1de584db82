//! Rights of ServiceAccounts: read from the roles and bindings of a rendered chart.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;

/// A ServiceAccount: namespace and name.
pub(super) type Account = (String, String);

/// One right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    /// API group; empty for the core group.
    pub(super) group: String,
    /// Plural name, with the subresource: `deployments/status`.
    pub(super) resource: String,
    pub(super) verb: String,
    /// The only object that this is about.
    pub(super) name: Option<String>,
    /// The only namespace in which it holds.
    pub(super) namespace: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource, verb, name, namespace } = self;
        write!(f, "{verb} {}/{resource}", if group.is_empty() { "core" } else { group })?;
        if let Some(name) = name {
            write!(f, " {name}")?;
        }
        if let Some(namespace) = namespace {
            write!(f, " in {namespace}")?;
        }
        Ok(())
    }
}

/// The rights of all accounts that a binding among these objects names.
pub(super) fn read(objects: &[Value]) -> BTreeMap<Account, BTreeSet<Right>> {
    let mut granted: BTreeMap<Account, BTreeSet<Right>> = BTreeMap::new();
    for binding in
        objects.iter().filter(|object| ["RoleBinding", "ClusterRoleBinding"].map(Value::from).contains(&object["kind"]))
    {
        let namespace = (binding["kind"] == "RoleBinding").then(|| text(&binding["metadata"]["namespace"]));
        let rights: BTreeSet<Right> = objects
            .iter()
            .filter(|role| names(binding, role))
            .flat_map(|role| list(&role["rules"]).flat_map(|rule| of_rule(rule, namespace.as_ref())))
            .collect();
        for subject in list(&binding["subjects"]).filter(|subject| subject["kind"] == "ServiceAccount") {
            let account = (text(&subject["namespace"]), text(&subject["name"]));
            granted.entry(account).or_default().extend(rights.iter().cloned());
        }
    }
    granted
}

fn names(binding: &Value, role: &Value) -> bool {
    let (reference, metadata) = (&binding["roleRef"], &role["metadata"]);
    let near = role["kind"] == "ClusterRole" || metadata["namespace"] == binding["metadata"]["namespace"];
    role["kind"] == reference["kind"] && metadata["name"] == reference["name"] && near
}

fn of_rule(rule: &Value, namespace: Option<&String>) -> Vec<Right> {
    let names: Vec<Option<String>> = match &rule["resourceNames"] {
        Value::Null => vec![None],
        names => list(names).map(|name| Some(text(name))).collect(),
    };
    let mut rights = Vec::new();
    for group in list(&rule["apiGroups"]).map(text) {
        for resource in list(&rule["resources"]).map(text) {
            for verb in list(&rule["verbs"]).map(text) {
                rights.extend(names.iter().map(|name| Right {
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    name: name.clone(),
                    namespace: namespace.cloned(),
                }));
            }
        }
    }
    rights
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_account_has_the_rights_of_the_roles_that_are_bound_to_it() {
        let rules = json!([
            {"apiGroups": ["", "apps"], "resources": ["x"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["y/status"], "resourceNames": ["a", "b"], "verbs": ["patch"]},
        ]);
        let role = |kind: &str, namespace: Option<&str>| json!({"kind": kind, "metadata": {"name": "r", "namespace": namespace}, "rules": rules});
        let binding = |kind: &str, to: &str| {
            json!({
                "kind": kind, "metadata": {"name": "b", "namespace": "n"}, "roleRef": {"kind": to, "name": "r"},
                "subjects": [{"kind": "ServiceAccount", "namespace": "s", "name": "a"}, {"kind": "User", "name": "u"}],
            })
        };
        let shown = |objects: &[Value]| -> Vec<String> {
            let granted = read(objects);
            assert!(granted.len() <= 1, "{granted:?}");
            granted.into_values().flatten().map(|right| right.to_string()).collect()
        };
        let everywhere = ["get core/x", "patch core/y/status a", "patch core/y/status b", "get apps/x"];
        assert_eq!(shown(&[role("ClusterRole", None), binding("ClusterRoleBinding", "ClusterRole")]), everywhere);
        let there = everywhere.map(|right| format!("{right} in n"));
        assert_eq!(shown(&[role("ClusterRole", None), binding("RoleBinding", "ClusterRole")]), there);
        assert_eq!(shown(&[role("Role", Some("n")), binding("RoleBinding", "Role")]), there);
        assert_eq!(shown(&[role("Role", Some("other")), binding("RoleBinding", "Role")]), [""; 0]);
    }
}
