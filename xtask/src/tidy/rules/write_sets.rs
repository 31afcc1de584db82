//! No two controllers write the same resource.

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::Value;

/// Resources that more than one controller may write, and how they share them.
const SHARED: [(&str, &str); 12] = [
    ("core/services", "each writes only what it owns: Services of components, or those of graphs on Grove"),
    ("networking.k8s.io/ingresses", "each writes only what it owns, as with Services"),
    ("networking.istio.io/virtualservices", "each writes only what it owns, as with Services"),
    ("autoscaling/horizontalpodautoscalers", "each writes only what it owns: of graphs, or of standalone components"),
    (
        "core/persistentvolumeclaims",
        "each only makes what is missing: claims of graphs, or the one that keeps checkpoints",
    ),
    ("batch/jobs", "each writes only those it owns: Jobs of checkpoints, or those that profile for requests"),
    ("nvidia.com/dynamocomponentdeployments", "the component controller only removes a finalizer of the Go operator"),
    (
        "nvidia.com/dynamocheckpoints",
        "the component controller only removes the finalizer of one that is being deleted",
    ),
    (
        "nvidia.com/dynamocheckpoints/finalizers",
        "the right to be the owner that children wait for, which writes nothing",
    ),
    ("events.k8s.io/events", "events are only ever added"),
    ("authentication.k8s.io/tokenreviews", "a review is a question; the API server stores nothing"),
    ("authorization.k8s.io/subjectaccessreviews", "a review is a question; the API server stores nothing"),
];
/// Verbs that change nothing.
const READS: [&str; 3] = ["get", "list", "watch"];

/// What a controller may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteSet {
    /// The controller.
    pub controller: String,
    /// `group/resource`, for the core group `core/resource`.
    resources: BTreeSet<String>,
}

impl WriteSet {
    /// Reads the role that `controller` prints for itself.
    ///
    /// # Errors
    /// It is no role.
    pub fn parse(controller: &str, role: &str) -> anyhow::Result<Self> {
        let role: Value = serde_saphyr::from_str(role).with_context(|| format!("{controller} prints no YAML"))?;
        let rules = role["rules"].as_array().with_context(|| format!("{controller} prints a role without rules"))?;
        let mut resources = BTreeSet::new();
        for rule in rules.iter().filter(|rule| texts(&rule["verbs"]).any(|verb| !READS.contains(&verb))) {
            for group in texts(&rule["apiGroups"]).map(|group| if group.is_empty() { "core" } else { group }) {
                resources.extend(texts(&rule["resources"]).map(|resource| format!("{group}/{resource}")));
            }
        }
        Ok(Self { controller: controller.to_owned(), resources })
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Finds resources that two of them may write, one sentence each.
pub fn check(sets: &[WriteSet]) -> Vec<String> {
    let mut overlaps = Vec::new();
    for (index, one) in sets.iter().enumerate() {
        for other in sets.iter().skip(index + 1) {
            let common = one.resources.intersection(&other.resources);
            let unshared = common.filter(|resource| !SHARED.iter().any(|(shared, _)| shared == resource));
            overlaps.extend(unshared.map(|resource| {
                format!(
                    "{} and {} both write {resource}; give it to one of them, and let the other read its status",
                    one.controller, other.controller
                )
            }));
        }
    }
    overlaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(controller: &str, group: &str, resource: &str, verb: &str) -> WriteSet {
        let role = format!("rules:\n- apiGroups: ['{group}']\n  resources: [{resource}, x]\n  verbs: [get, {verb}]\n");
        WriteSet::parse(controller, &role).unwrap()
    }

    #[test]
    fn two_writers_of_one_resource_are_found() {
        let check = |verb| {
            check(&[set("a", "", "secrets", "patch"), set("b", "apps", "x", "patch"), set("c", "", "secrets", verb)])
        };
        assert_eq!(check("list"), [""; 0]);
        let found = check("create");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a and c both write core/secrets;"), "{found:?}");
    }

    #[test]
    fn what_is_shared_for_a_reason_is_no_overlap() {
        let role = "rules:\n- apiGroups: [events.k8s.io]\n  resources: [events]\n  verbs: [create]\n";
        let sets = ["a", "b"].map(|controller| WriteSet::parse(controller, role).unwrap());
        assert!(check(&sets).is_empty());
    }

    #[test]
    fn what_is_no_role_is_an_error() {
        assert!(WriteSet::parse("a", "kind: Role").is_err());
        assert!(WriteSet::parse("a", "{").is_err());
    }
}
