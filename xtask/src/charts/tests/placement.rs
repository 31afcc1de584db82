//! Placement of the operator's pods, and their common properties.

use serde_json::Value;

use super::{RESTRICTED, find, render};

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

/// Zero is a number: a program that is not to run for a while.
#[test]
fn replicas_of_a_controller_are_its_own_or_those_of_all() {
    let values = ["dynamo-operator.controllerManager.replicas=2", "dynamo-operator.graph-controller.replicas=0"];
    let objects = render(&values).unwrap();
    for (program, expected) in [("graph-controller", 0), ("component-controller", 2)] {
        let deployment = find(&objects, "Deployment", &format!("rel-dynamo-operator-{program}"));
        assert_eq!(deployment["spec"]["replicas"], expected, "{program}");
    }
}

/// Name and template of the pods of all workloads.
fn templates(values: &[&str]) -> Vec<(String, Value)> {
    let objects = render(values).unwrap();
    let workloads = objects.into_iter().filter(|object| object["kind"] == "Deployment");
    let template =
        |object: Value| (object["metadata"]["name"].as_str().unwrap().to_owned(), object["spec"]["template"].clone());
    workloads.map(template).collect()
}

#[test]
fn what_is_said_of_all_pods_is_true_of_each() {
    let manager = "dynamo-operator.controllerManager";
    for value in [
        format!("{manager}.podLabels.team=a"),
        format!("{manager}.podAnnotations.team=a"),
        format!("{manager}.tolerations[0].key=a"),
        format!("{manager}.affinity.nodeAffinity.a=b"),
        format!("{manager}.manager.image.tag=a"),
        format!("{manager}.manager.image.pullPolicy=Always"),
        format!("{manager}.manager.image.repository=a"),
        format!("{manager}.manager.resources.limits.memory=1Mi"),
        format!("{manager}.manager.containerSecurityContext.privileged=false"),
        "dynamo-operator.imagePullSecrets[0].name=a".to_owned(),
        "dynamo-operator.env[0].name=A".to_owned(),
    ] {
        for install in [&[][..], &RESTRICTED] {
            let (before, after) = (templates(install), templates(&[install, &[&value]].concat()));
            assert_eq!(before.len(), after.len());
            for ((name, before), (_, after)) in before.iter().zip(&after) {
                assert_ne!(before, after, "{value} leaves no trace in {name}");
            }
        }
    }
}

#[test]
fn what_is_said_of_the_pods_of_one_program_is_true_of_them() {
    for (program, install) in [("crds", &[][..]), ("graph-controller", &[]), ("lease-scope", &RESTRICTED)] {
        for value in ["podLabels.team=a", "podAnnotations.team=a", "nodeSelector.a=b", "priorityClassName=a"] {
            let value = format!("dynamo-operator.{program}.{value}");
            let (before, after) = (templates(install), templates(&[install, &[&value]].concat()));
            for ((name, before), (_, after)) in before.iter().zip(&after) {
                let own = name.ends_with(program);
                assert_eq!(before != after, own, "{value} in {name}");
            }
        }
    }
}
