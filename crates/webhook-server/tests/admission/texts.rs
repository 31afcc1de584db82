//! Texts that users read.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use webhook_server::admission::Facts;

use crate::support::*;

fn reads(object: &Value, facts: &Facts, expected: Expect) {
    expected.assert_eq(&words(&create(object, facts)));
}

#[test]
fn a_graph_with_every_kind_of_violation() {
    let graph = edited(&graph(), |g| {
        g["metadata"]["annotations"] = json!({
            "nvidia.com/workload-provider": "component",
            "nvidia.com/enable-grove": "false",
            "nvidia.com/dynamo-operator-origin-version": "newest",
            "nvidia.com/vllm-distributed-executor-backend": "spark",
            "nvidia.com/grove-update-strategy": "Sometimes",
            "nvidia.com/dynamo-discovery-backend": "consul",
            "nvidia.com/dynamo-kube-discovery-mode": "pod",
        });
        g["spec"]["priorityClassName"] = json!("high");
        g["spec"]["providerOverride"] = json!({ "apiVersion": "grove.io/v1alpha1", "value": {} });
        g["spec"]["restart"] = json!({ "id": "1", "strategy": { "order": ["decode", "prefill", "decode"] } });
        g["spec"]["topologyConstraint"] = json!({ "clusterTopologyName": "fabric" });
        let components = g["spec"]["components"].as_array_mut().unwrap();
        components[0]["type"] = json!("epp");
        components[0]["replicas"] = json!(2);
        components[0]["frontendSidecar"] = json!("front");
        components[0]["experimental"] = json!({ "gpuMemoryService": {}, "failover": {}, "checkpoint": {
                "enabled": true, "job": { "podTemplate": { "spec": { "nodeSelector": "h100" } } },
            } });
        components[1]["minAvailable"] = json!(1);
        components[1]["multinode"] = json!({ "nodeCount": 2 });
        components[1]["sharedMemorySize"] = json!("-8Gi");
        components[1]["podTemplate"]["metadata"] = json!({ "annotations": {
            "dynamo.nvidia.com/gpu-power-limit": "all", "nvidia.com/deployment-rolling-update-max-surge": "some",
        } });
        let pod = &mut components[1]["podTemplate"]["spec"];
        pod["containers"][1]["image"] = json!("registry/vllm:latest");
        pod["containers"][1]["resources"] =
            json!({ "limits": { "nvidia.com/gpu": "one" }, "claims": [{ "name": "x" }] });
        pod["containers"][1]["args"] = json!(["--enable-elastic-ep", "--data-parallel-backend", "ray"]);
        pod["containers"][1]["volumeMounts"] = json!([{ "name": "models", "mountPath": "" }]);
    });
    let facts = facts_with(|features| features.inference_pool = false);
    reads(
        &graph,
        &facts,
        expect![[r#"
            metadata.annotations[nvidia.com/dynamo-operator-origin-version]: Invalid value: "newest": is no version of the operator; write one such as 1.5.0, or leave the annotation out
            metadata.annotations[nvidia.com/vllm-distributed-executor-backend]: Invalid value: "spark": is no executor of vLLM; write "mp" or "ray", or remove the annotation
            metadata.annotations[nvidia.com/grove-update-strategy]: Unsupported value: "Sometimes": supported values: "RollingRecreate", "OnDelete"
            metadata.annotations[nvidia.com/dynamo-discovery-backend]: Unsupported value: "consul": supported values: "kubernetes", "etcd"; leave the annotation out to follow the operator's setting
            metadata.annotations[nvidia.com/dynamo-kube-discovery-mode]: Invalid value: "pod": engines that stand in for each other within a pod register one by one; set the annotation to "container"
            spec.providerOverride: Forbidden: is for graphs that Grove runs, and annotation nvidia.com/workload-provider of this one is "component"; remove the field, or create the graph anew where Grove is available
            spec.priorityClassName: Forbidden: needs Grove, which is not available in this cluster; install it, or remove the field
            spec.components[0].frontendSidecar: Invalid value: "front": names no container of podTemplate.spec.containers; name a container beside main that answers HTTP, or remove the field
            spec.components[0].experimental.gpuMemoryService: Forbidden: needs GPUs to share, and container main asks for none; set resources.limits[nvidia.com/gpu] of that container
            spec.components[0].type: Forbidden: an endpoint picker needs the API inference.networking.k8s.io, which this cluster does not serve; install the Gateway API Inference Extension first
            spec.components[0].experimental.checkpoint.job.podTemplate.spec.nodeSelector: Invalid value: "h100": does not fit into a pod template: invalid type: string "h100", expected a map; see the reference of the Pod API
            spec.components[0].experimental.checkpoint: Forbidden: checkpoints are switched off in this installation; switch them on in the operator's configuration (checkpoint.enabled), or set enabled to false
            spec.components[1].podTemplate.metadata.annotations[dynamo.nvidia.com/gpu-power-limit]: Invalid value: "all": is no power limit; write a whole number of watts above 0, such as "400"
            spec.components[1].podTemplate.spec.containers[1].resources.claims: Forbidden: GPUs that come by resource claims have no power limit that planners could read; remove it, or the annotation dynamo.nvidia.com/gpu-power-limit
            spec.components[1].minAvailable: Forbidden: needs Grove, which is not available in this cluster; install it, or remove the field
            spec.components[1].sharedMemorySize: Invalid value: "-8Gi": is negative; give a size such as 8Gi, or 0 for a pod without memory-backed /dev/shm
            spec.components[1].podTemplate.spec.containers[1].volumeMounts[0].mountPath: Required value: is empty; give the path at which the volume appears
            spec.components[1].podTemplate.spec.containers[1].resources.limits[nvidia.com/gpu]: Invalid value: "one": is no quantity; write a number, with a suffix such as m, k, Mi or Gi where it helps
            spec.components[1].podTemplate.metadata.annotations[nvidia.com/deployment-rolling-update-max-surge]: Invalid value: "some": is neither a count nor a percentage; write a whole number such as 1, or a percentage such as 25%
            spec.components[1].podTemplate.spec.containers[1].command: Required value: --enable-elastic-ep with --data-parallel-backend ray needs an explicit command, because Ray is started in front of it; write the command that the image would run
            spec.components[1].runtimeVersionOverride: Required value: the tag of image "registry/vllm:latest" does not contain the version of the Dynamo runtime; write that version here, such as 1.5.0
            spec.restart.strategy.order: Invalid value: ["decode","prefill","decode"]: names a component twice; name each once
            spec.restart.strategy.order[1]: Unsupported value: "prefill": supported values: "Frontend", "decode"
            spec.components[1].multinode: leaderworkerset.x-k8s.io (LeaderWorkerSet) is not served, and the graph does not run on Grove; install LeaderWorkerSet, or create the graph anew where Grove is available: the component does not start before"#]],
    );
}

#[test]
fn a_graph_that_changes_what_stays() {
    let mut prefill = worker();
    prefill["name"] = json!("prefill");
    let old = edited(&graph(), |g| {
        g["status"] = json!({ "rollingUpdate": { "phase": "InProgress" } });
        g["spec"]["components"][1]["scalingAdapter"] = json!({});
    });
    let new = edited(&old, |g| {
        g["metadata"]["annotations"]["nvidia.com/workload-provider"] = json!("grove");
        g["spec"]["backendFramework"] = json!("sglang");
        g["spec"]["restart"] = json!({ "id": "2" });
        g["spec"]["topologyConstraint"] = json!({ "clusterTopologyName": "fabric", "packDomain": "rack" });
        g["spec"]["experimental"] = json!({ "kvTransferPolicy": { "labelKey": "rack", "domain": "rack" } });
        g["spec"]["components"][1]["replicas"] = json!(9);
        g["spec"]["components"][1]["multinode"] = json!({ "nodeCount": 2 });
        g["spec"]["components"][1]["experimental"] = json!({ "gpuMemoryService": { "mode": "InterPod" } });
        g["spec"]["components"][0] = prefill;
    });
    expect![[r#"
        spec.components[1].experimental.gpuMemoryService.mode: Invalid value: "InterPod": memory is shared between pods for vLLM only, and spec.backendFramework is sglang; set it to vllm, or use mode IntraPod
        metadata.annotations[nvidia.com/workload-provider]: Invalid value: "grove": field is immutable; put back "component", or delete the graph and create it anew
        spec.components: Forbidden: the components of a graph stay, and this adds prefill and removes Frontend; set replicas to 0 to stop one, or delete the graph and create it anew
        spec.components[1].replicas: Forbidden: belongs to the component's scaling adapter, which has set 2; scale the DynamoGraphDeploymentScalingAdapter, and leave replicas out of the manifest"#]].assert_eq(&words(&update(&old, &new, &facts())));
}

#[test]
fn other_kinds() {
    let request = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest", "metadata": { "name": "r", "namespace": "team" },
        "spec": { "model": "m", "image": "planner:latest", "searchStrategy": "thorough", "autoApply": false },
        "status": { "phase": "Ready" },
    });
    let no_discovery = facts_with(|features| features.gpu_discovery = false);
    reads(
        &request,
        &no_discovery,
        expect![[r#"
        spec.hardware: Required value: this installation does not discover the GPUs of nodes; set gpuSku, vramMb, numGpusPerNode
        spec.searchStrategy: Invalid value: "thorough": is not possible with spec.backend auto; set spec.backend to one of: sglang, trtllm, vllm
        spec.runtimeVersionOverride: Required value: the tag of image "planner:latest" does not contain the version of the Dynamo runtime; write that version here, such as 1.5.0"#]],
    );
    let other = edited(&request, |r| r["spec"]["model"] = json!("n"));
    expect!["spec: Forbidden: the request is acted upon already (Ready); leave it as it was, or delete it and create it anew; runtimeVersionOverride may still change, and autoApply once it is Ready"].assert_eq(&words(&update(&request, &other, &facts())));
    let checkpoint = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint", "metadata": { "name": "c", "namespace": "team" },
        "spec": { "gpuMemoryService": { "enabled": true }, "job": { "podTemplateSpec": { "spec": { "containers": [{ "name": "main" }] } } } },
    });
    reads(
        &checkpoint,
        &facts(),
        expect![[r#"
        spec: Forbidden: checkpoints are switched off in this installation; switch them on in the operator's configuration (checkpoint.enabled)
        spec.job.podTemplateSpec.spec.volumes: Required value: add the volume gms-intrapod-control (emptyDir) for the GPU memory service
        spec.job.podTemplateSpec.spec.initContainers: Required value: add the GPU memory service as a sidecar named gms-server
        spec.job.podTemplateSpec.spec.containers[0].env: Required value: add GMS_SOCKET_DIR=/gms-intrapod-control
        spec.job.podTemplateSpec.spec.containers[0].resources.claims: Required value: add the claim intrapod-shared-gpu
        spec.job.podTemplateSpec.spec.containers[0].volumeMounts: Required value: mount the volume gms-intrapod-control at /gms-intrapod-control
        spec.job.podTemplateSpec.spec.resourceClaims: Required value: add the claim intrapod-shared-gpu for the GPUs that are shared"#]],
    );
}
