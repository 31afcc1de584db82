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
    assert_eq!(seen["envs"], json!([{ "name": "A", "value": "9" }, { "name": "B", "value": "2" }]));
    assert_eq!(seen["extraPodSpec"]["mainContainer"], json!({ "image": "i", "livenessProbe": { "exec": {} } }));
    assert_eq!((&seen["envFromSecret"], &seen["ingress"]), (&json!("s"), &json!({ "enabled": true })));
    assert_eq!(seen["resources"]["limits"], json!({ "gpu": "1", "gpuType": "x/gpu" }));

    let seen = service(&edited(&beta, |graph| main_of(graph)["resources"] = json!({ "limits": { "x/gpu": "2" } })));
    assert_eq!(seen["resources"]["limits"], json!({ "custom": { "x/gpu": "2" } }));

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
