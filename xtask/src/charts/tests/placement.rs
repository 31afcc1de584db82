//! Where the operator's pods run.

use super::{find, render};

/// Two replicas on one node are away together.
#[test]
fn replicas_are_on_several_nodes_where_there_are_several() {
    let objects = render(&["dynamo-operator.graph-controller.replicas=3"]).unwrap();
    let spread = |program: &str| {
        let deployment = find(&objects, "Deployment", &format!("rel-dynamo-operator-{program}"));
        let spec = &deployment["spec"];
        let constraints = spec["template"]["spec"]["topologySpreadConstraints"].as_array().cloned();
        (constraints.unwrap_or_default(), spec["selector"].clone())
    };
    for program in ["webhook-server", "graph-controller"] {
        let (constraints, selector) = spread(program);
        assert_eq!(constraints.len(), 1, "{program}");
        assert_eq!(constraints[0]["topologyKey"], "kubernetes.io/hostname", "{program}");
        assert_eq!(constraints[0]["whenUnsatisfiable"], "ScheduleAnyway", "{program}: one node is enough");
        assert_eq!(constraints[0]["labelSelector"], selector, "{program}");
    }
    assert!(spread("model-controller").0.is_empty(), "one replica is nowhere else");
}
