//! `why` names the cause and the remedy of faults that are injected into a real control plane.
//!
//! The API server, the scheduler and the controllers of Kubernetes are real, and so are ours. What they enforce or find
//! out by themselves is done for real: quotas, limits, policies, webhooks, certificates, claims, taints, rights, APIs
//! that are missing, deletions. There are no machines behind the nodes: what a kubelet would report is written by
//! `kubelet.rs` into the status of pods and into events, in the form and the words of a kubelet, and the logs of
//! containers are served where the API server requests them of a kubelet. The provisioner of volumes, the agent that
//! captures pods and the engines are played as well.
//!
//! Each fault is injected into a namespace of its own. Before that, `why` says that the graph is ready and nothing of
//! the fault. `DYNAMO_FAULT=words` injects only the faults whose names contain them.

mod containers;
mod conversion;
mod fault;
mod graphs;
mod harness;
mod images;
mod kubelet;
mod models;
mod nodes;
mod operators;
mod rejections;
mod scaling;
mod server;
mod storage;

use std::{
    collections::BTreeSet,
    env,
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, stream};

use self::{
    fault::Fault,
    harness::{Harness, Team, graph, play},
};

/// Faults in the list, and how many of them have to be named.
const FAULTS: usize = 94;
const LEAST: usize = 92;
/// Faults at a time.
const AT_A_TIME: usize = 8;

/// The list.
fn all() -> Vec<Fault> {
    let tables = [
        images::rows(),
        nodes::rows(),
        storage::rows(),
        rejections::rows(),
        containers::rows(),
        graphs::rows(),
        operators::rows(),
        models::rows(),
        scaling::rows(),
    ];
    tables.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_are_named_with_cause_and_remedy() {
    let begin = Instant::now();
    let harness = Harness::new().await;
    let only = env::var("DYNAMO_FAULT").unwrap_or_default();
    is_named_nowhere(&harness).await;
    let faults: Vec<Fault> = all().into_iter().filter(|fault| fault.name.contains(&only)).collect();
    println!("the control plane is ready after {:?}", begin.elapsed());
    let outcomes: Vec<_> = stream::iter(&faults)
        .map(|fault| {
            let harness = &harness;
            async move {
                let begin = Instant::now();
                let played = AssertUnwindSafe(Box::pin(play(harness, fault))).catch_unwind().await;
                let outcome = played.unwrap_or_else(|_| Err("the test panicked, see above".to_owned()));
                (fault, outcome, begin.elapsed())
            }
        })
        .buffer_unordered(AT_A_TIME)
        .collect()
        .await;
    let (mut missed, mut slowest) = (Vec::new(), Duration::ZERO);
    for (fault, outcome, took) in outcomes {
        let answer = match outcome {
            Ok(named) => named.in_time(fault).await,
            Err(seen) => Err(seen),
        };
        match answer {
            Ok(answer) => {
                slowest = slowest.max(answer);
                println!("named after {took:.1?}, in {answer:.2?}: {}", fault.name);
            }
            Err(seen) => missed
                .push(format!("{} ({})\n    expected {:?}\n    {seen}", fault.name, fault.injected, fault.expected)),
        }
    }
    let named = faults.len() - missed.len();
    println!(
        "{named} of {} faults named in {:.0?}; the slowest answer took {slowest:.2?}",
        faults.len(),
        begin.elapsed()
    );
    println!("{}", missed.join("\n"));
    assert!(missed.len() <= FAULTS - LEAST, "{named} of {} faults named\n{}", faults.len(), missed.join("\n"));
}

/// A healthy graph has none of the faults.
async fn is_named_nowhere(harness: &Harness) {
    let team = Team::new(harness).await;
    team.apply_graph(&graph()).await;
    let answer = team.ready("chat").await.unwrap();
    for fault in all() {
        assert!(!fault.expected.is_named_in(&answer.diagnosis), "{}: {}", fault.name, answer.text);
        assert!(!fault.expected.is_mentioned_in(&answer.text), "{}: {}", fault.name, answer.text);
    }
}

#[test]
fn each_fault_has_a_name_and_an_expectation_of_its_own() {
    let faults = all();
    assert_eq!(faults.len(), FAULTS);
    let names: BTreeSet<_> = faults.iter().map(|fault| fault.name).collect();
    assert_eq!(names.len(), faults.len());
    for fault in &faults {
        let expected = fault.expected;
        let words = [fault.injected, expected.code, expected.object, expected.cause, expected.remedy];
        assert!(words.iter().all(|words| words.len() > 3) && !fault.steps.is_empty(), "{}: {expected:?}", fault.name);
    }
}
