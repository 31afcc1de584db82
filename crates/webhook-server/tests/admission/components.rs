//! Rules about components, in graphs and on their own.

use std::path::Path;

use serde_json::json;

use crate::support::*;

#[test]
fn the_version_of_the_runtime_is_read_from_images() {
    creates(
        &graph(),
        &facts(),
        &[
            (
                "no version",
                |g| g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][1]["image"] = json!("vllm:my-tag"),
                &["Required spec.components[1].runtimeVersionOverride"],
            ),
            (
                "version beside",
                |g| {
                    g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][1]["image"] = json!("vllm:my-tag");
                    g["spec"]["components"][1]["runtimeVersionOverride"] = json!("1.5.0");
                },
                &[],
            ),
            (
                "no image",
                |g| g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][1]["image"] = json!(null),
                &["Required spec.components[1].podTemplate.spec.containers[1].image"],
            ),
            (
                "no main container",
                |g| g["spec"]["components"][1]["podTemplate"]["spec"]["containers"] = json!([{ "name": "x" }]),
                &["Required spec.components[1].podTemplate.spec.containers"],
            ),
            (
                "no template",
                |g| g["spec"]["components"][1]["podTemplate"] = json!(null),
                &["Required spec.components[1].podTemplate.spec.containers"],
            ),
        ],
    );
    creates(
        &component(),
        &facts(),
        &[
            ("on its own", |c| c["spec"]["podTemplate"]["spec"]["containers"][1]["image"] = json!("vllm:my-tag"), &[]),
            (
                "without image",
                |c| c["spec"]["podTemplate"]["spec"]["containers"][1]["image"] = json!(null),
                &["Required spec.podTemplate.spec.containers[1].image"],
            ),
        ],
    );
}

/// Errors in some of them are not checked by admission: their pods are to fail.
#[test]
fn graphs_that_the_repository_shows_are_admitted() {
    let mut graphs = 0;
    for file in ["deploy/examples/vllm-agg.yaml", "deploy/examples/vllm-disagg.yaml", "tilt/dev/triggers.yaml"] {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap();
        for graph in
            conformance_kit::documents(&text, "team").iter().filter(|object| object["kind"] == "DynamoGraphDeployment")
        {
            assert_eq!(violations(&create(graph, &facts())), [""; 0], "{file}: {}", graph["metadata"]["name"]);
            graphs += 1;
        }
    }
    assert_eq!(graphs, 4);
}

#[test]
fn components_on_their_own_have_no_grove() {
    creates(
        &component(),
        &grove(),
        &[
            (
                "fragment",
                |c| c["spec"]["providerOverride"] = json!({ "apiVersion": "grove.io/v1alpha1", "value": {} }),
                &["Forbidden spec.providerOverride"],
            ),
            (
                "fragment of a role",
                |c| c["spec"]["multinode"] = json!({ "nodeCount": 2, "leader": { "providerOverride": { "apiVersion": "grove.io/v1alpha1", "value": {} } } }),
                &["Forbidden spec.multinode.leader.providerOverride"],
            ),
            (
                "scaling group",
                |c| c["spec"]["experimental"] = json!({ "grove": { "forceScalingGroup": true } }),
                &["Forbidden spec.experimental.grove.forceScalingGroup"],
            ),
            ("no name", |c| c["spec"]["name"] = json!(null), &[]),
        ],
    );
}

#[test]
fn endpoint_pickers() {
    let picker = edited(&graph(), |g| {
        g["spec"]["components"][0]["type"] = json!("epp");
        g["spec"]["components"][0]["eppConfig"] = json!({ "configMapRef": { "name": "config", "key": "k" } });
    });
    let without = facts_with(|features| features.inference_pool = false);
    assert_eq!(violations(&create(&picker, &without)), ["Forbidden spec.components[0].type"]);
    let alone = edited(&component(), |c| {
        c["spec"]["type"] = json!("epp");
        c["spec"]["replicas"] = json!(1);
        c["spec"]["eppConfig"] = json!({ "config": { "plugins": [], "schedulingProfiles": [] } });
    });
    assert_eq!(violations(&create(&alone, &without)), Vec::<String>::new());
}

#[test]
fn templates_are_templates() {
    creates(
        &component(),
        &facts(),
        &[
            (
                "selector",
                |c| c["spec"]["podTemplate"]["spec"]["nodeSelector"] = json!("${NODES}"),
                &["Invalid spec.podTemplate.spec.nodeSelector"],
            ),
            (
                "port",
                |c| c["spec"]["podTemplate"]["spec"]["containers"][0]["ports"] = json!([{ "containerPort": "80" }]),
                &["Invalid spec.podTemplate.spec.containers[0].ports[0].containerPort"],
            ),
            (
                "template of a checkpoint",
                |c| {
                    c["spec"]["experimental"] = json!({ "checkpoint": {
                        "enabled": false, "job": { "podTemplate": { "spec": { "hostNetwork": "yes" } } },
                    } });
                },
                &["Invalid spec.experimental.checkpoint.job.podTemplate.spec.hostNetwork"],
            ),
            ("fields of tomorrow", |c| c["spec"]["podTemplate"]["spec"]["quantum"] = json!({ "bits": 3 }), &[]),
            ("size", |c| c["spec"]["sharedMemorySize"] = json!("0"), &[]),
            ("negative size", |c| c["spec"]["sharedMemorySize"] = json!("-1"), &["Invalid spec.sharedMemorySize"]),
            ("no size", |c| c["spec"]["sharedMemorySize"] = json!("much"), &["Invalid spec.sharedMemorySize"]),
            (
                "amount",
                |c| {
                    c["spec"]["podTemplate"]["spec"]["containers"][0]["resources"] =
                        json!({ "requests": { "cpu": "two" } })
                },
                &["Invalid spec.podTemplate.spec.containers[0].resources.requests[cpu]"],
            ),
            (
                "mount",
                |c| {
                    c["spec"]["podTemplate"]["spec"]["containers"][1]["volumeMounts"] =
                        json!([{ "name": "v", "mountPath": "" }])
                },
                &["Required spec.podTemplate.spec.containers[1].volumeMounts[0].mountPath"],
            ),
            (
                "mount of the cache",
                |c| {
                    c["spec"]["podTemplate"]["spec"]["containers"][1]["volumeMounts"] =
                        json!([{ "name": "v", "mountPath": "" }]);
                    c["spec"]["compilationCache"] = json!({ "pvcName": "v" });
                },
                &[],
            ),
            (
                "surge",
                |c| {
                    c["spec"]["podTemplate"]["metadata"] =
                        json!({ "annotations": { "nvidia.com/deployment-rolling-update-max-surge": "25%" } });
                },
                &[],
            ),
            (
                "bad surge",
                |c| {
                    c["spec"]["podTemplate"]["metadata"] =
                        json!({ "annotations": { "nvidia.com/deployment-rolling-update-max-surge": "some" } });
                },
                &["Invalid spec.podTemplate.metadata.annotations[nvidia.com/deployment-rolling-update-max-surge]"],
            ),
            (
                "discovery",
                |c| {
                    c["spec"]["podTemplate"]["metadata"] =
                        json!({ "annotations": { "nvidia.com/dynamo-discovery-backend": "consul" } });
                },
                &["NotSupported spec.podTemplate.metadata.annotations[nvidia.com/dynamo-discovery-backend]"],
            ),
        ],
    );
}

#[test]
fn frontend_sidecars() {
    creates(
        &component(),
        &facts(),
        &[
            ("sidecar", |c| c["spec"]["frontendSidecar"] = json!("side"), &[]),
            ("unknown", |c| c["spec"]["frontendSidecar"] = json!("front"), &["Invalid spec.frontendSidecar"]),
            ("empty", |c| c["spec"]["frontendSidecar"] = json!(""), &["Invalid spec.frontendSidecar"]),
            ("main", |c| c["spec"]["frontendSidecar"] = json!("main"), &["Invalid spec.frontendSidecar"]),
        ],
    );
}

#[test]
fn elastic_experts_need_a_command() {
    creates(
        &component(),
        &facts(),
        &[
            (
                "ray",
                |c| {
                    c["spec"]["podTemplate"]["spec"]["containers"][1]["args"] =
                        json!(["--enable-elastic-ep", "--data-parallel-backend", "ray"]);
                },
                &["Required spec.podTemplate.spec.containers[1].command"],
            ),
            (
                "one text",
                |c| {
                    c["spec"]["podTemplate"]["spec"]["containers"][1]["args"] =
                        json!(["x --enable-elastic-ep -dpb=ray"])
                },
                &["Required spec.podTemplate.spec.containers[1].command"],
            ),
            (
                "command",
                |c| {
                    c["spec"]["podTemplate"]["spec"]["containers"][1]["command"] = json!(["python3"]);
                    c["spec"]["podTemplate"]["spec"]["containers"][1]["args"] =
                        json!(["--enable-elastic-ep", "-dpb", "ray"]);
                },
                &[],
            ),
            (
                "another backend",
                |c| {
                    c["spec"]["podTemplate"]["spec"]["containers"][1]["args"] =
                        json!(["--enable-elastic-ep", "-dpb", "mp"])
                },
                &[],
            ),
            (
                "another engine",
                |c| {
                    c["spec"]["backendFramework"] = json!("sglang");
                    c["spec"]["podTemplate"]["spec"]["containers"][1]["args"] =
                        json!(["--enable-elastic-ep", "-dpb", "ray"]);
                },
                &[],
            ),
        ],
    );
}

#[test]
fn shared_gpu_memory() {
    creates(
        &edited(&component(), |c| {
            c["spec"]["experimental"] = json!({ "gpuMemoryService": { "extraClientContainers": ["side"] } })
        }),
        &facts(),
        &[
            (
                "no GPU",
                |c| c["spec"]["podTemplate"]["spec"]["containers"][1]["resources"] = json!(null),
                &["Forbidden spec.experimental.gpuMemoryService"],
            ),
            (
                "half a GPU",
                |c| {
                    c["spec"]["podTemplate"]["spec"]["containers"][1]["resources"] =
                        json!({ "limits": { "nvidia.com/gpu": "500m" } });
                },
                &["Invalid spec.podTemplate.spec.containers[1].resources.limits[nvidia.com/gpu]"],
            ),
            (
                "clients",
                |c| {
                    c["spec"]["experimental"]["gpuMemoryService"]["extraClientContainers"] =
                        json!(["side", "side", "x"])
                },
                &[
                    "Duplicate spec.experimental.gpuMemoryService.extraClientContainers[1]",
                    "Invalid spec.experimental.gpuMemoryService.extraClientContainers[2]",
                ],
            ),
        ],
    );
}

#[test]
fn checkpoints_of_components() {
    let at = &["Forbidden spec.experimental.checkpoint"];
    let on = facts_with(|features| features.checkpoint = true);
    let component = edited(&component(), |c| c["spec"]["experimental"] = json!({ "checkpoint": { "enabled": true } }));
    assert_eq!(violations(&create(&component, &facts())), at);
    let deprecated = edited(&component, |c| c["spec"]["experimental"]["checkpoint"]["mode"] = json!("Auto"));
    assert_eq!(warnings(&create(&deprecated, &on)), ["spec.experimental.checkpoint.mode: deprecated; remove it"]);
}
