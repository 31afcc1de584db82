//! Tests of the requests of a fleet to its engines, in simulated time.

use std::{collections::BTreeSet, time::Duration};

use controller_kit::store::Key;
use proptest::prelude::*;

use super::{
    fixtures::{Mode, Simulation, pool},
    state::{AdapterState, Problem},
};

const MINUTE: Duration = Duration::from_secs(60);

fn texts(log: &[(usize, String)]) -> Vec<&str> {
    log.iter().map(|(_, text)| text.as_str()).collect()
}

fn loads(log: &[(usize, String)]) -> usize {
    log.iter().filter(|(_, text)| text.starts_with("load")).count()
}

/// The model that desired `a` goes, and only these are desired from now on.
fn swap_a_for(simulation: &mut Simulation, adapters: &[&str]) {
    simulation.desired.unload.insert("a".into(), BTreeSet::from([Key::new("n", "m")]));
    simulation.set_desired(adapters);
}

/// Upstream, every adapter was posted again at each reconcile.
#[test]
fn an_adapter_is_loaded_once_and_then_only_audited() {
    let mut simulation = Simulation::new(1);
    simulation.set_desired(&["a=1"]);
    assert_eq!(texts(&simulation.run(MINUTE)), ["list", "load a=1", "list"]);
    assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Loaded]);
    let audits = simulation.run(20 * MINUTE);
    assert!(texts(&audits).iter().all(|text| *text == "list"), "{audits:?}");
    assert!((3..=5).contains(&audits.len()), "every five minutes, more or less: {audits:?}");
}

#[test]
fn what_the_engine_holds_already_is_not_loaded_again() {
    let mut simulation = Simulation::new(1);
    simulation.engines[0].holds.insert("a".into(), "1".into());
    simulation.set_desired(&["a=1"]);
    assert_eq!(texts(&simulation.run(MINUTE)), ["list"]);
    assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Loaded]);
    simulation.restart_controller();
    assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Unknown]);
    assert_eq!(texts(&simulation.run(MINUTE)), ["list"]);
    assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Loaded]);
}

/// Upstream, an adapter counted as loaded although the engine did not have it.
#[test]
fn an_engine_that_says_yes_and_does_nothing_is_not_believed() {
    let mut simulation = Simulation::new(1);
    simulation.engines[0].mode = Mode::Lying;
    simulation.set_desired(&["a=1"]);
    let log = simulation.run(MINUTE);
    assert!(loads(&log) >= 3 && loads(&log) < 10, "tried again, later each time: {log:?}");
    assert!(matches!(
        &simulation.adapter_states("a=1")[..],
        [AdapterState::Failing { problem: Problem::NotListed, .. }]
    ));
    simulation.engines[0].mode = Mode::Healthy;
    simulation.run(5 * MINUTE);
    assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Loaded]);
}

/// The runtime keeps what it has under a name, so another source has to be preceded by an unload.
#[test]
fn another_source_is_loaded_after_the_old_one_is_gone() {
    let mut simulation = Simulation::new(1);
    simulation.set_desired(&["a=1"]);
    simulation.run(MINUTE);
    simulation.set_desired(&["a=2"]);
    assert_eq!(simulation.adapter_states("a=2"), [AdapterState::Loading]);
    assert_eq!(texts(&simulation.run(MINUTE)), ["unload a", "list", "load a=2", "list"]);
    assert_eq!(simulation.engines[0].holds["a"], "2");
    assert_eq!(simulation.adapter_states("a=2"), [AdapterState::Loaded]);
}

#[test]
fn names_that_are_no_longer_expected_go_and_those_of_others_stay() {
    let mut simulation = Simulation::new(1);
    simulation.engines[0].holds.insert("by-hand".into(), "x".into());
    simulation.set_desired(&["a=1"]);
    simulation.run(MINUTE);
    swap_a_for(&mut simulation, &["b=1"]);
    assert_eq!(simulation.fleet.may_hold(&pool(), &"a".into()), ["w-0"]);
    // The engine lists another adapter, which might have been `b`.
    assert_eq!(texts(&simulation.run(MINUTE)), ["list", "unload a", "load b=1", "list"]);
    assert!(simulation.fleet.may_hold(&pool(), &"a".into()).is_empty());
    assert_eq!(simulation.engines[0].holds.keys().collect::<Vec<_>>(), ["b", "by-hand"]);
}

/// An engine that answered "not found" and still listed the adapter got requests at network speed.
#[test]
fn an_unload_that_is_answered_not_found_backs_off_while_the_adapter_is_listed() {
    let mut simulation = Simulation::new(1);
    simulation.set_desired(&["a=1"]);
    simulation.run(MINUTE);
    simulation.engines[0].mode = Mode::Denying;
    swap_a_for(&mut simulation, &["b=1"]);
    let log = simulation.run(Duration::from_secs(10));
    assert!((2..=14).contains(&log.len()), "{} requests: {:?}", log.len(), &log[..log.len().min(20)]);
    assert_eq!(simulation.adapter_states("b=1"), [AdapterState::Loaded], "other adapters are not held up");
    simulation.engines[0].mode = Mode::Healthy;
    simulation.run(5 * MINUTE);
    assert!(!simulation.engines[0].holds.contains_key("a"));
}

/// The engine continues the download after the load timed out (30 s). Its model was deleted meanwhile, and the adapter
/// stayed.
#[test]
fn a_load_that_was_given_up_and_ends_after_all_is_undone_if_it_is_no_longer_desired() {
    for withdrawn_after in [Duration::from_secs(10), Duration::from_millis(30_500)] {
        let mut simulation = Simulation::new(1);
        simulation.engines[0].mode = Mode::Slow(Duration::from_secs(45));
        simulation.set_desired(&["a=1"]);
        simulation.run(withdrawn_after);
        swap_a_for(&mut simulation, &[]);
        let log = simulation.run(Duration::from_secs(40) - withdrawn_after);
        assert!(!log.is_empty() && log.len() <= 6, "a request every two seconds: {log:?}");
        assert!(simulation.engines[0].holds.is_empty(), "still on its way");
        assert_eq!(simulation.fleet.may_hold(&pool(), &"a".into()), ["w-0"], "{withdrawn_after:?}");
        simulation.fleet.take_changed();
        let log = simulation.run(Duration::from_secs(10));
        assert_eq!(log.iter().filter(|(_, text)| text == "unload a").count(), 1, "{log:?}");
        assert!(simulation.engines[0].holds.is_empty() && log.len() <= 7, "{log:?}");
        assert!(simulation.fleet.may_hold(&pool(), &"a".into()).is_empty());
        assert!(simulation.fleet.take_changed().contains(&Key::new("n", "m")));
        assert!(simulation.run(20 * MINUTE).len() <= 5, "only audits");
    }
}

#[test]
fn a_load_that_was_given_up_and_never_ends_is_not_waited_for_for_ever() {
    let mut simulation = Simulation::new(1);
    simulation.engines[0].mode = Mode::Slow(10_000 * MINUTE);
    simulation.set_desired(&["a=1"]);
    simulation.run(Duration::from_millis(30_500));
    swap_a_for(&mut simulation, &[]);
    let log = simulation.run(4 * MINUTE);
    assert!(texts(&log).iter().all(|text| *text == "list") && log.len() <= 121, "{log:?}");
    assert_eq!(simulation.fleet.may_hold(&pool(), &"a".into()), ["w-0"]);
    simulation.fleet.take_changed();
    simulation.run(2 * MINUTE);
    assert!(simulation.fleet.may_hold(&pool(), &"a".into()).is_empty());
    assert!(simulation.fleet.take_changed().contains(&Key::new("n", "m")));
    assert!(simulation.run(20 * MINUTE).len() <= 5, "only audits");
}

#[test]
fn an_engine_that_restarts_gets_its_own_adapters_again_and_no_other_gets_a_request() {
    let mut simulation = Simulation::new(3);
    simulation.set_desired(&["a=1", "b=1"]);
    simulation.run(MINUTE);
    simulation.set_ready(1, false);
    simulation.engines[1].holds.clear();
    assert!(simulation.run(Duration::from_secs(10)).is_empty(), "a pod that is not ready gets no request");
    simulation.set_ready(1, true);
    let log = simulation.run(Duration::from_secs(10));
    assert!(log.iter().all(|(engine, _)| *engine == 1), "{log:?}");
    assert_eq!(texts(&log), ["list", "load a=1", "load b=1", "list"]);
    // A new pod under the same name.
    simulation.replace(2);
    let log = simulation.run(Duration::from_secs(10));
    assert!(log.iter().all(|(engine, _)| *engine == 2), "{log:?}");
    assert_eq!(texts(&log), ["list", "load a=1", "load b=1", "list"]);
}

#[test]
fn what_was_known_does_not_count_when_a_pod_becomes_ready_anew() {
    for lists in [true, false] {
        let mut simulation = Simulation::new(1);
        simulation.engines[0].lists = lists;
        simulation.set_desired(&["a=1"]);
        simulation.run(MINUTE);
        simulation.set_ready(0, false);
        simulation.engines[0].holds.clear();
        simulation.set_ready(0, true);
        assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Loading], "lists: {lists}");
        assert_eq!(loads(&simulation.run(MINUTE)), 1, "lists: {lists}");
        assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Loaded], "lists: {lists}");
    }
}

#[test]
fn a_restart_that_was_not_observed_is_found_by_the_audit() {
    let mut simulation = Simulation::new(1);
    simulation.set_desired(&["a=1"]);
    simulation.run(MINUTE);
    simulation.engines[0].holds.clear();
    let log = simulation.run(6 * MINUTE);
    assert_eq!(texts(&log)[..3], ["list", "load a=1", "list"]);
    assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Loaded]);
}

/// Upstream, one bad endpoint held up all others, and was tried at a fixed pace for ever.
#[test]
fn an_engine_in_trouble_is_tried_later_each_time_and_holds_up_no_other() {
    for mode in [Mode::Gone, Mode::Mute, Mode::Refusing] {
        let mut simulation = Simulation::new(20);
        simulation.engines[7].mode = mode;
        simulation.set_desired(&["a=1", "b=1"]);
        simulation.run(Duration::from_secs(1));
        let loaded = simulation.adapter_states("a=1").iter().filter(|state| **state == AdapterState::Loaded).count();
        assert_eq!(loaded, 19, "{mode:?}");
        let log = simulation.run(4 * MINUTE);
        let tried = log.iter().filter(|(engine, _)| *engine == 7).count();
        assert!((2..=24).contains(&tried), "{mode:?}: {tried}");
        assert!(matches!(simulation.adapter_states("a=1")[7], AdapterState::Failing { .. }), "{mode:?}");
        simulation.engines[7].mode = Mode::Healthy;
        simulation.run(11 * MINUTE);
        assert_eq!(simulation.adapter_states("b=1")[7], AdapterState::Loaded, "{mode:?}");
    }
}

#[test]
fn a_pod_that_becomes_ready_is_tried_at_once_whatever_went_wrong_before() {
    let mut simulation = Simulation::new(1);
    simulation.engines[0].mode = Mode::Gone;
    simulation.set_desired(&["a=1"]);
    simulation.run(20 * MINUTE);
    simulation.set_ready(0, false);
    simulation.engines[0].mode = Mode::Healthy;
    simulation.set_ready(0, true);
    simulation.run(Duration::from_secs(1));
    assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Loaded]);
}

#[test]
fn an_engine_that_is_lost_for_a_moment_keeps_what_it_holds() {
    let mut simulation = Simulation::new(1);
    simulation.set_desired(&["a=1"]);
    simulation.run(MINUTE);
    simulation.engines[0].mode = Mode::Gone;
    // Until the first audit has failed.
    while simulation.run(Duration::from_millis(100)).is_empty() {}
    simulation.run(Duration::from_millis(100));
    assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Loaded], "one failed audit says little");
    simulation.run(Duration::from_secs(10));
    assert!(matches!(&simulation.adapter_states("a=1")[..], [AdapterState::Failing { .. }]));
    simulation.engines[0].mode = Mode::Healthy;
    let log = simulation.run(5 * MINUTE);
    assert_eq!(loads(&log), 0, "it still has it: {log:?}");
    assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Loaded]);
}

#[test]
fn an_engine_without_a_list_is_taken_at_its_word() {
    let mut simulation = Simulation::new(1);
    simulation.engines[0].lists = false;
    simulation.set_desired(&["a=1"]);
    assert_eq!(texts(&simulation.run(MINUTE)), ["list", "load a=1"]);
    assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Loaded]);
    assert_eq!(loads(&simulation.run(20 * MINUTE)), 0, "no repetition");
    simulation.set_desired(&["a=2"]);
    assert_eq!(texts(&simulation.run(MINUTE))[..2], ["unload a", "load a=2"]);
    simulation.desired.unload.insert("old".into(), BTreeSet::new());
    simulation.sync();
    assert_eq!(texts(&simulation.run(Duration::from_secs(1))), ["unload old"]);
    assert!(simulation.fleet.may_hold(&pool(), &"old".into()).is_empty());
}

#[test]
fn a_worker_without_handlers_is_recognized() {
    let mut simulation = Simulation::new(1);
    simulation.engines[0].mode = Mode::Unmanaged;
    simulation.set_desired(&["a=1"]);
    simulation.run(MINUTE);
    assert_eq!(simulation.adapter_states("a=1"), [AdapterState::Unmanaged]);
}

#[test]
fn concurrency_is_bounded_over_all_engines_and_on_each() {
    let mut simulation = Simulation::new(200);
    let adapters: Vec<String> = (0..50).map(|adapter| format!("a{adapter}=1")).collect();
    simulation.set_desired(&adapters.iter().map(String::as_str).collect::<Vec<_>>());
    let log = simulation.run(Duration::from_secs(15));
    assert_eq!(loads(&log), 10_000);
    assert!(simulation.adapter_states("a49=1").iter().all(|state| *state == AdapterState::Loaded));
    let (all, one) = simulation.peaks;
    assert!(all <= 128 && one <= 2, "{all} at the same time, {one} on one engine");
    assert_eq!(simulation.elapsed(), Duration::from_secs(15));
}

#[test]
fn a_pool_without_desired_adapters_has_no_engines() {
    let mut simulation = Simulation::new(2);
    assert_eq!(simulation.fleet.engines(), 0);
    simulation.set_desired(&["a=1"]);
    simulation.run(MINUTE);
    assert_eq!(simulation.fleet.engines(), 2);
    simulation.set_desired(&[]);
    assert_eq!((simulation.fleet.engines(), simulation.fleet.pools().len()), (0, 0));
    assert!(simulation.run(20 * MINUTE).is_empty());
}

#[test]
fn only_models_concerned_are_enqueued() {
    let mut simulation = Simulation::new(1);
    simulation.set_desired(&["a=1", "b=2"]);
    let recorded = |simulation: &mut Simulation| -> Vec<String> {
        simulation.fleet.take_changed().into_iter().map(|key| key.name).collect()
    };
    assert_eq!(recorded(&mut simulation), ["1", "2"], "their desired adapters are new");
    simulation.run(MINUTE);
    assert_eq!(recorded(&mut simulation), ["1", "2"]);
    simulation.run(20 * MINUTE);
    assert!(recorded(&mut simulation).is_empty(), "audits without a finding wake no model");
    simulation.engines[0].holds.remove("b");
    simulation.run(6 * MINUTE);
    assert_eq!(recorded(&mut simulation), ["2"]);
    // A pod that was not ready for a moment turns out to hold what it held.
    simulation.set_ready(0, false);
    simulation.set_ready(0, true);
    simulation.run(Duration::from_secs(1));
    assert_eq!(recorded(&mut simulation), ["1", "2"]);
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Mode(usize, Mode),
    Forget(usize),
    Replace(usize),
    Ready(usize, bool),
    SetDesired(usize),
    RestartController,
}

const DESIRED_SETS: [&[&str]; 4] = [&["a=1", "b=1"], &["a=2", "c=1"], &["b=1"], &["a=1", "b=2", "c=1"]];

fn event() -> impl Strategy<Value = Event> {
    let mode =
        prop_oneof![Just(Mode::Healthy), Just(Mode::Refusing), Just(Mode::Lying), Just(Mode::Gone), Just(Mode::Mute),];
    prop_oneof![
        (0..3_usize, mode).prop_map(|(engine, mode)| Event::Mode(engine, mode)),
        (0..3_usize).prop_map(Event::Forget),
        (0..3_usize).prop_map(Event::Replace),
        (0..3_usize, any::<bool>()).prop_map(|(engine, ready)| Event::Ready(engine, ready)),
        (0..DESIRED_SETS.len()).prop_map(Event::SetDesired),
        Just(Event::RestartController),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever happened, once engines behave they come to hold what is desired, and then only audits are sent.
    #[test]
    fn everything_comes_right_in_the_end(
        events in prop::collection::vec((event(), 0..20_000_u64), 1..12),
        lists in prop::collection::vec(any::<bool>(), 3),
    ) {
        let mut simulation = Simulation::new(3);
        for (engine, lists) in simulation.engines.iter_mut().zip(lists) {
            engine.lists = lists;
        }
        simulation.set_desired(DESIRED_SETS[0]);
        let mut last = 0;
        for (event, pause) in events {
            match event {
                // Answers of an engine without a list are not verified, so a false answer or a silent loss is never
                // detected.
                Event::Mode(engine, Mode::Lying) if !simulation.engines[engine].lists => {}
                Event::Mode(engine, mode) => simulation.engines[engine].mode = mode,
                Event::Forget(engine) if simulation.engines[engine].lists => simulation.engines[engine].holds.clear(),
                Event::Forget(_) => {}
                Event::Replace(engine) => simulation.replace(engine),
                Event::Ready(engine, ready) => simulation.set_ready(engine, ready),
                Event::SetDesired(set) => {
                    last = set;
                    simulation.set_desired(DESIRED_SETS[set]);
                }
                Event::RestartController => simulation.restart_controller(),
            }
            simulation.run(Duration::from_millis(pause));
        }
        for engine in 0..3 {
            simulation.engines[engine].mode = Mode::Healthy;
            simulation.set_ready(engine, true);
        }
        simulation.run(Duration::from_secs(3600));
        for adapter in DESIRED_SETS[last] {
            let (name, _) = adapter.split_once('=').unwrap();
            prop_assert!(simulation.adapter_states(adapter).iter().all(|state| *state == AdapterState::Loaded), "{adapter}");
            prop_assert!(simulation.engines.iter().all(|engine| engine.holds.contains_key(name)), "{adapter}");
        }
        let log = simulation.run(Duration::from_secs(3600));
        prop_assert!(texts(&log).iter().all(|text| *text == "list"), "{log:?}");
    }
}
