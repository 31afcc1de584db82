//! Objects that users send as v1alpha1, and what of them lives on in v1beta1.

use api_types::conversion::{ApiVersion, convert};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use webhook_server::admission::{AdmissionPath, Answer, Request, review};

use crate::support::*;

fn alpha() -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": {
            "name": "llama", "namespace": "team", "annotations": { "nvidia.com/workload-provider": "component" },
        },
        "spec": { "services": {
            "Frontend": { "componentType": "frontend", "extraPodSpec": { "mainContainer": { "image": "vllm:1.5.0" } } },
            "decode": {
                "componentType": "worker", "subComponentType": "decode",
                "resources": { "limits": { "gpu": "1" } },
                "extraPodSpec": { "mainContainer": { "image": "vllm:1.5.0" } },
            },
        } },
    })
}

fn rows(rows: &[Row]) {
    assert_eq!(violations(&validate(&converted(&alpha()), &facts())), Vec::<String>::new());
    for (what, edit, expected) in rows {
        let answer = validate(&converted(&edited(&alpha(), edit)), &facts());
        assert_eq!(violations(&answer), *expected, "{what}\n{}", words(&answer));
    }
}

#[test]
fn violations_are_reported_in_the_version_that_was_sent() {
    rows(&[
        ("no services", |g| g["spec"]["services"] = json!({}), &["Required spec.services"]),
        (
            "no version",
            |g| g["spec"]["services"]["decode"]["extraPodSpec"]["mainContainer"]["image"] = json!("vllm:my-tag"),
            &["Required spec.services[decode].runtimeVersionOverride"],
        ),
        (
            "no image",
            |g| g["spec"]["services"]["decode"]["extraPodSpec"] = json!(null),
            &["Required spec.services[decode].extraPodSpec.mainContainer.image"],
        ),
        (
            "no image, which is built",
            |g| {
                g["spec"]["services"]["decode"]["extraPodSpec"] = json!(null);
                g["spec"]["dynamoComponent"] = json!("chat:v1");
            },
            &[],
        ),
        (
            "selector",
            |g| g["spec"]["services"]["decode"]["extraPodSpec"]["nodeSelector"] = json!("x"),
            &["Invalid spec.services[decode].extraPodSpec.nodeSelector"],
        ),
        (
            "memory",
            |g| g["spec"]["services"]["Frontend"]["gpuMemoryService"] = json!({ "enabled": true, "mode": "intraPod" }),
            &["Forbidden spec.services[Frontend].gpuMemoryService"],
        ),
    ]);
    let refused = validate(&converted(&edited(&alpha(), |g| g["spec"]["services"] = json!(null))), &facts());
    assert!(words(&refused).contains("(spec.components in v1beta1)"), "{}", words(&refused));
}

#[test]
fn fields_that_only_v1alpha1_has() {
    rows(&[
        (
            "claim",
            |g| g["spec"]["pvcs"] = json!([{ "name": "a" }, { "create": false }]),
            &["Required spec.pvcs[1].name"],
        ),
        (
            "two places of a volume",
            |g| g["spec"]["services"]["decode"]["pvc"] = json!({ "mountPoint": "/a", "mountPath": "/b" }),
            &["Forbidden spec.services[decode].pvc.mountPath"],
        ),
        (
            "one place of a volume, by both names",
            |g| g["spec"]["services"]["decode"]["pvc"] = json!({ "mountPoint": "/a", "mountPath": "/a" }),
            &[],
        ),
        (
            "executor",
            |g| {
                g["spec"]["services"]["decode"]["annotations"] =
                    json!({ "nvidia.com/vllm-distributed-executor-backend": "spark" });
            },
            &["Invalid spec.services[decode].annotations[nvidia.com/vllm-distributed-executor-backend]"],
        ),
        (
            "mount",
            |g| {
                g["spec"]["services"]["decode"]["volumeMounts"] = json!([{ "name": "a", "mountPoint": "/a" }, { "name": "b" }, { "name": "c", "useAsCompilationCache": true }]);
            },
            &["Required spec.services[decode].volumeMounts[1].mountPoint"],
        ),
        (
            "two caches",
            |g| {
                g["spec"]["services"]["decode"]["volumeMounts"] = json!([{ "name": "b" }, { "name": "c", "useAsCompilationCache": true }, { "name": "d", "useAsCompilationCache": true }]);
            },
            &["Required spec.services[decode].volumeMounts[0].mountPoint"],
        ),
        (
            "ingress",
            |g| g["spec"]["services"]["Frontend"]["ingress"] = json!({ "enabled": true }),
            &["Required spec.services[Frontend].ingress.host"],
        ),
        ("no ingress", |g| g["spec"]["services"]["Frontend"]["ingress"] = json!({ "enabled": false }), &[]),
        (
            "sidecar",
            |g| {
                g["spec"]["services"]["decode"]["frontendSidecar"] = json!({ "image": "x:1" });
                g["spec"]["services"]["decode"]["extraPodSpec"]["containers"] =
                    json!([{ "name": "sidecar-frontend", "image": "y:1" }]);
            },
            &["Forbidden spec.services[decode].frontendSidecar"],
        ),
        ("removed service", |g| g["spec"]["services"]["gone"] = json!(null), &[]),
        ("role of no meaning", |g| g["spec"]["services"]["decode"]["componentType"] = json!("main"), &[]),
    ]);
}

#[test]
fn fields_without_effect_in_v1alpha1_are_warned_about() {
    let old = edited(&alpha(), |g| {
        g["spec"]["services"]["decode"]["dynamoNamespace"] = json!("mine");
        g["spec"]["services"]["decode"]["autoscaling"] = json!({ "maxReplicas": 3 });
    });
    let expected = ["spec.services[decode].dynamoNamespace: ", "spec.services[decode].autoscaling: "];
    // Sent as v1alpha1, and once more when a client of v1beta1 sends back what it got.
    for request in [converted(&old), creation(convert(old.clone(), ApiVersion::V1Beta1).unwrap())] {
        let answer = validate(&request, &facts());
        assert_eq!(violations(&answer), Vec::<String>::new());
        let reported = warnings(&answer);
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(
            reported.iter().zip(expected).all(|(reported, expected)| reported.starts_with(expected)),
            "{reported:?}"
        );
        assert!(reported[0].contains("\"mine\" is replaced by \"team-llama\""), "{reported:?}");
    }
}

/// `autoscaling` of v1alpha1.
fn rules(min: Value, max: Value, metrics: &Value) -> Value {
    json!({ "enabled": true, "minReplicas": min, "maxReplicas": max, "metrics": metrics })
}

/// The API server would reject these rules in the HorizontalPodAutoscaler, or the autoscaler would never scale.
#[test]
fn rules_of_an_autoscaler_are_checked_in_graphs_and_components() {
    let metrics = json!([{ "type": "Resource",
        "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 60 } } }]);
    let cpu = json!({ "limits": { "cpu": "4" } });
    let own_cpu = json!({ "mainContainer": { "image": "vllm:1.5.0", "resources": { "requests": { "cpu": 4 } } } });
    let table = [
        (rules(json!(1), json!(3), &metrics), json!({}), vec![]),
        (rules(json!(null), json!(3), &metrics), json!({}), vec![]),
        (rules(json!(3), json!(3), &metrics), json!({}), vec![]),
        (rules(json!(0), json!(3), &metrics), json!({}), vec![]),
        (rules(json!(1), json!(3), &json!(null)), json!({ "resources": cpu }), vec![]),
        (rules(json!(1), json!(3), &json!([])), json!({ "extraPodSpec": own_cpu }), vec![]),
        (rules(json!(4), json!(3), &metrics), json!({}), vec!["Invalid autoscaling.minReplicas"]),
        (rules(json!(-1), json!(3), &metrics), json!({}), vec!["Invalid autoscaling.minReplicas"]),
        (rules(json!(1), json!(0), &metrics), json!({}), vec!["Invalid autoscaling.maxReplicas"]),
        (rules(json!(1), json!(null), &metrics), json!({}), vec!["Required autoscaling.maxReplicas"]),
        (rules(json!(1), json!(3), &json!(null)), json!({}), vec!["Required autoscaling.metrics"]),
        (rules(json!(1), json!(3), &json!([])), json!({}), vec!["Required autoscaling.metrics"]),
        (json!({ "enabled": false, "minReplicas": 4, "maxReplicas": 3 }), json!({}), vec![]),
    ];
    for (rules, more, expected) in table {
        let graph = edited(&alpha(), |g| {
            let decode = g["spec"]["services"]["decode"].as_object_mut().unwrap();
            decode.remove("resources");
            decode.insert("autoscaling".to_owned(), rules.clone());
            decode.extend(more.as_object().unwrap().clone());
        });
        let mut component = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponentDeployment",
            "metadata": { "name": "decode", "namespace": "team" },
            "spec": { "componentType": "worker", "autoscaling": rules,
                "extraPodSpec": { "mainContainer": { "image": "vllm:1.5.0" } } },
        });
        component["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        for (object, at) in [(graph, "spec.services[decode]."), (component, "spec.")] {
            let answer = validate(&converted(&object), &facts());
            let expected: Vec<_> = expected.iter().map(|row| row.replace(' ', &format!(" {at}"))).collect();
            assert_eq!(violations(&answer), expected, "{rules} {more}");
            let reported = warnings(&answer).iter().filter(|reported| reported.contains("autoscaling")).count();
            assert_eq!(reported, usize::from(rules["enabled"] == false), "{rules}");
        }
    }
    // Objects that were admitted before there were rules can still be changed otherwise.
    let admitted = edited(&alpha(), |g| g["spec"]["services"]["decode"]["autoscaling"] = json!({ "enabled": true }));
    let scaled = edited(&admitted, |g| g["spec"]["services"]["decode"]["replicas"] = json!(2));
    assert_eq!(violations(&validate(&converted_change(&admitted, &scaled), &facts())), [""; 0]);
}

#[test]
fn legacy_fields_without_effect_are_warned_about() {
    let config = |total: Value| {
        let args = json!({ "total_gpus": total, "resources": { "gpu": "8" } });
        json!([{ "name": "DYN_DEPLOYMENT_CONFIG", "value": json!({ "decode": { "ServiceArgs": args } }).to_string() }])
    };
    let given = edited(&alpha(), |g| {
        g["spec"]["envs"] = config(json!(16));
        g["spec"]["services"]["decode"]["envs"] = config(json!("8"));
        g["spec"]["services"]["decode"]["annotations"] = json!({
            "nvidia.com/deployment-type": "leader-worker", "nvidia.com/lws-size": "2",
            "nvidia.com/enable-debug-mode": "true", "nvidia.com/enable-stealing-traffic-debug-mode": "false",
            "nvidia.com/enable-host-ipc": "true",
        });
    });
    let reported = |object: &Value| {
        let answer = validate(&converted(object), &facts());
        assert_eq!(violations(&answer), [""; 0]);
        warnings(&answer).iter().map(|reported| reported.split(": ").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let of_graph = |field: &str| {
        let annotation = |key: &str| format!("spec.services[decode].annotations[nvidia.com/{key}]");
        let own = ["deployment-type", "lws-size", "enable-debug-mode"].map(annotation);
        let graph = [format!("spec.{field}"), "spec.envs[0].value".to_owned()];
        graph.into_iter().chain(own).collect::<Vec<_>>()
    };
    for field in ["dynamoComponent", "dynamoGraph"] {
        assert_eq!(reported(&edited(&given, |g| g["spec"][field] = json!("chat:v1"))), of_graph(field));
    }
    assert_eq!(reported(&given), [""; 0], "elsewhere they never had an effect");
    let plain = edited(&alpha(), |g| g["spec"]["dynamoComponent"] = json!("chat:v1"));
    let answer = validate(&converted(&plain), &facts());
    assert_eq!(warnings(&answer).len(), 1);
    assert!(warnings(&answer)[0].contains("the manifest in the archive is not read"), "{:?}", warnings(&answer));
    // The manifest says the rest.
    for services in [json!({ "Frontend": { "replicas": 1 } }), json!(null)] {
        let silent = edited(&plain, |g| g["spec"]["services"] = services.clone());
        assert_eq!(reported(&silent), [""; 0]);
    }

    let component = |source: Option<&str>| {
        let mut object = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponentDeployment",
            "metadata": { "name": "decode", "namespace": "team" },
            "spec": {
                "dynamoTag": "m:Decode", "componentType": "worker", "annotations": { "nvidia.com/lws-size": "2" },
                "extraPodSpec": { "mainContainer": { "image": "vllm:1.5.0" } },
            },
        });
        object["spec"].as_object_mut().unwrap().extend(source.map(|it| ("dynamoComponent".to_owned(), json!(it))));
        object
    };
    assert_eq!(reported(&component(Some("chat:v1"))), ["spec.annotations[nvidia.com/lws-size]"]);
    assert_eq!(reported(&component(None)), [""; 0]);
}

/// In the legacy API it was where the program registers, and there it still is.
#[test]
fn the_dynamo_namespace_of_a_built_component_on_its_own_is_heard() {
    let reported = |more: Value, owners: Value| {
        let mut object = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponentDeployment",
            "metadata": { "name": "decode", "namespace": "team", "ownerReferences": owners },
            "spec": { "dynamoNamespace": "mine", "componentType": "worker" },
        });
        object["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = validate(&converted(&object), &facts());
        assert_eq!(violations(&answer), [""; 0], "{}", words(&answer));
        warnings(&answer).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let built = json!({ "dynamoComponent": "chat:v1", "dynamoTag": "m:Decode" });
    assert_eq!(reported(built.clone(), json!([])), [""; 0]);
    let graph =
        json!([{ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "name": "llama", "uid": "u" }]);
    let image = json!({ "dynamoComponent": "chat:v1", "extraPodSpec": { "mainContainer": { "image": "vllm:1.5.0" } } });
    for (more, owners, instead) in [(built, graph, "team-llama"), (image, json!([]), "team-decode")] {
        let warnings = reported(more, owners);
        assert!(warnings[0].contains(&format!("\"mine\" is replaced by {instead:?}")), "{warnings:?}");
    }
}

#[test]
fn a_further_compilation_cache_is_admitted_with_a_warning() {
    let reported = |mounts: Value| {
        let object = edited(&alpha(), |g| g["spec"]["services"]["decode"]["volumeMounts"] = mounts);
        let answer = validate(&converted(&object), &facts());
        assert_eq!(violations(&answer), [""; 0]);
        warnings(&answer).iter().map(|reported| reported.split(": ").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let cache = |name: &str, path: Value| json!({ "name": name, "mountPoint": path, "useAsCompilationCache": true });
    let (first, second) = (cache("a", json!(null)), cache("b", json!(null)));
    assert_eq!(reported(json!([first, second])), ["spec.services[decode].volumeMounts[1]"]);
    assert_eq!(reported(json!([first, cache("b", json!("/b"))])), [""; 0], "an ordinary mount");
    assert_eq!(reported(json!([first])), [""; 0]);
}

#[test]
fn a_gpu_of_another_name_is_found_where_it_was_written() {
    let object = edited(&alpha(), |g| {
        g["spec"]["services"]["decode"]["resources"]["limits"] = json!({ "gpu": "-1", "gpuType": "x/gpu" });
    });
    let found = violations(&validate(&converted(&object), &facts()));
    assert_eq!(found, ["Invalid spec.services[decode].resources.limits.gpu"]);
}

#[test]
fn violations_of_v1alpha1_changes_are_reported_in_v1alpha1() {
    let other = edited(&alpha(), |g| {
        g["spec"]["services"]["prefill"] = g["spec"]["services"]["decode"].clone();
    });
    let expected = ["Forbidden spec.services"];
    assert_eq!(violations(&validate(&converted_change(&alpha(), &other), &facts())), expected);
}

#[test]
fn what_only_v1alpha1_says_is_looked_at_in_updates_too() {
    let update = |object: &Value, old: &Value| violations(&validate(&converted_change(old, object), &facts()));
    let ingress = edited(&alpha(), |g| g["spec"]["services"]["Frontend"]["ingress"] = json!({ "enabled": true }));
    assert_eq!(update(&ingress, &alpha()), ["Required spec.services[Frontend].ingress.host"]);
    assert_eq!(update(&ingress, &ingress), [""; 0], "what was there before blocks no change");
    let built = edited(&alpha(), |g| {
        g["spec"]["dynamoComponent"] = json!("chat:v1");
        g["spec"]["services"]["decode"]["extraPodSpec"] = json!(null);
    });
    let bare = edited(&built, |g| drop(g["spec"].as_object_mut().unwrap().remove("dynamoComponent")));
    assert_eq!(update(&bare, &built), ["Required spec.services[decode].extraPodSpec.mainContainer.image"]);
}

/// Configurations of older releases name a path of its own, without conversion.
#[test]
fn components_come_as_v1alpha1_too() {
    let component = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponentDeployment",
        "metadata": { "name": "decode", "namespace": "team" },
        "spec": { "componentType": "worker", "sharedMemory": { "size": "-1Gi" } },
    });
    let answer = review(AdmissionPath::ValidateComponentAlpha, &creation(component), &facts());
    let expected = ["Invalid spec.sharedMemory.size", "Required spec.extraPodSpec.mainContainer.image"];
    assert_eq!(violations(&answer), expected, "{}", words(&answer));
}

#[test]
fn requests_of_v1alpha1() {
    let request = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": { "name": "profile", "namespace": "team" },
        "spec": { "model": "m", "backend": "vllm", "profilingConfig": { "profilerImage": "planner:latest" } },
    });
    let answer = validate(&converted(&request), &facts());
    assert_eq!(violations(&answer), ["Required spec.runtimeVersionOverride"]);
}

/// Defect of the reference: what only v1alpha1 says of a request could change after the profiler had read it.
#[test]
fn requests_that_are_acted_upon_stay_in_what_only_v1alpha1_says() {
    let request = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": { "name": "profile", "namespace": "team" },
        "spec": {
            "model": "m", "backend": "vllm", "autoApply": false, "deploymentOverrides": { "name": "chat" },
            "profilingConfig": { "profilerImage": "planner:1.5.0", "config": { "sweep": { "depth": 1 } } },
        },
    });
    type Edit = fn(&mut Value);
    let choose: Edit = |r| r["spec"]["runtimeVersionOverride"] = json!("1.4.0");
    let table: [(&str, Edit, &[&str]); 5] = [
        ("depth", |r| r["spec"]["profilingConfig"]["config"]["sweep"]["depth"] = json!(2), &["Profiling", "Deployed"]),
        ("name", |r| r["spec"]["deploymentOverrides"]["name"] = json!("other"), &["Profiling", "Deployed"]),
        ("label", |r| r["metadata"]["labels"] = json!({ "a": "b" }), &[]),
        ("late choice", choose, &["Deployed"]),
        (
            "late choice and name",
            |r| {
                r["spec"]["runtimeVersionOverride"] = json!("1.4.0");
                r["spec"]["deploymentOverrides"]["name"] = json!("other");
            },
            &["Profiling", "Deployed"],
        ),
    ];
    for (what, edit, refused) in table {
        for phase in ["Pending", "Profiling", "Deployed", "Failed"] {
            let mut change = converted_change(&request, &edited(&request, edit));
            for object in [&mut change.object, &mut change.old_object] {
                object.as_mut().unwrap()["status"] = json!({ "phase": phase });
            }
            let expected: &[&str] = if refused.contains(&phase) { &["Forbidden spec"] } else { &[] };
            assert_eq!(violations(&validate(&change, &facts())), expected, "{what} in {phase}");
        }
    }
}

#[test]
fn what_is_not_reviewed_is_admitted() {
    let bad = edited(&graph(), |g| g["spec"] = json!({}));
    let scale = Request { subresource: Some("status".to_owned()), ..creation(bad.clone()) };
    let deletion = Request {
        operation: webhook_server::admission::Operation::Delete,
        object: None,
        old_object: Some(bad.clone()),
        ..creation(bad)
    };
    for request in [scale, deletion] {
        for path in AdmissionPath::ALL {
            assert_eq!(review(path, &request, &facts()), Answer::admitted(), "{path:?}");
        }
    }
}

#[test]
fn requests_about_something_else_are_refused() {
    let mut request = creation(graph());
    request.kind = GroupVersionKind { version: "v1".to_owned(), ..request.kind };
    assert_eq!(violations(&validate(&request, &facts())), ["Invalid kind"]);
    let empty = Request { object: None, ..creation(graph()) };
    assert_eq!(violations(&validate(&empty, &facts())), ["Required object"]);
}
