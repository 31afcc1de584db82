//! Rights that a user needs beside the ClusterRole `admin` to install a release for one namespace.
//!
//! A user grants only rights that he has himself, and such a release grants its programs and the pods of graphs rights
//! to kinds that `admin` does not cover.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::{Value, json};

use super::{OWN, list};

/// Name of the ClusterRole in the chart of the definitions.
const NAME: &str = "dynamo-namespace-installer";

/// API groups whose resources `admin` covers in every supported version of Kubernetes.
const OF_ADMIN: [&str; 9] = [
    "",
    "apps",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "networking.k8s.io",
    "rbac.authorization.k8s.io",
];

/// Resources of the cluster, to which a Role can grant no right. `_program.tpl` leaves them out of Roles.
const OF_CLUSTER: [&str; 5] = ["clustertopologybindings", "deviceclasses", "nodes", "queues", "tokenreviews"];

/// Kinds of objects of the release itself that `admin` does not cover.
const MADE: (&str, [&str; 2]) = ("monitoring.coreos.com", ["podmonitors", "servicemonitors"]);

/// Commands that print a role which such a release grants.
const GRANTED: [(&str, &[&str]); 9] = [
    ("graph-controller", &["--namespace=served", "access"]),
    ("component-controller", &["access"]),
    ("model-controller", &["access"]),
    ("lease-scope", &["access"]),
    ("webhook-server", &[OWN, "--namespace=served", "access"]),
    ("graph-controller", &["access", "--of", "discovery"]),
    ("graph-controller", &["access", "--of", "planner"]),
    ("graph-controller", &["access", "--of", "epp"]),
    ("graph-controller", &["access", "--of", "profiling"]),
];

/// The ClusterRole, from the programs, which are built already.
pub(super) fn role() -> Result<String> {
    let roles = GRANTED.iter().map(|(program, args)| super::role(program, args));
    text(&roles.collect::<Result<Vec<Value>>>()?)
}

fn text(roles: &[Value]) -> Result<String> {
    let granted = rules(roles)
        .into_iter()
        .map(|((group, verbs), resources)| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs }));
    let bound = bound(roles).into_iter().map(|(group, resource, names)| {
        json!({ "apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": ["bind"] })
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": NAME },
        "rules": granted.chain(bound).collect::<Vec<_>>(),
    });
    Ok(format!("# Made by `cargo xtask charts generate`.\n{}", serde_saphyr::to_string(&role)?))
}

/// Roles that a program binds, by name. Who grants it that right needs it himself, and `admin` does not have it. A user
/// cannot give a role of such a name other rights than his own.
fn bound(roles: &[Value]) -> BTreeSet<(String, String, Vec<String>)> {
    let rules = roles.iter().flat_map(|role| role["rules"].as_array().into_iter().flatten());
    let binding = rules.filter(|rule| list(&rule["verbs"]).any(|verb| verb == "bind"));
    let named = binding.flat_map(|rule| {
        let names: Vec<String> = list(&rule["resourceNames"]).map(str::to_owned).collect();
        let resources = list(&rule["resources"]).map(move |resource| (resource.to_owned(), names.clone()));
        resources.flat_map(move |(resource, names)| {
            list(&rule["apiGroups"]).map(move |group| (group.to_owned(), resource.clone(), names.clone()))
        })
    });
    named.collect()
}

/// Resources by group and verbs.
fn rules(roles: &[Value]) -> BTreeMap<(String, Vec<String>), Vec<String>> {
    let mut verbs: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for rule in roles.iter().flat_map(|role| role["rules"].as_array().into_iter().flatten()) {
        for group in list(&rule["apiGroups"]).filter(|group| !OF_ADMIN.contains(group)) {
            for resource in list(&rule["resources"]).filter(|resource| !OF_CLUSTER.contains(resource)) {
                let place = (group.to_owned(), resource.to_owned());
                verbs.entry(place).or_default().extend(list(&rule["verbs"]).map(str::to_owned));
            }
        }
    }
    for resource in MADE.1 {
        let all = ["create", "delete", "get", "list", "patch", "update", "watch"].map(str::to_owned);
        verbs.insert((MADE.0.to_owned(), resource.to_owned()), all.into());
    }
    let mut rules: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for ((group, resource), verbs) in verbs {
        rules.entry((group, verbs.into_iter().collect())).or_default().push(resource);
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_what_roles_grant_and_admin_does_not_have() {
        let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        let one = json!({"rules": [rule("", &["pods"], &["get"]), rule("nvidia.com", &["a", "b"], &["get"])]});
        let bind = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "resourceNames": ["r"], "verbs": ["bind"]});
        let other = json!({"rules": [rule("nvidia.com", &["a"], &["patch"]), rule("grove.io", &["clustertopologybindings"], &["get"]), bind]});
        let found: Value = serde_saphyr::from_str(&text(&[one, other]).unwrap()).unwrap();
        assert_eq!(found["rules"][0]["resources"], json!(MADE.1));
        let rules = [rule("nvidia.com", &["b"], &["get"]), rule("nvidia.com", &["a"], &["get", "patch"]), bind];
        assert_eq!(found["rules"].as_array().unwrap()[1..], rules);
    }
}
