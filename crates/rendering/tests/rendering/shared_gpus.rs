//! GPU memory that several processes of a pod share, and standby engines.

use api_types::v1beta1::DynamoComponentDeployment;
use expect_test::expect;
use rendering::{render_claim_template, validate};
use serde_json::{Value, json};

use crate::fixture::{component, json_of, merged, pod, spec};

fn sharing(experimental: Value, pod: Value, main: Value) -> DynamoComponentDeployment {
    let engine = json!({
        "command": ["python3", "-m", "dynamo.vllm"],
        "resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2", "cpu": "1"}},
    });
    component(merged(spec("decode", pod, merged(engine, main)), json!({"experimental": experimental})))
}

fn names(list: &Value, key: &str) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|item| item[key].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn clients_get_the_claim_in_place_of_gpus_of_their_own() {
    let loader = json!({"name": "loader", "image": "l:1", "resources": {"limits": {"nvidia.com/gpu": "2"}},
        "env": [{"name": "GMS_SOCKET_DIR", "value": "/elsewhere"}, {"name": "LAST", "value": "1"}]});
    let other = json!({"name": "other", "image": "o:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}});
    let gms = json!({"gpuMemoryService": {"extraClientContainers": ["loader"]}});
    let pod = json_of(&pod(&sharing(gms, json!({"containers": [loader, other]}), json!({}))));
    let claims = json!([{"name": "intrapod-shared-gpu"}]);
    assert_eq!(pod["containers"][0]["resources"], json!({"requests": {"cpu": "1"}, "claims": claims}));
    assert_eq!(pod["containers"][1]["resources"], json!({"claims": claims}));
    assert_eq!(
        pod["containers"][1]["env"],
        json!([{"name": "GMS_SOCKET_DIR", "value": "/gms-intrapod-control"}, {"name": "LAST", "value": "1"}])
    );
    assert_eq!(
        pod["containers"][2],
        json!({"name": "other", "image": "o:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}})
    );
    assert_eq!(
        pod["resourceClaims"],
        json!([{"name": "intrapod-shared-gpu", "resourceClaimTemplateName": "graph-worker-gpu"}])
    );
    assert_eq!(pod["tolerations"], json!([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]));
}

#[test]
fn the_author_keeps_a_server_and_a_toleration_of_the_same_name() {
    let own = json!({
        "initContainers": [{"name": "gms-server", "image": "mine:1"}],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}],
        "volumes": [{"name": "gms-intrapod-control", "hostPath": {"path": "/"}}],
    });
    let pod = json_of(&pod(&sharing(json!({"gpuMemoryService": {}}), own.clone(), json!({}))));
    assert_eq!(pod["initContainers"], own["initContainers"]);
    assert_eq!(pod["tolerations"], own["tolerations"]);
    let sockets = json!({"name": "gms-intrapod-control", "emptyDir": {}});
    assert!(pod["volumes"].as_array().unwrap().contains(&sockets), "{}", pod["volumes"]);
}

#[test]
fn two_engines_replace_main_and_sidecars_follow() {
    let side = json!({"name": "side", "image": "s:1"});
    let failover = json!({"gpuMemoryService": {}, "failover": {}});
    let main = json!({
        "env": [{"name": "ENGINE_ID", "value": "7"}, {"name": "OWN", "value": "1"}],
        "livenessProbe": {"exec": {"command": ["true"]}},
    });
    let pod = json_of(&pod(&sharing(failover, json!({"containers": [side]}), main)));
    assert_eq!(names(&pod["containers"], "name"), ["engine-0", "engine-1", "side"]);
    let [one, two] = [&pod["containers"][0], &pod["containers"][1]];
    assert_eq!(two["args"], json!(["--master-port", "29600"]));
    assert_eq!((&one["args"], &one["livenessProbe"]), (&Value::Null, &json!({"exec": {"command": ["true"]}})));
    assert_eq!(two["readinessProbe"]["httpGet"]["port"], "system-1");
    assert_eq!(two["ports"], json!([{"containerPort": 9091, "name": "system-1", "protocol": "TCP"}]));
    for engine in [one, two] {
        let all = names(&engine["env"], "name");
        let unique: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len(), "{all:?}");
        assert!(all.contains(&"OWN".to_owned()) && !all.contains(&"DYN_HEALTH_CHECK_ENABLED".to_owned()), "{all:?}");
    }
    let id = |engine: &Value| {
        engine["env"].as_array().unwrap().iter().find(|e| e["name"] == "ENGINE_ID").unwrap()["value"].clone()
    };
    assert_eq!([id(one), id(two)], ["0", "1"]);
}

#[test]
fn the_claim_template_is_the_graphs_and_requests_an_engines_gpus() {
    let gms = json!({"gpuMemoryService": {"deviceClassName": "mine.example.com"}});
    let component = sharing(gms, json!({}), json!({}));
    let shared = validate(&component).unwrap().shared_gpus.unwrap();
    expect![[r#"
        {
          "apiVersion": "resource.k8s.io/v1",
          "kind": "ResourceClaimTemplate",
          "metadata": {
            "name": "graph-worker-gpu",
            "namespace": "ns"
          },
          "spec": {
            "spec": {
              "devices": {
                "requests": [
                  {
                    "exactly": {
                      "allocationMode": "ExactCount",
                      "count": 2,
                      "deviceClassName": "mine.example.com"
                    },
                    "name": "gpus"
                  }
                ]
              }
            }
          }
        }"#]]
    .assert_eq(
        &serde_json::to_string_pretty(&json_of(&render_claim_template("ns", "graph", "Worker", shared))).unwrap(),
    );
}
