//! A row for each fault that a graph can have: what is observed, and the cause, its object and its remedy.

mod adapters;
mod cluster;
mod containers;
mod fixtures;
mod objects;
mod pods;

use api_types::conditions::{READY, RECONCILING};

use self::fixtures::{NOW, condition, graph, on_root};
use super::{Diagnosis, DiagnosisInputs, Weight, diagnose};

/// A fault.
pub struct Row {
    /// Its name.
    pub fault: &'static str,
    /// Makes it of a graph that comes up.
    pub set: fn(&mut DiagnosisInputs),
    /// Code of the cause.
    pub code: &'static str,
    /// The object at the end of the chain.
    pub end: &'static str,
    /// A part of the remedy.
    pub remedy: &'static str,
}

/// Constructor for the tables.
pub const fn row(
    fault: &'static str,
    set: fn(&mut DiagnosisInputs),
    code: &'static str,
    end: &'static str,
    remedy: &'static str,
) -> Row {
    Row { fault, set, code, end, remedy }
}

fn diagnosis_of(row: &Row) -> Diagnosis {
    let mut observed = graph();
    (row.set)(&mut observed);
    diagnose(&observed, NOW.parse().unwrap())
}

fn all() -> Vec<Row> {
    let tables = [
        pods::images(),
        pods::placement(),
        pods::open_placement(),
        pods::claims(),
        containers::setup(),
        containers::starts(),
        containers::ends(),
        containers::pods(),
        objects::rows(),
        adapters::rows(),
        cluster::operator(),
        cluster::deletions(),
        cluster::progress(),
    ];
    tables.into_iter().flatten().collect()
}

#[test]
fn each_fault_has_its_cause_its_object_and_its_remedy() {
    let mut wrong = Vec::new();
    for row in all() {
        let diagnosis = diagnosis_of(&row);
        let Some(cause) = diagnosis.causes.first() else {
            wrong.push(format!("{}: no cause", row.fault));
            continue;
        };
        let end = cause.chain.last().map(ToString::to_string).unwrap_or_default();
        let starts = cause.chain.first() == Some(&diagnosis.object);
        let said = (cause.code.as_str(), end.as_str(), starts);
        if said != (row.code, row.end, true) || !cause.remedy.contains(row.remedy) || cause.cause.is_empty() {
            wrong.push(format!("{}: {said:?}, {}: {}", row.fault, cause.cause, cause.remedy));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_faults_are_many_and_no_two_are_the_same() {
    let rows = all();
    let mut names: Vec<_> = rows.iter().map(|row| row.fault).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rows.len());
    assert!(rows.len() >= 60, "{}", rows.len());
}

#[test]
fn a_ready_graph_has_no_cause() {
    let mut observed = graph();
    observed.root.conditions = vec![
        condition(READY, "True", "all_resources_are_ready", "All resources are ready"),
        condition(RECONCILING, "False", "Settled", "All resources are ready"),
    ];
    let diagnosis = diagnose(&observed, NOW.parse().unwrap());
    assert!(diagnosis.ready);
    assert_eq!(diagnosis.causes, Vec::new());
}

/// A graph that is not ready is never without a cause.
#[test]
fn a_graph_without_any_sign_repeats_what_its_status_says() {
    let diagnosis = diagnose(&graph(), NOW.parse().unwrap());
    let codes: Vec<_> = diagnosis.causes.iter().map(|cause| cause.code.as_str()).collect();
    assert_eq!(codes, ["some_resources_are_not_ready"]);
}

#[test]
fn pods_that_are_alike_are_one_cause_and_what_needs_an_action_comes_first() {
    let mut observed = graph();
    fixtures::waiting(&mut observed, "ContainerCreating", "");
    let mut first = observed.pods[1].clone();
    fixtures::waiting(&mut observed, "ErrImagePull", "r/engine:1: not found");
    let mut second = observed.pods[1].clone();
    first.metadata.name = Some("chat-decode-b".to_owned());
    second.metadata.name = Some("chat-decode-c".to_owned());
    observed.pods.extend([first, second]);
    let diagnosis = diagnose(&observed, NOW.parse().unwrap());
    let found: Vec<_> = diagnosis.causes.iter().map(|one| (one.code.as_str(), one.weight, one.others)).collect();
    assert_eq!(found, [("ImageNotFound", Weight::Blocks, 1), ("PodsStarting", Weight::Waits, 0)]);
}

#[test]
fn a_condition_that_a_pod_explains_is_no_second_cause() {
    let mut observed = graph();
    fixtures::waiting(&mut observed, "ErrImagePull", "r/engine:1: not found");
    on_root(&mut observed, RECONCILING, "True", "ImagePullFailed", "chat-decode-1a2b3c4d: pod w: container main: …");
    let diagnosis = diagnose(&observed, NOW.parse().unwrap());
    assert_eq!(diagnosis.causes.len(), 1);
    // Where pods cannot be read, the condition is the cause.
    observed.pods.clear();
    let diagnosis = diagnose(&observed, NOW.parse().unwrap());
    assert_eq!(diagnosis.causes[0].code, "ImagePullFailed");
    assert!(diagnosis.causes[0].remedy.contains("image"));
}

#[test]
fn pods_that_ended_count_only_where_none_lives() {
    let mut observed = graph();
    let mut evicted = observed.pods[1].clone();
    evicted.metadata.name = Some("chat-decode-old".to_owned());
    evicted.status = serde_json::from_value(serde_json::json!({ "phase": "Failed", "reason": "Evicted" })).unwrap();
    observed.pods.push(evicted);
    let diagnosis = diagnose(&observed, NOW.parse().unwrap());
    assert_eq!(diagnosis.causes[0].code, "some_resources_are_not_ready");
}
