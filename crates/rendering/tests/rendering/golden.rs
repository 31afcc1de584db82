//! Whole objects, to be read by people.
//!
//! `UPDATE_EXPECT=1 cargo test -p workload` rewrites them after a change that is meant.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::fixture::{Surroundings, component, json_of, merged, spec};

/// One line for each leaf, so that a difference is one line as well.
fn flat(path: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(all) if !all.is_empty() => {
            all.iter().for_each(|(key, value)| flat(&format!("{path}.{key}"), value, lines));
        }
        Value::Array(all) if all.iter().any(Value::is_object) => {
            for (index, item) in all.iter().enumerate() {
                let mut item = item.clone();
                let name = item.as_object_mut().and_then(|item| item.remove("name"));
                let name = name.as_ref().and_then(Value::as_str).map_or_else(|| index.to_string(), str::to_owned);
                flat(&format!("{path}[{name}]"), &item, lines);
            }
        }
        leaf => lines.push(format!("{}: {leaf}", path.trim_start_matches('.'))),
    }
}

fn check(object: &impl serde::Serialize, expected: &Expect) {
    let mut lines = Vec::new();
    flat("", &json_of(object), &mut lines);
    lines.push(String::new());
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn a_vllm_worker() {
    let main = json!({
        "command": ["python3", "-m", "dynamo.vllm"], "args": ["--model", "Qwen/Qwen3-0.6B"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "models", "mountPath": "/models"}],
    });
    let fields = json!({"replicas": 2, "compilationCache": {"pvcName": "kernels"}});
    let worker = component(merged(spec("decode", json!({}), main), fields));
    check(
        &Surroundings::default().deployment(&worker),
        &expect![[r#"
            apiVersion: "apps/v1"
            kind: "Deployment"
            metadata.annotations.operator.dynamo/template-digest: "697fa3e0b086f636"
            metadata.labels.nvidia.com/dynamo-component: "Worker"
            metadata.labels.nvidia.com/dynamo-graph-deployment-name: "graph"
            metadata.labels.nvidia.com/dynamo-namespace: "ns-graph"
            metadata.labels.nvidia.com/dynamo-sub-component-type: "decode"
            metadata.labels.nvidia.com/dynamo-worker-hash: "0a1b2c3d"
            metadata.name: "graph-worker-0a1b2c3d"
            metadata.namespace: "ns"
            metadata.ownerReferences[graph-worker-0a1b2c3d].apiVersion: "nvidia.com/v1beta1"
            metadata.ownerReferences[graph-worker-0a1b2c3d].blockOwnerDeletion: true
            metadata.ownerReferences[graph-worker-0a1b2c3d].controller: true
            metadata.ownerReferences[graph-worker-0a1b2c3d].kind: "DynamoComponentDeployment"
            metadata.ownerReferences[graph-worker-0a1b2c3d].uid: "component-uid"
            spec.replicas: 2
            spec.selector.matchLabels.nvidia.com/selector: "graph-worker-0a1b2c3d"
            spec.strategy.rollingUpdate.maxSurge: "25%"
            spec.strategy.rollingUpdate.maxUnavailable: "25%"
            spec.strategy.type: "RollingUpdate"
            spec.template.metadata.labels.nvidia.com/dynamo-component: "Worker"
            spec.template.metadata.labels.nvidia.com/dynamo-component-type: "decode"
            spec.template.metadata.labels.nvidia.com/dynamo-discovery-backend: "kubernetes"
            spec.template.metadata.labels.nvidia.com/dynamo-discovery-enabled: "true"
            spec.template.metadata.labels.nvidia.com/dynamo-graph-deployment-name: "graph"
            spec.template.metadata.labels.nvidia.com/dynamo-namespace: "ns-graph"
            spec.template.metadata.labels.nvidia.com/dynamo-sub-component-type: "decode"
            spec.template.metadata.labels.nvidia.com/dynamo-worker-hash: "0a1b2c3d"
            spec.template.metadata.labels.nvidia.com/metrics-enabled: "true"
            spec.template.metadata.labels.nvidia.com/selector: "graph-worker-0a1b2c3d"
            spec.template.spec.containers[main].args: ["--model","Qwen/Qwen3-0.6B"]
            spec.template.spec.containers[main].command: ["python3","-m","dynamo.vllm"]
            spec.template.spec.containers[main].env[DYN_COMPONENT].value: "decode"
            spec.template.spec.containers[main].env[DYN_DISCOVERY_BACKEND].value: "kubernetes"
            spec.template.spec.containers[main].env[DYN_FORWARDPASS_METRIC_PORT].value: "20380"
            spec.template.spec.containers[main].env[DYN_HEALTH_CHECK_ENABLED].value: "false"
            spec.template.spec.containers[main].env[DYN_NAMESPACE].value: "ns-graph"
            spec.template.spec.containers[main].env[DYN_NAMESPACE_WORKER_SUFFIX].value: "0a1b2c3d"
            spec.template.spec.containers[main].env[DYN_PARENT_DGD_K8S_NAME].value: "graph"
            spec.template.spec.containers[main].env[DYN_PARENT_DGD_K8S_NAMESPACE].value: "ns"
            spec.template.spec.containers[main].env[DYN_SYSTEM_ENABLED].value: "true"
            spec.template.spec.containers[main].env[DYN_SYSTEM_PORT].value: "9090"
            spec.template.spec.containers[main].env[DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS].value: "[\"generate\"]"
            spec.template.spec.containers[main].env[NIXL_TELEMETRY_ENABLE].value: "n"
            spec.template.spec.containers[main].env[NIXL_TELEMETRY_EXPORTER].value: "prometheus"
            spec.template.spec.containers[main].env[NIXL_TELEMETRY_PROMETHEUS_PORT].value: "19090"
            spec.template.spec.containers[main].env[POD_NAME].valueFrom.fieldRef.fieldPath: "metadata.name"
            spec.template.spec.containers[main].env[POD_NAMESPACE].valueFrom.fieldRef.fieldPath: "metadata.namespace"
            spec.template.spec.containers[main].env[POD_UID].valueFrom.fieldRef.fieldPath: "metadata.uid"
            spec.template.spec.containers[main].env[VLLM_CACHE_ROOT].value: "/root/.cache/vllm"
            spec.template.spec.containers[main].image: "nvcr.io/runtime:1.5.0"
            spec.template.spec.containers[main].livenessProbe.failureThreshold: 1
            spec.template.spec.containers[main].livenessProbe.httpGet.path: "/live"
            spec.template.spec.containers[main].livenessProbe.httpGet.port: "system"
            spec.template.spec.containers[main].livenessProbe.periodSeconds: 5
            spec.template.spec.containers[main].livenessProbe.timeoutSeconds: 4
            spec.template.spec.containers[main].ports[system].containerPort: 9090
            spec.template.spec.containers[main].ports[system].protocol: "TCP"
            spec.template.spec.containers[main].ports[nixl].containerPort: 19090
            spec.template.spec.containers[main].ports[nixl].protocol: "TCP"
            spec.template.spec.containers[main].readinessProbe.failureThreshold: 3
            spec.template.spec.containers[main].readinessProbe.httpGet.path: "/health"
            spec.template.spec.containers[main].readinessProbe.httpGet.port: "system"
            spec.template.spec.containers[main].readinessProbe.periodSeconds: 10
            spec.template.spec.containers[main].readinessProbe.timeoutSeconds: 4
            spec.template.spec.containers[main].resources.limits.nvidia.com/gpu: "1"
            spec.template.spec.containers[main].startupProbe.failureThreshold: 720
            spec.template.spec.containers[main].startupProbe.httpGet.path: "/live"
            spec.template.spec.containers[main].startupProbe.httpGet.port: "system"
            spec.template.spec.containers[main].startupProbe.periodSeconds: 10
            spec.template.spec.containers[main].startupProbe.timeoutSeconds: 5
            spec.template.spec.containers[main].volumeMounts[models].mountPath: "/models"
            spec.template.spec.containers[main].volumeMounts[kernels].mountPath: "/root/.cache/vllm"
            spec.template.spec.containers[main].volumeMounts[shared-memory].mountPath: "/dev/shm"
            spec.template.spec.restartPolicy: "Always"
            spec.template.spec.securityContext.fsGroup: 1000
            spec.template.spec.serviceAccountName: "graph-k8s-service-discovery"
            spec.template.spec.terminationGracePeriodSeconds: 60
            spec.template.spec.volumes[models].persistentVolumeClaim.claimName: "models"
            spec.template.spec.volumes[kernels].persistentVolumeClaim.claimName: "kernels"
            spec.template.spec.volumes[shared-memory].emptyDir.medium: "Memory"
            spec.template.spec.volumes[shared-memory].emptyDir.sizeLimit: "8Gi"
        "#]],
    );
}

#[test]
fn the_service_of_a_worker() {
    let worker = component(spec("decode", json!({}), json!({})));
    check(
        &Surroundings::default().service(&worker),
        &expect![[r#"
            apiVersion: "v1"
            kind: "Service"
            metadata.labels.nvidia.com/dynamo-component: "Worker"
            metadata.labels.nvidia.com/dynamo-discovery-backend: "kubernetes"
            metadata.labels.nvidia.com/dynamo-discovery-enabled: "true"
            metadata.labels.nvidia.com/dynamo-graph-deployment-name: "graph"
            metadata.labels.nvidia.com/dynamo-namespace: "ns-graph"
            metadata.labels.nvidia.com/dynamo-sub-component-type: "decode"
            metadata.labels.nvidia.com/dynamo-worker-hash: "0a1b2c3d"
            metadata.name: "graph-worker-0a1b2c3d"
            metadata.namespace: "ns"
            metadata.ownerReferences[graph-worker-0a1b2c3d].apiVersion: "nvidia.com/v1beta1"
            metadata.ownerReferences[graph-worker-0a1b2c3d].blockOwnerDeletion: true
            metadata.ownerReferences[graph-worker-0a1b2c3d].controller: true
            metadata.ownerReferences[graph-worker-0a1b2c3d].kind: "DynamoComponentDeployment"
            metadata.ownerReferences[graph-worker-0a1b2c3d].uid: "component-uid"
            spec.ports[system].port: 9090
            spec.ports[system].protocol: "TCP"
            spec.ports[system].targetPort: "system"
            spec.selector.nvidia.com/dynamo-component: "Worker"
            spec.selector.nvidia.com/dynamo-component-type: "decode"
            spec.selector.nvidia.com/dynamo-namespace: "ns-graph"
        "#]],
    );
}

#[test]
fn a_frontend() {
    check(
        &Surroundings::default().pod(&component(spec("frontend", json!({}), json!({})))),
        &expect![[r#"
            containers[main].args: ["-m","dynamo.frontend"]
            containers[main].command: ["python3"]
            containers[main].env[DYNAMO_PORT].value: "8000"
            containers[main].env[DYN_COMPONENT].value: "frontend"
            containers[main].env[DYN_DISCOVERY_BACKEND].value: "kubernetes"
            containers[main].env[DYN_HTTP_PORT].value: "8000"
            containers[main].env[DYN_NAMESPACE].value: "ns-graph"
            containers[main].env[DYN_NAMESPACE_PREFIX].value: "ns-graph"
            containers[main].env[DYN_PARENT_DGD_K8S_NAME].value: "graph"
            containers[main].env[DYN_PARENT_DGD_K8S_NAMESPACE].value: "ns"
            containers[main].env[POD_NAME].valueFrom.fieldRef.fieldPath: "metadata.name"
            containers[main].env[POD_NAMESPACE].valueFrom.fieldRef.fieldPath: "metadata.namespace"
            containers[main].env[POD_UID].valueFrom.fieldRef.fieldPath: "metadata.uid"
            containers[main].image: "nvcr.io/runtime:1.5.0"
            containers[main].livenessProbe.failureThreshold: 3
            containers[main].livenessProbe.httpGet.path: "/live"
            containers[main].livenessProbe.httpGet.port: "http"
            containers[main].livenessProbe.initialDelaySeconds: 15
            containers[main].livenessProbe.periodSeconds: 10
            containers[main].livenessProbe.timeoutSeconds: 1
            containers[main].ports[http].containerPort: 8000
            containers[main].ports[http].protocol: "TCP"
            containers[main].readinessProbe.failureThreshold: 3
            containers[main].readinessProbe.httpGet.path: "/health"
            containers[main].readinessProbe.httpGet.port: "http"
            containers[main].readinessProbe.initialDelaySeconds: 10
            containers[main].readinessProbe.periodSeconds: 10
            containers[main].readinessProbe.timeoutSeconds: 3
            containers[main].volumeMounts[shared-memory].mountPath: "/dev/shm"
            restartPolicy: "Always"
            securityContext.fsGroup: 1000
            serviceAccountName: "graph-k8s-service-discovery"
            terminationGracePeriodSeconds: 60
            volumes[shared-memory].emptyDir.medium: "Memory"
            volumes[shared-memory].emptyDir.sizeLimit: "8Gi"
        "#]],
    );
}

#[test]
fn a_planner() {
    check(
        &Surroundings::default().pod(&component(spec("planner", json!({}), json!({})))),
        &expect![[r#"
            containers[main].command: ["/bin/sh","-c"]
            containers[main].env[DYN_COMPONENT].value: "planner"
            containers[main].env[DYN_DISCOVERY_BACKEND].value: "kubernetes"
            containers[main].env[DYN_NAMESPACE].value: "ns-graph"
            containers[main].env[DYN_PARENT_DGD_K8S_NAME].value: "graph"
            containers[main].env[DYN_PARENT_DGD_K8S_NAMESPACE].value: "ns"
            containers[main].env[DYN_SYSTEM_PORT].value: "9090"
            containers[main].env[PLANNER_PROMETHEUS_PORT].value: "9085"
            containers[main].env[POD_NAME].valueFrom.fieldRef.fieldPath: "metadata.name"
            containers[main].env[POD_NAMESPACE].valueFrom.fieldRef.fieldPath: "metadata.namespace"
            containers[main].env[POD_UID].valueFrom.fieldRef.fieldPath: "metadata.uid"
            containers[main].image: "nvcr.io/runtime:1.5.0"
            containers[main].livenessProbe.failureThreshold: 1
            containers[main].livenessProbe.httpGet.path: "/live"
            containers[main].livenessProbe.httpGet.port: "system"
            containers[main].livenessProbe.periodSeconds: 5
            containers[main].livenessProbe.timeoutSeconds: 4
            containers[main].ports[metrics].containerPort: 9085
            containers[main].ports[metrics].protocol: "TCP"
            containers[main].ports[system].containerPort: 9090
            containers[main].ports[system].protocol: "TCP"
            containers[main].readinessProbe.failureThreshold: 3
            containers[main].readinessProbe.httpGet.path: "/health"
            containers[main].readinessProbe.httpGet.port: "system"
            containers[main].readinessProbe.periodSeconds: 10
            containers[main].readinessProbe.timeoutSeconds: 4
            containers[main].startupProbe.failureThreshold: 720
            containers[main].startupProbe.httpGet.path: "/live"
            containers[main].startupProbe.httpGet.port: "system"
            containers[main].startupProbe.periodSeconds: 10
            containers[main].startupProbe.timeoutSeconds: 5
            containers[main].volumeMounts[shared-memory].mountPath: "/dev/shm"
            restartPolicy: "Always"
            securityContext.fsGroup: 1000
            serviceAccountName: "planner-serviceaccount"
            terminationGracePeriodSeconds: 60
            volumes[shared-memory].emptyDir.medium: "Memory"
            volumes[shared-memory].emptyDir.sizeLimit: "8Gi"
        "#]],
    );
}

#[test]
fn an_endpoint_picker() {
    let fields = json!({"eppConfig": {"configMapRef": {"name": "mine", "key": "picker.yaml"}}});
    let picker = component(merged(spec("epp", json!({}), json!({})), fields));
    check(
        &Surroundings::default().pod(&picker),
        &expect![[r#"
            containers[main].args: ["--pool-name","graph-pool","--pool-namespace","ns","--pool-group","inference.networking.k8s.io","-v","4","--zap-encoder","json","--grpc-port","9002","--grpc-health-port","9003","--config-file","/etc/epp/epp-config-dynamo.yaml"]
            containers[main].env[DYN_COMPONENT].value: "epp"
            containers[main].env[DYN_DISCOVERY_BACKEND].value: "kubernetes"
            containers[main].env[DYN_ENFORCE_DISAGG].value: "false"
            containers[main].env[DYN_NAMESPACE].value: "ns-graph"
            containers[main].env[DYN_NAMESPACE_PREFIX].value: "ns-graph"
            containers[main].env[DYN_PARENT_DGD_K8S_NAME].value: "graph"
            containers[main].env[DYN_PARENT_DGD_K8S_NAMESPACE].value: "ns"
            containers[main].env[POD_NAME].valueFrom.fieldRef.fieldPath: "metadata.name"
            containers[main].env[POD_NAMESPACE].valueFrom.fieldRef.fieldPath: "metadata.namespace"
            containers[main].env[POD_UID].valueFrom.fieldRef.fieldPath: "metadata.uid"
            containers[main].env[RUST_LOG].value: "info"
            containers[main].env[USE_STREAMING].value: "true"
            containers[main].image: "nvcr.io/runtime:1.5.0"
            containers[main].livenessProbe.grpc.port: 9003
            containers[main].livenessProbe.grpc.service: "inference-extension"
            containers[main].livenessProbe.initialDelaySeconds: 5
            containers[main].livenessProbe.periodSeconds: 10
            containers[main].ports[grpc].containerPort: 9002
            containers[main].ports[grpc].protocol: "TCP"
            containers[main].ports[grpc-health].containerPort: 9003
            containers[main].ports[grpc-health].protocol: "TCP"
            containers[main].ports[metrics].containerPort: 9090
            containers[main].ports[metrics].protocol: "TCP"
            containers[main].readinessProbe.grpc.port: 9003
            containers[main].readinessProbe.grpc.service: "inference-extension"
            containers[main].readinessProbe.initialDelaySeconds: 5
            containers[main].readinessProbe.periodSeconds: 10
            containers[main].startupProbe.failureThreshold: 180
            containers[main].startupProbe.grpc.port: 9003
            containers[main].startupProbe.grpc.service: "inference-extension"
            containers[main].startupProbe.periodSeconds: 10
            containers[main].volumeMounts[epp-config].mountPath: "/etc/epp"
            containers[main].volumeMounts[epp-config].readOnly: true
            containers[main].volumeMounts[hf-cache].mountPath: "/home/nonroot/.cache"
            containers[main].volumeMounts[shared-memory].mountPath: "/dev/shm"
            restartPolicy: "Always"
            securityContext.fsGroup: 1000
            serviceAccountName: "epp-serviceaccount"
            terminationGracePeriodSeconds: 130
            volumes[epp-config].configMap.items[0].key: "picker.yaml"
            volumes[epp-config].configMap.items[0].path: "epp-config-dynamo.yaml"
            volumes[epp-config].configMap.name: "mine"
            volumes[hf-cache].emptyDir: {}
            volumes[shared-memory].emptyDir.medium: "Memory"
            volumes[shared-memory].emptyDir.sizeLimit: "8Gi"
        "#]],
    );
    check(
        &Surroundings::default().service(&picker).unwrap().spec,
        &expect![[r#"
            ports[grpc].appProtocol: "http2"
            ports[grpc].port: 9002
            ports[grpc].protocol: "TCP"
            ports[grpc].targetPort: 9002
            selector.nvidia.com/dynamo-component: "Worker"
            selector.nvidia.com/dynamo-component-type: "epp"
            selector.nvidia.com/dynamo-namespace: "ns-graph"
        "#]],
    );
}
