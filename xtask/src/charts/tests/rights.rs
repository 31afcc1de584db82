//! Rights on what several owners share.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{RESTRICTED, WITH_WEBHOOKS, find, names, render};

/// Kinds of which others have objects beside ours, wherever a right reaches.
const SHARED: [&str; 4] =
    ["validatingwebhookconfigurations", "mutatingwebhookconfigurations", "customresourcedefinitions", "leases"];

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// All rules of a rendered chart, with the names of their roles.
fn rules(objects: &[Value]) -> impl Iterator<Item = (&str, &Value)> {
    let roles = objects.iter().filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role");
    roles.flat_map(|role| {
        let name = role["metadata"]["name"].as_str().unwrap();
        role["rules"].as_array().unwrap().iter().map(move |rule| (name, rule))
    })
}

/// Names that a rule about one resource gives a verb on.
fn may(objects: &[Value], verb: &str, resource: &str) -> BTreeSet<String> {
    let about = |rule: &Value| {
        texts(&rule["resources"]).any(|one| one == resource) && texts(&rule["verbs"]).any(|one| one == verb)
    };
    let rules = rules(objects).filter(|(_, rule)| about(rule));
    rules.flat_map(|(_, rule)| texts(&rule["resourceNames"]).map(str::to_owned)).collect()
}

/// A creation has no name to check; everything else that changes an object has.
#[test]
fn what_others_have_beside_us_is_written_by_name_only() {
    let target = [&WITH_WEBHOOKS[..], &["dynamo-operator.namespaceRestriction.targetNamespace=team"]].concat();
    for values in [&[][..], &WITH_WEBHOOKS, &target] {
        for (role, rule) in rules(&render(values).unwrap()) {
            let of_kind = |resource: &str| SHARED.iter().any(|kind| resource.split('/').next() == Some(kind));
            let writes = texts(&rule["verbs"]).any(|verb| !["get", "list", "watch", "create"].contains(&verb));
            if writes && texts(&rule["resources"]).any(of_kind) {
                assert!(texts(&rule["resourceNames"]).next().is_some(), "{values:?}: {role} has {rule}");
            }
        }
    }
}

#[test]
fn the_names_are_those_of_the_release() {
    let named = [&WITH_WEBHOOKS[..], &["dynamo-operator.fullnameOverride=ours"]].concat();
    for values in [&[][..], &WITH_WEBHOOKS, &named] {
        let objects = render(values).unwrap();
        for (resource, kind) in [
            ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
            ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        ] {
            let there: BTreeSet<String> = names(&objects, kind).into_iter().map(str::to_owned).collect();
            assert_eq!(may(&objects, "patch", resource), there, "{values:?}");
        }
    }
    let definitions = may(&render(&[]).unwrap(), "patch", "customresourcedefinitions");
    assert_eq!(definitions.len(), 8, "{definitions:?}");
    assert!(definitions.contains("dynamomodels.nvidia.com"), "{definitions:?}");
    let leases = may(&render(&WITH_WEBHOOKS).unwrap(), "update", "leases");
    let controllers = ["graph-controller", "component-controller", "model-controller"];
    let elections = controllers.iter().map(|controller| format!("dynamo-{controller}.dynamo.nvidia.com"));
    let members = elections.clone().flat_map(|lease| (0..8).map(move |number| format!("{lease}-member-{number}")));
    assert_eq!(leases, elections.chain(members).chain(["dynamo-operator-namespace-scope".to_owned()]).collect());
}

/// No program writes such a Secret.
#[test]
fn the_certificate_of_another_issuer_is_only_read() {
    for install in [&[][..], &WITH_WEBHOOKS] {
        let writes = |values: &[&str]| {
            let objects = render(&[install, values].concat()).unwrap();
            may(&objects, "update", "secrets").contains("webhook-server-cert")
        };
        assert!(writes(&[]), "it is renewed");
        assert!(!writes(&["dynamo-operator.webhook.certManager.enabled=true"]), "{install:?}");
        assert!(!writes(&["dynamo-operator.webhook.certificateSecret.external=true"]), "{install:?}");
    }
}

/// Another issuer of certificates writes the CA bundles itself.
#[test]
fn an_install_for_one_namespace_changes_nothing_of_the_cluster_where_others_make_its_certificates() {
    for value in ["webhook.certManager.enabled=true", "webhook.certificateSecret.external=true"] {
        let objects = render(&[&WITH_WEBHOOKS[..], &[&format!("dynamo-operator.{value}")]].concat()).unwrap();
        let roles: Vec<&str> = names(&objects, "ClusterRole");
        assert!(roles.is_empty(), "{value}: {roles:?}");
    }
    let injected = [&WITH_WEBHOOKS[..], &["dynamo-operator.webhook.certManager.enabled=true"]].concat();
    let objects = render(&injected).unwrap();
    let configuration = find(&objects, "MutatingWebhookConfiguration", "rel-dynamo-operator-mutating-dyn");
    let injects = &configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
    assert_eq!(injects, "dyn/rel-dynamo-operator-serving-cert");
}

/// Names of resources of a group, as a rule has them: none of another group, and no wildcard.
fn is_of(rule: &Value, group: &str, resource: &str) -> bool {
    texts(&rule["apiGroups"]).any(|one| one == group) && texts(&rule["resources"]).any(|one| one == resource)
}

/// A role with a wildcard grants rights without review, and what the cluster serves only tomorrow.
#[test]
fn no_role_has_a_wildcard() {
    for (install, values) in rights::INSTALLS {
        for (role, rule) in rules(&render(values).unwrap()) {
            let parts = ["apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"];
            let wild = parts.iter().any(|part| texts(&rule[*part]).any(|text| text.contains('*')));
            assert!(!wild, "{install}: {role} has {rule}");
        }
    }
}

/// Secrets of the cluster hold what its tenants keep from each other: only those whose names are known beforehand are
/// read or created there.
#[test]
fn no_role_of_the_cluster_has_secrets_but_by_name() {
    for (install, values) in rights::INSTALLS {
        let objects = render(values).unwrap();
        let clusters: Vec<Value> = objects.into_iter().filter(|object| object["kind"] == "ClusterRole").collect();
        for (role, rule) in rules(&clusters).filter(|(_, rule)| is_of(rule, "", "secrets")) {
            let named = texts(&rule["resourceNames"]).next().is_some();
            assert!(named, "{install}: {role} has {rule}");
        }
    }
}

/// An empty name in a rule allows requests that name no object: to list all, and to create any.
#[test]
fn without_a_name_for_the_mpi_key_there_is_no_right_to_it() {
    for (install, values) in rights::INSTALLS {
        let values: Vec<&str> = values.iter().copied().chain(["dynamo-operator.dynamo.mpiRun.secretName="]).collect();
        for (role, rule) in rules(&render(&values).unwrap()) {
            assert!(texts(&rule["resourceNames"]).all(|name| !name.is_empty()), "{install}: {role} has {rule}");
        }
    }
}

/// The writer of a definition controls the conversion of the objects of all namespaces.
#[test]
fn only_crds_writes_definitions_and_by_name() {
    for (install, values) in rights::INSTALLS {
        for (role, rule) in rules(&render(values).unwrap()) {
            let writes = texts(&rule["verbs"]).any(|verb| !["get", "list", "watch"].contains(&verb));
            let definitions = is_of(rule, "apiextensions.k8s.io", "customresourcedefinitions");
            let named = texts(&rule["resourceNames"]).next().is_some();
            assert!(!(writes && definitions) || (named && role.ends_with("-crds")), "{install}: {role} has {rule}");
        }
    }
}

/// Rights by which an account could give itself, or take from others, any other right.
#[test]
fn no_role_leads_to_other_rights() {
    for (install, values) in rights::INSTALLS {
        for (role, rule) in rules(&render(values).unwrap()) {
            let verbs = texts(&rule["verbs"]).any(|verb| ["escalate", "impersonate"].contains(&verb));
            let resources = ["pods/exec", "pods/attach", "nodes/proxy", "serviceaccounts/token"];
            let resources = texts(&rule["resources"]).any(|resource| resources.contains(&resource));
            let binds =
                texts(&rule["verbs"]).any(|verb| verb == "bind") && texts(&rule["resourceNames"]).next().is_none();
            assert!(!verbs && !resources && !binds, "{install}: {role} has {rule}");
        }
    }
}

/// Pods have their roles by RoleBindings, which grant nothing of the cluster.
#[test]
fn roles_of_pods_name_no_resource_of_the_cluster() {
    let objects = render(&[]).unwrap();
    let of_cluster = ["tokenreviews", "subjectaccessreviews", "nodes", "namespaces", "customresourcedefinitions"];
    for (role, rule) in rules(&objects)
        .filter(|(role, _)| ["-discovery", "-planner", "-epp", "-profiling"].iter().any(|end| role.ends_with(end)))
    {
        assert!(!texts(&rule["resources"]).any(|resource| of_cluster.contains(&resource)), "{role} has {rule}");
    }
}

/// Pods of graphs run on when the release goes, and discover each other by this role.
#[test]
fn the_role_of_discovery_accounts_is_kept_and_has_one_name() {
    let target = [&RESTRICTED[..], &["dynamo-operator.namespaceRestriction.targetNamespace=team"]].concat();
    let named = ["dynamo-operator.fullnameOverride=ours"];
    for (values, kind, namespace) in [
        (&[][..], "ClusterRole", Value::Null),
        (&named[..], "ClusterRole", Value::Null),
        (&RESTRICTED[..], "Role", json!("dyn")),
        (&target[..], "Role", json!("team")),
    ] {
        let objects = render(values).unwrap();
        let role = find(&objects, kind, "dynamo-operator-discovery");
        assert_eq!(role["metadata"]["namespace"], namespace, "{values:?}");
        assert_eq!(role["metadata"]["annotations"], json!({ "helm.sh/resource-policy": "keep" }), "{values:?}");
        let config =
            objects.iter().find(|object| object["kind"] == "ConfigMap" && object["data"]["config.yaml"].is_string());
        let config = config.unwrap()["data"]["config.yaml"].as_str().unwrap();
        assert!(config.contains("discoveryRoleName: dynamo-operator-discovery\n"), "{config}");
    }
}
