//! Tests of counted and uncounted cost.

use serde_json::json;

use super::*;

fn at(text: &str) -> Timestamp {
    format!("2026-01-01T{text}Z").parse().unwrap()
}

fn of_job(gpus: &str, end: Option<&str>, trials: Option<&TrialGraphs>) -> Option<i64> {
    let job: Job = serde_json::from_value(json!({
        "spec": { "template": { "spec": { "containers": [
            { "name": "profiler", "resources": { "limits": { "nvidia.com/gpu": gpus } } }, { "name": "output-copier" }] } } },
        "status": { "startTime": "2026-01-01T00:00:00Z", "completionTime": end },
    }))
    .unwrap();
    minutes(profiled(None, Some(&job), true, at("01:00:00")).as_ref(), trials)
}

#[test]
fn gpu_minutes_are_those_of_the_jobs_pod() {
    assert_eq!(of_job("8", Some("2026-01-01T00:10:01Z"), None), Some(81), "rounded up");
    assert_eq!(of_job("8", None, None), Some(480), "while it runs");
    assert_eq!(of_job("0", None, None), Some(0));
    assert_eq!(profiled(None, Some(&Job::default()), true, Timestamp::UNIX_EPOCH), None, "not started");
}

#[test]
fn and_those_of_the_graphs_that_it_starts() {
    let trials = TrialGraphs { gpu_seconds: 61, ..TrialGraphs::default() };
    assert_eq!(of_job("0", None, Some(&trials)), Some(2));
    assert_eq!(of_job("8", Some("2026-01-01T00:10:01Z"), Some(&trials)), Some(82), "rounded up once");
}

/// A pod of graph `t` with four GPUs; `start` and `end` as far as there are.
fn pod(start: Option<&str>, end: Option<&str>) -> Pod {
    let container =
        |name: &str, gpus: Option<&str>| json!({ "name": name, "resources": { "limits": { "nvidia.com/gpu": gpus } } });
    let time = |text: &str| json!(at(text));
    serde_json::from_value(json!({
        "metadata": { "name": "p", "labels": { "nvidia.com/dynamo-graph-deployment-name": "t" } },
        "spec": { "containers": [container("main", Some("4")), { "name": "sidecar" }] },
        "status": {
            "phase": if end.is_some() { "Failed" } else { "Running" }, "startTime": start.map(time),
            "containerStatuses": end.map(|end| json!([{ "name": "main", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                "state": { "terminated": { "exitCode": 1, "finishedAt": time(end) } } }])),
        },
    }))
    .unwrap()
}

fn found(running: &[&str], before: Option<&TrialGraphs>, pods: &[Pod]) -> Trials {
    Trials::of(running.iter().map(ToString::to_string).collect(), before, pods)
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

#[test]
fn a_pod_counts_from_its_node_to_its_end() {
    let now = at("01:00:00");
    for (pod, seconds, why) in [
        (pod(Some("00:50:00"), None), 2400, "it runs"),
        (pod(None, None), 0, "it waits for a node"),
        (pod(Some("00:50:00"), Some("00:51:00")), 240, "it has ended"),
    ] {
        let counted = counted(None, &found(&["t"], None, &[pod]), now).unwrap();
        assert_eq!(counted.gpu_seconds, seconds, "{why}");
        assert_eq!((counted.running, counted.counted_until), (names(&["t"]), Some(Time(now))), "{why}");
    }
}

/// Each second once, whenever and however often is looked, and by whichever process.
#[test]
fn the_whole_life_of_a_graph_is_counted_once() {
    let (start, all) = (Some("00:00:00"), ["00:00:01.7", "00:00:20", "00:01:05.3", "00:01:05.3", "00:09:00"]);
    let mut memory: Option<TrialGraphs> = None;
    let mut writes = 0;
    for time in all {
        let next = counted(memory.as_ref(), &found(&["t"], memory.as_ref(), &[pod(start, None)]), at(time));
        writes += i32::from(next != memory);
        memory = serde_json::from_value(json!(next)).unwrap();
    }
    assert_eq!((memory.as_ref().unwrap().gpu_seconds, writes), (4 * 540, 3), "looking alone writes nothing");
    // It is deleted: counted at once, and until its last pod is gone.
    for (time, pods, seconds, ending) in
        [("00:09:10", 1, 4 * 550, &["t"][..]), ("00:09:15", 1, 4 * 550, &["t"]), ("00:10:00", 0, 4 * 550, &[])]
    {
        let pods = vec![pod(start, None); pods];
        memory = counted(memory.as_ref(), &found(&[], memory.as_ref(), &pods), at(time));
        let now = memory.as_ref().unwrap();
        assert_eq!((now.gpu_seconds, &now.ending, &now.running), (seconds, &names(ending), &names(&[])), "{time}");
    }
    // Nothing is left to look for, and nothing changes any more.
    assert_eq!(known(memory.as_ref()).count(), 0);
    assert_eq!(counted(memory.as_ref(), &Trials::default(), at("02:00:00")), memory);
}

#[test]
fn without_trial_graphs_nothing_is_remembered() {
    assert_eq!(counted(None, &Trials::default(), at("00:00:00")), None);
}
