//! Properties that hold for any component.

use proptest::{collection, option, prelude::*, sample};
use rendering::validate;
use serde_json::{Value, json};

use crate::fixture::{Surroundings, component, json_of};

const TYPES: [&str; 6] = ["frontend", "worker", "prefill", "decode", "planner", "epp"];
const FRAMEWORKS: [&str; 3] = ["vllm", "sglang", "trtllm"];
const WORDS: [&str; 9] =
    ["python3", "-m", "dynamo.vllm", "dynamo.sglang", "--enable-elastic-ep", "-dpb=ray", "it's", "|", "é\u{0}\n"];
const SIZES: [&str; 6] = ["0", "1Gi", "-1", "1e400", "junk", "99999999999999999999999999999999999999999999"];

fn words() -> impl Strategy<Value = Vec<&'static str>> {
    collection::vec(sample::select(&WORDS[..]), 0..6)
}

fn short_name() -> impl Strategy<Value = String> {
    "[a-c]{0,2}"
}

fn mounts() -> impl Strategy<Value = Vec<Value>> {
    let mount = (short_name(), "(/[a-b]|/dev/shm)?", any::<bool>());
    let mount = mount.prop_map(|(name, path, ro)| json!({"name": name, "mountPath": path, "readOnly": ro}));
    collection::vec(mount, 0..4)
}

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    let env = collection::vec(("[A-D]{1,2}|DYN_NAMESPACE", "[x-z]?"), 0..5)
        .prop_map(|all| all.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>());
    let probe = option::of(sample::select(vec![json!({"exec": {"command": ["true"]}}), json!({})]));
    (option::of("[a-z.:/]{1,12}"), words(), words(), env, mounts(), probe, option::of(sample::select(&SIZES[..])))
        .prop_map(move |(image, command, args, env, mounts, probe, memory)| {
            json!({
                "name": name, "image": image, "command": command, "args": args, "env": env, "volumeMounts": mounts,
                "livenessProbe": probe, "workingDir": "/w",
                "resources": {"limits": limits(memory)},
            })
        })
}

fn limits(memory: Option<&str>) -> Value {
    let mut limits = json!({"nvidia.com/gpu": "1"});
    if let Some(memory) = memory {
        limits["memory"] = json!(memory);
    }
    limits
}

fn experimental() -> impl Strategy<Value = Value> {
    let mode = || sample::select(&["IntraPod", "InterPod"][..]);
    let clients = collection::vec(sample::select(&["main", "side", "other"][..]), 0..3);
    (option::weighted(0.8, (mode(), clients)), option::of(mode())).prop_map(|(service, failover)| {
        let service = service.map(|(mode, clients)| json!({"mode": mode, "extraClientContainers": clients}));
        json!({"gpuMemoryService": service, "failover": failover.map(|mode| json!({"mode": mode}))})
    })
}

fn any_spec() -> impl Strategy<Value = Value> {
    let volumes = collection::btree_set(short_name(), 0..3)
        .prop_map(|names| names.into_iter().map(|name| json!({"name": name, "emptyDir": {}})).collect::<Vec<_>>());
    let pod = (
        option::weighted(0.9, container("main")),
        option::of(container("side")),
        volumes,
        option::of(0..3_i64),
        option::of(Just(json!({"zone": "a"}))),
    );
    let cache =
        (short_name(), option::of("(/[a-b])?")).prop_map(|(pvc, path)| json!({"pvcName": pvc, "mountPath": path}));
    (
        (option::of(sample::select(&TYPES[..])), option::of(sample::select(&FRAMEWORKS[..]))),
        pod,
        (
            option::of(sample::select(&SIZES[..])),
            option::of(cache),
            option::of(sample::select(&["side", "main", ""][..])),
            option::weighted(0.3, experimental()),
        ),
        collection::btree_map("[a-b]|nvidia.com/deployment-rolling-update-max-surge", "[0-9%]{0,3}", 0..2),
    )
        .prop_map(
            |(
                (type_, framework),
                (main, side, volumes, grace, selector),
                (memory, cache, sidecar, experimental),
                annotations,
            )| {
                let containers: Vec<Value> = side.into_iter().chain(main).collect();
                json!({
                    "name": "Worker", "type": type_, "backendFramework": framework, "sharedMemorySize": memory,
                    "compilationCache": cache, "frontendSidecar": sidecar, "experimental": experimental,
                    "podTemplate": {
                        "metadata": {"annotations": annotations},
                        "spec": {
                            "containers": containers, "volumes": volumes, "terminationGracePeriodSeconds": grace,
                            "nodeSelector": selector,
                        },
                    },
                })
            },
        )
}

/// Like [`any_spec`], but with what most often makes a spec invalid left out.
fn mostly_valid_spec() -> impl Strategy<Value = Value> {
    any_spec().prop_map(|mut spec| {
        let fields = spec.as_object_mut().unwrap();
        for field in ["sharedMemorySize", "compilationCache", "frontendSidecar", "backendFramework"] {
            fields.remove(field);
        }
        spec["podTemplate"]["metadata"] = json!({});
        for container in spec["podTemplate"]["spec"]["containers"].as_array_mut().unwrap() {
            container["resources"] = json!({});
            container["image"] = json!("nvcr.io/a:1");
            for mount in container["volumeMounts"].as_array_mut().unwrap() {
                mount["name"] = json!(format!("v{}", mount["name"].as_str().unwrap()));
                mount["mountPath"] = json!(format!("/v{}", mount["mountPath"].as_str().unwrap()));
            }
        }
        spec
    })
}

proptest! {
    #[test]
    fn nothing_panics_and_the_outcome_is_always_the_same(spec in any_spec()) {
        let component = component(spec);
        let surroundings = Surroundings::default();
        match validate(&component) {
            Err(violations) => {
                prop_assert!(!violations.is_empty());
                prop_assert!(violations.iter().all(|m| !m.to_string().contains('\n')));
                prop_assert_eq!(validate(&component).unwrap_err(), violations);
            }
            Ok(_) => {
                prop_assert_eq!(json_of(&surroundings.deployment(&component)), json_of(&surroundings.deployment(&component)));
                prop_assert_eq!(json_of(&surroundings.service(&component)), json_of(&surroundings.service(&component)));
            }
        }
    }

    #[test]
    fn what_the_author_sets_survives(spec in mostly_valid_spec()) {
        let component = component(spec.clone());
        prop_assume!(validate(&component).is_ok());
        let pod = json_of(&Surroundings::default().pod(&component));
        let own_pod = &spec["podTemplate"]["spec"];
        prop_assert_eq!(pod.get("nodeSelector"), own_pod.get("nodeSelector").filter(|s| !s.is_null()));
        if let Some(grace) = own_pod["terminationGracePeriodSeconds"].as_i64() {
            prop_assert_eq!(&pod["terminationGracePeriodSeconds"], &json!(grace));
        }
        let named = |pod: &Value, name: &str| {
            pod["containers"].as_array().unwrap().iter().find(|c| c["name"] == name).cloned()
        };
        let (own, main) = (named(own_pod, "main").unwrap(), named(&pod, "main").unwrap());
        prop_assert_eq!(&pod["containers"][0]["name"], "main");
        for field in ["image", "workingDir"] {
            prop_assert_eq!(&main[field], &own[field]);
        }
        match &own["livenessProbe"] {
            Value::Null => prop_assert!(main["livenessProbe"].is_object() || spec["type"].is_null()),
            Value::Object(probe) if probe.is_empty() => prop_assert_eq!(main.get("livenessProbe"), None),
            probe => prop_assert_eq!(&main["livenessProbe"], probe),
        }
        for (index, variable) in own["env"].as_array().unwrap().iter().enumerate() {
            let overridden = own["env"].as_array().unwrap()[index + 1..].iter().any(|e| e["name"] == variable["name"]);
            prop_assert!(overridden || main["env"].as_array().unwrap().contains(variable));
        }
        let mounted = |container: &Value| container["volumeMounts"].as_array().cloned().unwrap_or_default();
        for mount in mounted(&own) {
            prop_assert!(mount["mountPath"] == "/dev/shm" || mounted(&main).contains(&mount));
        }
    }

    #[test]
    fn every_mount_of_main_has_one_volume_and_every_variable_one_entry(spec in mostly_valid_spec()) {
        let component = component(spec);
        prop_assume!(validate(&component).is_ok());
        let pod = Surroundings::default().pod(&component);
        let main = &pod.containers[0];
        for mount in main.volume_mounts.iter().flatten() {
            prop_assert_eq!(pod.volumes.iter().flatten().filter(|volume| volume.name == mount.name).count(), 1);
        }
        let names: Vec<_> = main.env.iter().flatten().map(|e| &e.name).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        prop_assert_eq!(unique.len(), names.len());
    }
}
