//! Certificates over their whole life, with real ones and an invented clock.

use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhookConfiguration,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::core::ApiResource;

use super::*;
use crate::certificates::{BACKDATE, OVERLAP, PROPAGATION, RENEW_BEFORE, SERVING_LIFETIME, issue::carry_out};

const MINUTE: Duration = Duration::from_secs(60);

/// One replica, with the targets that it looks after.
struct World {
    observed: CertificateObserved,
    policy: Policy,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        let (service, namespace, domain) = ("webhook".to_owned(), "system".to_owned(), "k8s.example".to_owned());
        let host = Host { service, namespace, domain };
        let validating = ApiResource::erase::<ValidatingWebhookConfiguration>(&());
        let definition = ApiResource::erase::<CustomResourceDefinition>(&());
        let targets = [(validating, "a"), (definition, "b")].map(|(resource, name)| BundleTarget {
            resource,
            name: name.to_owned(),
            resource_version: "1".to_owned(),
            bundles: vec![("/x".to_owned(), Vec::new()), ("/y".to_owned(), Vec::new())],
        });
        Self {
            observed: CertificateObserved { targets: Some(targets.into()), ..CertificateObserved::default() },
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

    fn plan(&self) -> CertificatePlan {
        plan(&self.observed, &self.policy, self.now)
    }

    /// One plan, carried out.
    fn step(&mut self) -> CertificatePlan {
        let plan = self.plan();
        self.observed.remembered.clone_from(&plan.remember);
        self.observed.spread.clone_from(&plan.spread);
        for injected in &plan.inject {
            let target = self.targets().iter_mut().find(|target| target.name == injected.name).unwrap();
            for (pointer, bundle) in &mut target.bundles {
                if injected.bundles.iter().any(|(other, _)| other == pointer) {
                    bundle.clone_from(&plan.bundle);
                }
            }
        }
        if let Some(write) = &plan.write {
            self.observed.stored = Some(carry_out(write, &self.policy.host, self.now).unwrap());
        }
        plan
    }

    fn targets(&mut self) -> &mut Vec<BundleTarget> {
        self.observed.targets.as_mut().unwrap()
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
            let plan = self.step();
            done.extend(plan.write.as_ref().map(|write| write.why));
            if plan.write.is_none() && plan.inject.is_empty() {
                return done;
            }
        }
        panic!("there is no end to it: {done:?}");
    }

    fn assert_steady(&self) {
        let plan = self.plan();
        assert_eq!((&plan.write, plan.inject.len(), plan.trusted), (&None, 0, true));
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
    let pair = world.plan().serve.unwrap();
    assert!(world.policy.host.names().iter().all(|name| pair.is_for(name)));
    assert!(pair.is_for("webhook.system.svc.k8s.example"), "with the domain of the cluster");
    world.pass(MINUTE);
    world.assert_steady();
    assert_eq!(world.authorities().len(), 1);
}

#[test]
fn nothing_is_called_trusted_before_every_place_is_known_and_set() {
    let mut world = World::settled();
    world.targets()[1].bundles[0].1.clear();
    assert!(!world.plan().trusted);
    assert_eq!(world.plan().inject.len(), 1, "only what differs");
    world.observed.targets = None;
    assert!(!world.plan().trusted && world.plan().inject.is_empty());
    world.observed.targets = Some(Vec::new());
    assert!(world.plan().trusted, "the API server does not call yet");
}

#[test]
fn a_certificate_that_runs_out_is_replaced_by_the_same_ca() {
    let mut world = World::settled();
    let (ca, first) = (world.authorities(), world.plan().serve.unwrap());
    world.pass(SERVING_LIFETIME - RENEW_BEFORE - MINUTE);
    world.assert_steady();
    world.pass(2 * MINUTE);
    assert_eq!(world.settle(), ["the certificate is to be replaced"]);
    world.assert_steady();
    assert_eq!(world.authorities(), ca);
    assert_ne!(world.plan().serve.unwrap(), first);
}

/// Defect of ours: a target that cannot be set, for lack of a right to it, kept the certificate of all from being
/// renewed.
#[test]
fn a_certificate_that_runs_out_is_replaced_although_a_place_lacks_its_ca() {
    let mut world = World::settled();
    world.pass(SERVING_LIFETIME - RENEW_BEFORE + MINUTE);
    world.targets()[1].bundles[0].1.clear();
    let plan = world.plan();
    let why = plan.write.map(|write| write.why);
    assert_eq!((why, plan.inject.len()), (Some("the certificate is to be replaced"), 1));
}

/// Defect: the Go operator sets CAs at its start only, so a new CA breaks every call until it is started again.
#[test]
fn a_new_ca_is_spread_before_it_is_used_and_the_old_one_stays_for_a_day() {
    let mut world = World::settled();
    let (old, first) = (world.authorities(), world.plan().serve.unwrap());
    world.stored().ca_key.clear();
    assert_eq!(world.settle(), ["there is no CA that can sign"]);
    assert_eq!(world.authorities().len(), 2);
    assert_eq!(world.authorities()[1], old[0]);
    let waiting = world.plan();
    assert!(waiting.trusted && waiting.serve == Some(first.clone()), "the old one is served meanwhile");
    assert_eq!(waiting.again, PROPAGATION);

    // A target that is late holds everything up.
    world.pass(PROPAGATION - Duration::from_secs(1));
    world.targets()[0].bundles[1].1 = old[0].to_pem().into_bytes();
    world.settle();
    world.pass(PROPAGATION - Duration::from_secs(1));
    assert_eq!(world.settle(), [""; 0]);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.settle(), ["the certificate is to be replaced"]);
    let second = world.plan().serve.unwrap();
    assert!(second.is_signed_by(&world.authorities()[0]) && second != first);
    world.assert_steady();

    world.pass(OVERLAP - MINUTE);
    world.assert_steady();
    world.pass(2 * MINUTE);
    assert_eq!(world.settle(), ["an old CA is not needed any more"]);
    assert_eq!(world.authorities().len(), 1);
    world.assert_steady();
    assert_eq!(world.plan().serve, Some(second));
}

#[test]
fn a_ca_that_runs_out_is_replaced_while_the_old_one_is_valid() {
    let mut world = World::settled();
    let old = world.authorities()[0].clone();
    // Serving certificates are renewed on the way.
    while old.not_after.duration_since(world.now) > jiff::SignedDuration::try_from(RENEW_BEFORE).unwrap() {
        world.pass(SERVING_LIFETIME / 8);
        world.settle();
        world.pass(PROPAGATION);
        world.settle();
        assert!(world.plan().trusted);
    }
    assert_ne!(world.authorities()[0], old);
    assert!(old.is_valid(world.now));
}

#[test]
fn a_secret_that_was_deleted_comes_back_and_nobody_loses_trust() {
    let mut world = World::settled();
    let served = world.plan().serve;
    world.observed.stored = None;
    let plan = world.step();
    assert!(plan.trusted && plan.inject.is_empty());
    assert_eq!(world.plan().serve, served);
    world.settle();
    world.pass(PROPAGATION);
    world.settle();
    world.assert_steady();
}

#[test]
fn garbage_is_repaired_part_by_part() {
    let garbage = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n\xff".to_vec();
    for part in 0..4 {
        for bytes in [Vec::new(), garbage.clone(), b"x".to_vec()] {
            let mut world = World::settled();
            let served = world.plan().serve;
            let stored = world.stored();
            *[&mut stored.ca, &mut stored.ca_key, &mut stored.certificate, &mut stored.key][part] = bytes;
            let plan = world.step();
            assert!(plan.write.is_some(), "part {part}");
            assert!(plan.trusted && plan.serve == served, "part {part}: what is remembered is still good");
            world.settle();
            world.pass(PROPAGATION);
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
        world.pass(PROPAGATION);
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
        assert!(world.plan().again <= MINUTE, "a clock that is corrected raises no event");
        let jump = jiff::SignedDuration::try_from(jump).unwrap();
        world.now = if back { world.now - jump } else { world.now + jump };
        world.settle();
        world.pass(PROPAGATION);
        world.settle();
        world.assert_steady();
        assert!(world.plan().serve.unwrap().is_valid(world.now), "{jump:?} back: {back}");
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
        let plan = world.step();
        assert!(plan.trusted, "{plan:?}");
        // The next one lives long enough to see that all targets are set, and for one step more.
        world.step();
        world.pass(PROPAGATION);
        world.step();
    }
    assert!(world.plan().serve.unwrap().is_signed_by(&world.authorities()[0]));
}

/// A Secret that the Go operator or cert-manager made has a key with which we cannot sign.
#[test]
fn a_certificate_whose_ca_we_cannot_use_is_served_until_ours_is_known() {
    let mut world = World::settled();
    let foreign = world.plan().serve;
    world.observed.remembered = None;
    world.stored().ca_key = b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n".to_vec();
    let plan = world.step();
    assert!(plan.trusted && plan.serve == foreign);
    world.settle();
    assert_eq!(world.plan().serve, foreign);
    world.pass(PROPAGATION);
    world.settle();
    assert_ne!(world.plan().serve, foreign);
    world.assert_steady();
}

/// A Secret with a CA and a certificate of its own, made long ago: a backup, or what another program wrote.
fn foreign(world: &World) -> Contents {
    let mut other = World::new();
    other.now = world.now - jiff::SignedDuration::from_hours(24 * 30);
    other.settle();
    other.observed.stored.unwrap()
}

/// Defect of ours: another valid CA and certificate in the Secret were served at once, before any API server trusted
/// them.
#[test]
fn a_secret_that_is_overwritten_by_another_valid_one_is_served_once_its_ca_is_known() {
    let mut world = World::settled();
    world.pass(OVERLAP);
    let (old, first) = (world.authorities().remove(0), world.plan().serve.unwrap());
    let restored = foreign(&world);
    let new = Authority::read_all(&restored.ca).remove(0);
    let second = Pair::read(&restored.certificate, &restored.key).unwrap();
    world.observed.stored = Some(restored.clone());

    let plan = world.step();
    assert!(plan.trusted && plan.serve == Some(first.clone()), "the old one is served meanwhile");
    assert_eq!(Authority::read_all(&plan.bundle), [new.clone(), old.clone()], "both are trusted");
    assert_eq!(world.authorities(), [new.clone(), old.clone()], "another replica sees what is still served");
    let stored = world.stored().clone();
    assert!(stored.certificate == restored.certificate && stored.ca_key == restored.ca_key, "the rest stays as it is");
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!((world.plan().serve, world.plan().again), (Some(first.clone()), PROPAGATION));

    // A target that is late holds everything up.
    world.pass(PROPAGATION - Duration::from_secs(1));
    world.targets()[1].bundles[0].1 = old.to_pem().into_bytes();
    world.settle();
    world.pass(PROPAGATION - Duration::from_secs(1));
    assert_eq!((world.settle(), world.plan().serve), (vec![], Some(first)));
    world.pass(Duration::from_secs(1));
    assert_eq!((world.settle(), world.plan().serve), (vec![], Some(second.clone())));
    world.assert_steady();

    world.pass(OVERLAP - MINUTE);
    world.assert_steady();
    assert_eq!(world.authorities().len(), 2, "made long ago, but in use since today only");
    world.pass(2 * MINUTE);
    assert_eq!(world.settle(), ["an old CA is not needed any more"]);
    assert_eq!((world.authorities(), world.plan().serve), (vec![new], Some(second)));
    world.assert_steady();
}

/// Whatever is foreign in the Secret, what is served is trusted at every step, and in the end it is what the Secret
/// holds.
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
            let plan = world.step();
            assert!(plan.trusted && plan.serve.is_some(), "{what}: {:?}", plan.write);
            world.pass(PROPAGATION / 4);
        }
        world.settle();
        world.assert_steady();
        let stored = world.stored().clone();
        assert_eq!(world.plan().serve, Pair::read(&stored.certificate, &stored.key), "{what}");
        world.pass(OVERLAP + MINUTE);
        world.settle();
        assert_eq!(world.authorities().len(), 1, "{what}");
    }
}

/// A backup of everything brings the bundles back too: then the old certificate is the one that is not trusted.
#[test]
fn a_certificate_that_is_known_everywhere_is_served_at_once_if_the_old_one_is_not() {
    let mut world = World::settled();
    let restored = foreign(&world);
    for target in world.targets() {
        for (_, bundle) in &mut target.bundles {
            bundle.clone_from(&restored.ca);
        }
    }
    let second = Pair::read(&restored.certificate, &restored.key);
    world.observed.stored = Some(restored);
    let plan = world.step();
    assert!(plan.trusted && plan.serve == second, "{plan:?}");
    world.settle();
    world.assert_steady();
}

#[test]
fn certificates_of_others_are_served_as_they_are_and_only_crds_get_their_ca() {
    let mut world = World::settled();
    world.policy.mode = CertProvisionMode::Manual;
    world.policy.host.service = "whatever".to_owned();
    for target in world.targets() {
        target.bundles[0].1.clear();
    }
    let plan = world.step();
    let definitions: Vec<_> = plan.inject.iter().map(BundleTarget::is_definition).collect();
    assert_eq!((definitions, plan.trusted), (vec![true], false));
    assert!(world.plan().trusted && world.plan().write.is_none());
    world.pass(20 * SERVING_LIFETIME);
    assert!(world.plan().serve.is_some(), "not ours to judge");
    world.observed.stored = None;
    assert_eq!((world.plan().serve, world.plan().write), (None, None));
}

#[test]
fn keys_are_never_shown() {
    let mut world = World::settled();
    let bytes = |key: &[u8]| format!("{key:?}").trim_matches(['[', ']']).to_owned();
    let keys = [bytes(&world.stored().key), bytes(&world.stored().ca_key)];
    world.stored().certificate.clear();
    let shown = format!("{:?} {:?}", world.observed, world.plan());
    assert!(keys.iter().all(|key| !shown.contains(key)));
}

#[test]
fn a_certificate_of_somebody_else_s_new_ca_waits_until_the_crds_have_that_ca() {
    let mut world = World::settled();
    world.policy.mode = CertProvisionMode::Manual;
    world.settle();
    let (old, first) = (world.authorities(), world.plan().serve.unwrap());
    *world.stored() = World::settled().stored().clone();
    let new = world.authorities();
    let plan = world.step();
    assert_eq!((plan.serve, plan.inject.len()), (None, 1), "the API server could not call us");
    assert_eq!(Authority::read_all(&plan.bundle), [new.clone(), old].concat());
    let plan = world.step();
    assert_ne!(plan.serve.unwrap(), first);
    assert!(plan.inject.is_empty() && plan.again <= PROPAGATION, "other replicas may be late");
    (world.observed.remembered, world.observed.spread) = (None, Vec::new());
    assert!(world.step().inject.is_empty(), "who has just started does not take away what others may serve");
    world.pass(PROPAGATION);
    let plan = world.plan();
    assert_eq!((Authority::read_all(&plan.bundle), plan.inject.len()), (new, 1));
    world.observed.spread = plan.spread;
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
    let plan = world.plan();
    assert!(plan.serve.is_some() && plan.inject.len() == 1, "what was served has expired");
    world.observed.targets.as_mut().unwrap().retain(|target| !target.is_definition());
    world.now = "2026-01-01T01:00:00Z".parse().unwrap();
    assert!(world.plan().serve.is_some(), "no definition converts here");
}
