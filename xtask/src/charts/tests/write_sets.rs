//! No two controllers write the same resource, by the roles that they print into their charts.

use std::{collections::BTreeSet, fs};

use repository::chart::programs;
use serde_json::Value;

use crate::charts::list;

/// Programs that write to the API server.
const CONTROLLERS: [&str; 4] = ["graph-controller", "component-controller", "model-controller", "webhook-server"];
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

/// `group/resource` for everything that a role lets a program write; for the core group `core/resource`.
fn written(role: &Value) -> BTreeSet<String> {
    let rules = role["rules"].as_array().unwrap().iter();
    let writes = rules.filter(|rule| list(&rule["verbs"]).any(|verb| !["get", "list", "watch"].contains(&verb)));
    let resources = writes.flat_map(|rule| {
        let groups = list(&rule["apiGroups"]).map(|group| if group.is_empty() { "core" } else { group });
        groups.flat_map(|group| list(&rule["resources"]).map(move |resource| format!("{group}/{resource}")))
    });
    resources.collect()
}

#[test]
fn no_two_controllers_write_one_resource() {
    let sets = CONTROLLERS.map(|controller| {
        let role = fs::read_to_string(programs().join(controller).join("files/role.yaml")).unwrap();
        (controller, written(&serde_saphyr::from_str(&role).unwrap()))
    });
    for (index, (one, resources)) in sets.iter().enumerate() {
        for (other, others) in &sets[index + 1..] {
            for resource in resources.intersection(others) {
                let shared = SHARED.iter().any(|(shared, _)| shared == resource);
                assert!(shared, "{one} and {other} both write {resource}; give it to one, and let the other read it");
            }
        }
    }
    for (resource, _) in SHARED {
        let writers = sets.iter().filter(|(_, resources)| resources.contains(resource)).count();
        assert!(writers > 1, "{resource} is not shared");
    }
}
