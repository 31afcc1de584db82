//! DynamoGraphDeploymentRequests.

use serde_json::{Value, json};

use crate::support::*;

fn request() -> Value {
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": { "name": "profile", "namespace": "team" },
        "spec": { "model": "m", "backend": "vllm", "image": "planner:1.5.0", "searchStrategy": "rapid", "autoApply": true },
    })
}

fn in_phase(phase: &str, auto_apply: Value) -> Value {
    edited(&request(), |r| {
        r["spec"]["autoApply"] = auto_apply;
        r["status"] = json!({ "phase": phase });
    })
}

#[test]
fn requests_as_they_are() {
    creates(
        &request(),
        &facts(),
        &[
            (
                "thorough",
                |r| {
                    r["spec"]["searchStrategy"] = json!("thorough");
                    r["spec"]["backend"] = json!("auto");
                },
                &["Invalid spec.searchStrategy"],
            ),
            ("thorough vLLM", |r| r["spec"]["searchStrategy"] = json!("thorough"), &[]),
            ("image", |r| r["spec"]["image"] = json!("planner:latest"), &["Required spec.runtimeVersionOverride"]),
            (
                "image and version",
                |r| {
                    r["spec"]["image"] = json!("planner:latest");
                    r["spec"]["runtimeVersionOverride"] = json!("1.5.0");
                },
                &[],
            ),
            ("no image", |r| r["spec"]["image"] = json!(null), &[]),
        ],
    );
}

/// Defect: a spec of any size was admitted, and its other version could not be read: the annotations of that were too
/// long.
#[test]
fn a_large_spec_is_refused_at_spec() {
    let large = |bytes: usize| {
        edited(&request(), |r| {
            r["spec"]["overrides"] = json!({ "dgd": {
                "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "spec": { "pad": "x".repeat(bytes) },
            } });
        })
    };
    assert_eq!(violations(&create(&large(200_000), &facts())), [""; 0]);
    assert_eq!(violations(&create(&large(270_000), &facts())), ["Invalid spec"]);
}

#[test]
fn gpus_are_required_where_they_are_not_discovered() {
    let facts = facts_with(|features| features.gpu_discovery = false);
    assert_eq!(violations(&create(&request(), &facts)), ["Required spec.hardware"]);
    let some = edited(&request(), |r| r["spec"]["hardware"] = json!({ "gpuSku": "h100_sxm" }));
    let answer = create(&some, &facts);
    assert_eq!(violations(&answer), Vec::<String>::new());
    assert!(warnings(&answer)[0].ends_with("profiling fails without vramMb, numGpusPerNode"), "{answer:?}");
    let all = edited(&some, |r| {
        r["spec"]["hardware"]["vramMb"] = json!(81920);
        r["spec"]["hardware"]["numGpusPerNode"] = json!(8);
    });
    assert!(words(&create(&all, &facts)).is_empty());
}

#[test]
fn gpus_that_were_missing_are_no_new_violation() {
    let facts = facts_with(|features| features.gpu_discovery = false);
    let with = |gpus: i64| edited(&request(), |r| r["spec"]["hardware"] = json!({ "totalGpus": gpus }));
    assert_eq!(violations(&create(&with(8), &facts)), ["Required spec.hardware"]);
    assert_eq!(violations(&update(&with(8), &with(16), &facts)), [""; 0]);
}

#[test]
fn requests_that_are_acted_upon_stay() {
    for (phase, refused) in [
        ("Pending", false),
        ("Profiling", true),
        ("Ready", true),
        ("Deploying", true),
        ("Deployed", true),
        ("Failed", false),
    ] {
        let old = in_phase(phase, json!(true));
        let new = edited(&old, |r| r["spec"]["model"] = json!("other"));
        let expected: &[&str] = if refused { &["Forbidden spec"] } else { &[] };
        assert_eq!(violations(&update(&old, &new, &facts())), expected, "{phase}");
        let labelled = edited(&old, |r| r["metadata"]["labels"] = json!({ "a": "b" }));
        assert_eq!(violations(&update(&old, &labelled, &facts())), Vec::<String>::new(), "{phase}");
    }
}

#[test]
fn what_is_not_applied_by_itself_may_be_applied_later() {
    let apply = |r: &mut Value| r["spec"]["autoApply"] = json!(true);
    let version = |r: &mut Value| r["spec"]["runtimeVersionOverride"] = json!("1.4.0");
    for (phase, auto_apply, change, admitted) in [
        ("Ready", json!(false), &apply as &dyn Fn(&mut Value), true),
        ("Ready", json!(false), &version, true),
        ("Profiling", json!(false), &version, true),
        ("Profiling", json!(false), &apply, false),
        ("Deploying", json!(false), &apply, false),
        ("Ready", json!(true), &version, false),
        ("Ready", json!(null), &version, false),
    ] {
        let old = in_phase(phase, auto_apply.clone());
        let new = edited(&old, |r| change(r));
        assert_eq!(violations(&update(&old, &new, &facts())).is_empty(), admitted, "{phase} {auto_apply} {new}");
    }
    let more = edited(&in_phase("Ready", json!(false)), |r| {
        apply(r);
        r["spec"]["model"] = json!("other");
    });
    assert_eq!(violations(&update(&in_phase("Ready", json!(false)), &more, &facts())), ["Forbidden spec"]);
}

#[test]
fn old_images_count_when_the_graph_is_about_to_be_made() {
    let old = edited(&in_phase("Ready", json!(false)), |r| r["spec"]["image"] = json!("planner:latest"));
    let pending = edited(&old, |r| r["status"]["phase"] = json!("Pending"));
    let other = edited(&pending, |r| r["spec"]["model"] = json!("other"));
    assert_eq!(violations(&update(&pending, &other, &facts())), Vec::<String>::new());
    let applied = edited(&old, |r| r["spec"]["autoApply"] = json!(null));
    assert_eq!(violations(&update(&old, &applied, &facts())), ["Required spec.runtimeVersionOverride"]);
}

/// Found defect: such an object was admitted, and then nothing could be listed in v1alpha1.
#[test]
fn what_v1alpha1_cannot_keep_is_refused_where_it_is_too_long() {
    let with = |length: usize| {
        edited(&request(), |r| {
            r["metadata"]["annotations"] = json!({ "mine": "x".repeat(20_000) });
            r["spec"]["overrides"] = json!({ "dgd": { "spec": { "pad": "x".repeat(length) } } });
        })
    };
    assert_eq!(violations(&create(&with(100_000), &facts())), Vec::<String>::new());
    assert_eq!(violations(&create(&with(250_000), &facts())), ["TooLong spec.overrides.dgd.spec.pad"]);
    let scaled = edited(&with(250_000), |r| r["metadata"]["labels"] = json!({ "a": "b" }));
    assert_eq!(violations(&update(&with(250_000), &scaled, &facts())), Vec::<String>::new(), "it was there before");
    let incomplete = edited(&request(), |r| {
        r["metadata"]["annotations"] = json!({ "nvidia.com/conversion-incomplete": "spec.overrides" });
    });
    let at = "Forbidden metadata.annotations[nvidia.com/conversion-incomplete]";
    assert_eq!(violations(&update(&with(250_000), &incomplete, &facts())), [at]);
}
