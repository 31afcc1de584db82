//! The user's fields over the defaults.

use rendering::PodSettings;
use serde_json::{Value, json};

use crate::fixture::{Surroundings, component, json_of, main_of, merged, pod, spec, worker};

/// Each row: fields of the main container, a pointer into the rendered one, and the value there.
#[test]
fn fields_of_the_main_container() {
    let exec = json!({"exec": {"command": ["true"]}});
    let gpu = json!({"limits": {"nvidia.com/gpu": "1"}});
    let table: Vec<(Value, &str, Value)> = vec![
        (json!({}), "/command", json!(["/bin/sh", "-c"])),
        (json!({"command": ["python3"]}), "/command", json!(["python3"])),
        (json!({"command": []}), "/command", json!(["/bin/sh", "-c"])),
        (json!({"args": ["a"]}), "/args", json!(["a"])),
        (json!({}), "/ports/0/name", json!("system")),
        (json!({"ports": [{"containerPort": 1}]}), "/ports", json!([{"containerPort": 1}])),
        (json!({}), "/livenessProbe/failureThreshold", json!(1)),
        (json!({"livenessProbe": exec}), "/livenessProbe", exec.clone()),
        (json!({"livenessProbe": exec}), "/readinessProbe/httpGet/path", json!("/health")),
        (json!({"resources": gpu}), "/resources", gpu.clone()),
        (json!({"workingDir": "/w", "tty": false}), "/tty", json!(false)),
        (json!({"securityContext": {"runAsUser": 0}}), "/securityContext/runAsUser", json!(0)),
        (json!({"lifecycle": {"preStop": exec}}), "/lifecycle/preStop", exec.clone()),
        (json!({"envFrom": [{"secretRef": {"name": "s"}}]}), "/envFrom/0/secretRef/name", json!("s")),
    ];
    for (fields, pointer, expected) in table {
        let main = json_of(&main_of(&worker(json!({}), fields.clone())));
        assert_eq!(main.pointer(pointer), Some(&expected), "{fields} at {pointer}");
    }
}

/// The API server takes no probe without a handler.
#[test]
fn an_empty_probe_takes_the_default_away() {
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let main = json_of(&main_of(&worker(json!({}), json!({probe: {}}))));
        assert_eq!(main.get(probe), None, "{probe}");
        let sidecars = json!({"containers": [{"name": "api", "image": "f", probe: {}}]});
        let fields = merged(spec("decode", sidecars, json!({})), json!({"frontendSidecar": "api"}));
        assert_eq!(json_of(&pod(&component(fields)).containers[1]).get(probe), None, "{probe} of the sidecar");
    }
}

#[test]
fn the_sidecar_is_probed_at_once_if_its_author_says_so() {
    let sidecars = json!({"containers": [{"name": "api", "image": "f", "readinessProbe": {"initialDelaySeconds": 0}}]});
    let fields = merged(spec("decode", sidecars, json!({})), json!({"frontendSidecar": "api"}));
    let sidecar = json_of(&pod(&component(fields)).containers[1]);
    assert_eq!(sidecar["readinessProbe"]["initialDelaySeconds"], 0);
    assert_eq!(sidecar["readinessProbe"]["httpGet"]["path"], "/health");
}

/// Each row: fields of the pod, a pointer into the rendered one, and the value there.
#[test]
fn fields_of_the_pod() {
    let table: Vec<(Value, &str, Option<Value>)> = vec![
        (json!({}), "/terminationGracePeriodSeconds", Some(json!(60))),
        (json!({"terminationGracePeriodSeconds": 0}), "/terminationGracePeriodSeconds", Some(json!(0))),
        (json!({"terminationGracePeriodSeconds": 5}), "/terminationGracePeriodSeconds", Some(json!(5))),
        (json!({}), "/restartPolicy", Some(json!("Always"))),
        (json!({}), "/securityContext", Some(json!({"fsGroup": 1000}))),
        (json!({"securityContext": {}}), "/securityContext", Some(json!({}))),
        (json!({"securityContext": {"runAsUser": 1}}), "/securityContext/fsGroup", None),
        (json!({}), "/serviceAccountName", Some(json!("graph-k8s-service-discovery"))),
        (json!({"serviceAccountName": "own"}), "/serviceAccountName", Some(json!("own"))),
        (json!({"hostIPC": true}), "/hostIPC", Some(json!(true))),
        (json!({"automountServiceAccountToken": false}), "/automountServiceAccountToken", Some(json!(false))),
        (json!({"resourceClaims": [{"name": "gpu"}]}), "/resourceClaims/0/name", Some(json!("gpu"))),
        (json!({"initContainers": [{"name": "i", "image": "x"}]}), "/initContainers/0/image", Some(json!("x"))),
    ];
    for (fields, pointer, expected) in table {
        let rendered = json_of(&pod(&worker(fields.clone(), json!({}))));
        assert_eq!(rendered.pointer(pointer), expected.as_ref(), "{fields} at {pointer}");
    }
}

#[test]
fn environments_unite_sorted_and_the_author_wins_whole_entries() {
    let own = json!({"env": [
        {"name": "Z", "value": "1"}, {"name": "A", "value": "first"}, {"name": "A", "value": "last"},
        {"name": "DYN_SYSTEM_PORT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "NATS_SERVER", "value": "nats://own"},
    ]});
    let settings = PodSettings {
        nats_address: Some("nats://operator".to_owned()),
        etcd_address: Some("etcd:2379".to_owned()),
        model_express_url: Some(String::new()),
        ..PodSettings::default()
    };
    let surroundings = Surroundings { settings, ..Surroundings::default() };
    let env = surroundings.pod(&worker(json!({}), own)).containers[0].env.clone().unwrap();
    assert!(env.is_sorted_by(|a, b| a.name < b.name), "sorted, no name twice");
    let value = |name: &str| env.iter().find(|e| e.name == name).map(|e| e.value.as_deref());
    assert_eq!(value("A"), Some(Some("last")));
    assert_eq!(value("DYN_SYSTEM_PORT"), Some(None), "the default's value is gone");
    assert_eq!(value("NATS_SERVER"), Some(Some("nats://own")));
    assert_eq!(value("ETCD_ENDPOINTS"), Some(Some("etcd:2379")));
    assert_eq!(value("MODEL_EXPRESS_URL"), None);
    assert_eq!(value("DYN_NAMESPACE_WORKER_SUFFIX"), Some(Some("0a1b2c3d")));
}

#[test]
fn main_comes_first_and_other_containers_pass_through_in_order() {
    let sidecars = json!({"containers": [{"name": "b", "image": "b"}, {"name": "a", "image": "a", "args": []}]});
    let containers = pod(&worker(sidecars, json!({}))).containers;
    let names: Vec<_> = containers.iter().map(|container| container.name.as_str()).collect();
    assert_eq!(names, ["main", "b", "a"]);
    assert_eq!(json_of(&containers[1]), json!({"name": "b", "image": "b"}));
}

#[test]
fn the_frontend_sidecar_gets_a_frontends_defaults_and_no_probe_has_two_handlers() {
    let exec = json!({"exec": {"command": ["true"]}});
    let sidecars = json!({"containers": [
        {"name": "api", "image": "f", "args": ["-m", "dynamo.frontend", "--x"], "livenessProbe": exec,
         "readinessProbe": {"httpGet": {"port": 9000}, "periodSeconds": 3, "timeoutSeconds": 0},
         "volumeMounts": [{"name": "own", "mountPath": "/own"}]},
    ], "volumes": [{"name": "own", "emptyDir": {}}]});
    let main =
        json!({"volumeMounts": [{"name": "models", "mountPath": "/models"}, {"name": "own", "mountPath": "/o"}]});
    let fields = merged(spec("decode", sidecars, main), json!({"frontendSidecar": "api"}));
    let containers = pod(&component(fields)).containers;
    let sidecar = json_of(&containers[1]);
    assert_eq!(sidecar["livenessProbe"], exec, "no httpGet of the default beside it");
    assert_eq!(
        sidecar["readinessProbe"],
        json!({"httpGet": {"path": "/health", "port": 9000}, "initialDelaySeconds": 10, "periodSeconds": 3,
               "timeoutSeconds": 3, "failureThreshold": 3}),
    );
    assert_eq!(sidecar["command"], json!(["python3"]));
    assert_eq!(sidecar["args"], json!(["-m", "dynamo.frontend", "--x"]));
    assert_eq!(sidecar["ports"][0]["containerPort"], 8000);
    let mounts: Vec<_> = containers[1].volume_mounts.iter().flatten().map(|mount| mount.mount_path.as_str()).collect();
    assert_eq!(mounts, ["/own", "/models"], "no /dev/shm, and no second mount of its own volume");
    let env = containers[1].env.as_ref().unwrap();
    assert!(env.iter().any(|e| e.name == "DYN_COMPONENT" && e.value.as_deref() == Some("frontend")));
    assert!(env.iter().all(|e| e.name != "DYN_SYSTEM_ENABLED"));
}

#[test]
fn containers_can_register_each_for_itself() {
    let mut fields = spec("worker", json!({}), json!({}));
    fields["podTemplate"]["metadata"] = json!({"annotations": {"nvidia.com/dynamo-kube-discovery-mode": "container"}});
    let env = main_of(&component(fields)).env.unwrap();
    let value = |name: &str| env.iter().find(|e| e.name == name).and_then(|e| e.value.clone());
    assert_eq!(value("CONTAINER_NAME").as_deref(), Some("main"));
    assert_eq!(value("DYN_KUBE_DISCOVERY_MODE").as_deref(), Some("container"));
}
