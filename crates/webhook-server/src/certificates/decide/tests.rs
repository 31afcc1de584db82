//! Certificates over their whole life, with real ones and an invented clock.

use super::*;
use crate::certificates::{BACKDATE, OVERLAP, PlaceKind, RENEW_BEFORE, SERVING_LIFETIME, SETTLE, issue::carry_out};

const MINUTE: Duration = Duration::from_secs(60);

/// One replica, with the places that it looks after.
struct World {
    observed: Observed,
    policy: Policy,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        let (service, namespace, domain) = ("webhook".to_owned(), "system".to_owned(), "k8s.example".to_owned());
        let host = Host { service, namespace, domain };
        let places = [(PlaceKind::Validating, "a"), (PlaceKind::Definition, "b")].map(|(kind, name)| Place {
            kind,
            name: name.to_owned(),
            resource_version: "1".to_owned(),
            bundles: vec![("/x".to_owned(), Vec::new()), ("/y".to_owned(), Vec::new())],
        });
        Self {
            observed: Observed { places: Some(places.into()), ..Observed::default() },
            policy: Policy { mode: CertProvisionMode::Auto, host },
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    /// An install that has settled.
    fn settled() -> Self {
        let mut world = Self::new();
        world.settle();
        world
    }

    fn decide(&self) -> Decision {
        decide(&self.observed, &self.policy, self.now)
    }

    /// One decision, carried out.
    fn step(&mut self) -> Decision {
        let decision = self.decide();
        self.observed.remembered.clone_from(&decision.remember);
        self.observed.spread.clone_from(&decision.spread);
        for injected in &decision.inject {
            let place = self.places().iter_mut().find(|place| place.name == injected.name).unwrap();
            for (pointer, bundle) in &mut place.bundles {
                if injected.bundles.iter().any(|(other, _)| other == pointer) {
                    bundle.clone_from(&decision.bundle);
                }
            }
        }
        if let Some(write) = &decision.write {
            self.observed.stored = Some(carry_out(write, &self.policy.host, self.now).unwrap());
        }
        decision
    }

    fn places(&mut self) -> &mut Vec<Place> {
        self.observed.places.as_mut().unwrap()
    }

    fn stored(&mut self) -> &mut Contents {
        self.observed.stored.as_mut().unwrap()
    }

    fn authorities(&self) -> Vec<Authority> {
        Authority::read_all(&self.observed.stored.as_ref().unwrap().ca)
    }

    /// Steps until nothing is left to do now. Whatever is served on the way is trusted, once anything was.
    fn settle(&mut self) -> Vec<&'static str> {
        let mut done = Vec::new();
        for _ in 0..10 {
            let decision = self.step();
            done.extend(decision.write.as_ref().map(|write| write.why));
            if decision.write.is_none() && decision.inject.is_empty() {
                return done;
            }
        }
        panic!("there is no end to it: {done:?}");
    }

    fn assert_steady(&self) {
        let decision = self.decide();
        assert_eq!((&decision.write, decision.inject.len(), decision.trusted), (&None, 0, true));
    }

    fn pass(&mut self, time: Duration) {
        self.now += jiff::SignedDuration::try_from(time).unwrap();
    }
}

#[test]
fn a_new_install_has_a_certificate_in_one_step_and_then_nothing_to_do() {
    let mut world = World::new();
    assert_eq!(world.settle(), ["there is no CA that can sign"]);
    world.assert_steady();
    let pair = world.decide().serve.unwrap();
    assert!(world.policy.host.names().iter().all(|name| pair.is_for(name)));
    assert!(pair.is_for("webhook.system.svc.k8s.example"), "with the domain of the cluster");
    world.pass(MINUTE);
    world.assert_steady();
    assert_eq!(world.authorities().len(), 1);
}

#[test]
fn nothing_is_called_trusted_before_every_place_is_known_and_set() {
    let mut world = World::settled();
    world.places()[1].bundles[0].1.clear();
    assert!(!world.decide().trusted);
    assert_eq!(world.decide().inject.len(), 1, "only what differs");
    world.observed.places = None;
    assert!(!world.decide().trusted && world.decide().inject.is_empty());
    world.observed.places = Some(Vec::new());
    assert!(world.decide().trusted, "nobody calls us yet");
}

#[test]
fn a_certificate_that_runs_out_is_replaced_by_the_same_ca() {
    let mut world = World::settled();
    let (ca, first) = (world.authorities(), world.decide().serve.unwrap());
    world.pass(SERVING_LIFETIME - RENEW_BEFORE - MINUTE);
    world.assert_steady();
    world.pass(2 * MINUTE);
    assert_eq!(world.settle(), ["the certificate is to be replaced"]);
    world.assert_steady();
    assert_eq!(world.authorities(), ca);
    assert_ne!(world.decide().serve.unwrap(), first);
}

/// Defect of ours: a place that cannot be set, for want of a right to it, kept the certificate of all from being renewed.
#[test]
fn a_certificate_that_runs_out_is_replaced_although_a_place_lacks_its_ca() {
    let mut world = World::settled();
    world.pass(SERVING_LIFETIME - RENEW_BEFORE + MINUTE);
    world.places()[1].bundles[0].1.clear();
    let decision = world.decide();
    let why = decision.write.map(|write| write.why);
    assert_eq!((why, decision.inject.len()), (Some("the certificate is to be replaced"), 1));
}

/// Defect: the Go operator sets CAs at its start only, so a new CA breaks every call until it is started again.
#[test]
fn a_new_ca_is_spread_before_it_is_used_and_the_old_one_stays_for_a_day() {
    let mut world = World::settled();
    let (old, first) = (world.authorities(), world.decide().serve.unwrap());
    world.stored().ca_key.clear();
    assert_eq!(world.settle(), ["there is no CA that can sign"]);
    assert_eq!(world.authorities().len(), 2);
    assert_eq!(world.authorities()[1], old[0]);
    let waiting = world.decide();
    assert!(waiting.trusted && waiting.serve == Some(first.clone()), "the old one is served meanwhile");
    assert_eq!(waiting.again, SETTLE);

    // A place that is late holds everything up.
    world.pass(SETTLE - Duration::from_secs(1));
    world.places()[0].bundles[1].1 = old[0].to_pem().into_bytes();
    world.settle();
    world.pass(SETTLE - Duration::from_secs(1));
    assert_eq!(world.settle(), [""; 0]);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.settle(), ["the certificate is to be replaced"]);
    let second = world.decide().serve.unwrap();
    assert!(second.is_signed_by(&world.authorities()[0]) && second != first);
    world.assert_steady();

    world.pass(OVERLAP - MINUTE);
    world.assert_steady();
    world.pass(2 * MINUTE);
    assert_eq!(world.settle(), ["an old CA is not needed any more"]);
    assert_eq!(world.authorities().len(), 1);
    world.assert_steady();
    assert_eq!(world.decide().serve, Some(second));
}

#[test]
fn a_ca_that_runs_out_is_replaced_while_the_old_one_is_valid() {
    let mut world = World::settled();
    let old = world.authorities()[0].clone();
    // Serving certificates are renewed on the way.
    while old.not_after.duration_since(world.now) > jiff::SignedDuration::try_from(RENEW_BEFORE).unwrap() {
        world.pass(SERVING_LIFETIME / 8);
        world.settle();
        world.pass(SETTLE);
        world.settle();
        assert!(world.decide().trusted);
    }
    assert_ne!(world.authorities()[0], old);
    assert!(old.is_valid(world.now));
}

#[test]
fn a_secret_that_was_deleted_comes_back_and_nobody_loses_trust() {
    let mut world = World::settled();
    let served = world.decide().serve;
    world.observed.stored = None;
    let decision = world.step();
    assert!(decision.trusted && decision.inject.is_empty());
    assert_eq!(world.decide().serve, served);
    world.settle();
    world.pass(SETTLE);
    world.settle();
    world.assert_steady();
}

#[test]
fn garbage_is_repaired_part_by_part() {
    let garbage = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n\xff".to_vec();
    for part in 0..4 {
        for bytes in [Vec::new(), garbage.clone(), b"x".to_vec()] {
            let mut world = World::settled();
            let served = world.decide().serve;
            let stored = world.stored();
            *[&mut stored.ca, &mut stored.ca_key, &mut stored.certificate, &mut stored.key][part] = bytes;
            let decision = world.step();
            assert!(decision.write.is_some(), "part {part}");
            assert!(decision.trusted && decision.serve == served, "part {part}: what is remembered is still good");
            world.settle();
            world.pass(SETTLE);
            world.settle();
            world.assert_steady();
        }
    }
}

#[test]
fn garbage_that_a_new_process_finds_is_repaired() {
    for part in 0..4 {
        let mut world = World::settled();
        world.observed.remembered = None;
        let stored = world.stored();
        *[&mut stored.ca, &mut stored.ca_key, &mut stored.certificate, &mut stored.key][part] = b"garbage".to_vec();
        world.settle();
        world.pass(SETTLE);
        world.settle();
        world.assert_steady();
    }
}

#[test]
fn a_certificate_for_another_service_is_replaced_at_once() {
    let mut world = World::settled();
    world.observed.remembered = None;
    world.policy.host.service = "renamed".to_owned();
    assert_eq!(world.settle(), ["there is no certificate that can be served"]);
    world.assert_steady();
}

#[test]
fn a_clock_that_jumps_leaves_a_certificate_that_is_valid_now() {
    let year = SERVING_LIFETIME;
    for (jump, back) in [(2 * year, false), (20 * year, false), (2 * year, true), (20 * year, true)] {
        let mut world = World::settled();
        assert!(world.decide().again <= MINUTE, "a clock that is put right tells nobody");
        let jump = jiff::SignedDuration::try_from(jump).unwrap();
        world.now = if back { world.now - jump } else { world.now + jump };
        world.settle();
        world.pass(SETTLE);
        world.settle();
        world.assert_steady();
        assert!(world.decide().serve.unwrap().is_valid(world.now), "{jump:?} back: {back}");
    }
}

#[test]
fn a_small_step_back_changes_nothing() {
    let mut world = World::settled();
    world.now -= jiff::SignedDuration::try_from(BACKDATE - MINUTE).unwrap();
    world.assert_steady();
}

/// Whatever step a replica was killed after, another one that remembers nothing goes on.
#[test]
fn another_replica_takes_over_at_every_step_of_a_rotation() {
    let mut world = World::settled();
    world.stored().ca_key.clear();
    for _ in 0..4 {
        world.observed.remembered = None;
        world.observed.spread.clear();
        let decision = world.step();
        assert!(decision.trusted, "{decision:?}");
        // The next one lives long enough to see that all places are set, and for one step more.
        world.step();
        world.pass(SETTLE);
        world.step();
    }
    assert!(world.decide().serve.unwrap().is_signed_by(&world.authorities()[0]));
}

/// A Secret that the Go operator or cert-manager made has a key with which we cannot sign.
#[test]
fn a_certificate_whose_ca_we_cannot_use_is_served_until_ours_is_known() {
    let mut world = World::settled();
    let foreign = world.decide().serve;
    world.observed.remembered = None;
    world.stored().ca_key = b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n".to_vec();
    let decision = world.step();
    assert!(decision.trusted && decision.serve == foreign);
    world.settle();
    assert_eq!(world.decide().serve, foreign);
    world.pass(SETTLE);
    world.settle();
    assert_ne!(world.decide().serve, foreign);
    world.assert_steady();
}

/// A Secret with a CA and a certificate of its own, made long ago: a backup, or what another program wrote.
fn foreign(world: &World) -> Contents {
    let mut other = World::new();
    other.now = world.now - jiff::SignedDuration::from_hours(24 * 30);
    other.settle();
    other.observed.stored.unwrap()
}

/// Defect of ours: another valid CA and certificate in the Secret were served at once, before any API server trusted them.
#[test]
fn a_secret_that_is_overwritten_by_another_valid_one_is_served_once_its_ca_is_known() {
    let mut world = World::settled();
    world.pass(OVERLAP);
    let (old, first) = (world.authorities().remove(0), world.decide().serve.unwrap());
    let restored = foreign(&world);
    let new = Authority::read_all(&restored.ca).remove(0);
    let second = Pair::read(&restored.certificate, &restored.key).unwrap();
    world.observed.stored = Some(restored.clone());

    let decision = world.step();
    assert!(decision.trusted && decision.serve == Some(first.clone()), "the old one is served meanwhile");
    assert_eq!(Authority::read_all(&decision.bundle), [new.clone(), old.clone()], "both are trusted");
    assert_eq!(world.authorities(), [new.clone(), old.clone()], "another replica sees what is still served");
    let stored = world.stored().clone();
    assert!(stored.certificate == restored.certificate && stored.ca_key == restored.ca_key, "the rest stays as it is");
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!((world.decide().serve, world.decide().again), (Some(first.clone()), SETTLE));

    // A place that is late holds everything up.
    world.pass(SETTLE - Duration::from_secs(1));
    world.places()[1].bundles[0].1 = old.to_pem().into_bytes();
    world.settle();
    world.pass(SETTLE - Duration::from_secs(1));
    assert_eq!((world.settle(), world.decide().serve), (vec![], Some(first)));
    world.pass(Duration::from_secs(1));
    assert_eq!((world.settle(), world.decide().serve), (vec![], Some(second.clone())));
    world.assert_steady();

    world.pass(OVERLAP - MINUTE);
    world.assert_steady();
    assert_eq!(world.authorities().len(), 2, "made long ago, but in use since today only");
    world.pass(2 * MINUTE);
    assert_eq!(world.settle(), ["an old CA is not needed any more"]);
    assert_eq!((world.authorities(), world.decide().serve), (vec![new], Some(second)));
    world.assert_steady();
}

/// Whatever is foreign in the Secret, what is served is trusted at every step, and in the end it is what the Secret holds.
#[test]
fn no_part_of_a_foreign_secret_costs_trust() {
    type Edit = fn(&mut Contents, &Contents);
    let table: [(&str, Edit); 6] = [
        ("all of it", |_, _| {}),
        ("no key of the CA", |new, _| new.ca_key.clear()),
        ("no certificate", |new, _| new.certificate.clear()),
        ("a certificate without its key", |new, old| new.key.clone_from(&old.key)),
        ("no CA", |new, _| new.ca.clear()),
        ("the old certificate", |new, old| {
            (new.certificate, new.key) = (old.certificate.clone(), old.key.clone());
        }),
    ];
    for (what, edit) in table {
        let mut world = World::settled();
        world.pass(OVERLAP);
        let (mut new, old) = (foreign(&world), world.stored().clone());
        edit(&mut new, &old);
        world.observed.stored = Some(new);
        for _ in 0..12 {
            let decision = world.step();
            assert!(decision.trusted && decision.serve.is_some(), "{what}: {:?}", decision.write);
            world.pass(SETTLE / 4);
        }
        world.settle();
        world.assert_steady();
        let stored = world.stored().clone();
        assert_eq!(world.decide().serve, Pair::read(&stored.certificate, &stored.key), "{what}");
        world.pass(OVERLAP + MINUTE);
        world.settle();
        assert_eq!(world.authorities().len(), 1, "{what}");
    }
}

/// A backup of everything brings the bundles back too: then the old certificate is the one that nobody trusts.
#[test]
fn a_certificate_that_is_known_everywhere_is_served_at_once_if_the_old_one_is_not() {
    let mut world = World::settled();
    let restored = foreign(&world);
    for place in world.places() {
        for (_, bundle) in &mut place.bundles {
            bundle.clone_from(&restored.ca);
        }
    }
    let second = Pair::read(&restored.certificate, &restored.key);
    world.observed.stored = Some(restored);
    let decision = world.step();
    assert!(decision.trusted && decision.serve == second, "{decision:?}");
    world.settle();
    world.assert_steady();
}

#[test]
fn certificates_of_others_are_served_as_they_are_and_only_crds_get_their_ca() {
    let mut world = World::settled();
    world.policy.mode = CertProvisionMode::Manual;
    world.policy.host.service = "whatever".to_owned();
    for place in world.places() {
        place.bundles[0].1.clear();
    }
    let decision = world.step();
    let kinds: Vec<_> = decision.inject.iter().map(|place| place.kind).collect();
    assert_eq!((kinds, decision.trusted), (vec![PlaceKind::Definition], false));
    assert!(world.decide().trusted && world.decide().write.is_none());
    world.pass(20 * SERVING_LIFETIME);
    assert!(world.decide().serve.is_some(), "not ours to judge");
    world.observed.stored = None;
    assert_eq!((world.decide().serve, world.decide().write), (None, None));
}

#[test]
fn keys_are_never_shown() {
    let mut world = World::settled();
    let bytes = |key: &[u8]| format!("{key:?}").trim_matches(['[', ']']).to_owned();
    let keys = [bytes(&world.stored().key), bytes(&world.stored().ca_key)];
    world.stored().certificate.clear();
    let shown = format!("{:?} {:?}", world.observed, world.decide());
    assert!(keys.iter().all(|key| !shown.contains(key)));
}

#[test]
fn a_certificate_of_somebody_else_s_new_ca_waits_until_the_crds_have_that_ca() {
    let mut world = World::settled();
    world.policy.mode = CertProvisionMode::Manual;
    world.settle();
    let (old, first) = (world.authorities(), world.decide().serve.unwrap());
    *world.stored() = World::settled().stored().clone();
    let new = world.authorities();
    let decision = world.step();
    assert_eq!((decision.serve, decision.inject.len()), (None, 1), "the API server could not call us");
    assert_eq!(Authority::read_all(&decision.bundle), [new.clone(), old].concat());
    let decision = world.step();
    assert_ne!(decision.serve.unwrap(), first);
    assert!(decision.inject.is_empty() && decision.again <= SETTLE, "other replicas may be late");
    (world.observed.remembered, world.observed.spread) = (None, Vec::new());
    assert!(world.step().inject.is_empty(), "who has just started does not take away what others may serve");
    world.pass(SETTLE);
    let decision = world.decide();
    assert_eq!((Authority::read_all(&decision.bundle), decision.inject.len()), (new, 1));
    world.observed.spread = decision.spread;
    assert_eq!(world.step().inject.len(), 1, "the watch has not shown it yet");
    world.assert_steady();
}

#[test]
fn what_somebody_else_wrote_is_served_at_once_where_nothing_good_is() {
    let mut world = World::settled();
    world.policy.mode = CertProvisionMode::Manual;
    world.settle();
    *world.stored() = World::settled().stored().clone();
    world.pass(2 * SERVING_LIFETIME);
    let decision = world.decide();
    assert!(decision.serve.is_some() && decision.inject.len() == 1, "what was served has expired");
    world.observed.places.as_mut().unwrap().retain(|place| place.kind != PlaceKind::Definition);
    world.now = "2026-01-01T01:00:00Z".parse().unwrap();
    assert!(world.decide().serve.is_some(), "nobody converts by us");
}
