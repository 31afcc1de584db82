//! The loop, driven by watch events and a clock of its own.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use serde_json::json;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

use super::{Action, Controller, owner_key};
use crate::{
    context::{Readiness, Shutdown},
    failure::{ErrorType, Failure, Retry},
    metrics::Metrics,
    scope::Fence,
    store::{Key, Packed, Watch},
};

type Object = Packed<ConfigMap>;

#[derive(Debug, thiserror::Error)]
#[error("test")]
struct Failed(Retry);

impl Failure for Failed {
    fn error_type(&self) -> ErrorType {
        ErrorType::Internal
    }

    fn retry(&self) -> Retry {
        self.0
    }
}

fn object(name: &str, version: u64) -> Object {
    let metadata = json!({ "name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string() });
    Packed::from_value(json!({ "metadata": metadata })).unwrap()
}

/// A watch whose events the test sends.
fn watch() -> (mpsc::UnboundedSender<Event<Object>>, Watch<Object>) {
    let (send, receive) = mpsc::unbounded_channel();
    let events =
        stream::unfold(receive, |mut receive| async { receive.recv().await.map(|event| (Ok(event), receive)) });
    (send, Watch::new(events.chain(stream::pending())))
}

fn list(send: &mpsc::UnboundedSender<Event<Object>>, names: &[&str]) {
    send.send(Event::Init).unwrap();
    for name in names {
        send.send(Event::InitApply(object(name, 1))).unwrap();
    }
    send.send(Event::InitDone).unwrap();
}

/// Steps of a reconcile, by the object's name.
type Script = fn(&str, usize) -> Result<Action, Failed>;

/// A controller at work, and the starts of its reconciles.
struct Bench {
    starts: Arc<Mutex<Vec<(String, Instant)>>>,
    readiness: Readiness,
    shutdown: Shutdown,
    metrics: Metrics,
    task: tokio::task::JoinHandle<()>,
}

impl Bench {
    fn run(controller: Controller<ConfigMap>, script: Script) -> Self {
        let (starts, readiness, shutdown) = (Arc::<Mutex<Vec<_>>>::default(), Readiness::default(), Shutdown::manual());
        let (log, metrics) = (Arc::clone(&starts), Metrics::new());
        let reconcile = move |object: Arc<Object>| {
            let name = object.metadata.name.clone().unwrap();
            let mut log = log.lock().unwrap();
            log.push((name.clone(), Instant::now()));
            let nth = log.iter().filter(|(other, _)| *other == name).count();
            async move { script(&name, nth) }
        };
        let (gates, stop, counters) = (readiness.clone(), shutdown.clone(), metrics.clone());
        let task = tokio::spawn(async move {
            controller.run_with(&gates, &stop, &counters, 8, &Fence::unfenced(), reconcile).await;
        });
        Self { starts, readiness, shutdown, metrics, task }
    }

    fn names(&self) -> Vec<String> {
        self.starts.lock().unwrap().iter().map(|(name, _)| name.clone()).collect()
    }

    fn gaps(&self) -> Vec<u64> {
        let starts = self.starts.lock().unwrap();
        starts.windows(2).map(|pair| (pair[1].1 - pair[0].1).as_secs()).collect()
    }
}

/// Lets everything run that can run at this time of the paused clock.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_all_caches_are_complete() {
    let ((roots, root), (children, child)) = (watch(), watch());
    let owner = |child: &Object| owner_key::<ConfigMap, _>(child).into_iter().collect::<Vec<Key>>();
    let bench = Bench::run(Controller::new(root).triggered_by(child, owner), |_, _| Ok(Action::AwaitChange));
    list(&roots, &["a", "b"]);
    settle().await;
    assert!(bench.names().is_empty());
    assert_eq!(bench.readiness.missing(), Some(vec!["ConfigMap caches".to_owned()]));
    list(&children, &[]);
    settle().await;
    let mut names = bench.names();
    names.sort();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(bench.readiness.missing(), None);
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_kind_are_waited_for_by_names_of_their_own() {
    let ((some, one), (others, other)) = (watch(), watch());
    let (readiness, shutdown) = (Readiness::default(), Shutdown::manual());
    for controller in [Controller::new(one).of_those("some"), Controller::new(other).of_those("others")] {
        let (gates, stop) = (readiness.clone(), shutdown.clone());
        tokio::spawn(async move {
            let reconcile = |_: Arc<Object>| async { Ok::<_, Failed>(Action::AwaitChange) };
            controller.run_with(&gates, &stop, &Metrics::new(), 1, &Fence::unfenced(), reconcile).await;
        });
    }
    settle().await;
    let caches = |which: &str| format!("ConfigMap caches ({which})");
    assert_eq!(readiness.missing(), Some(vec![caches("others"), caches("some")]));
    list(&others, &[]);
    settle().await;
    assert_eq!(readiness.missing(), Some(vec![caches("some")]), "one that is complete does not hide the other");
    list(&some, &[]);
    settle().await;
    assert_eq!(readiness.missing(), None);
    shutdown.request();
}

/// With shards, a replica that renews its Lease late acts again, and nothing announces that.
#[tokio::test(start_paused = true)]
async fn what_a_replica_skipped_for_a_while_is_reconciled() {
    let (roots, root) = watch();
    let (fence, shutdown, done) = (Fence::unfenced(), Shutdown::manual(), Arc::<AtomicUsize>::default());
    fence.leads_until(std::time::Instant::now());
    let (leads, stop, count) = (fence.clone(), shutdown.clone(), Arc::clone(&done));
    tokio::spawn(async move {
        let reconcile = move |_: Arc<Object>| {
            let count = Arc::clone(&count);
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Failed>(Action::AwaitChange)
            }
        };
        Controller::new(root).run_with(&Readiness::default(), &stop, &Metrics::new(), 1, &leads, reconcile).await;
    });
    list(&roots, &["a"]);
    settle().await;
    assert_eq!(done.load(Ordering::SeqCst), 0);
    fence.leads_until(std::time::Instant::now() + Duration::from_secs(3600));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(done.load(Ordering::SeqCst), 1);
    shutdown.request();
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_a_success_ends_that() {
    let (roots, root) = watch();
    let bench = Bench::run(Controller::new(root), |_, nth| match nth {
        1..=3 => Err(Failed(Retry::Backoff)),
        4 => Ok(Action::Requeue(Duration::from_secs(60))),
        5 => Err(Failed(Retry::Backoff)),
        _ => Ok(Action::AwaitChange),
    });
    list(&roots, &["a"]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.gaps(), [1, 2, 4, 60, 1]);
    let text = bench.metrics.text();
    assert!(text.contains("error_type=\"internal\"} 4\n"), "{text}");
    assert!(
        text.contains("reconcile_total{resource_type=\"ConfigMap\",namespace=\"n\",result=\"requeue\"} 1\n"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hopeless_error_waits_for_a_change() {
    let (roots, root) = watch();
    let bench = Bench::run(Controller::new(root), |_, _| Err(Failed(Retry::AwaitChange)));
    list(&roots, &["a"]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.names(), ["a"]);
    roots.send(Event::Apply(object("a", 2))).unwrap();
    settle().await;
    assert_eq!(bench.names(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_error_of_one_object() {
    let (roots, root) = watch();
    let bench = Bench::run(Controller::new(root), |name, nth| {
        assert!(name != "bad" || nth > 1, "a defect");
        Ok(Action::AwaitChange)
    });
    list(&roots, &["bad", "good"]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let names = bench.names();
    assert_eq!(names.iter().filter(|name| *name == "bad").count(), 2, "it is tried again: {names:?}");
    assert_eq!(names.iter().filter(|name| *name == "good").count(), 1, "{names:?}");
    let text = bench.metrics.text();
    assert!(text.contains("error_type=\"internal\"} 1\n"), "{text}");
    roots.send(Event::Apply(object("good", 2))).unwrap();
    settle().await;
    assert_eq!(bench.names().last().unwrap(), "good");
    assert!(!bench.task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_gone_are_not_reconciled() {
    let (roots, root) = watch();
    let bench = Bench::run(Controller::new(root), |_, _| Ok(Action::Requeue(Duration::from_secs(9))));
    list(&roots, &["a"]);
    settle().await;
    roots.send(Event::Delete(object("a", 2))).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_before_the_first_list_is_immediate() {
    let (_roots, root) = watch();
    let bench = Bench::run(Controller::new(root), |_, _| Ok(Action::AwaitChange));
    settle().await;
    bench.shutdown.request();
    let before = Instant::now();
    bench.task.await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_running_reconciles_finish_and_starts_no_more() {
    let (roots, root) = watch();
    let (finish, done) = (Arc::new(Notify::new()), Arc::new(Mutex::new(0)));
    let (shutdown, readiness) = (Shutdown::manual(), Readiness::default());
    let (wait, count, stop) = (Arc::clone(&finish), Arc::clone(&done), shutdown.clone());
    let task = tokio::spawn(async move {
        let reconcile = move |_: Arc<Object>| {
            let (wait, count) = (Arc::clone(&wait), Arc::clone(&count));
            async move {
                wait.notified().await;
                *count.lock().unwrap() += 1;
                Ok::<_, Failed>(Action::AwaitChange)
            }
        };
        Controller::new(root).run_with(&readiness, &stop, &Metrics::new(), 1, &Fence::unfenced(), reconcile).await;
    });
    list(&roots, &["a", "b"]);
    settle().await;
    shutdown.request();
    settle().await;
    assert!(!task.is_finished(), "the first is still at work");
    finish.notify_waiters();
    task.await.unwrap();
    assert_eq!(*done.lock().unwrap(), 1, "the second never started");
}

#[test]
fn only_a_controller_owner_of_the_root_kind_is_woken() {
    let child = |api: &str, kind: &str, controller: bool| {
        let owner = json!({ "apiVersion": api, "kind": kind, "name": "o", "uid": "u", "controller": controller });
        Object::from_value(json!({ "metadata": { "name": "c", "namespace": "n", "ownerReferences": [owner] } }))
            .unwrap()
    };
    let key = |object: &Object| owner_key::<ConfigMap, Object>(object);
    assert_eq!(key(&child("v1", "ConfigMap", true)), Some(Key::new("n", "o")));
    assert_eq!(key(&child("v1", "ConfigMap", false)), None);
    assert_eq!(key(&child("v1", "Secret", true)), None);
    assert_eq!(key(&child("other.io/v1", "ConfigMap", true)), None);
}
