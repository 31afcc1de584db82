//! However many ask, and whatever the cache shows of it, no more get a slot than there are.

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
    slots: Slots,
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
        Self::beside(|_| false, jobs, components)
    }

    /// Another operator looks after the namespaces that are `taken`.
    fn beside(
        taken: impl Fn(&str) -> bool + Send + Sync + 'static,
        jobs: Store<Packed<Job>>,
        components: Store<Packed<DynamoComponent>>,
    ) -> Self {
        Self { slots: Slots::new(2, jobs.clone(), components.clone(), taken), jobs, components, now: Instant::now() }
    }

    /// Asks for the Job of the component's name.
    fn take(&self, name: &str) -> bool {
        self.slots.take(&key(name), &key(name), self.now)
    }

    fn next(&self) -> Vec<String> {
        self.slots.next(self.now).into_iter().map(|key| key.name).collect()
    }
}

fn component(name: &str) -> Packed<DynamoComponent> {
    Packed::from_value(json!({ "metadata": { "name": name, "namespace": "team", "uid": name } })).unwrap()
}

#[test]
fn those_that_ask_at_once_count_before_any_cache_shows_them() {
    let bench = Bench::new();
    assert_eq!(["a", "b", "c", "d"].map(|name| bench.take(name)), [true, true, false, false]);
    assert!(bench.take("a"), "a Job that counts is not counted again");
    assert!(bench.next().is_empty());
}

#[test]
fn a_job_counts_once_when_the_cache_shows_it_and_until_it_has_ended() {
    let bench = Bench::new();
    assert!(bench.take("a") && bench.take("b") && !bench.take("c"));
    bench.slots.made(&key("a"), Some(10), bench.now);
    bench.slots.made(&key("b"), Some(11), bench.now);
    bench.jobs.handle(Event::Apply(job("a", 10, false)));
    bench.jobs.handle(Event::Apply(job("b", 11, false)));
    assert!(!bench.take("c") && bench.next().is_empty());
    bench.jobs.handle(Event::Apply(job("a", 12, true)));
    assert_eq!(bench.next(), ["c"]);
    assert!(bench.take("c") && !bench.take("d"));
    bench.jobs.handle(Event::Delete(job("b", 13, false)));
    assert!(bench.take("d") && !bench.take("e"));
}

#[test]
fn a_job_that_came_and_went_unseen_counts_no_more() {
    let bench = Bench::new();
    assert!(bench.take("a") && bench.take("b") && !bench.take("c"));
    bench.slots.made(&key("a"), Some(10), bench.now);
    bench.jobs.handle(Event::Delete(job("a", 14, true)));
    assert!(bench.take("c") && !bench.take("d"));
}

#[test]
fn those_that_wait_come_in_their_order() {
    let bench = Bench::new();
    assert!(bench.take("a") && bench.take("b") && !bench.take("c") && !bench.take("d"));
    bench.slots.give_back(&key("a"), bench.now);
    assert_eq!(bench.next(), ["c"]);
    assert_eq!(["e", "d", "c", "d"].map(|name| bench.take(name)), [false, false, true, false]);
    bench.slots.give_back(&key("b"), bench.now);
    bench.slots.give_back(&key("c"), bench.now);
    assert_eq!(bench.next(), ["d", "e"]);
    assert!(bench.take("e") && bench.take("d"), "there is room for both, whoever asks first");
}

#[test]
fn nobody_waits_for_who_does_not_come() {
    let bench = Bench::new();
    assert!(bench.take("a") && bench.take("b") && !bench.take("c") && !bench.take("d") && !bench.take("e"));
    bench.slots.give_back(&key("a"), bench.now);
    assert!(!bench.take("e"));
    bench.components.handle(Event::Delete(component("c")));
    assert_eq!(bench.next(), ["d"], "what is deleted builds nothing");
    bench.slots.leave(&key("d"), bench.now);
    assert_eq!(bench.next(), ["e"], "another has no Job to make any more");
}

/// In a long queue it takes long until each is asked for again, and slow registries make it longer.
#[test]
fn a_place_is_kept_however_long_it_takes_to_ask_again() {
    let mut bench = Bench::new();
    assert_eq!(["a", "b", "c", "d"].map(|name| bench.take(name)), [true, true, false, false]);
    for name in ["a", "b"] {
        bench.slots.made(&key(name), Some(10), bench.now);
        bench.jobs.handle(Event::Apply(job(name, 10, false)));
    }
    bench.now += Duration::from_secs(24 * 3600);
    assert!(!bench.take("e"));
    bench.jobs.handle(Event::Apply(job("a", 11, true)));
    assert_eq!(bench.next(), ["c"]);
    assert_eq!(["e", "d", "c"].map(|name| bench.take(name)), [false, false, true]);
}

#[test]
fn nobody_waits_for_a_component_of_another_operator() {
    let (jobs, components) = (Store::new(), Store::new());
    for name in ["a", "b", "c", "d"] {
        components.handle(Event::Apply(component(name)));
    }
    let taken = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&taken);
    let bench = Bench::beside(move |_| mark.load(Ordering::Relaxed), jobs, components);
    assert_eq!(["a", "b", "c"].map(|name| bench.take(name)), [true, true, false]);
    bench.slots.give_back(&key("a"), bench.now);
    assert_eq!(bench.next(), ["c"]);
    taken.store(true, Ordering::Relaxed);
    assert!(bench.next().is_empty());
    taken.store(false, Ordering::Relaxed);
    assert!(bench.take("d"), "the place is nobody's any more");
}

#[test]
fn a_job_of_the_same_name_that_has_ended_gives_no_leave() {
    let bench = Bench::new();
    bench.jobs.handle(Event::Apply(job("c", 5, true)));
    assert_eq!(["a", "b", "c"].map(|name| bench.take(name)), [true, true, false]);
    bench.slots.give_back(&key("a"), bench.now);
    assert_eq!(
        ["c", "d"].map(|name| bench.take(name)),
        [true, false],
        "its slot counts while the cache shows the old one"
    );
    bench.slots.made(&key("c"), Some(20), bench.now);
    assert!(!bench.take("d"));
    bench.jobs.handle(Event::Apply(job("c", 20, false)));
    assert!(!bench.take("d"), "it counts by itself");
    bench.jobs.handle(Event::Apply(job("c", 21, true)));
    assert!(bench.take("d"));
}

#[test]
fn an_answer_that_never_came_does_not_take_a_slot_for_ever() {
    let mut bench = Bench::new();
    assert!(bench.take("a") && bench.take("b"));
    bench.now += LOST - Duration::from_secs(1);
    assert!(!bench.take("c"));
    bench.now += Duration::from_secs(1);
    assert_eq!(["c", "d", "e"].map(|name| bench.take(name)), [true, true, false]);
}

/// Four builds of one tenant that never end kept all others from building.
#[test]
fn one_namespace_does_not_take_all_builds() {
    let (jobs, components) = (Store::new(), Store::new());
    let at = |namespace: &str, name: &str| Key::new(namespace, name);
    for namespace in ["busy", "quiet"] {
        for name in ["a", "b", "c", "d"] {
            let metadata = json!({ "name": name, "namespace": namespace, "uid": format!("{namespace}-{name}") });
            components.handle(Event::Apply(Packed::from_value(json!({ "metadata": metadata })).unwrap()));
        }
    }
    let (slots, now) = (Slots::new(4, jobs, components, |_| false), Instant::now());
    let take = |namespace: &str, name: &str| slots.take(&at(namespace, name), &at(namespace, name), now);
    assert_eq!(["a", "b", "c", "d"].map(|name| take("busy", name)), [true, true, true, false]);
    assert_eq!(["a", "b"].map(|name| take("quiet", name)), [true, false], "it gets what was left free");
    slots.give_back(&at("busy", "a"), now);
    assert_eq!(slots.next(now), [at("quiet", "b")], "the namespace that builds least comes first");
}

/// Anybody may make a Job with the label of builds, and it may be suspended for ever.
#[test]
fn what_is_no_build_of_ours_or_does_not_run_takes_no_place() {
    let (jobs, components) = (Store::new(), Store::new());
    for name in ["a", "b", "c"] {
        components.handle(Event::Apply(component(name)));
    }
    let bench = Bench::beside(|namespace| namespace == "theirs", jobs, components);
    type Edit = fn(&mut Value);
    let edits: [(&str, Edit); 5] = [
        ("nobody-s", |job| job["metadata"]["ownerReferences"] = json!([])),
        ("nobody", |job| job["metadata"]["ownerReferences"][0]["name"] = json!("not-there")),
        ("of-another-uid", |job| job["metadata"]["ownerReferences"][0]["name"] = json!("a")),
        ("suspended", |job| job["spec"]["suspend"] = json!(true)),
        ("theirs", |job| job["metadata"]["namespace"] = json!("theirs")),
    ];
    for (name, edit) in edits {
        bench.jobs.handle(Event::Apply(job_with(name, 5, false, edit)));
    }
    assert_eq!(["a", "b", "c"].map(|name| bench.take(name)), [true, true, false]);
}
