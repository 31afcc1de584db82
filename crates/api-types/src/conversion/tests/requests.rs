//! `DynamoGraphDeploymentRequest`, and the review.

use super::*;
use crate::conversion::review::{Review, ReviewError, ReviewOutcome};

const KIND: &str = "DynamoGraphDeploymentRequest";

fn full_alpha() -> Value {
    json!({
        "model": "m", "backend": "vllm", "runtimeVersionOverride": "1.0.0", "autoApply": false, "useMocker": true,
        "enableGpuDiscovery": true, "deploymentOverrides": { "name": "n", "workersImage": "w" },
        "profilingConfig": {
            "profilerImage": "p", "configMapRef": { "name": "c", "key": "k" }, "outputPVC": "o",
            "resources": { "limits": { "cpu": "1" } }, "tolerations": [{ "key": "t" }], "nodeSelector": { "a": "b" },
            "config": {
                "sla": { "ttft": 1.5, "itl": 3, "isl": 4000, "osl": 10.7, "optimizationType": "latency", "other": [1] },
                "deployment": { "modelCache": { "pvcName": "c", "modelPathInPvc": "", "pvcMountPath": "/m" } },
                "planner": { "x": 1 }, "engine": { "args": {} },
            },
        },
    })
}

#[test]
fn the_spec_of_a_request() {
    let alpha = object(ApiVersion::V1Alpha1, KIND, &full_alpha());
    assert_eq!(
        up(&alpha)["spec"],
        json!({
            "model": "m", "backend": "vllm", "runtimeVersionOverride": "1.0.0", "autoApply": false, "image": "p",
            "searchStrategy": "rapid", "features": { "mocker": { "enabled": true }, "planner": { "x": 1 } },
            "sla": { "ttft": 1.5, "itl": 3, "optimizationType": "latency" }, "workload": { "isl": 4000, "osl": 10 },
            "modelCache": { "pvcName": "c", "pvcMountPath": "/m" },
            "overrides": { "profilingJob": { "template": { "spec": {
                "containers": [{ "name": "profiler", "resources": { "limits": { "cpu": "1" } } }],
                "tolerations": [{ "key": "t" }], "nodeSelector": { "a": "b" },
            } } } },
        })
    );
    assert_comes_back(&alpha);
    let mut changed = up(&alpha);
    changed["spec"]["sla"]["ttft"] = json!(9);
    let config = &down(&changed)["spec"]["profilingConfig"]["config"];
    assert_eq!(
        (&config["sla"]["ttft"], &config["sla"]["other"], &config["engine"]),
        (&json!(9), &json!([1]), &json!({ "args": {} }))
    );
}

/// Defaults of v1beta1 are stored with the first write, and v1alpha1 does not see them.
#[test]
fn what_v1alpha1_leaves_out_has_defaults_in_v1beta1() {
    let config = json!({ "sla": { "isl": 3000 }, "deployment": { "modelCache": { "pvcName": "c" } } });
    let alpha = object(ApiVersion::V1Alpha1, KIND, &json!({ "model": "m", "profilingConfig": { "config": config } }));
    let beta = up(&alpha);
    assert_eq!(beta["spec"]["searchStrategy"], "rapid");
    assert_eq!(beta["spec"]["workload"], json!({ "isl": 3000, "osl": 1000 }));
    assert_eq!(beta["spec"]["modelCache"], json!({ "pvcName": "c", "pvcMountPath": "/opt/model-cache" }));
    assert_comes_back(&alpha);
    let mut edited = beta;
    edited["spec"]["searchStrategy"] = json!("thorough");
    edited["spec"]["workload"]["osl"] = json!(7);
    assert_eq!(down(&edited)["spec"]["profilingConfig"]["config"]["sla"], json!({ "isl": 3000, "osl": 7 }));
    assert_eq!(up(&down(&edited))["spec"], edited["spec"]);
}

/// Data that v1alpha1 cannot express stays when the data of the workload that it can express is removed. A workload has
/// lengths, so the defaults are set in the same write, and not in the next one.
#[test]
fn a_workload_without_its_lengths_is_stored_with_the_defaults() {
    for kept in
        [json!({ "concurrency": 8.5 }), json!({ "requestRate": 2 }), json!({ "concurrency": 1, "requestRate": 3 })]
    {
        let mut stored = object(
            ApiVersion::V1Beta1,
            KIND,
            &json!({ "model": "m", "autoApply": true, "searchStrategy": "thorough", "sla": { "ttft": 200 } }),
        );
        stored["spec"]["workload"] = kept.clone();
        stored["spec"]["workload"]["isl"] = json!(3000);
        stored["spec"]["workload"]["osl"] = json!(500);
        for gone in [&["isl", "osl"] as &[&str], &["isl"], &["osl"]] {
            let mut edited = down(&stored);
            let sla = edited["spec"]["profilingConfig"]["config"]["sla"].as_object_mut().unwrap();
            gone.iter().for_each(|length| drop(sla.remove(*length).unwrap()));
            let mut expected = stored["spec"].clone();
            for (length, default) in [("isl", 4000), ("osl", 1000)].into_iter().filter(|(it, _)| gone.contains(it)) {
                expected["workload"][length] = json!(default);
            }
            let written = up(&edited);
            assert_eq!(written["spec"], expected, "without {gone:?}");
            assert_eq!(down(&written)["spec"], edited["spec"], "v1alpha1 is read as it was written");
            assert_eq!(up(&down(&written)), written, "writing what was read changes nothing");
        }
    }
}

#[test]
fn odd_specs_come_back() {
    for config in [
        json!({}),
        json!(null),
        json!("x"),
        json!({ "sla": {} }),
        json!({ "sla": { "ttft": "1" } }),
        json!({ "planner": {} }),
        json!({ "sla": { "isl": 1e300 } }),
    ] {
        assert_comes_back(&object(ApiVersion::V1Alpha1, KIND, &json!({ "profilingConfig": { "config": config } })));
    }
    for spec in [
        json!({ "model": "m" }),
        json!({ "autoApply": true, "features": { "mocker": { "enabled": false } }, "searchStrategy": "rapid" }),
        json!({ "hardware": { "gpuSku": "t4" }, "workload": { "isl": 1, "concurrency": 2.5 }, "sla": { "e2eLatency": 1 } }),
        json!({ "overrides": { "dgd": { "spec": {} }, "profilingJob": { "backoffLimit": 1, "template": { "metadata": {}, "spec": {
            "containers": [{ "name": "x" }, { "name": "profiler", "image": "i", "resources": { "limits": { "cpu": 1 } } }],
            "tolerations": [{ "key": "t" }], "restartPolicy": "Never",
        } } } } }),
        json!({ "overrides": { "profilingJob": { "template": { "spec": { "containers": [{ "name": "", "resources": { "limits": { "cpu": 1 } } }] } } } } }),
        json!({ "overrides": {}, "sla": {}, "workload": {}, "modelCache": {}, "features": {} }),
    ] {
        assert_comes_back(&object(ApiVersion::V1Beta1, KIND, &spec));
    }
}

#[test]
fn phases_and_states() {
    let with = |version, status: Value| {
        let mut request = object(version, KIND, &json!({ "model": "m" }));
        request["status"] = status;
        request
    };
    for (state, created, phase) in [
        ("Initializing", false, "Pending"),
        ("Pending", false, "Pending"),
        ("Profiling", false, "Profiling"),
        ("Ready", true, "Deployed"),
        ("Ready", false, "Ready"),
        ("DeploymentDeleted", true, "Ready"),
        ("Deploying", false, "Deploying"),
        ("Failed", false, "Failed"),
        ("unheard of", false, "Pending"),
    ] {
        let deployment = json!({ "name": "d", "namespace": "n", "created": created });
        let alpha = with(ApiVersion::V1Alpha1, json!({ "state": state, "deployment": deployment, "backend": "b" }));
        let beta = up(&alpha);
        assert_eq!(beta["status"], json!({ "phase": phase, "dgdName": "d" }), "{state}");
        assert_comes_back(&alpha);
        let mut other = beta;
        other["status"]["dgdName"] = json!("e");
        assert_eq!(down(&other)["status"]["deployment"], json!({ "name": "e", "created": false }), "{state}");
    }
    for phase in ["Pending", "Profiling", "Ready", "Deploying", "Deployed", "Failed"] {
        let beta = with(
            ApiVersion::V1Beta1,
            json!({
                "phase": phase, "dgdName": "d", "profilingPhase": "Done", "profilingJobName": "j", "deploymentInfo": { "replicas": 1 },
                "profilingResults": { "selectedConfig": { "a": 1 }, "pareto": [{ "config": {} }] },
            }),
        );
        assert_comes_back(&beta);
        let mut failed = down(&beta);
        failed["status"]["state"] = json!("Failed");
        failed["status"]["deployment"]["name"] = json!("e");
        let status = &up(&failed)["status"];
        assert_eq!((&status["phase"], status.get("deploymentInfo")), (&json!("Failed"), None));
    }
}

#[test]
fn old_annotations_are_removed() {
    let mut request = object(ApiVersion::V1Beta1, KIND, &json!({}));
    request["metadata"]["annotations"] = json!({ "nvidia.com/dgdr-output-pvc": "p", "mine": "stays" });
    assert_eq!(down(&request)["metadata"]["annotations"]["nvidia.com/dgdr-output-pvc"], Value::Null);
    assert_eq!(down(&request)["metadata"]["annotations"]["mine"], "stays");
}

/// Objects become values one by one, and one that is refused fails the review.
#[test]
fn objects_of_a_review_are_entered_one_by_one() {
    let objects = json!([{ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment" }, { "a": ["b"] }, 3]);
    let body = json!({ "request": { "uid": "u", "desiredAPIVersion": "nvidia.com/v1beta1", "objects": objects } });
    let (body, mut seen) = (body.to_string(), Vec::new());
    let entered = |text: &str| {
        seen.push(serde_json::from_str::<Value>(text).unwrap());
        if seen.len() == 2 { Err("too large".to_owned()) } else { Ok(()) }
    };
    let outcome = Review::read(body.as_bytes()).unwrap().answer(&mut Vec::new(), entered).unwrap();
    assert!(
        matches!(outcome, ReviewOutcome::Failed(text) if text.contains("request.objects[1] (of 11 bytes): too large"))
    );
    assert_eq!(json!(seen), objects);
}

fn answer(review: &Value) -> Result<(Value, ReviewOutcome), ReviewError> {
    let (body, mut out) = (review.to_string(), Vec::new());
    let outcome = Review::read(body.as_bytes())?.answer(&mut out, |_| Ok(())).unwrap();
    Ok((serde_json::from_slice(&out).unwrap(), outcome))
}

#[test]
fn a_review() {
    let adapter = |name: &str| {
        json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeploymentScalingAdapter",
                "metadata": { "name": name, "namespace": "n" }, "spec": { "replicas": 1 } })
    };
    let review = |objects: Value| {
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                "request": { "uid": "u", "desiredAPIVersion": "nvidia.com/v1beta1", "objects": objects } })
    };
    let (answered, outcome) = answer(&review(json!([adapter("b"), adapter("a")]))).unwrap();
    assert_eq!(outcome, ReviewOutcome::Converted(2));
    assert_eq!(answered["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(answered["kind"], "ConversionReview");
    assert_eq!(answered["response"]["uid"], "u");
    assert_eq!(answered["response"]["result"], json!({ "status": "Success" }));
    let names: Vec<_> =
        answered["response"]["convertedObjects"].as_array().unwrap().iter().map(|o| &o["metadata"]["name"]).collect();
    assert_eq!(names, ["b", "a"]);

    let mut bad = adapter("x");
    bad["kind"] = json!("Pod");
    let (answered, outcome) = answer(&review(json!([adapter("a"), bad, 7]))).unwrap();
    assert_eq!(outcome, ReviewOutcome::Failed(answered["response"]["result"]["message"].as_str().unwrap().to_owned()));
    let message = answered["response"]["result"]["message"].as_str().unwrap();
    assert_eq!(answered["response"]["result"]["status"], "Failure");
    assert!(
        message.contains("request.objects[1] (Pod n/x): kind") && message.contains("request.objects[2]"),
        "{message}"
    );

    let mut unknown = review(json!([]));
    unknown["request"]["desiredAPIVersion"] = json!("nvidia.com/v2");
    assert_eq!(answer(&unknown).unwrap().0["response"]["result"]["status"], "Failure");
    assert!(matches!(answer(&json!({})), Err(ReviewError::NoRequest)));
    assert!(matches!(answer(&json!({ "request": {} })), Err(ReviewError::NoUid)));
    assert!(matches!(answer(&json!(3)), Err(ReviewError::NoRequest)));
    assert!(matches!(Review::read(b"{\"request\":{\"uid\":\"\xff\"}}"), Err(ReviewError::Form(_))));
}
