//! Tests of the semaphore: its limit holds whatever the cache shows.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use api_types::owner;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::*;

fn key(name: &str) -> Key {
    Key::new("team", name)
}

fn job(name: &str, version: u64, ended: bool) -> Packed<Job> {
    job_with(name, version, ended, |_| ())
}

fn job_with(name: &str, version: u64, ended: bool, edit: impl Fn(&mut Value)) -> Packed<Job> {
    let conditions = if ended { json!([{ "type": "Complete", "status": "True" }]) } else { Value::Null };
    let owner = owner::controller::<DynamoComponent>(name, name);
    let metadata = json!({ "name": name, "namespace": "team", "uid": name, "resourceVersion": version.to_string(),
        "ownerReferences": [owner] });
    let mut job = json!({ "metadata": metadata, "spec": { "template": {} }, "status": { "conditions": conditions } });
    edit(&mut job);
    Packed::from_value(job).unwrap()
}

/// The components `a` to `e` and two slots.
struct Bench {
    build_slots: BuildSlots,
    jobs: Store<Packed<Job>>,
    components: Store<Packed<DynamoComponent>>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let (jobs, components) = (Store::new(), Store::new());
        for name in ["a", "b", "c", "d", "e"] {
            components.handle(Event::Apply(component(name)));
        }
        Self::with(|_| BuildServer::This, jobs, components)
    }

    fn with(
        server: impl Fn(&str) -> BuildServer + Send + Sync + 'static,
        jobs: Store<Packed<Job>>,
        components: Store<Packed<DynamoComponent>>,
    ) -> Self {
        Self {
            build_slots: BuildSlots::new(2, jobs.clone(), components.clone(), server),
            jobs,
            components,
            now: Instant::now(),
        }
    }

    /// Asks for the Job of the component's name.
    fn try_acquire(&self, name: &str) -> bool {
        self.build_slots.try_acquire(&key(name), &key(name), self.now)
    }

    fn next_in_turn(&self) -> Vec<String> {
        self.build_slots.next_in_turn(self.now).into_iter().map(|key| key.name).collect()
    }
}

fn component(name: &str) -> Packed<DynamoComponent> {
    Packed::from_value(json!({ "metadata": { "name": name, "namespace": "team", "uid": name } })).unwrap()
}

#[test]
fn builds_count_before_a_cache_shows_them() {
    let bench = Bench::new();
    assert_eq!(["a", "b", "c", "d"].map(|name| bench.try_acquire(name)), [true, true, false, false]);
    assert!(bench.try_acquire("a"), "a Job that counts is not counted again");
    assert!(bench.next_in_turn().is_empty());
}

#[test]
fn a_job_counts_once_when_the_cache_shows_it_and_until_it_has_ended() {
    let bench = Bench::new();
    assert!(bench.try_acquire("a") && bench.try_acquire("b") && !bench.try_acquire("c"));
    bench.build_slots.confirm(&key("a"), Some(10), bench.now);
    bench.build_slots.confirm(&key("b"), Some(11), bench.now);
    bench.jobs.handle(Event::Apply(job("a", 10, false)));
    bench.jobs.handle(Event::Apply(job("b", 11, false)));
    assert!(!bench.try_acquire("c") && bench.next_in_turn().is_empty());
    bench.jobs.handle(Event::Apply(job("a", 12, true)));
    assert_eq!(bench.next_in_turn(), ["c"]);
    assert!(bench.try_acquire("c") && !bench.try_acquire("d"));
    bench.jobs.handle(Event::Delete(job("b", 13, false)));
    assert!(bench.try_acquire("d") && !bench.try_acquire("e"));
}

#[test]
fn a_job_that_was_never_shown_and_is_deleted_does_not_count() {
    let bench = Bench::new();
    assert!(bench.try_acquire("a") && bench.try_acquire("b") && !bench.try_acquire("c"));
    bench.build_slots.confirm(&key("a"), Some(10), bench.now);
    bench.jobs.handle(Event::Delete(job("a", 14, true)));
    assert!(bench.try_acquire("c") && !bench.try_acquire("d"));
}

#[test]
fn the_queue_is_in_order() {
    let bench = Bench::new();
    assert!(bench.try_acquire("a") && bench.try_acquire("b") && !bench.try_acquire("c") && !bench.try_acquire("d"));
    bench.build_slots.release(&key("a"), bench.now);
    assert_eq!(bench.next_in_turn(), ["c"]);
    assert_eq!(["e", "d", "c", "d"].map(|name| bench.try_acquire(name)), [false, false, true, false]);
    bench.build_slots.release(&key("b"), bench.now);
    bench.build_slots.release(&key("c"), bench.now);
    assert_eq!(bench.next_in_turn(), ["d", "e"]);
    assert!(bench.try_acquire("e") && bench.try_acquire("d"), "two slots are free");
}

#[test]
fn components_that_left_the_queue_do_not_block_it() {
    let bench = Bench::new();
    assert!(
        bench.try_acquire("a")
            && bench.try_acquire("b")
            && !bench.try_acquire("c")
            && !bench.try_acquire("d")
            && !bench.try_acquire("e")
    );
    bench.build_slots.release(&key("a"), bench.now);
    assert!(!bench.try_acquire("e"));
    bench.components.handle(Event::Delete(component("c")));
    assert_eq!(bench.next_in_turn(), ["d"], "a deleted component builds nothing");
    bench.build_slots.dequeue(&key("d"), bench.now);
    assert_eq!(bench.next_in_turn(), ["e"], "another left the queue");
}

/// In a long queue, each component tries again only after a long time, and slow registries add to it.
#[test]
fn a_place_in_the_queue_does_not_expire() {
    let mut bench = Bench::new();
    assert_eq!(["a", "b", "c", "d"].map(|name| bench.try_acquire(name)), [true, true, false, false]);
    for name in ["a", "b"] {
        bench.build_slots.confirm(&key(name), Some(10), bench.now);
        bench.jobs.handle(Event::Apply(job(name, 10, false)));
    }
    bench.now += Duration::from_secs(24 * 3600);
    assert!(!bench.try_acquire("e"));
    bench.jobs.handle(Event::Apply(job("a", 11, true)));
    assert_eq!(bench.next_in_turn(), ["c"]);
    assert_eq!(["e", "d", "c"].map(|name| bench.try_acquire(name)), [false, false, true]);
}

#[test]
fn components_of_other_servers_do_not_block_the_queue() {
    for elsewhere in [BuildServer::Operator, BuildServer::Replica] {
        let (jobs, components) = (Store::new(), Store::new());
        for name in ["a", "b", "c", "d"] {
            components.handle(Event::Apply(component(name)));
        }
        let moved = Arc::new(AtomicBool::new(false));
        let is_moved = Arc::clone(&moved);
        let server = move |_: &str| if is_moved.load(Ordering::Relaxed) { elsewhere } else { BuildServer::This };
        let bench = Bench::with(server, jobs, components);
        assert_eq!(["a", "b", "c"].map(|name| bench.try_acquire(name)), [true, true, false]);
        bench.build_slots.release(&key("a"), bench.now);
        assert_eq!(bench.next_in_turn(), ["c"]);
        moved.store(true, Ordering::Relaxed);
        assert!(bench.next_in_turn().is_empty(), "{elsewhere:?}");
        moved.store(false, Ordering::Relaxed);
        assert!(bench.try_acquire("d"), "the slot is free");
    }
}

#[test]
fn builds_of_other_replicas_count_and_those_of_other_operators_do_not() {
    for (server, may) in [(BuildServer::Replica, false), (BuildServer::Operator, true)] {
        let (jobs, components) = (Store::new(), Store::new());
        for name in ["a", "b"] {
            components.handle(Event::Apply(component(name)));
            jobs.handle(Event::Apply(job(name, 5, false)));
        }
        let bench = Bench::with(
            move |namespace| if namespace == "team" { server } else { BuildServer::This },
            jobs,
            components,
        );
        let own = Key::new("own", "c");
        assert_eq!(bench.build_slots.try_acquire(&own, &own, bench.now), may, "{server:?}");
    }
}

#[test]
fn an_ended_job_of_the_same_name_has_no_slot() {
    let bench = Bench::new();
    bench.jobs.handle(Event::Apply(job("c", 5, true)));
    assert_eq!(["a", "b", "c"].map(|name| bench.try_acquire(name)), [true, true, false]);
    bench.build_slots.release(&key("a"), bench.now);
    assert_eq!(
        ["c", "d"].map(|name| bench.try_acquire(name)),
        [true, false],
        "its slot counts while the cache shows the old one"
    );
    bench.build_slots.confirm(&key("c"), Some(20), bench.now);
    assert!(!bench.try_acquire("d"));
    bench.jobs.handle(Event::Apply(job("c", 20, false)));
    assert!(!bench.try_acquire("d"), "it counts by itself");
    bench.jobs.handle(Event::Apply(job("c", 21, true)));
    assert!(bench.try_acquire("d"));
}

#[test]
fn an_unanswered_write_does_not_keep_its_slot_for_ever() {
    let mut bench = Bench::new();
    assert!(bench.try_acquire("a") && bench.try_acquire("b"));
    bench.now += PERMIT_TIMEOUT - Duration::from_secs(1);
    assert!(!bench.try_acquire("c"));
    bench.now += Duration::from_secs(1);
    assert_eq!(["c", "d", "e"].map(|name| bench.try_acquire(name)), [true, true, false]);
}

/// Four builds of one tenant that never end kept all others from building.
#[test]
fn one_namespace_does_not_get_all_slots() {
    let (jobs, components) = (Store::new(), Store::new());
    let at = |namespace: &str, name: &str| Key::new(namespace, name);
    for namespace in ["busy", "quiet"] {
        for name in ["a", "b", "c", "d"] {
            let metadata = json!({ "name": name, "namespace": namespace, "uid": format!("{namespace}-{name}") });
            components.handle(Event::Apply(Packed::from_value(json!({ "metadata": metadata })).unwrap()));
        }
    }
    let (build_slots, now) = (BuildSlots::new(4, jobs, components, |_| BuildServer::This), Instant::now());
    let take = |namespace: &str, name: &str| build_slots.try_acquire(&at(namespace, name), &at(namespace, name), now);
    assert_eq!(["a", "b", "c", "d"].map(|name| take("busy", name)), [true, true, true, false]);
    assert_eq!(["a", "b"].map(|name| take("quiet", name)), [true, false], "it gets the remaining slot");
    build_slots.release(&at("busy", "a"), now);
    assert_eq!(build_slots.next_in_turn(now), [at("quiet", "b")], "the namespace that builds least comes first");
}

/// A tenant may create a Job with the label of builds, and suspend it for ever.
#[test]
fn jobs_that_are_no_builds_or_do_not_run_take_no_slot() {
    let (jobs, components) = (Store::new(), Store::new());
    for name in ["a", "b", "c"] {
        components.handle(Event::Apply(component(name)));
    }
    let server = |namespace: &str| if namespace == "theirs" { BuildServer::Operator } else { BuildServer::This };
    let bench = Bench::with(server, jobs, components);
    type Edit = fn(&mut Value);
    let edits: [(&str, Edit); 5] = [
        ("without-owner", |job| job["metadata"]["ownerReferences"] = json!([])),
        ("owner-missing", |job| job["metadata"]["ownerReferences"][0]["name"] = json!("not-there")),
        ("of-another-uid", |job| job["metadata"]["ownerReferences"][0]["name"] = json!("a")),
        ("suspended", |job| job["spec"]["suspend"] = json!(true)),
        ("theirs", |job| job["metadata"]["namespace"] = json!("theirs")),
    ];
    for (name, edit) in edits {
        bench.jobs.handle(Event::Apply(job_with(name, 5, false, edit)));
    }
    assert_eq!(["a", "b", "c"].map(|name| bench.try_acquire(name)), [true, true, false]);
}
