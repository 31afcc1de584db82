//! Tests of one model, from its spec to conditions, columns and events.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use controller_kit::store::Key;
use serde_json::{Value, json};

use super::{events::between, model::FoundEndpoints, *};
use crate::engine::{
    Endpoint,
    state::{AdapterState, Problem},
};

/// A plan, and the status after it.
struct PlannedStatus {
    needs_finalizer: bool,
    status: DynamoModelStatus,
}

fn lora() -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel",
        "metadata": { "namespace": "n", "name": "m", "generation": 3, "finalizers": [FINALIZER] },
        "spec": { "modelName": "a", "baseModelName": "b", "modelType": "lora", "source": { "uri": "s3://1" } },
    })
}

fn base() -> Value {
    let mut model = lora();
    model["spec"]["modelType"] = json!("base");
    model
}

/// Observed data with an endpoint for each state; ready, unless the state is `None`.
fn observed(model: &Value, adapter_states: &[Option<AdapterState>]) -> ModelObserved {
    let model: DynamoModel = serde_json::from_value(model.clone()).unwrap();
    let pod = |index: usize| -> Arc<str> { format!("w-{index}").as_str().into() };
    let endpoints = adapter_states.iter().enumerate().map(|(index, state)| Endpoint {
        pod_name: pod(index),
        pod: pod(index),
        address: format!("10.0.0.{index}").parse().unwrap(),
        ready: state.is_some(),
    });
    let state = |(index, state): (usize, &Option<AdapterState>)| Some((pod(index), state.clone()?));
    ModelObserved {
        claim: Arc::new(ModelClaim::of(&model)),
        violations: validate::validate(&model.spec).err(),
        model,
        found: FoundEndpoints { services: BTreeSet::from(["s".to_owned()]), endpoints: endpoints.collect() },
        taken_by: None,
        adapter_states: adapter_states.iter().enumerate().filter_map(state).collect::<HashMap<_, _>>(),
        lingering: BTreeSet::new(),
        covered: HashSet::new(),
    }
}

fn planned(observed: &ModelObserved) -> PlannedStatus {
    let plan = plan::plan(observed);
    let needs_finalizer = plan.needs_finalizer;
    let (before, now) = (observed.model.status.as_ref(), Timestamp::from_second(1_000).unwrap());
    let status = status::of_applied(before, &ModelApplied { plan, rejection: None }, now);
    PlannedStatus { needs_finalizer, status }
}

/// `type=status/reason` of every condition.
fn conditions(plan: &PlannedStatus) -> Vec<String> {
    let all = &plan.status.conditions;
    all.iter().map(|c| format!("{}={}/{}", c.type_, c.status, c.reason)).collect()
}

fn message(plan: &PlannedStatus, type_: &str) -> String {
    plan.status.conditions.iter().find(|c| c.type_ == type_).unwrap().message.clone()
}

fn counts(plan: &PlannedStatus) -> (i32, i32, i32) {
    let status = &plan.status;
    (status.ready_endpoints, status.lora_fallback_covered_endpoints, status.total_endpoints)
}

fn refused(failures: u32) -> AdapterState {
    AdapterState::Failing { problem: Problem::Refused { status: 500, message: "too many".into() }, failures }
}

#[test]
fn a_model_without_workers_waits_for_them() {
    let mut observed = observed(&lora(), &[]);
    observed.found.services.clear();
    let plan = planned(&observed);
    assert_eq!(
        conditions(&plan),
        [
            "ServicesFound=False/NoServicesFound",
            "EndpointsReady=False/NoEndpoints",
            "Ready=False/NoEndpoints",
            "Reconciling=True/NoEndpoints",
            "Stalled=False/Progressing"
        ]
    );
    assert!(plan.status.conditions.iter().all(|condition| condition.observed_generation == Some(3)));
    assert_eq!(plan.status.observed_generation, Some(3));
}

/// Upstream, endpoints of base models were never ready, and neither were their columns and metrics.
#[test]
fn base_models_count_pods_that_are_ready() {
    let plan = planned(&observed(&base(), &[Some(AdapterState::Unknown), Some(AdapterState::Unknown)]));
    assert_eq!(counts(&plan), (2, 0, 2));
    assert_eq!(
        conditions(&plan),
        [
            "ServicesFound=True/ServicesFound",
            "EndpointsReady=True/EndpointsDiscovered",
            "Ready=True/EndpointsDiscovered",
            "Reconciling=False/UpToDate",
            "Stalled=False/UpToDate"
        ]
    );
    assert!(!plan.needs_finalizer && plan.status.adapter.is_none());
    let plan = planned(&observed(&base(), &[Some(AdapterState::Unknown), None]));
    assert_eq!(counts(&plan), (1, 0, 2));
    assert!(conditions(&plan).contains(&"EndpointsReady=False/NotReady".to_owned()));
    assert_eq!(message(&plan, "Ready"), "served by 1 of 2 endpoints; pods that are not ready: 1");
}

/// Upstream, a missing source made the endpoints disappear from the status.
#[test]
fn a_violation_hides_no_endpoints() {
    let mut model = lora();
    model["spec"]["source"] = json!(null);
    let plan = planned(&observed(&model, &[Some(AdapterState::Unknown), None]));
    assert_eq!(counts(&plan), (0, 0, 2));
    assert!(conditions(&plan).contains(&"EndpointsReady=False/NotReady".to_owned()));
    assert!(conditions(&plan).contains(&"Stalled=True/InvalidSpec".to_owned()));
    assert!(message(&plan, "Stalled").starts_with("spec.source.uri: say where the adapter is;"));
}

#[test]
fn an_adapter_is_ready_when_every_engine_has_it() {
    let plan = planned(&observed(&lora(), &[Some(AdapterState::Loaded), Some(AdapterState::Loading)]));
    assert_eq!(counts(&plan), (1, 0, 2));
    assert!(conditions(&plan).contains(&"Reconciling=True/Progressing".to_owned()));
    let plan = planned(&observed(&lora(), &[Some(AdapterState::Loaded), Some(AdapterState::Loaded)]));
    assert_eq!(counts(&plan), (2, 0, 2));
    assert!(conditions(&plan).contains(&"EndpointsReady=True/AllEndpointsReady".to_owned()));
}

#[test]
fn a_pod_that_is_not_ready_serves_nothing() {
    let mut observed = observed(&lora(), &[None]);
    observed.adapter_states.insert("w-0".into(), AdapterState::Loaded);
    assert_eq!(counts(&planned(&observed)), (0, 0, 1));
}

#[test]
fn repeated_rejections_stall_the_model_and_are_grouped_by_problem() {
    let some = |failures| [Some(AdapterState::Loaded), Some(refused(failures)), Some(refused(failures))];
    let plan = planned(&observed(&lora(), &some(2)));
    assert!(conditions(&plan).contains(&"Reconciling=True/Progressing".to_owned()));
    let plan = planned(&observed(&lora(), &some(3)));
    assert!(conditions(&plan).contains(&"Stalled=True/LoadFailed".to_owned()));
    assert_eq!(message(&plan, "Ready"), "served by 1 of 3 endpoints; w-1, w-2: rejects with HTTP 500: too many");
    let lost = AdapterState::Failing { problem: Problem::TimedOut, failures: 99 };
    let plan = planned(&observed(&lora(), &[Some(lost)]));
    assert!(conditions(&plan).contains(&"Reconciling=True/Progressing".to_owned()), "that may pass");
}

#[test]
fn a_message_is_short_however_many_fail() {
    let failing = |index: usize| {
        let problem = Problem::Refused { status: 500, message: format!("reason {}", index % 4) };
        Some(AdapterState::Failing { problem, failures: 9 })
    };
    let adapter_states: Vec<Option<AdapterState>> = (0..200).map(failing).collect();
    let message = message(&planned(&observed(&lora(), &adapter_states)), "Ready");
    assert_eq!(
        message,
        "served by 0 of 200 endpoints; w-0, w-4, w-8 and 47 more: rejects with HTTP 500: reason 0; \
         w-1, w-5, w-9 and 47 more: rejects with HTTP 500: reason 1; further problems: 2"
    );
}

#[test]
fn workers_that_are_covered_serve() {
    let mut observed = observed(&lora(), &[Some(AdapterState::Loaded), Some(AdapterState::Unmanaged)]);
    let plan = planned(&observed);
    assert!(conditions(&plan).contains(&"Stalled=True/LoadFailed".to_owned()));
    observed.covered.insert("w-1".into());
    let plan = planned(&observed);
    assert_eq!(counts(&plan), (1, 1, 2));
    assert!(conditions(&plan).contains(&"EndpointsReady=True/AllEndpointsReady".to_owned()));
}

#[test]
fn a_taken_name_says_whose_it_is() {
    let mut observed = observed(&lora(), &[Some(AdapterState::Loaded)]);
    observed.taken_by = Some(Key::new("n", "older"));
    let plan = planned(&observed);
    assert_eq!(counts(&plan), (0, 0, 1));
    assert!(conditions(&plan).contains(&"Stalled=True/NameTaken".to_owned()));
    assert!(message(&plan, "Stalled").starts_with("DynamoModel older of the same base model"));
}

/// The planned status as the model's live one.
fn after(model: &Value, plan: &PlannedStatus) -> Value {
    let mut model = model.clone();
    model["status"] = serde_json::to_value(&plan.status).unwrap();
    model
}

#[test]
fn what_is_requested_is_recorded_first() {
    let mut fresh = lora();
    fresh["metadata"]["finalizers"] = json!([]);
    let plan = planned(&observed(&fresh, &[Some(AdapterState::Unknown)]));
    assert!(plan.needs_finalizer);
    let memory = plan.status.adapter.clone().unwrap();
    assert_eq!((memory.model_name.as_deref(), memory.reloading), (Some("a"), false));
    let model = after(&lora(), &plan);
    assert!(!planned(&observed(&model, &[Some(AdapterState::Unknown)])).needs_finalizer);
}

/// Endpoints that were gone for a moment ended the reload, and copies of the old source passed for the new one
/// afterwards.
#[test]
fn a_reload_does_not_end_while_there_are_no_endpoints() {
    let mut model = after(&lora(), &planned(&observed(&lora(), &[Some(AdapterState::Loaded)])));
    model["spec"]["source"]["uri"] = json!("s3://2");
    let model = after(&model, &planned(&observed(&model, &[Some(AdapterState::Loading)])));
    let memory =
        |adapter_states: &[Option<AdapterState>]| planned(&observed(&model, adapter_states)).status.adapter.unwrap();
    assert!(memory(&[Some(AdapterState::Loading)]).reloading);
    assert!(memory(&[]).reloading, "nothing shows that engines have loaded the new source");
    assert!(!memory(&[Some(AdapterState::Loaded)]).reloading);
}

#[test]
fn a_new_name_supersedes_the_old_one_until_no_engine_holds_it() {
    let mut model = after(&lora(), &planned(&observed(&lora(), &[Some(AdapterState::Loaded)])));
    model["spec"]["modelName"] = json!("new");
    let mut observed_one = observed(&model, &[Some(AdapterState::Loading)]);
    observed_one.lingering.insert("a".into());
    let plan = planned(&observed_one);
    let memory = plan.status.adapter.clone().unwrap();
    assert_eq!((memory.model_name.as_deref(), memory.superseded), (Some("new"), vec!["a".to_owned()]));
    let model = after(&model, &plan);
    let memory = planned(&observed(&model, &[Some(AdapterState::Loaded)])).status.adapter.unwrap();
    assert!(memory.superseded.is_empty() && !memory.reloading);
}

#[test]
fn a_new_source_is_remembered_as_a_reload_until_all_have_it() {
    let mut model = after(&lora(), &planned(&observed(&lora(), &[Some(AdapterState::Loaded)])));
    model["spec"]["source"]["uri"] = json!("s3://2");
    // A controller that has just started would take the old copy for the new one.
    let plan = planned(&observed(&model, &[Some(AdapterState::Unknown)]));
    assert_eq!(counts(&plan), (0, 0, 1), "what was said of the old source does not count");
    let model = after(&model, &plan);
    assert!(plan.status.adapter.unwrap().reloading);
    let plan = planned(&observed(&model, &[Some(AdapterState::Loaded), Some(AdapterState::Loading)]));
    assert!(plan.status.adapter.unwrap().reloading);
    let plan = planned(&observed(&model, &[Some(AdapterState::Loaded), Some(AdapterState::Loaded)]));
    assert!(!plan.status.adapter.unwrap().reloading);
}

#[test]
fn a_started_controller_uses_the_status_until_engines_have_answered() {
    let model =
        after(&lora(), &planned(&observed(&lora(), &[Some(AdapterState::Loaded), Some(AdapterState::Loading)])));
    let plan = planned(&observed(&model, &[Some(AdapterState::Unknown), Some(AdapterState::Unknown)]));
    assert_eq!(counts(&plan), (1, 0, 2));
    // The upstream operator leaves endpoints and no memory.
    let mut go = model.clone();
    go["status"]["adapter"] = json!(null);
    assert_eq!(
        counts(&planned(&observed(&go, &[Some(AdapterState::Unknown), Some(AdapterState::Unknown)]))),
        (1, 0, 2)
    );
    // Another pod of that name, at another address.
    let mut other = observed(&model, &[Some(AdapterState::Unknown)]);
    other.found.endpoints[0].address = "10.9.9.9".parse().unwrap();
    assert_eq!(counts(&planned(&other)), (0, 0, 1));
}

#[test]
fn events_contain_what_changed_and_nothing_else() {
    let recorded = |before: Vec<Option<AdapterState>>, now: Vec<Option<AdapterState>>| {
        let before = planned(&observed(&lora(), &before)).status;
        let now = planned(&observed(&lora(), &now)).status;
        between(Some(&before), &now).map(|event| format!("{:?} {}: {}", event.type_, event.reason, event.note))
    };
    let (loaded, coming) = (Some(AdapterState::Loaded), Some(AdapterState::Loading));
    let expected = "Normal EndpointsReady: served by 1 of 1 endpoints";
    assert_eq!(recorded(vec![coming.clone()], vec![loaded.clone()]).as_deref(), Some(expected));
    assert_eq!(recorded(vec![loaded.clone()], vec![loaded.clone()]), None);
    assert_eq!(recorded(vec![coming.clone()], vec![coming.clone(), coming.clone()]), None);
    let expected = "Warning NotReady: served by 1 of 2 endpoints";
    assert_eq!(recorded(vec![loaded.clone()], vec![loaded.clone(), coming.clone()]).as_deref(), Some(expected));
    let expected = "Warning PartialEndpointFailure: served by 0 of 1 endpoints; w-0: rejects with HTTP 500: too many";
    assert_eq!(recorded(vec![coming], vec![Some(refused(3))]).as_deref(), Some(expected));
    let expected = "Warning NoEndpointsFound: no worker of the base model is running";
    assert_eq!(recorded(vec![loaded], vec![]).as_deref(), Some(expected));
}
