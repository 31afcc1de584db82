//! The profiling Job, and the user's part of it.

use k8s_openapi::{api::batch::v1::Job, jiff::Timestamp};
use serde_json::{Value, json};

use super::job;
use crate::request::fixtures::observed_with;

/// The Job's JSON for a request after an edit.
fn rendered(edit: impl FnOnce(&mut Value)) -> Value {
    let job: Job = super::plan(&observed_with(edit), Timestamp::UNIX_EPOCH).job.unwrap();
    assert!(job::profiled_for(&job).is_some());
    serde_json::to_value(job).unwrap()
}

fn pod(edit: impl FnOnce(&mut Value)) -> Value {
    rendered(edit)["spec"]["template"]["spec"].clone()
}

fn with_job(spec: Value) -> impl FnOnce(&mut Value) {
    move |r| r["spec"]["overrides"] = json!({ "profilingJob": { "template": { "spec": spec } } })
}

/// In the upstream operator, the pods of public models wait for a Secret that does not exist, and an unpinned image
/// copies the output.
#[test]
fn a_profiler_needs_no_secret_and_no_image_of_others() {
    let pod = pod(|_| ());
    let variables = pod["containers"][0]["env"].as_array().unwrap();
    let token = variables.iter().find(|variable| variable["name"] == "HUGGING_FACE_HUB_TOKEN").unwrap();
    let secret = json!({ "name": "hf-token-secret", "key": "HF_TOKEN", "optional": true });
    assert_eq!(token["valueFrom"], json!({ "secretKeyRef": secret }));
    let user = json!({ "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000 });
    assert_eq!(pod["securityContext"], user);
    assert_eq!(pod["volumes"], json!([{ "name": "profiling-output", "emptyDir": {} }]));
    let profiler = &pod["containers"][0];
    assert_eq!((&profiler["workingDir"], &profiler["args"][2]), (&json!("/workspace"), &json!("--output-dir")));
    let relay = &pod["containers"][1];
    assert_eq!((&relay["name"], &relay["command"]), (&json!("output-copier"), &json!(["/graph-controller"])));
    let flags = ["relay-output", "--folder=/data", "--request=chat", "--request-namespace=team-a"];
    let flags = flags.into_iter().chain(["--request-uid=request-uid"]).collect::<Vec<_>>();
    assert_eq!((&relay["args"], &relay["imagePullPolicy"]), (&json!(flags), &json!("IfNotPresent")));
    let image = relay["image"].as_str().unwrap();
    assert!(image.starts_with("dynamo-operator/graph-controller:") && !image.ends_with(":latest"), "{image}");
}

/// In the upstream operator, a profiler that cannot succeed is started three times more.
#[test]
fn a_profiler_that_fails_is_not_started_again() {
    let job = rendered(|_| ());
    assert_eq!(job["spec"]["backoffLimit"], 0);
    assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never");
}

/// A node that is drained, or a pod that matters more, says nothing about the profiler.
#[test]
fn a_profiler_that_is_evicted_is_started_again() {
    let job = rendered(|_| ());
    let disrupted = json!([{ "type": "DisruptionTarget", "status": "True" }]);
    let rules = json!([{ "action": "Ignore", "onPodConditions": disrupted }]);
    assert_eq!(job["spec"]["podFailurePolicy"]["rules"], rules);
    // The API server takes such a policy with this alone.
    assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never");
}

#[test]
fn weights_are_mounted_read_only() {
    let pod = pod(|r| r["spec"]["modelCache"] = json!({ "pvcName": "weights", "pvcMountPath": "/models" }));
    let volume =
        json!({ "name": "model-cache", "persistentVolumeClaim": { "claimName": "weights", "readOnly": true } });
    assert_eq!(pod["volumes"][1], volume);
    let mount = json!({ "mountPath": "/models", "name": "model-cache", "readOnly": true });
    assert_eq!(pod["containers"][0]["volumeMounts"][1], mount);
}

#[test]
fn what_only_the_older_version_can_say_reaches_the_job() {
    let pod = pod(|r| {
        let saved = json!({ "version": 1, "payload": { "profilingConfig": {
            "configMapRef": { "name": "base", "key": "k.yaml" }, "outputPVC": "out" } } });
        let alpha = api_types::conversion::convert(
            json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeploymentRequest", "metadata": r["metadata"],
                "spec": { "model": "m", "backend": "vllm", "autoApply": true, "profilingConfig": {
                    "profilerImage": "i:1.0.0", "configMapRef": saved["payload"]["profilingConfig"]["configMapRef"],
                    "outputPVC": "out" } } }),
            api_types::conversion::ApiVersion::V1Beta1,
        )
        .unwrap();
        let hardware = r["spec"]["hardware"].take();
        *r = alpha;
        r["spec"]["hardware"] = hardware;
    });
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "out");
    let config = json!({ "name": "base", "items": [{ "key": "k.yaml", "path": "disagg.yaml" }] });
    assert_eq!(pod["volumes"][1], json!({ "name": "profiling-config", "configMap": config }));
}

#[test]
fn the_author_may_set_what_is_listed_and_nothing_else() {
    let pod = pod(with_job(json!({
        "tolerations": [{ "key": "gpu" }],
        "hostNetwork": true,
        "restartPolicy": "Always",
        "imagePullSecrets": [{ "name": "mine" }, { "name": "nvcr-imagepullsecret" }],
        "securityContext": { "runAsUser": 7 },
        "volumes": [{ "name": "profiling-output", "persistentVolumeClaim": { "claimName": "p" } }, { "name": "x", "emptyDir": {} }],
        "containers": [
            { "name": "profiler", "image": "other", "command": ["sh"], "env": [{ "name": "A", "value": "b" }],
              "resources": { "limits": { "nvidia.com/gpu": "2" } } },
            { "name": "output-copier", "image": "relay", "env": [{ "name": "no" }] },
        ],
    })));
    assert_eq!(pod["tolerations"], json!([{ "key": "gpu" }]));
    assert_eq!((&pod["hostNetwork"], &pod["restartPolicy"]), (&Value::Null, &json!("Never")));
    assert_eq!(pod["imagePullSecrets"], json!([{ "name": "nvcr-imagepullsecret" }, { "name": "mine" }]));
    assert_eq!((&pod["securityContext"]["runAsUser"], &pod["securityContext"]["fsGroup"]), (&json!(7), &json!(1000)));
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "p");
    assert_eq!(pod["volumes"][1]["name"], "x");
    let [profiler, relay] = [&pod["containers"][0], &pod["containers"][1]];
    assert_eq!((&profiler["image"], &profiler["command"][0]), (&json!("other"), &json!("python")));
    assert_eq!(profiler["env"].as_array().unwrap().last().unwrap()["name"], "A");
    assert_eq!(profiler["resources"]["limits"]["nvidia.com/gpu"], "2");
    assert_eq!((&relay["image"], &relay["env"]), (&json!("relay"), &Value::Null));
}

#[test]
fn a_container_without_name_is_the_profilers() {
    let pod = pod(with_job(json!({ "containers": [{ "name": "", "image": "other" }] })));
    assert_eq!(pod["containers"][0]["image"], "other");
}

#[test]
fn labels_of_the_operator_are_not_the_authors_to_set() {
    let job = rendered(|r| {
        let labels = json!({ "app": "x", "dgdr.nvidia.com/name": "x", "team": "a" });
        r["spec"]["overrides"] = json!({ "profilingJob": { "backoffLimit": 3,
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [] } } } });
    });
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], json!({ "team": "a" }));
    assert_eq!(job["spec"]["backoffLimit"], 3);
}

#[test]
fn a_pod_without_token_leaves_the_relay_one() {
    let pod = pod(with_job(json!({ "containers": [], "automountServiceAccountToken": false })));
    let mounts = |container: usize| pod["containers"][container]["volumeMounts"].to_string();
    assert!(!mounts(0).contains("kube-api-access") && mounts(1).contains("output-copier-kube-api-access"));
    let sources = json!([
        { "serviceAccountToken": { "path": "token", "expirationSeconds": 3600 } },
        { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
        { "downwardAPI": { "items": [{ "path": "namespace",
            "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" } }] } },
    ]);
    assert_eq!(pod["volumes"][1]["projected"], json!({ "sources": sources }));
}

#[test]
fn the_override_program_takes_its_place_whatever_the_author_put_there() {
    let pod = pod(|r| {
        let mine = json!({ "name": "mine", "mountPath": "/opt/dynamo/bin" });
        r["spec"]["overrides"] = json!({
            "dgd": { "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment" },
            "profilingJob": { "template": { "spec": { "containers": [{ "name": "profiler", "volumeMounts": [mine] }] } } },
        });
    });
    let installer = &pod["initContainers"][0];
    assert_eq!(installer["command"], json!(["/dgd-apply-overrides"]));
    assert_eq!(installer["args"], json!(["--install-to", "/opt/dynamo/bin/dgd-apply-overrides"]));
    let context = json!({ "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
        "runAsUser": 1000, "runAsGroup": 1000, "capabilities": { "drop": ["ALL"] },
        "seccompProfile": { "type": "RuntimeDefault" } });
    assert_eq!(installer["securityContext"], context);
    assert!(pod["volumes"].as_array().unwrap().contains(&json!({ "name": "dgd-override-tool", "emptyDir": {} })));
    let profiler = &pod["containers"][0];
    assert!(!profiler["volumeMounts"].to_string().contains("mine"));
    assert!(profiler["volumeMounts"].to_string().contains("dgd-override-tool"));
    let path = "/opt/dynamo/bin/dgd-apply-overrides";
    let variable = json!({ "name": "DYNAMO_DGD_APPLY_OVERRIDES_BIN", "value": path });
    assert!(profiler["env"].as_array().unwrap().contains(&variable));
}
