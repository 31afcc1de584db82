//! Restarts, situation by situation.

use serde_json::{Value, json};

use super::*;
use crate::graph::{
    fixtures::{NOW, graph_with, live, observed, set_available, set_image, valid},
    plan::plan,
};

/// A graph and what is live of it.
struct System {
    graph: DynamoGraphDeployment,
    components: Vec<DynamoComponentDeployment>,
}

impl System {
    /// A graph that serves.
    fn new() -> Self {
        let mut system = Self { graph: graph_with(|_| {}), components: Vec::new() };
        system.pass();
        system
    }

    fn edit(&mut self, edit: impl FnOnce(&mut Value)) {
        let status = self.graph.status.take();
        self.graph = graph_with(edit);
        self.graph.status = status;
    }

    fn request(&mut self, restart: Value) {
        self.edit(|g| g["spec"]["restart"] = restart);
    }

    /// One pass of the controller. Objects that change are no longer ready.
    fn pass(&mut self) -> GraphPlan {
        let plan = plan(&valid(&self.graph), &observed(&self.graph, self.components.clone()), NOW);
        for desired in &plan.components {
            match self.components.iter_mut().find(|d| d.name_any() == desired.name_any()) {
                Some(d) if d.spec == desired.spec => {}
                Some(d) => {
                    d.spec = desired.spec.clone();
                    d.metadata.generation = d.metadata.generation.map(|generation| generation + 1);
                }
                None => self.components.push(live(desired, desired.spec.component.desired_replicas())),
            }
        }
        self.graph.status.get_or_insert_default().restart = plan.restart.clone();
        plan
    }

    fn serve(&mut self, component: &str) {
        for d in self.components.iter_mut().filter(|d| d.spec.component.name == component) {
            set_available(d, d.spec.component.desired_replicas());
        }
    }

    /// Phase, components in progress, and the restart mark of each component.
    fn state(&self) -> (Option<RestartPhase>, Vec<String>, Vec<String>) {
        let status = self.graph.status.clone().and_then(|status| status.restart).unwrap_or_default();
        let mark = |d: &DynamoComponentDeployment| {
            let component = &d.spec.component;
            Some(format!("{}={}", component.name, component.pod_annotation(RESTART_AT)?))
        };
        let mut reported: Vec<_> = self.components.iter().filter_map(mark).collect();
        reported.sort();
        (status.phase, status.in_progress.unwrap_or_default(), reported)
    }
}

fn expect(system: &System, phase: RestartPhase, in_progress: &[&str], reported: &[&str]) {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(system.state(), (Some(phase), owned(in_progress), owned(reported)));
}

#[test]
fn components_restart_one_after_the_other() {
    let mut system = System::new();
    system.request(json!({ "id": "1" }));
    system.pass();
    expect(&system, RestartPhase::Restarting, &["Decode"], &["Decode=1"]);
    system.pass();
    expect(&system, RestartPhase::Restarting, &["Decode"], &["Decode=1"]);
    system.serve("Decode");
    system.pass();
    expect(&system, RestartPhase::Restarting, &["Frontend"], &["Decode=1", "Frontend=1"]);
    system.serve("Frontend");
    system.pass();
    expect(&system, RestartPhase::Completed, &[], &["Decode=1", "Frontend=1"]);
    let before = system.components.clone();
    system.pass();
    assert_eq!(system.components, before, "it is over");
}

#[test]
fn the_author_may_say_in_which_order() {
    let mut system = System::new();
    system.request(json!({ "id": "1", "strategy": { "type": "Sequential", "order": ["Frontend"] } }));
    system.pass();
    expect(&system, RestartPhase::Restarting, &["Frontend"], &["Frontend=1"]);
    system.serve("Frontend");
    system.pass();
    expect(&system, RestartPhase::Completed, &[], &["Frontend=1"]);
}

#[test]
fn components_restart_all_at_once() {
    let mut system = System::new();
    system.request(json!({ "id": "1", "strategy": { "type": "Parallel" } }));
    system.pass();
    expect(&system, RestartPhase::Restarting, &["Decode", "Frontend"], &["Decode=1", "Frontend=1"]);
    system.serve("Frontend");
    system.pass();
    expect(&system, RestartPhase::Restarting, &["Decode"], &["Decode=1", "Frontend=1"]);
    system.serve("Decode");
    system.pass();
    expect(&system, RestartPhase::Completed, &[], &["Decode=1", "Frontend=1"]);
}

#[test]
fn a_second_restart_begins_again_and_keeps_the_last_status() {
    let mut system = System::new();
    system.request(json!({ "id": "1" }));
    system.pass();
    system.serve("Decode");
    system.request(json!({ "id": "2", "strategy": { "order": ["Frontend", "Decode"] } }));
    system.pass();
    expect(&system, RestartPhase::Restarting, &["Frontend"], &["Decode=1", "Frontend=2"]);
    system.edit(|_| {});
    let plan = system.pass();
    assert_eq!(plan.restart, None, "withdrawn in the middle");
    assert_eq!(system.state().2, ["Decode=1", "Frontend=2"]);
}

#[test]
fn a_change_of_workers_overtakes_a_restart_for_good() {
    let mut system = System::new();
    system.edit(|g| {
        set_image(g, "2");
        g["spec"]["restart"] = json!({ "id": "1" });
    });
    let plan = system.pass();
    assert!(plan.rollout.in_progress());
    expect(&system, RestartPhase::Superseded, &[], &[]);
    let new = system.components.last().unwrap().name_any();
    system.components.retain(|d| d.spec.component.name == "Frontend" || d.name_any() == new);
    system.pass();
    expect(&system, RestartPhase::Superseded, &[], &[]);
}

/// The schema takes any word for the phase: a word of another operator is no reason to do nothing, nor to read nothing.
#[test]
fn an_unknown_phase_is_no_phase() {
    let mut system = System::new();
    system.request(json!({ "id": "1" }));
    let unknown = json!({ "state": "pending", "restart": { "observedID": "1", "phase": "Thinking" } });
    system.graph.status = Some(serde_json::from_value(unknown.clone()).unwrap());
    assert_eq!(json!(system.graph.status)["restart"], unknown["restart"], "kept as it is");
    system.pass();
    expect(&system, RestartPhase::Restarting, &["Decode"], &["Decode=1"]);
}

/// Progress is read from the components: a lost status neither repeats a restart nor forgets one.
#[test]
fn a_lost_status_changes_nothing() {
    for serving in [&["Decode"][..], &["Decode", "Frontend"]] {
        let mut system = System::new();
        system.request(json!({ "id": "1" }));
        system.pass();
        for component in serving {
            system.serve(component);
            system.pass();
        }
        let (before, objects) = (system.state(), system.components.clone());
        system.graph.status = None;
        system.pass();
        assert_eq!((system.state(), &system.components), (before, &objects));
    }
}

#[test]
fn a_restart_makes_no_new_revision() {
    let mut system = System::new();
    system.request(json!({ "id": "1" }));
    assert!(!system.pass().rollout.in_progress());
    assert_eq!(system.components.len(), 2);
}
