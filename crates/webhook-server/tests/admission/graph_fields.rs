//! Rules about a graph as it is.

use serde_json::{Value, json};

use crate::support::*;

const METADATA: &str = "metadata";

#[test]
fn rollouts_are_controlled_by_annotations() {
    const CONTROLS: [&str; 3] =
        ["operator.dynamo/rollout", "operator.dynamo/rollout-step", "operator.dynamo/progress-deadline"];
    fn set(g: &mut Value, values: [&str; 3]) {
        for (key, value) in CONTROLS.into_iter().zip(values) {
            g[METADATA]["annotations"][key] = json!(value);
        }
    }
    let rows: [Row; 4] = [
        ("controls", |g| set(g, ["paused", "25%", "10m"]), &[]),
        ("others", |g| set(g, ["undone", "1", "1h30m"]), &[]),
        (
            "violations",
            |g| set(g, ["resumed", "0%", "soon"]),
            &[
                "NotSupported metadata.annotations[operator.dynamo/rollout]",
                "Invalid metadata.annotations[operator.dynamo/rollout-step]",
                "Invalid metadata.annotations[operator.dynamo/progress-deadline]",
            ],
        ),
        (
            "a step of workers that are replaced at once",
            |g| {
                g[METADATA]["annotations"]["operator.dynamo/rollout-step"] = json!("1");
                let workers = g["spec"]["components"].as_array_mut().unwrap();
                for worker in workers {
                    worker["podTemplate"]["metadata"]["annotations"]["nvidia.com/deployment-strategy"] =
                        json!("Recreate");
                }
            },
            &["Forbidden metadata.annotations[operator.dynamo/rollout-step]"],
        ),
    ];
    creates(&graph(), &facts(), &rows);
    let on_grove: [Row; 1] = [(
        "Grove cannot be held",
        |g| set(g, ["paused", "25%", "10m"]),
        &[
            "Forbidden metadata.annotations[operator.dynamo/rollout]",
            "Forbidden metadata.annotations[operator.dynamo/rollout-step]",
            "Forbidden metadata.annotations[operator.dynamo/progress-deadline]",
        ],
    )];
    creates(&grove_graph(), &grove(), &on_grove);
}

#[test]
fn metadata_of_graphs() {
    creates(
        &graph(),
        &facts(),
        &[
            ("origin", |g| g[METADATA]["annotations"]["nvidia.com/dynamo-operator-origin-version"] = json!("1.4"), &[]),
            (
                "no origin",
                |g| g[METADATA]["annotations"]["nvidia.com/dynamo-operator-origin-version"] = json!("newest"),
                &["Invalid metadata.annotations[nvidia.com/dynamo-operator-origin-version]"],
            ),
            (
                "executor",
                |g| g[METADATA]["annotations"]["nvidia.com/vllm-distributed-executor-backend"] = json!("RAY"),
                &[],
            ),
            (
                "no executor",
                |g| g[METADATA]["annotations"]["nvidia.com/vllm-distributed-executor-backend"] = json!("spark"),
                &["Invalid metadata.annotations[nvidia.com/vllm-distributed-executor-backend]"],
            ),
            ("strategy", |g| g[METADATA]["annotations"]["nvidia.com/grove-update-strategy"] = json!("OnDelete"), &[]),
            (
                "no strategy",
                |g| g[METADATA]["annotations"]["nvidia.com/grove-update-strategy"] = json!("ondelete"),
                &["NotSupported metadata.annotations[nvidia.com/grove-update-strategy]"],
            ),
            ("discovery", |g| g[METADATA]["annotations"]["nvidia.com/dynamo-kube-discovery-mode"] = json!("pod"), &[]),
            (
                "no discovery",
                |g| g[METADATA]["annotations"]["nvidia.com/dynamo-kube-discovery-mode"] = json!("node"),
                &["NotSupported metadata.annotations[nvidia.com/dynamo-kube-discovery-mode]"],
            ),
            ("backend", |g| g[METADATA]["annotations"]["nvidia.com/dynamo-discovery-backend"] = json!("etcd"), &[]),
            (
                "no backend",
                |g| g[METADATA]["annotations"]["nvidia.com/dynamo-discovery-backend"] = json!("consul"),
                &["NotSupported metadata.annotations[nvidia.com/dynamo-discovery-backend]"],
            ),
            (
                "no provider",
                |g| g[METADATA]["annotations"]["nvidia.com/workload-provider"] = json!("nomad"),
                &["NotSupported metadata.annotations[nvidia.com/workload-provider]"],
            ),
            ("long name", |g| g[METADATA]["name"] = json!("x".repeat(60)), &["Invalid metadata.name"]),
            ("long name of a global graph", |g| rename(g, 63), &[]),
            ("longer than its label", |g| rename(g, 64), &["Invalid metadata.name"]),
        ],
    );
}

/// Makes all components global, and the name of the graph so long.
fn rename(graph: &mut Value, length: usize) {
    graph[METADATA]["name"] = json!("x".repeat(length));
    for component in graph["spec"]["components"].as_array_mut().unwrap() {
        component["globalDynamoNamespace"] = json!(true);
    }
}

#[test]
fn standby_engines_within_a_pod_register_one_by_one() {
    let facts = facts();
    let failover = edited(&graph(), |g| {
        g["spec"]["components"][1]["experimental"] = json!({ "gpuMemoryService": {}, "failover": {} });
    });
    let path = "Invalid metadata.annotations[nvidia.com/dynamo-kube-discovery-mode]";
    assert_eq!(violations(&create(&failover, &facts)), [path]);
    let container = edited(&failover, |g| {
        g[METADATA]["annotations"]["nvidia.com/dynamo-kube-discovery-mode"] = json!("container");
    });
    assert_eq!(violations(&create(&container, &facts)), Vec::<String>::new());
}

#[test]
fn specs_of_graphs() {
    creates(
        &graph(),
        &facts(),
        &[
            ("no components", |g| g["spec"]["components"] = json!([]), &["Required spec.components"]),
            ("no spec", |g| g["spec"] = json!(null), &["Required spec.components"]),
            ("priority", |g| g["spec"]["priorityClassName"] = json!("high"), &["Forbidden spec.priorityClassName"]),
            (
                "memory between pods",
                |g| g["spec"]["components"][1]["experimental"] = json!({ "gpuMemoryService": { "mode": "InterPod" } }),
                &["Forbidden spec.components[1].experimental.gpuMemoryService.mode"],
            ),
            (
                "availability",
                |g| g["spec"]["components"][1]["minAvailable"] = json!(1),
                &["Forbidden spec.components[1].minAvailable"],
            ),
            (
                "scaling group",
                |g| g["spec"]["components"][1]["experimental"] = json!({ "grove": { "forceScalingGroup": true } }),
                &["Forbidden spec.components[1].experimental.grove.forceScalingGroup"],
            ),
            (
                "everything at once",
                |g| {
                    g["spec"]["priorityClassName"] = json!("high");
                    g["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["image"] = json!("");
                    g["spec"]["components"][1]["sharedMemorySize"] = json!("-1Gi");
                },
                &[
                    "Forbidden spec.priorityClassName",
                    "Required spec.components[0].podTemplate.spec.containers[0].image",
                    "Invalid spec.components[1].sharedMemorySize",
                ],
            ),
        ],
    );
}

#[test]
fn specs_of_graphs_on_grove() {
    creates(
        &grove_graph(),
        &grove(),
        &[
            ("priority", |g| g["spec"]["priorityClassName"] = json!("high"), &[]),
            ("availability", |g| g["spec"]["components"][1]["minAvailable"] = json!(2), &[]),
            (
                "scaling group",
                |g| g["spec"]["components"][1]["experimental"] = json!({ "grove": { "forceScalingGroup": true } }),
                &[],
            ),
            (
                "memory between pods",
                |g| g["spec"]["components"][1]["experimental"] = json!({ "gpuMemoryService": { "mode": "InterPod" } }),
                &[],
            ),
            (
                "memory between pods of another engine",
                |g| {
                    g["spec"]["backendFramework"] = json!("sglang");
                    g["spec"]["components"][1]["experimental"] = json!({ "gpuMemoryService": { "mode": "InterPod" } });
                },
                &["Invalid spec.components[1].experimental.gpuMemoryService.mode"],
            ),
            (
                "memory between pods of some engine",
                |g| {
                    g["spec"]["backendFramework"] = json!(null);
                    g["spec"]["components"][1]["experimental"] = json!({ "gpuMemoryService": { "mode": "InterPod" } });
                },
                &["Invalid spec.components[1].experimental.gpuMemoryService.mode"],
            ),
        ],
    );
}

/// The name of a set is shortened to make room, but not below eight characters.
#[test]
fn names_in_grove_fit() {
    let graph = |name: &str, component: &str, nodes: i64| {
        edited(&grove_graph(), |g| {
            g[METADATA]["name"] = json!(name);
            g["spec"]["components"][1]["name"] = json!(component);
            if nodes > 1 {
                g["spec"]["components"][1]["multinode"] = json!({ "nodeCount": nodes });
            }
        })
    };
    let (x, y) = ("x".repeat(37), "y".repeat(38));
    for (name, component, nodes, fits) in [
        ("llama", x.as_str(), 1, true),
        ("llama-3-3-70b-instruct", x.as_str(), 1, true),
        ("llama-3-3-70b-instruct", y.as_str(), 1, false),
        // Twice the name, and -ldr.
        ("llama", "decode-worker-1", 2, true),
        ("llama-3-3-70b-instruct", "decode-worker-12", 2, true),
        ("llama-3-3-70b-instruct", "decode-worker-123", 2, false),
    ] {
        let expected: &[&str] = if fits { &[] } else { &["Invalid spec.components[1].name"] };
        let answer = create(&graph(name, component, nodes), &grove());
        assert_eq!(violations(&answer), expected, "{name} {component}\n{}", words(&answer));
    }
    assert_eq!(violations(&create(&graph("llama", &y, 1), &facts())), Vec::<String>::new().as_slice(), "no Grove");
}

#[test]
fn restarts() {
    creates(
        &graph(),
        &facts(),
        &[
            ("no order", |g| g["spec"]["restart"] = json!({ "id": "1" }), &[]),
            (
                "order",
                |g| g["spec"]["restart"] = json!({ "id": "1", "strategy": { "order": ["decode", "Frontend"] } }),
                &[],
            ),
            (
                "twice",
                |g| g["spec"]["restart"] = json!({ "id": "1", "strategy": { "order": ["decode", "decode"] } }),
                &["Invalid spec.restart.strategy.order", "Invalid spec.restart.strategy.order"],
            ),
            (
                "unknown",
                |g| g["spec"]["restart"] = json!({ "id": "1", "strategy": { "order": ["Frontend", "prefill"] } }),
                &["NotSupported spec.restart.strategy.order[1]"],
            ),
        ],
    );
}

#[test]
fn power_limits() {
    fn limited(g: &mut serde_json::Value, limit: &str) {
        g["spec"]["components"][1]["podTemplate"]["metadata"] =
            json!({ "annotations": { "dynamo.nvidia.com/gpu-power-limit": limit } });
    }
    let at = "Invalid spec.components[1].podTemplate.metadata.annotations[dynamo.nvidia.com/gpu-power-limit]";
    for (limit, is_valid) in [("400", true), ("0", false), ("-5", false), ("4e2", false), ("", false), ("400W", false)]
    {
        let answer = create(&edited(&graph(), |g| limited(g, limit)), &facts());
        assert_eq!(violations(&answer).len(), usize::from(!is_valid), "{limit}");
        assert!(is_valid || violations(&answer) == [at], "{limit}");
    }
    creates(
        &edited(&graph(), |g| limited(g, "400")),
        &facts(),
        &[
            (
                "shared memory",
                |g| g["spec"]["components"][1]["experimental"] = json!({ "gpuMemoryService": {} }),
                &["Forbidden spec.components[1].experimental.gpuMemoryService"],
            ),
            (
                "claim",
                |g| {
                    g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["resources"] =
                        json!({ "claims": [{ "name": "gpu" }] });
                },
                &["Forbidden spec.components[1].podTemplate.spec.containers[0].resources.claims"],
            ),
            (
                "claim of an init container",
                |g| {
                    g["spec"]["components"][1]["podTemplate"]["spec"]["initContainers"] =
                        json!([{ "name": "i", "resources": { "claims": [{ "name": "gpu" }] } }]);
                },
                &["Forbidden spec.components[1].podTemplate.spec.initContainers[0].resources.claims"],
            ),
        ],
    );
}

#[test]
fn graphs_that_will_wait_are_admitted_with_a_warning() {
    let graph = edited(&graph(), |g| g["spec"]["components"][1]["multinode"] = json!({ "nodeCount": 2 }));
    let answer = create(&graph, &facts());
    assert_eq!(violations(&answer), Vec::<String>::new());
    let warnings = warnings(&answer);
    assert!(warnings[0].starts_with("spec.components[1].multinode: "), "{warnings:?}");
    assert!(words(&create(&graph, &facts_with(|f| f.lws = true))).is_empty());
}

/// Defect: admitted without a warning, and then one component was stalled while the others started.
#[test]
fn names_that_are_too_long_for_leader_worker_sets_are_warned_of() {
    let reported = |name: &str, provider: &str| {
        let mut graph = graph();
        graph["metadata"]["name"] = json!("a-graph-whose-name-takes-31-chr");
        graph["metadata"]["annotations"]["nvidia.com/workload-provider"] = json!(provider);
        graph["spec"]["components"][1]["name"] = json!(name);
        graph["spec"]["components"][1]["multinode"] = json!({ "nodeCount": 2 });
        let answer = create(&graph, &facts_with(|f| (f.lws, f.grove) = (true, true)));
        warnings(&answer).iter().filter(|warning| warning.contains("names are too long")).count()
    };
    let long = "a-component-whose-name-has-32-ch";
    assert_eq!(reported(long, "component"), 1);
    assert_eq!(reported("decode", "component"), 0);
    assert_eq!(reported(long, "grove"), 0, "Grove has limits of its own");
}
