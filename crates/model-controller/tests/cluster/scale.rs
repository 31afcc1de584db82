//! Many adapters on many engines. Continuous integration runs a small version; `DYNAMO_MODEL_SCALE=full` runs 50
//! adapters on 200 engines and prints the figures of `docs/performance.md`.

use std::time::{Duration, Instant};

use api_types::v1alpha1::DynamoModel;
use kube::api::ListParams;
use test_cluster::wait;

use crate::{
    engine::{Engine, Mode},
    harness::{Harness, LIMIT, condition},
};

/// Time that an engine takes for an answer.
const LATENCY: Duration = Duration::from_millis(50);

struct Size {
    adapters: usize,
    engines: usize,
    /// Time without changes.
    quiet: Duration,
}

fn size() -> Size {
    if std::env::var("DYNAMO_MODEL_SCALE").is_ok_and(|scale| scale == "full") {
        Size { adapters: 50, engines: 200, quiet: Duration::from_secs(30) }
    } else {
        Size { adapters: 5, engines: 20, quiet: Duration::from_secs(2) }
    }
}

/// Waits until so many models are ready.
async fn until_ready(harness: &Harness, expected: usize) {
    let api = harness.api::<DynamoModel>();
    let look = async || {
        let models = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let ready = models.iter().filter(|model| condition(model, "Ready").is_some_and(|found| found.0 == "True"));
        let ready = ready.count();
        if ready == expected { Ok(()) } else { Err(format!("{ready} are")) }
    };
    wait::until(format!("{expected} models to be ready"), LIMIT, look).await.unwrap();
}

fn total(engines: &[Engine], beginning: &str) -> usize {
    engines.iter().map(|engine| engine.times(beginning)).sum()
}

/// Resident memory of this process, in MiB: the controller, the engines and the test together.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// CPU time of this process so far, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // User and system time, in ticks of 10 ms.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_adapters_are_loaded_once_on_many_engines() {
    let Size { adapters, engines: count, quiet } = size();
    let mut harness = Harness::without_controller("scale").await;
    let engines = harness.engines(count).await;
    engines.iter().for_each(|engine| engine.set(Mode::Slow(LATENCY)));
    for adapter in 0..adapters {
        harness.adapter(&format!("m-{adapter:02}"), &format!("org/adapter-{adapter:02}"), "s3://bucket/a").await;
    }
    let (idle, cpu_before) = (resident(), cpu());
    let start = Instant::now();
    harness.start();
    until_ready(&harness, adapters).await;
    let loaded = start.elapsed();
    let (loads, lists, writes) = (total(&engines, "load"), total(&engines, "list"), harness.status_writes());
    let full = resident();
    println!(
        "{adapters} adapters on {count} engines of {LATENCY:?}: loaded in {loaded:.1?} ({:.1} s of CPU) with {loads} loads, \
         {lists} lists, {} reconciles and {writes} statuses; resident {idle:.0} MiB before, {full:.0} MiB after, engines and \
         test included",
        cpu() - cpu_before,
        harness.counter("reconcile_total", &[])
    );
    assert_eq!(loads, adapters * count, "each adapter once on each engine");
    assert!(writes <= u64::try_from(adapters).unwrap() * 12, "{writes} statuses");

    engines.iter().for_each(Engine::forget_requests);
    tokio::time::sleep(quiet).await;
    assert_eq!(total(&engines, ""), 0, "no request is sent in a steady state but audits, which are minutes away");
    assert_eq!(harness.status_writes(), writes);

    // One engine restarts.
    engines[3].lose_everything();
    harness.set_ready(3, false).await;
    until_ready(&harness, 0).await;
    harness.set_ready(3, true).await;
    until_ready(&harness, adapters).await;
    assert_eq!((total(&engines, "load"), engines[3].times("load")), (adapters, adapters));
    assert_eq!(total(&engines, "list"), engines[3].times("list"));
    let bytes = serde_json::to_string(&harness.model("m-00").await.status).unwrap().len();
    println!("one engine restarted: {adapters} loads, on it alone; a status has {bytes} bytes");
    // Last, because it is the one thing that a busy machine changes.
    assert!(loaded < Duration::from_secs(15), "{loaded:?}");
}
