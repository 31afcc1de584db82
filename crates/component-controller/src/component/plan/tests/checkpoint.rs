//! Tests of the start of a component's pods, in every state of its checkpoint.

use std::sync::Arc;

use api_types::v1alpha1::DynamoCheckpoint;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rendering::{
    PodSettings,
    checkpoint::{
        CheckpointConfig, CheckpointFacts, CheckpointStorage, Start, StorageLocation, StorageSettings, start,
    },
    validate,
};
use serde_json::{Value, json};

use crate::component::model::{ComponentObserved, ComponentPlan, LegacyNeeds, LiveObject, NamedPullSecrets};

fn component(checkpoint: Value, shares: bool) -> api_types::v1beta1::DynamoComponentDeployment {
    let service = if shares { json!({}) } else { Value::Null };
    serde_json::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
        "metadata": {"name": "worker", "namespace": "team", "uid": "uid"},
        "spec": {
            "name": "Worker", "type": "worker", "replicas": 2,
            "experimental": {"checkpoint": checkpoint, "gpuMemoryService": service},
            "podTemplate": {"spec": {"containers": [{"name": "main", "image": "i",
                "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}},
        },
    }))
    .unwrap()
}

fn waiting_for(name: &str) -> Value {
    json!({"enabled": true, "checkpointRef": name, "startupPolicy": "WaitForCheckpoint"})
}

fn live(phase: &str, shares: bool) -> DynamoCheckpoint {
    serde_json::from_value(json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint", "metadata": {"name": "ckpt"},
        "spec": {"identity": {"model": "m", "backendFramework": "vllm"}, "job": {"podTemplateSpec": {}},
            "gpuMemoryService": {"enabled": shares}},
        "status": {"phase": phase, "checkpointID": "0123"},
    }))
    .unwrap()
}

fn storage() -> CheckpointStorage {
    CheckpointStorage { claim: "claim".to_owned(), folder: "/checkpoints".to_owned() }
}

fn facts(live: Option<DynamoCheckpoint>, place: StorageLocation) -> CheckpointFacts {
    CheckpointFacts { namespace: "team".to_owned(), settings: Some(CheckpointConfig::default()), live, place }
}

fn start_of(checkpoint: Value, facts: &CheckpointFacts) -> Result<Start, String> {
    start(&validate(&component(checkpoint, false)).unwrap(), facts)
}

#[test]
fn pods_start_cold_while_nothing_speaks_of_a_checkpoint() {
    let ready = facts(Some(live("Ready", false)), StorageLocation::OfAgent(storage()));
    let switched_off =
        CheckpointFacts { settings: None, live: Some(live("Ready", false)), ..CheckpointFacts::default() };
    assert_eq!(start_of(json!({"enabled": false, "checkpointRef": "ckpt"}), &ready), Ok(Start::Cold));
    assert_eq!(start_of(waiting_for("ckpt"), &switched_off), Ok(Start::Cold));
    assert_eq!(start_of(json!({"enabled": true}), &facts(None, StorageLocation::Unknown)), Ok(Start::Cold));
}

#[test]
fn without_waiting_pods_are_candidates_whatever_the_phase() {
    for phase in ["Pending", "Creating", "Ready", "Failed"] {
        let found = start_of(
            json!({"enabled": true, "checkpointRef": "ckpt"}),
            &facts(Some(live(phase, false)), StorageLocation::Unknown),
        );
        assert_eq!(found, Ok(Start::AtAdmission("ckpt".to_owned())), "{phase}");
    }
}

#[test]
fn those_that_wait_start_from_a_checkpoint_that_is_ready_and_can_be_reached() {
    let mut going = live("Ready", false);
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let table = [
        (facts(Some(going), StorageLocation::OfAgent(storage())), "which is being deleted"),
        (facts(None, StorageLocation::OfAgent(storage())), "does not exist"),
        (facts(Some(live("Creating", false)), StorageLocation::OfAgent(storage())), "which is Creating"),
        (facts(Some(live("Ready", false)), StorageLocation::Unknown), "no agent"),
    ];
    for (facts, word) in table {
        let Ok(Start::Awaited(why)) = start_of(waiting_for("ckpt"), &facts) else { panic!("{word}") };
        assert!(why.contains(word), "{why}");
    }
    let named = StorageLocation::Named { storage: storage(), exists: true };
    for (place, named) in [(StorageLocation::OfAgent(storage()), false), (named, true)] {
        let Ok(Start::Restored(source)) = start_of(waiting_for("ckpt"), &facts(Some(live("Ready", false)), place))
        else {
            panic!("not restored")
        };
        assert_eq!((source.id.as_str(), source.artifact_version.as_str(), source.tells_storage), ("0123", "1", named));
    }
}

#[test]
fn shared_gpu_memory_is_shared_on_both_sides_or_on_none() {
    for (component_shares, checkpoint_shares, fine) in
        [(true, true, true), (false, false, true), (true, false, false), (false, true, false)]
    {
        let component = component(waiting_for("ckpt"), component_shares);
        let facts = facts(Some(live("Ready", checkpoint_shares)), StorageLocation::OfAgent(storage()));
        let found = start(&validate(&component).unwrap(), &facts);
        assert_eq!(found.is_ok(), fine, "{found:?}");
        if let Err(message) = found {
            assert!(message.starts_with("spec.experimental.gpuMemoryService: "), "{message}");
        }
    }
}

fn observed(checkpoint: Value, facts: CheckpointFacts) -> ComponentObserved {
    ComponentObserved {
        component: component(checkpoint, false),
        uid: "uid".to_owned(),
        deployment: None,
        leader_worker_set: None,
        serves_leader_worker_sets: false,
        namespace: "ns".to_owned(),
        service: None,
        ingress: None,
        virtual_service: None,
        serves_virtual_services: true,
        autoscaler: None,
        models: Vec::new(),
        obsolete: Vec::new(),
        pull_secrets: Arc::default(),
        named_pull_secrets: NamedPullSecrets::default(),
        accounts: Vec::new(),
        checkpoint: facts,
        legacy: Default::default(),
        legacy_needs: Ok(LegacyNeeds::NONE),
        claimed_gpus: Ok(0),
    }
}

fn plan(observed: &ComponentObserved) -> ComponentPlan {
    let valid = validate(&observed.component).unwrap();
    let start = start(&valid, &observed.checkpoint).unwrap();
    crate::component::plan::plan(observed, &valid, &PodSettings::default(), &start, Some(0)).unwrap()
}

#[test]
fn nothing_runs_before_the_checkpoint_and_what_runs_goes_on() {
    let mut observed =
        observed(waiting_for("ckpt"), facts(Some(live("Creating", false)), StorageLocation::OfAgent(storage())));
    let first = plan(&observed);
    assert_eq!(first.workload.unwrap().object()["spec"]["replicas"], 0);
    assert_eq!(first.waiting.len(), 1);
    let running = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "worker"},
        "spec": {"replicas": 2, "selector": {}, "template": {}}});
    let packed = controller_kit::store::Packed::from_value(running).unwrap();
    observed.deployment = Some(LiveObject::from_packed(&packed).unwrap());
    assert!(plan(&observed).workload.is_none(), "another version of the checkpoint is being made");
    observed.component.spec.component.replicas = Some(0);
    assert_eq!(plan(&observed).workload.unwrap().object()["spec"]["replicas"], 0, "no replica is desired");
}

#[test]
fn a_claim_for_checkpoints_is_made_where_it_is_said_and_missing() {
    let settings = |create| CheckpointConfig {
        storage: StorageSettings {
            claim: "claim".to_owned(),
            folder: "/c".to_owned(),
            create,
            size: "1Gi".to_owned(),
            ..StorageSettings::default()
        },
        ..CheckpointConfig::default()
    };
    let with = |exists, create| {
        let place = StorageLocation::Named { storage: storage(), exists };
        let facts = CheckpointFacts { settings: Some(settings(create)), ..facts(None, place) };
        let planned = plan(&observed(json!({"enabled": true}), facts));
        (planned.volumes.first().map(|claim| claim.id().to_string()), planned.waiting)
    };
    assert_eq!(with(false, true), (Some("PersistentVolumeClaim team/claim".to_owned()), Vec::new()));
    assert_eq!(with(true, true), (None, Vec::new()));
    let (claim, waiting) = with(false, false);
    assert!(claim.is_none() && waiting[0].contains("team/claim"), "{waiting:?}");
}
