//! Situations of controlled rollouts: what is planned, and what the status says.

use api_types::{
    conditions as c,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentStatus, GraphState, RollingUpdatePhase},
};
use controller_kit::conditions::find;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::*;
use crate::graph::{
    fixtures::{graph_with, live, observed, set_image, valid},
    model::{GraphApplied, GraphPlan},
    plan::plan,
    status::status,
};

/// A graph and its live components, pass by pass.
struct Harness {
    annotations: Value,
    image: &'static str,
    second: &'static str,
    replicas: i32,
    seconds: i64,
    status: Option<DynamoGraphDeploymentStatus>,
    components: Vec<DynamoComponentDeployment>,
}

impl Harness {
    /// Two workers that serve, of image `1.0.0`.
    fn new() -> Self {
        let (status, components) = (None, vec![]);
        let mut harness = Self {
            annotations: json!({}),
            image: "1.0.0",
            second: "Prefill",
            replicas: 4,
            seconds: 0,
            status,
            components,
        };
        harness.settle(|_| true);
        harness
    }

    fn edit(image: &'static str, annotations: Value) -> Self {
        Self { image, annotations, ..Self::new() }
    }

    fn graph(&self) -> DynamoGraphDeployment {
        graph_with(|g| {
            set_image(g, self.image);
            let mut second = g["spec"]["components"][1].clone();
            second["name"] = json!(self.second);
            g["spec"]["components"].as_array_mut().unwrap().push(second);
            g["spec"]["components"][1]["replicas"] = json!(self.replicas);
            g["metadata"]["annotations"] = self.annotations.clone();
            g["status"] = json!(self.status.clone().unwrap_or_default());
        })
    }

    /// One pass. Afterwards, workers come up of objects that `serves` names.
    fn pass(&mut self, serves: impl Fn(&DynamoComponentDeployment) -> bool) -> GraphPlan {
        let graph = self.graph();
        let now = Timestamp::from_second(self.seconds).unwrap();
        let seen = observed(&graph, self.components.clone());
        let plan = plan(&valid(&graph), &seen, now);
        let age = self.seconds + 1;
        for desired in plan.components.iter().chain(&plan.old) {
            let known = self.components.iter().position(|d| d.name_any() == desired.name_any());
            let before = known.map(|index| self.components.remove(index));
            let replicas = desired.spec.component.desired_replicas();
            let mut after = live(desired, if serves(desired) { replicas } else { 0 });
            let made = before.and_then(|d| d.metadata.creation_timestamp);
            after.metadata.creation_timestamp = made.or(Some(Time(Timestamp::from_second(age).unwrap())));
            self.components.push(after);
        }
        let deleted = |d: &DynamoComponentDeployment| plan.delete.iter().any(|gone| gone.name == d.name_any());
        self.components.retain(|d| !deleted(d));
        let applied = GraphApplied { live: self.components.clone(), ..GraphApplied::default() };
        self.status = Some(status(&seen, &plan, &applied, None, now));
        self.seconds += 1;
        plan
    }

    fn settle(&mut self, serves: impl Fn(&DynamoComponentDeployment) -> bool) {
        for _ in 0..16 {
            self.pass(&serves);
        }
    }

    /// Objects of workers with their replicas.
    fn workers(&self) -> Vec<(String, i32)> {
        let workers = self.components.iter().filter(|d| d.spec.component.is_worker());
        let mut all: Vec<_> = workers.map(|d| (d.name_any(), d.spec.component.desired_replicas())).collect();
        all.sort();
        all
    }

    /// Status, reason and message of a condition.
    fn condition(&self, type_: &str) -> Option<(&str, &str, &str)> {
        let found = find(&self.status.as_ref()?.conditions, type_)?;
        Some((found.status.as_str(), found.reason.as_str(), found.message.as_str()))
    }
}

fn image_of(d: &DynamoComponentDeployment) -> String {
    let template = d.spec.component.pod_template.as_ref();
    let spec = template.and_then(|template| template.spec.as_ref()).unwrap();
    spec.containers[0].image.clone().unwrap()
}

/// Workers of image `2.0.0` never serve.
fn all_but_second(d: &DynamoComponentDeployment) -> bool {
    !image_of(d).ends_with(":2.0.0")
}

#[test]
fn a_graph_without_edit_is_ready_whatever_its_annotations() {
    let all = json!({ "operator.dynamo/rollout": "paused", "operator.dynamo/rollout-step": "1",
        "operator.dynamo/progress-deadline": "1s" });
    for annotations in [all, json!({ "operator.dynamo/rollout": "undone" })] {
        let mut harness = Harness::edit("1.0.0", annotations);
        let before = harness.workers();
        harness.settle(|_| true);
        assert_eq!(harness.condition(c::READY).unwrap().0, "True");
        assert_eq!((harness.workers(), harness.condition(c::ROLLOUT_PROGRESSING)), (before, None));
    }
}

#[test]
fn a_paused_edit_is_reconciling_and_names_the_remedy() {
    let mut harness = Harness::edit("2.0.0", json!({ "operator.dynamo/rollout": "paused" }));
    let before = harness.workers();
    harness.settle(|_| true);
    assert_eq!(harness.workers(), before);
    let (status, reason, message) = harness.condition(c::RECONCILING).unwrap();
    assert_eq!((status, reason), ("True", "RolloutPaused"));
    assert!(message.contains("remove annotation operator.dynamo/rollout"), "{message}");
    assert_eq!(harness.condition(c::READY).unwrap().1, "rolling_update_held");
    assert_eq!(harness.condition(c::STALLED).unwrap().0, "False");
    assert_eq!(harness.status.as_ref().unwrap().state, GraphState::Pending);
}

#[test]
fn a_pause_in_the_middle_keeps_both_revisions_and_a_further_edit_starts_none() {
    let mut harness = Harness::edit("2.0.0", json!({}));
    harness.pass(|_| true);
    harness.pass(|_| true);
    let middle = harness.workers();
    assert_eq!(middle.len(), 4);
    harness.annotations = json!({ "operator.dynamo/rollout": "paused" });
    for image in ["2.0.0", "3.0.0", "1.0.0"] {
        harness.image = image;
        harness.settle(|_| true);
        assert_eq!(harness.workers(), middle, "{image}");
        let (status, reason, message) = harness.condition(c::RECONCILING).unwrap();
        assert_eq!((status, reason), ("True", "RolloutPaused"));
        assert!(message.contains("Decode has") && message.contains("desired workers"), "{message}");
    }
    (harness.image, harness.annotations) = ("2.0.0", json!({}));
    harness.settle(|_| true);
    assert_eq!((harness.workers().len(), harness.condition(c::READY).unwrap().0), (2, "True"));
}

#[test]
fn a_canary_is_held_until_its_step_is_raised() {
    let mut harness = Harness::edit("2.0.0", json!({ "operator.dynamo/rollout-step": "25%" }));
    harness.settle(|_| true);
    let mut replicas: Vec<_> = harness.workers().into_iter().map(|(_, replicas)| replicas).collect();
    replicas.sort_unstable();
    assert_eq!(replicas, [1, 1, 3, 3]);
    let (status, reason, message) = harness.condition(c::RECONCILING).unwrap();
    assert_eq!((status, reason), ("True", "RolloutHeld"));
    assert!(message.contains("operator.dynamo/rollout-step 25%: Decode has 1 new and 3 old of 4"), "{message}");
    assert_eq!(harness.condition(c::STALLED).unwrap().0, "False");
    harness.annotations = json!({ "operator.dynamo/rollout-step": "100%" });
    harness.settle(|_| true);
    assert_eq!((harness.workers().len(), harness.condition(c::READY).unwrap().0), (2, "True"));
}

#[test]
fn a_deadline_that_passes_returns_the_workers_and_says_why() {
    let mut harness = Harness::edit("2.0.0", json!({ "operator.dynamo/progress-deadline": "20s" }));
    let first = harness.workers();
    let begun = harness.seconds;
    let plan = harness.pass(all_but_second);
    assert_eq!(plan.rollout.again, Some(Timestamp::from_second(begun + 20).unwrap()));
    assert_eq!(harness.condition(c::ROLLOUT_PROGRESSING).unwrap().1, "WorkersAwaited");
    harness.settle(all_but_second);
    let waiting = harness.condition(c::ROLLOUT_PROGRESSING).unwrap().2.to_owned();
    harness.pass(all_but_second);
    assert_eq!(
        harness.condition(c::ROLLOUT_PROGRESSING).unwrap().2,
        waiting,
        "nothing is written while nothing changes"
    );
    harness.settle(all_but_second);
    assert_eq!(harness.workers(), first);
    let (status, reason, message) = harness.condition(c::ROLLOUT_PROGRESSING).unwrap();
    assert_eq!((status, reason), ("False", "RolloutUndone"));
    assert!(message.contains("progress-deadline 20s") && message.contains("0 of"), "{message}");
    assert!(message.contains("spec.components change"), "{message}");
    assert_eq!(harness.condition(c::STALLED).unwrap().1, "RolloutUndone");
    let rolled = harness.status.as_ref().unwrap().rolling_update.as_ref().unwrap();
    assert_eq!(rolled.phase, Some(RollingUpdatePhase::Failed));

    // The rejection is in the status alone: without annotation and after a restart of the controller it holds.
    harness.annotations = json!({});
    harness.settle(|_| true);
    assert_eq!(harness.workers(), first);
    harness.image = "3.0.0";
    harness.settle(|_| true);
    assert_eq!((harness.condition(c::READY).unwrap().0, harness.condition(c::ROLLOUT_PROGRESSING)), ("True", None));
    assert!(harness.workers().iter().all(|worker| !first.contains(worker)));
}

#[test]
fn a_deadline_begins_anew_with_each_new_worker() {
    let mut harness = Harness::edit("2.0.0", json!({ "operator.dynamo/progress-deadline": "3s" }));
    // A worker needs less than the deadline, all of them more.
    for _ in 0..12 {
        harness.pass(|_| true);
        harness.seconds += 1;
    }
    assert_eq!(harness.condition(c::READY).unwrap().0, "True");
    assert_eq!(harness.workers().len(), 2);
}

#[test]
fn a_pause_stops_the_deadline() {
    let mut harness = Harness::edit("2.0.0", json!({ "operator.dynamo/progress-deadline": "5s" }));
    harness.pass(all_but_second);
    harness.annotations["operator.dynamo/rollout"] = json!("paused");
    harness.seconds += 100;
    harness.settle(all_but_second);
    assert_eq!(harness.condition(c::ROLLOUT_PROGRESSING), None);
    harness.annotations = json!({ "operator.dynamo/progress-deadline": "5s" });
    harness.pass(all_but_second);
    assert_eq!(harness.condition(c::ROLLOUT_PROGRESSING).unwrap().1, "WorkersAwaited");
}

#[test]
fn a_rollout_without_anything_to_return_to_is_stalled_and_goes_on_by_itself() {
    let mut harness = Harness::edit("2.0.0", json!({ "operator.dynamo/progress-deadline": "5s" }));
    harness.settle(|_| false);
    let (status, reason, message) = harness.condition(c::STALLED).unwrap();
    assert_eq!((status, reason), ("True", "ProgressDeadlineExceeded"));
    assert!(message.contains("No older revision serves"), "{message}");
    assert_eq!(harness.condition(c::ROLLOUT_PROGRESSING).unwrap().1, "ProgressDeadlineExceeded");
    harness.settle(|_| true);
    assert_eq!((harness.workers().len(), harness.condition(c::READY).unwrap().0), (2, "True"));
}

#[test]
fn an_undone_edit_keeps_components_that_the_spec_has_not_any_more() {
    let mut harness = Harness { second: "Other", ..Harness::edit("2.0.0", json!({})) };
    let first = harness.workers();
    harness.pass(|_| true);
    harness.annotations = json!({ "operator.dynamo/rollout": "undone" });
    harness.settle(|_| true);
    assert_eq!(harness.workers(), first);
    let (status, reason, message) = harness.condition(c::RECONCILING).unwrap();
    assert_eq!((status, reason), ("True", "RolloutUndone"));
    assert!(message.contains("set the workers in spec.components back"), "{message}");
    // What the message says ends it.
    (harness.image, harness.second) = ("1.0.0", "Prefill");
    harness.settle(|_| true);
    assert_eq!((harness.workers(), harness.condition(c::READY).unwrap().0), (first, "True"));
}

#[test]
fn a_revision_that_does_not_start_replaces_nothing_of_the_live_one() {
    let mut harness = Harness::edit("2.0.0", json!({ "operator.dynamo/rollout": "paused" }));
    let plan = harness.pass(|_| true);
    assert!(plan.rollout.is_behind && !plan.rollout.is_complete() && !plan.rollout.in_progress());
    assert!(plan.delete.is_empty());
    harness.replicas = 6;
    harness.settle(|_| true);
    assert!(harness.workers().iter().any(|(name, replicas)| name.starts_with("chat-decode") && *replicas == 6));
}
