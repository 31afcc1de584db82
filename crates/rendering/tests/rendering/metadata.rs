//! Labels, annotations, selectors, names.

use api_types::v1beta1::DynamoComponentDeployment;
use rendering::{DiscoveryBackend, PodSettings, legacy_type_is_worker, render_leader_worker_set, validate};
use serde_json::{Value, json};

use crate::fixture::{Surroundings, component, json_of, merged, spec};

fn simple(component_type: &str) -> DynamoComponentDeployment {
    component(spec(component_type, json!({}), json!({})))
}

fn with_template_metadata(metadata: Value) -> DynamoComponentDeployment {
    let mut fields = spec("worker", json!({}), json!({}));
    fields["podTemplate"]["metadata"] = metadata;
    component(fields)
}

fn etcd() -> Surroundings {
    let settings = PodSettings { discovery_backend: DiscoveryBackend::Etcd, ..PodSettings::default() };
    Surroundings { settings, ..Surroundings::default() }
}

fn template_metadata(surroundings: &Surroundings, component: &DynamoComponentDeployment) -> Value {
    json_of(&surroundings.template(component).metadata)
}

#[test]
fn prefill_and_decode_have_their_phase_everywhere_and_select_by_type() {
    let surroundings = Surroundings::default();
    let decode = simple("decode");
    let deployment = json_of(&surroundings.deployment(&decode));
    let service = json_of(&surroundings.service(&decode));
    for labels in [&deployment["metadata"]["labels"], &service["metadata"]["labels"]] {
        assert_eq!(labels["nvidia.com/dynamo-sub-component-type"], "decode");
    }
    assert_eq!(service["spec"]["selector"]["nvidia.com/dynamo-component-type"], "decode");
    assert_eq!(service["spec"]["selector"]["nvidia.com/dynamo-worker-hash"], Value::Null, "both revisions serve");
}

#[test]
fn live_objects_of_older_operators_keep_the_type_that_they_select() {
    let decode = simple("decode");
    let older = Surroundings { legacy_type_is_worker: true, ..Surroundings::default() };
    let live = (older.deployment(&decode), older.service(&decode));
    assert_eq!(live.1.as_ref().unwrap().spec.as_ref().unwrap().selector.as_ref().unwrap().len(), 3);
    let labels = template_metadata(&older, &decode)["labels"].clone();
    assert_eq!(labels["nvidia.com/dynamo-component-type"], "worker");
    assert_eq!(labels["nvidia.com/dynamo-sub-component-type"], "decode");

    let valid = validate(&decode).unwrap();
    assert!(legacy_type_is_worker(&valid, Some(&live.0), None));
    assert!(legacy_type_is_worker(&valid, None, live.1.as_ref()));
    assert!(!legacy_type_is_worker(&valid, None, None));
    let prefill = simple("prefill");
    assert!(!legacy_type_is_worker(&validate(&prefill).unwrap(), Some(&live.0), None), "another phase");
    let current = Surroundings::default().deployment(&decode);
    assert!(!legacy_type_is_worker(&valid, Some(&current), None));
    let worker = simple("worker");
    assert!(!legacy_type_is_worker(&validate(&worker).unwrap(), Some(&live.0), None), "it is one");
}

#[test]
fn the_components_own_labels_beat_those_of_the_pod_template() {
    let mine = with_template_metadata(json!({"labels": {
        "team": "a", "nvidia.com/dynamo-worker-hash": "ffffffff", "nvidia.com/dynamo-namespace": "other",
        "nvidia.com/selector": "other",
    }}));
    let surroundings = Surroundings::default();
    let labels = template_metadata(&surroundings, &mine)["labels"].clone();
    assert_eq!(labels["team"], "a");
    assert_eq!(labels["nvidia.com/dynamo-worker-hash"], "0a1b2c3d");
    assert_eq!(labels["nvidia.com/dynamo-namespace"], "ns-graph");
    assert_eq!(labels["nvidia.com/selector"], "graph-worker-0a1b2c3d");
    assert_eq!(json_of(&surroundings.deployment(&mine))["metadata"]["labels"]["team"], "a");
}

#[test]
fn annotations_reach_pods_but_for_what_concerns_the_component_alone() {
    let mut mine = with_template_metadata(json!({"annotations": {
        "kept": "yes", "nvidia.com/dynamo-operator-origin-version": "1.5.0", "nvidia.com/enable-metrics": "false",
        "nvidia.com/topology-label-key": "from-template",
    }}));
    mine.metadata.annotations =
        Some([("nvidia.com/topology-cluster-topology-name".to_owned(), "rack".to_owned())].into_iter().collect());
    let metadata = template_metadata(&Surroundings::default(), &mine);
    let expected = json!({
        "kept": "yes", "nvidia.com/enable-metrics": "false", "nvidia.com/topology-cluster-topology-name": "rack",
    });
    assert_eq!(metadata["annotations"], expected);
    assert_eq!(metadata["labels"]["nvidia.com/metrics-enabled"], Value::Null);
}

#[test]
fn a_model_is_named_by_hash_and_in_full() {
    let model = json!({"modelRef": {"name": "Qwen/Qwen3-0.6B"}});
    let metadata =
        template_metadata(&Surroundings::default(), &component(merged(spec("worker", json!({}), json!({})), model)));
    assert_eq!(metadata["labels"]["nvidia.com/dynamo-base-model-hash"], "fb68f5a6");
    assert_eq!(metadata["annotations"]["nvidia.com/dynamo-base-model"], "Qwen/Qwen3-0.6B");
}

/// Defect of the upstream operator: the Service of a component without a type selects an empty one, and thereby no
/// pod.
#[test]
fn a_service_selects_the_pods_of_its_component() {
    let surroundings = Surroundings::default();
    let types = ["frontend", "planner", "worker", "prefill", "decode", "epp"];
    for component_type in types.into_iter().map(Some).chain([None]) {
        let mut fields = spec("worker", json!({}), json!({"command": ["python3", "-m", "dynamo.vllm"]}));
        fields["type"] = json!(component_type);
        if component_type == Some("epp") {
            fields["eppConfig"] = json!({"configMapRef": {"name": "c", "key": "k"}});
        }
        let selects = |service: &Value, labels: &Value| {
            let selector = service["spec"]["selector"].as_object().unwrap();
            assert!(selector.len() >= 2, "{selector:?}");
            for (key, value) in selector {
                assert_eq!(labels.get(key), Some(value), "{component_type:?}: {key}");
            }
        };
        let single = component(fields.clone());
        selects(&json_of(&surroundings.service(&single)), &template_metadata(&surroundings, &single)["labels"]);
        let spanning = component(merged(fields, json!({"multinode": {"nodeCount": 2}})));
        let set = json_of(&render_leader_worker_set(&surroundings.input(), &validate(&spanning).unwrap()));
        let leader = &set["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["metadata"]["labels"];
        selects(&json_of(&surroundings.service(&spanning)), leader);
    }
}

#[test]
fn with_etcd_only_frontends_have_a_service_and_pods_use_the_fallback_account() {
    let mut surroundings = etcd();
    assert!(surroundings.service(&simple("worker")).is_none());
    assert!(surroundings.service(&simple("frontend")).is_some());
    let worker = simple("worker");
    assert_eq!(surroundings.pod(&worker).service_account_name.as_deref(), Some("default"));
    surroundings.fallback_service_account = Some("labelled".to_owned());
    let pod = surroundings.pod(&worker);
    assert_eq!(pod.service_account_name.as_deref(), Some("labelled"));
    assert!(pod.containers[0].env.iter().flatten().all(|e| e.name != "DYN_DISCOVERY_BACKEND"));
    assert_eq!(template_metadata(&surroundings, &worker)["labels"]["nvidia.com/dynamo-discovery-enabled"], Value::Null);
}

#[test]
fn a_pod_template_chooses_its_own_discovery() {
    let kubernetes =
        with_template_metadata(json!({"annotations": {"nvidia.com/dynamo-discovery-backend": "kubernetes"}}));
    assert!(etcd().service(&kubernetes).is_some());
    assert_eq!(etcd().pod(&kubernetes).service_account_name.as_deref(), Some("graph-k8s-service-discovery"));
    let with_etcd = with_template_metadata(json!({"annotations": {"nvidia.com/dynamo-discovery-backend": "etcd"}}));
    assert!(Surroundings::default().service(&with_etcd).is_none());
}

#[test]
fn a_component_without_a_graph_has_names_of_its_own() {
    let mut alone = component(json!({
        "type": "worker", "podTemplate": {"spec": {"containers": [{"name": "main", "image": "i"}]}},
    }));
    alone.metadata.name = Some("my.worker".to_owned());
    alone.metadata.labels = None;
    alone.metadata.owner_references = None;
    let valid = validate(&alone).unwrap();
    assert_eq!((valid.component_name(), valid.graph(), valid.revision()), ("my.worker", None, None));
    assert_eq!(valid.runtime_namespace(), "ns-my-worker");
    let service = Surroundings::default().service(&alone).unwrap();
    assert_eq!(service.metadata.name.as_deref(), Some("my-worker"));
    let pod = Surroundings::default().pod(&alone);
    assert_eq!(pod.service_account_name.as_deref(), Some("my.worker-k8s-service-discovery"));
}

#[test]
fn a_graph_that_was_deleted_alone_changes_nothing() {
    for component_type in ["frontend", "planner", "worker", "prefill", "epp"] {
        let mut fields = spec(component_type, json!({}), json!({}));
        if component_type == "epp" {
            fields["eppConfig"] = json!({"configMapRef": {"name": "c", "key": "k"}});
        }
        let owned = component(fields);
        let mut orphan = owned.clone();
        orphan.metadata.owner_references = None;
        let surroundings = Surroundings::default();
        assert_eq!(json_of(&surroundings.deployment(&orphan)), json_of(&surroundings.deployment(&owned)));
        assert_eq!(json_of(&surroundings.service(&orphan)), json_of(&surroundings.service(&owned)));
    }
}

#[test]
fn runtime_namespaces_distinguish_revisions() {
    let worker = simple("worker");
    assert_eq!(validate(&worker).unwrap().runtime_namespace(), "ns-graph-0a1b2c3d");
    let frontend = simple("frontend");
    assert_eq!(validate(&frontend).unwrap().runtime_namespace(), "ns-graph");
}
