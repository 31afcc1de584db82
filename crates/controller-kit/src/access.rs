//! Rights of a controller, as data. The RBAC rules of the chart are made from them, and tests compare them with the
//! audit log.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use serde::Serialize;
use serde_json::{Value, json};

use crate::scope::MARKER_LEASE;

/// A verb of the Kubernetes API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Follow changes.
    Watch,
    /// Make an object. Server-side apply of a new object needs it beside [`Verb::Patch`].
    Create,
    /// Replace an object.
    Update,
    /// Change parts of an object; server-side apply.
    Patch,
    /// Delete one object.
    Delete,
    /// Grant rights one does not have.
    Escalate,
    /// Bind roles one does not have.
    Bind,
}

impl Verb {
    /// Verbs that a cache needs.
    pub const CACHE: &'static [Self] = &[Self::Get, Self::List, Self::Watch];
    /// Verbs that the apply engine needs to own objects that are cached.
    pub const OWN: &'static [Self] = &[Self::Get, Self::List, Self::Watch, Self::Create, Self::Patch, Self::Delete];
    /// Verbs that the apply engine needs to own objects that are cached and that are removed with their owner.
    pub const KEEP: &'static [Self] = &[Self::Get, Self::List, Self::Watch, Self::Create, Self::Patch];
}

/// One kind and what may be done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural name, for example `deployments`.
    pub resource: &'static str,
    /// Subresource, for example `status`.
    pub subresource: Option<&'static str>,
    /// The only objects that this is about; all of the kind if empty. [`Verb::Create`] allows a server-side apply that
    /// creates the object: its URL contains the name. A POST has no name to check.
    pub names: &'static [&'static str],
    /// Allowed verbs.
    pub verbs: &'static [Verb],
    /// Reason for the right, for the reader of the role.
    pub why: &'static str,
}

impl Access {
    /// A right on a kind.
    pub const fn new(group: &'static str, resource: &'static str, verbs: &'static [Verb], why: &'static str) -> Self {
        Self { group, resource, subresource: None, names: &[], verbs, why }
    }

    /// A right on objects by name.
    pub const fn named(
        group: &'static str,
        resource: &'static str,
        names: &'static [&'static str],
        verbs: &'static [Verb],
        why: &'static str,
    ) -> Self {
        Self { names, ..Self::new(group, resource, verbs, why) }
    }

    /// A right on a subresource.
    pub const fn sub(
        group: &'static str,
        resource: &'static str,
        subresource: &'static str,
        verbs: &'static [Verb],
        why: &'static str,
    ) -> Self {
        Self { subresource: Some(subresource), ..Self::new(group, resource, verbs, why) }
    }

    /// The right to make objects of this kind the controllers of others.
    pub const fn owner(group: &'static str, resource: &'static str) -> Self {
        Self::sub(
            group,
            resource,
            "finalizers",
            &[Verb::Update],
            "children block the deletion of their owner in the foreground; clusters with the admission plugin \
             OwnerReferencesPermissionEnforcement require this right before they accept such an owner",
        )
    }

    fn path(&self) -> String {
        match self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.to_owned(),
        }
    }

    fn named_rule(&self) -> Value {
        json!({
            "apiGroups": [self.group], "resources": [self.path()], "resourceNames": self.names, "verbs": self.verbs,
        })
    }
}

/// Every process follows the marker Leases of namespaces ([`crate::scope`]).
const MARKERS: Access =
    Access::named("coordination.k8s.io", "leases", &[MARKER_LEASE], Verb::CACHE, "shows who serves a namespace");

/// Every process that serves metrics has its clients reviewed by the API server. Both kinds belong to the cluster.
pub const METRICS: &[Access] = &[
    Access::new(
        "authentication.k8s.io",
        "tokenreviews",
        &[Verb::Create],
        "authenticates clients of the metrics endpoint",
    ),
    Access::new(
        "authorization.k8s.io",
        "subjectaccessreviews",
        &[Verb::Create],
        "checks whether that user may read metrics",
    ),
];

/// The Role in this namespace, or the ClusterRole, that grants exactly `access`, and that the marker Leases of
/// namespaces may be followed, which every process does ([`crate::scope`]). A ClusterRole grants [`METRICS`], too. Lines
/// of one resource are merged, resources of one group with the same verbs share a rule; the order is that of groups and
/// names. Rights on objects by name come last, each in a rule of its own.
pub fn role(name: &str, namespace: Option<&str>, access: &[Access]) -> Value {
    let metrics = if namespace.is_none() { METRICS } else { &[] };
    exact_role(name, namespace, access.iter().chain(metrics).chain([&MARKERS]))
}

/// The role that grants these rights and nothing else.
fn exact_role<'a>(name: &str, namespace: Option<&str>, access: impl Iterator<Item = &'a Access>) -> Value {
    let (named, whole): (Vec<&Access>, Vec<&Access>) = access.partition(|line| !line.names.is_empty());
    let mut verbs: BTreeMap<(&str, String), BTreeSet<Verb>> = BTreeMap::new();
    for line in whole {
        verbs.entry((line.group, line.path())).or_default().extend(line.verbs);
    }
    let mut rules: BTreeMap<(&str, Vec<Verb>), Vec<String>> = BTreeMap::new();
    for ((group, path), verbs) in verbs {
        rules.entry((group, verbs.into_iter().collect())).or_default().push(path);
    }
    let rules: Vec<Value> = rules
        .into_iter()
        .map(|((group, verbs), resources)| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs }))
        .chain(named.into_iter().map(Access::named_rule))
        .collect();
    let (kind, metadata) = match namespace {
        None => ("ClusterRole", json!({ "name": name })),
        Some(namespace) => ("Role", json!({ "name": name, "namespace": namespace })),
    };
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules })
}

/// The command `access` of a program: prints the ClusterRole that it needs, or the Role for one namespace.
#[must_use]
pub fn print_role(name: &str, namespace: Option<&str>, access: &[Access]) -> ExitCode {
    print(name, &role(name, namespace, access))
}

/// Prints the role of pods, which are no processes of the operator: exactly `access`.
#[must_use]
pub fn print_pod_role(name: &str, namespace: Option<&str>, access: &[Access]) -> ExitCode {
    print(name, &exact_role(name, namespace, access.iter()))
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command")]
fn print(name: &str, role: &Value) -> ExitCode {
    match serde_saphyr::to_string(role) {
        Ok(yaml) => {
            print!("{yaml}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{name}: cannot write the role: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::{Access, Verb, role};

    const fn line(
        group: &'static str,
        resource: &'static str,
        subresource: Option<&'static str>,
        verbs: &'static [Verb],
    ) -> Access {
        Access { subresource, ..Access::new(group, resource, verbs, "test") }
    }

    const GRAPH: &[Access] = &[
        line("nvidia.com", "graphs", None, Verb::CACHE),
        line("nvidia.com", "graphs", Some("status"), &[Verb::Patch]),
        line("nvidia.com", "components", None, Verb::OWN),
        line("", "serviceaccounts", None, Verb::KEEP),
    ];
    const COMPONENT: &[Access] = &[
        line("nvidia.com", "components", None, Verb::CACHE),
        line("nvidia.com", "components", Some("status"), &[Verb::Patch]),
        line("", "serviceaccounts", None, &[Verb::Delete]),
        line("apps", "deployments", None, &[Verb::Patch]),
        line("apps", "deployments", None, Verb::CACHE),
        line("apps", "replicasets", None, &[Verb::Get, Verb::Watch, Verb::List, Verb::Patch]),
    ];

    fn yaml(role: &Value) -> String {
        serde_saphyr::to_string(role).unwrap()
    }

    #[test]
    fn a_cluster_role_merges_what_belongs_together() {
        expect![[r#"
            apiVersion: rbac.authorization.k8s.io/v1
            kind: ClusterRole
            metadata:
              name: dynamo-component
            rules:
            - apiGroups:
              - ""
              resources:
              - serviceaccounts
              verbs:
              - delete
            - apiGroups:
              - apps
              resources:
              - deployments
              - replicasets
              verbs:
              - get
              - list
              - watch
              - patch
            - apiGroups:
              - authentication.k8s.io
              resources:
              - tokenreviews
              verbs:
              - create
            - apiGroups:
              - authorization.k8s.io
              resources:
              - subjectaccessreviews
              verbs:
              - create
            - apiGroups:
              - nvidia.com
              resources:
              - components
              verbs:
              - get
              - list
              - watch
            - apiGroups:
              - nvidia.com
              resources:
              - components/status
              verbs:
              - patch
            - apiGroups:
              - coordination.k8s.io
              resourceNames:
              - dynamo-operator-namespace-scope
              resources:
              - leases
              verbs:
              - get
              - list
              - watch
        "#]]
        .assert_eq(&yaml(&role("dynamo-component", None, COMPONENT)));
    }

    #[test]
    fn a_role_is_in_its_namespace() {
        let yaml = yaml(&role("dynamo-graph", Some("team-a"), GRAPH));
        assert!(yaml.contains("kind: Role\n") && yaml.contains("namespace: team-a\n"), "{yaml}");
    }

    #[test]
    fn a_right_on_single_objects_is_a_rule_of_its_own() {
        let named = Access::named("rbac.authorization.k8s.io", "clusterroles", &["planner"], &[Verb::Bind], "test");
        let role = role("r", Some("n"), &[named]);
        let rule = &role["rules"][0];
        assert_eq!((&rule["resourceNames"], &rule["verbs"]), (&json!(["planner"]), &json!(["bind"])), "{role}");
        assert_eq!(role["rules"].as_array().map(Vec::len), Some(2), "and the markers: {role}");
    }
}
