//! Permitted changes of a graph or a component, and the users who may make them.

use serde_json::{Value, json};
use webhook_server::admission::Facts;

use crate::support::*;

const PROVIDER: &str = "Invalid metadata.annotations[nvidia.com/workload-provider]";

#[test]
fn what_stays_in_a_graph() {
    updates(
        &graph(),
        &facts(),
        &[
            ("nothing", |_| {}, &[]),
            (
                "component added",
                |g| {
                    let mut more = worker();
                    more["name"] = json!("prefill");
                    g["spec"]["components"].as_array_mut().unwrap().push(more);
                },
                &["Forbidden spec.components"],
            ),
            (
                "component removed",
                |g| {
                    g["spec"]["components"].as_array_mut().unwrap().pop();
                },
                &["Forbidden spec.components"],
            ),
            ("order", |g| g["spec"]["components"].as_array_mut().unwrap().reverse(), &[]),
            (
                "provider",
                |g| g["metadata"]["annotations"]["nvidia.com/workload-provider"] = json!("grove"),
                &[PROVIDER],
            ),
            ("no provider", |g| g["metadata"]["annotations"] = json!({}), &[PROVIDER]),
            (
                "everything else",
                |g| g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][1]["args"] = json!(["x"]),
                &[],
            ),
        ],
    );
}

/// CEL does not see it in v1alpha1, which keeps it in an annotation.
#[test]
fn a_forced_scaling_group_stays() {
    let with = |forced: Value| {
        edited(&grove_graph(), |g| {
            g["spec"]["components"][1]["experimental"] = json!({ "grove": { "forceScalingGroup": forced } });
        })
    };
    let at = ["Invalid spec.components[1].experimental.grove.forceScalingGroup"];
    for (old, new, stays) in
        [(false.into(), true.into(), false), (true.into(), Value::Null, false), (false.into(), Value::Null, true)]
    {
        let found = violations(&update(&with(old), &with(new), &grove()));
        assert_eq!(found, if stays { &[][..] } else { &at[..] });
    }
}

/// The install serves the namespace, and does not hold it: the operator that acts there is another one.
fn without_the_namespace() -> Facts {
    let mut facts = facts();
    facts.another_operator = true;
    facts
}

#[test]
fn replicas_of_a_scaling_adapter() {
    let scaled = |replicas: i64| {
        edited(&graph(), |g| {
            g["spec"]["components"][1]["scalingAdapter"] = json!({});
            g["spec"]["components"][1]["replicas"] = json!(replicas);
        })
    };
    let by = |user: &str, facts: &Facts| violations(&validate(&change_by(user, scaled(1), scaled(3)), facts));
    let refused = ["Forbidden spec.components[1].replicas"];
    assert_eq!(by("ann", &facts()), refused);
    assert_eq!(by("", &facts()), refused, "an unknown user has no exemption");
    assert_eq!(by(OPERATOR, &facts()), Vec::<String>::new());
    assert_eq!(by("system:serviceaccount:team:planner-serviceaccount", &facts()), Vec::<String>::new());
    assert_eq!(
        by("system:serviceaccount:other:planner-serviceaccount", &facts()),
        refused,
        "a planner of another namespace"
    );
    assert_eq!(by("system:serviceaccount:team:default", &facts()), refused);
    assert_eq!(by("planner-serviceaccount", &facts()), refused);
    assert_eq!(by("system:serviceaccount:other:operator", &without_the_namespace()), Vec::<String>::new());
    // Taking the adapter away, or adding it, is no way round.
    let free = edited(&scaled(3), |g| g["spec"]["components"][1]["scalingAdapter"] = json!(null));
    assert_eq!(violations(&update(&scaled(1), &free, &facts())), refused);
    assert_eq!(violations(&update(&free, &scaled(1), &facts())), refused);
    assert_eq!(
        violations(&update(&edited(&free, |g| g["spec"]["components"][1]["replicas"] = json!(1)), &free, &facts())),
        Vec::<String>::new()
    );
    // Nothing written is one replica.
    let unset = edited(&scaled(1), |g| g["spec"]["components"][1]["replicas"] = json!(null));
    assert_eq!(violations(&update(&scaled(1), &unset, &facts())), Vec::<String>::new());
}

#[test]
fn the_operator_chooses_what_runs_a_graph() {
    let old = edited(&graph(), |g| g["metadata"]["annotations"] = json!({}));
    let by = |user: &str, facts: &Facts| violations(&validate(&change_by(user, old.clone(), graph()), facts));
    assert_eq!(by("ann", &facts()), ["Forbidden metadata.annotations[nvidia.com/workload-provider]"]);
    assert_eq!(by(OPERATOR, &facts()), Vec::<String>::new());
    let mut unknown = facts();
    unknown.operators.clear();
    assert_eq!(by("ann", &unknown), Vec::<String>::new());
    assert_eq!(by("ann", &without_the_namespace()), Vec::<String>::new());
}

#[test]
fn power_limits_stay() {
    let limited = |limit: Option<&str>| {
        edited(&graph(), |g| {
            if let Some(limit) = limit {
                g["spec"]["components"][1]["podTemplate"]["metadata"] =
                    json!({ "annotations": { "dynamo.nvidia.com/gpu-power-limit": limit } });
            }
        })
    };
    let at = ["Invalid spec.components[1].podTemplate.metadata.annotations[dynamo.nvidia.com/gpu-power-limit]"];
    assert_eq!(violations(&update(&limited(None), &limited(Some("400")), &facts())), at);
    assert_eq!(violations(&update(&limited(Some("400")), &limited(None), &facts())), at);
    assert_eq!(violations(&update(&limited(Some("400")), &limited(Some("300")), &facts())), at);
    updates(
        &edited(&limited(Some("400")), |g| g["spec"]["components"][1]["multinode"] = json!({ "nodeCount": 2 })),
        &facts_with(|features| features.lws = true),
        &[
            (
                "image",
                |g| g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][1]["image"] = json!("x:1.5.1"),
                &[],
            ),
            (
                "GPUs",
                |g| {
                    g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][1]["resources"]["limits"]["nvidia.com/gpu"] =
                        json!("2");
                },
                &["Invalid spec.components[1].podTemplate.spec.containers[1].resources.limits[nvidia.com/gpu]"],
            ),
            (
                "no GPUs",
                |g| g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][1]["resources"] = json!({}),
                &["Invalid spec.components[1].podTemplate.spec.containers[1].resources"],
            ),
            (
                "nodes",
                |g| g["spec"]["components"][1]["multinode"]["nodeCount"] = json!(4),
                &["Invalid spec.components[1].multinode.nodeCount"],
            ),
        ],
    );
}

#[test]
fn components_on_their_own() {
    updates(
        &component(),
        &facts(),
        &[
            ("engine", |c| c["spec"]["backendFramework"] = json!("sglang"), &["Invalid spec.backendFramework"]),
            (
                "replicas",
                |c| {
                    c["spec"]["scalingAdapter"] = json!({});
                    c["spec"]["replicas"] = json!(7);
                },
                &[],
            ),
            (
                "image",
                |c| c["spec"]["podTemplate"]["spec"]["containers"][1]["image"] = json!(null),
                &["Required spec.podTemplate.spec.containers[1].image"],
            ),
        ],
    );
    let other = edited(&component(), |c| c["spec"]["backendFramework"] = json!("sglang"));
    let by_operator = change_by(OPERATOR, component(), other);
    assert_eq!(violations(&validate(&by_operator, &facts())), Vec::<String>::new());
}

/// A rule that came later, or a feature that was switched off, does not block other changes.
#[test]
fn old_violations_do_not_count() {
    let old = edited(&graph(), |g| {
        g["spec"]["priorityClassName"] = json!("high");
        g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][1]["image"] = json!("vllm:my-tag");
        g["spec"]["components"][1]["experimental"] = json!({ "checkpoint": { "enabled": true } });
    });
    assert_eq!(violations(&create(&old, &facts())).len(), 3);
    updates(
        &old,
        &facts(),
        &[
            ("replicas", |g| g["spec"]["components"][1]["replicas"] = json!(3), &[]),
            ("order", |g| g["spec"]["components"].as_array_mut().unwrap().reverse(), &[]),
            (
                "another image without version",
                |g| g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][1]["image"] = json!("vllm:latest"),
                &["Required spec.components[1].runtimeVersionOverride"],
            ),
            (
                "the violation itself",
                |g| g["spec"]["priorityClassName"] = json!("higher"),
                &["Forbidden spec.priorityClassName"],
            ),
            (
                "a new violation",
                |g| g["spec"]["components"][0]["sharedMemorySize"] = json!("-1"),
                &["Invalid spec.components[0].sharedMemorySize"],
            ),
        ],
    );
}

/// Defect of ours: what was missing in a list counted as a new violation with every other change of the list.
#[test]
fn what_was_missing_may_be_missing_still() {
    let old = edited(&graph(), |g| {
        g["spec"]["components"][1]["podTemplate"]["spec"]["containers"] =
            json!([{ "name": "side", "image": "side:1" }]);
    });
    let at = ["Required spec.components[1].podTemplate.spec.containers"];
    assert_eq!(violations(&create(&old, &facts())), at);
    let side = edited(&old, |g| {
        g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["image"] = json!("side:2");
    });
    assert_eq!(violations(&update(&old, &side, &facts())), [""; 0]);
    assert_eq!(violations(&update(&graph(), &old, &facts())), at, "it was not missing");
}

/// A change of metadata alone is never refused for the spec.
#[test]
fn metadata_alone_may_always_change() {
    let old = edited(&graph(), |g| {
        g["metadata"]["annotations"] = json!({});
        g["metadata"]["finalizers"] = json!(["nvidia.com/finalizer"]);
        g["spec"]["components"][1]["minAvailable"] = json!(1);
    });
    let new = edited(&old, |g| {
        g["metadata"]["finalizers"] = json!([]);
        g["metadata"]["annotations"]["nvidia.com/enable-grove"] = json!("false");
    });
    assert_eq!(violations(&update(&old, &new, &grove())), Vec::<String>::new());
}

#[test]
fn metadata_is_refused_for_an_annotation_that_becomes_invalid_and_not_for_one_that_was() {
    let annotate = |value: &str| {
        edited(&graph(), |g| {
            g["metadata"]["annotations"]["nvidia.com/dynamo-kube-discovery-mode"] = json!(value);
            g["spec"]["components"][1]["minAvailable"] = json!(1);
        })
    };
    let (valid, invalid) = (annotate("pod"), annotate("node"));
    let at = ["NotSupported metadata.annotations[nvidia.com/dynamo-kube-discovery-mode]"];
    assert_eq!(violations(&update(&valid, &invalid, &facts())), at);
    let labelled = edited(&invalid, |g| g["metadata"]["labels"] = json!({ "team": "a" }));
    assert_eq!(violations(&update(&invalid, &labelled, &facts())), Vec::<String>::new());
}

#[test]
fn what_is_being_deleted_is_not_validated() {
    let deleting = |object: &Value| {
        edited(object, |o| {
            o["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            o["spec"] = json!({ "modelName": "" });
        })
    };
    for object in [graph(), component()] {
        let answer = update(&object, &deleting(&object), &facts());
        assert_eq!(violations(&answer), Vec::<String>::new());
        assert!(warnings(&answer).is_empty());
    }
}

#[test]
fn another_engine_is_rejected_with_its_consequence() {
    let other = edited(&component(), |c| c["spec"]["backendFramework"] = json!("sglang"));
    let answer = update(&component(), &other, &facts());
    let reported = warnings(&answer);
    assert!(reported.len() == 1 && reported[0].starts_with("spec.backendFramework: "), "{reported:?}");
}
