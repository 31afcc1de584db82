//! Saved data never undoes an edit.

use super::*;

fn edited(graph: &Value, edit: impl FnOnce(&mut Value)) -> Value {
    let mut graph = graph.clone();
    edit(&mut graph);
    graph
}

fn main_of(graph: &mut Value) -> &mut Value {
    &mut graph["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]
}

fn service(graph: &Value) -> Value {
    down(graph)["spec"]["services"]["a"].clone()
}

/// As the header of `lens.rs` has it.
#[test]
fn the_example_of_the_lens() {
    let ingress = json!({ "enabled": true, "host": "h" });
    let source = json!({
        "replicas": 1, "ingress": ingress, "sharedMemory": { "disabled": true, "size": "1Gi" },
    });
    let target = up(&alpha(&source));
    assert_eq!(component(&target), json!({ "replicas": 1, "sharedMemorySize": "0" }));
    assert_eq!(service(&target), source);
    let changed = edited(&target, |graph| {
        graph["spec"]["components"][0]["replicas"] = json!(2);
        graph["spec"]["components"][0]["sharedMemorySize"] = json!("2Gi");
    });
    let expected = json!({ "replicas": 2, "ingress": ingress, "sharedMemory": { "size": "2Gi" } });
    assert_eq!(service(&changed), expected);
}

#[test]
fn edits_in_beta_stay() {
    let beta = up(&alpha(&json!({
        "ingress": { "enabled": true }, "scalingAdapter": { "enabled": false }, "componentType": "main", "envFromSecret": "s",
        "resources": { "limits": { "gpu": "1", "gpuType": "x/gpu" } }, "envs": [{ "name": "A", "value": "1" }],
        "extraPodSpec": { "mainContainer": { "image": "i", "env": [{ "name": "B", "value": "2" }], "livenessProbe": { "exec": {} } } },
    })));
    let seen = service(&edited(&beta, |graph| main_of(graph)["image"] = json!("j")));
    assert_eq!(seen["extraPodSpec"]["mainContainer"]["image"], "j");
    assert_eq!(
        (&seen["envFromSecret"], &seen["componentType"]),
        (&json!("s"), &json!("main")),
        "what was not edited is still split"
    );

    let seen = service(&edited(&beta, |graph| main_of(graph)["env"][0]["value"] = json!("9")));
    assert_eq!(seen["envs"], json!([{ "name": "A", "value": "9" }]));
    let main = json!({ "image": "i", "env": [{ "name": "B", "value": "2" }], "livenessProbe": { "exec": {} } });
    assert_eq!(seen["extraPodSpec"]["mainContainer"], main, "variables stay where they were");
    assert_eq!((&seen["envFromSecret"], &seen["ingress"]), (&json!("s"), &json!({ "enabled": true })));
    assert_eq!(seen["resources"]["limits"], json!({ "gpu": "1", "gpuType": "x/gpu" }));

    let seen = service(&edited(&beta, |graph| main_of(graph)["resources"] = json!({ "limits": { "x/gpu": "2" } })));
    assert_eq!(seen["resources"]["limits"], json!({ "gpu": "2", "gpuType": "x/gpu" }), "where it was");

    let more = json!([{ "secretRef": { "name": "s" } }, { "secretRef": { "name": "t" } }]);
    let seen = service(&edited(&beta, |graph| main_of(graph)["envFrom"] = more.clone()));
    assert_eq!((seen.get("envFromSecret"), &seen["extraPodSpec"]["mainContainer"]["envFrom"]), (None, &more));

    let seen = service(&edited(&beta, |graph| graph["spec"]["components"][0]["type"] = json!("planner")));
    assert_eq!(seen["componentType"], "planner");
    let seen = service(&edited(&beta, |graph| graph["spec"]["components"][0]["scalingAdapter"] = json!({})));
    assert_eq!(seen["scalingAdapter"], json!({ "enabled": true }));

    let renamed = edited(&beta, |graph| graph["spec"]["components"][0]["name"] = json!("z"));
    assert_eq!(down(&renamed)["spec"]["services"]["z"].get("ingress"), None, "saved data is that of a name");
    let gone = edited(&beta, |graph| drop(graph["spec"].as_object_mut().unwrap().remove("components")));
    assert_eq!(down(&gone)["spec"], json!({}));
}

#[test]
fn an_edit_that_only_beta_can_say_keeps_the_rest() {
    let beta = up(&alpha(&json!({
        "envFromSecret": "s", "volumeMounts": [{ "name": "d", "mountPoint": "/d" }], "frontendSidecar": { "image": "i" },
    })));
    let changed = edited(&beta, |graph| {
        main_of(graph)["volumeMounts"][0]["readOnly"] = json!(true);
        graph["spec"]["components"][0]["experimental"] = json!({ "grove": {} });
    });
    let seen = down(&changed);
    let service = json!({ "envFromSecret": "s", "volumeMounts": [{ "name": "d", "mountPoint": "/d" }], "frontendSidecar": { "image": "i" } });
    assert_eq!(seen["spec"]["services"]["a"], service);
    assert_eq!(up(&seen)["spec"], changed["spec"]);
}

#[test]
fn edits_in_alpha_stay() {
    let alpha = down(&beta(json!({
        "frontendSidecar": "x", "experimental": { "grove": { "forceScalingGroup": true } },
        "podTemplate": { "metadata": { "finalizers": ["f"] }, "spec": { "containers": [
            { "name": "x", "image": "i" },
            { "name": "main", "image": "j", "volumeMounts": [{ "name": "d", "mountPath": "/d", "readOnly": true }] },
        ] } },
    })));
    let changed = edited(&alpha, |graph| {
        let mounts = graph["spec"]["services"]["a"]["volumeMounts"].as_array_mut().unwrap();
        mounts.push(json!({ "name": "e", "mountPoint": "/e" }));
        graph["spec"]["services"]["a"]["extraPodSpec"]["mainContainer"]["image"] = json!("k");
    });
    assert_eq!(
        component(&up(&changed)),
        json!({
            "frontendSidecar": "x", "experimental": { "grove": { "forceScalingGroup": true } },
            "podTemplate": { "metadata": { "finalizers": ["f"] }, "spec": { "containers": [
                { "name": "x", "image": "i" },
                { "name": "main", "image": "k", "volumeMounts": [
                    { "name": "d", "mountPath": "/d", "readOnly": true }, { "name": "e", "mountPath": "/e" },
                ] },
            ] } },
        })
    );
    let gone = edited(&alpha, |graph| graph["spec"]["services"]["a"] = json!({ "replicas": 2 }));
    assert_eq!(component(&up(&gone))["replicas"], 2);
    assert_eq!(component(&up(&gone)).pointer("/podTemplate/spec/containers/0/image"), None);
}

#[test]
fn an_edited_sidecar_is_still_a_sidecar() {
    let beta = up(&alpha(&json!({ "frontendSidecar": { "image": "i", "envFromSecret": "s" } })));
    let changed = edited(&beta, |graph| {
        graph["spec"]["components"][0]["podTemplate"]["spec"]["containers"][1]["image"] = json!("j")
    });
    assert_eq!(service(&changed), json!({ "frontendSidecar": { "image": "j", "envFromSecret": "s" } }));
    let more = edited(&beta, |graph| {
        graph["spec"]["components"][0]["podTemplate"]["spec"]["containers"][1]["stdin"] = json!(true)
    });
    assert_eq!(up(&down(&more))["spec"], more["spec"]);
}

/// Server-side apply sends null for an object whose last field it took out. The feature is still switched on.
#[test]
fn a_marker_that_was_emptied_is_still_there() {
    let emptied = beta(json!({
        "scalingAdapter": null, "experimental": { "gpuMemoryService": null, "failover": null },
    }));
    let on = json!({ "enabled": true });
    assert_eq!(service(&emptied), json!({ "scalingAdapter": on, "gpuMemoryService": on, "failover": on }));
    assert_comes_back(&emptied);
}

/// Defaults that the API server sets when v1alpha1 is written are present when it is read.
#[test]
fn defaults_of_v1alpha1_do_not_appear_when_it_is_written_back() {
    let beta = beta(json!({ "podTemplate": { "spec": { "containers": [
        { "name": "main", "volumeMounts": [{ "name": "d", "mountPath": "/d" }] },
    ] } } }));
    let mount = json!({ "name": "d", "mountPoint": "/d", "useAsCompilationCache": false });
    assert_eq!(service(&beta), json!({ "volumeMounts": [mount] }));
    let request =
        object(ApiVersion::V1Beta1, "DynamoGraphDeploymentRequest", &json!({ "model": "m", "backend": "auto" }));
    assert_eq!(
        down(&request)["spec"],
        json!({
            "model": "m", "backend": "auto", "useMocker": false, "enableGpuDiscovery": true, "autoApply": true,
            "profilingConfig": { "profilerImage": "" },
        })
    );
}

/// A status that needs saved data must not make a component forget its name.
#[test]
fn a_component_keeps_its_name_when_only_its_status_is_odd() {
    let mut alone = object(ApiVersion::V1Beta1, "DynamoComponentDeployment", &json!({ "name": "g" }));
    alone["status"] = json!({ "observedGeneration": null });
    assert_comes_back(&alone);
    assert_eq!(up(&down(&alone))["spec"], json!({ "name": "g" }));
}

#[test]
fn a_component_whose_name_is_empty_keeps_its_saved_data() {
    let template = json!({ "metadata": { "namespace": "n" } });
    let spec = json!({ "components": [{ "name": "", "podTemplate": template }] });
    assert_comes_back(&object(ApiVersion::V1Beta1, "DynamoGraphDeployment", &spec));
}

/// More standby engines than v1beta1 accepts from a user: v1alpha1 could always have them, and they stay.
#[test]
fn more_standby_engines_than_v1beta1_takes_from_an_author_stay() {
    let failover = json!({ "enabled": true, "mode": "interPod", "numShadows": 3 });
    let alpha = alpha(&json!({ "failover": failover }));
    assert_eq!(
        component(&up(&alpha)),
        json!({ "experimental": { "failover": { "mode": "InterPod", "numShadows": 3 } } })
    );
    assert_comes_back(&alpha);
}

/// Found by a million random edits.
#[test]
fn components_added_where_alpha_said_null_stay() {
    let empty = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": { "name": "g", "namespace": "n" }, "spec": { "services": null },
    });
    let beta = up(&empty);
    assert_eq!(down(&beta), empty);
    let added = edited(&beta, |graph| graph["spec"]["components"] = json!([{ "name": "a", "replicas": 2 }]));
    assert_eq!(service(&added), json!({ "replicas": 2 }));
    assert_eq!(up(&down(&added))["spec"], added["spec"]);
}

/// Defect: one item that was added or removed in v1beta1 moved all of them to another place in v1alpha1, where their
/// manager there does not have them.
#[test]
fn what_is_saved_says_where_an_item_goes() {
    let service = json!({
        "envs": [{ "name": "E", "value": "1" }, { "name": "H", "value": "hidden" }],
        "resources": { "limits": { "cpu": "1", "memory": "1Gi", "gpu": "2" } },
        "volumeMounts": [{ "name": "v", "mountPoint": "/own" }],
        "livenessProbe": { "httpGet": { "port": 1 }, "periodSeconds": 5, "timeoutSeconds": 6 },
        "extraPodSpec": { "mainContainer": {
            "livenessProbe": { "timeoutSeconds": 7, "failureThreshold": 8 },
            "env": [{ "name": "C", "value": "1" }, { "name": "H", "value": "2" }, { "name": "D", "value": "1" }],
            "resources": { "limits": { "cpu": "2", "x/nic": "1" } },
            "volumeMounts": [{ "name": "v", "mountPath": "/a", "readOnly": true }, { "name": "v", "mountPath": "/b" }],
        } },
    });
    let mut stored = up(&alpha(&service));
    let main = &mut stored["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0];
    main["env"].as_array_mut().unwrap().retain(|variable| variable["name"] != "D");
    main["env"][2]["value"] = json!("changed");
    main["env"].as_array_mut().unwrap().push(json!({ "name": "N", "value": "new" }));
    main["resources"]["limits"].as_object_mut().unwrap().remove("memory");
    main["resources"]["limits"]["x/nic"] = json!("3");
    main["resources"]["limits"]["y/new"] = json!("1");
    main["volumeMounts"].as_array_mut().unwrap().retain(|mount| mount["mountPath"] != "/b");
    main["volumeMounts"].as_array_mut().unwrap().insert(1, json!({ "name": "w", "mountPath": "/new" }));
    main["livenessProbe"] =
        json!({ "httpGet": { "port": 2 }, "timeoutSeconds": 7, "failureThreshold": 9, "successThreshold": 1 });
    let expected = json!({
        "livenessProbe": { "httpGet": { "port": 2 }, "timeoutSeconds": 6, "successThreshold": 1 },
        "envs": [{ "name": "E", "value": "1" }, { "name": "H", "value": "hidden" }, { "name": "N", "value": "new" }],
        "resources": { "limits": { "cpu": "1", "gpu": "2", "custom": { "y/new": "1" } } },
        "volumeMounts": [
            { "name": "v", "mountPoint": "/own" },
            { "name": "w", "mountPoint": "/new", "useAsCompilationCache": false },
        ],
        "extraPodSpec": { "mainContainer": {
            "livenessProbe": { "timeoutSeconds": 7, "failureThreshold": 9 },
            "env": [{ "name": "C", "value": "changed" }, { "name": "H", "value": "2" }],
            "resources": { "limits": { "cpu": "2", "x/nic": "3" } },
            "volumeMounts": [{ "name": "v", "mountPath": "/a", "readOnly": true }],
        } },
    });
    let seen = down(&stored);
    assert_eq!(seen["spec"]["services"]["a"], expected);
    assert_eq!(up(&seen)["spec"], stored["spec"]);
    assert_comes_back(&stored_alone(&seen));
}

/// Defect: a user of v1alpha1 could not mount where a user of v1beta1 did, because the place was in the list
/// twice.
#[test]
fn a_place_has_one_mount() {
    let service = json!({
        "volumeMounts": [{ "name": "v", "mountPoint": "/a" }, { "name": "v", "mountPoint": "/b" }],
        "extraPodSpec": { "mainContainer": { "volumeMounts": [{ "name": "w", "mountPath": "/a", "readOnly": true }] } },
    });
    let mounts = &up(&alpha(&service))["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["volumeMounts"];
    let expected = json!([{ "name": "w", "mountPath": "/a", "readOnly": true }, { "name": "v", "mountPath": "/b" }]);
    assert_eq!(*mounts, expected);
    assert_comes_back(&alpha(&service));
}

/// A v1alpha1 object as its user would write it: without what is kept for v1beta1.
fn stored_alone(object: &Value) -> Value {
    let mut alone = object.clone();
    alone["metadata"] = json!({ "name": "g" });
    alone
}
