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
struct Harness {
    observed: CertificateObserved,
    policy: Policy,
    now: Timestamp,
}

impl Harness {
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
        let mut harness = Self::new();
        harness.settle();
        harness
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
    let mut harness = Harness::new();
    assert_eq!(harness.settle(), ["there is no CA that can sign"]);
    harness.assert_steady();
    let pair = harness.plan().serve.unwrap();
    assert!(harness.policy.host.names().iter().all(|name| pair.is_for(name)));
    assert!(pair.is_for("webhook.system.svc.k8s.example"), "with the domain of the cluster");
    harness.pass(MINUTE);
    harness.assert_steady();
    assert_eq!(harness.authorities().len(), 1);
}

#[test]
fn nothing_is_called_trusted_before_every_place_is_known_and_set() {
    let mut harness = Harness::settled();
    harness.targets()[1].bundles[0].1.clear();
    assert!(!harness.plan().trusted);
    assert_eq!(harness.plan().inject.len(), 1, "only what differs");
    harness.observed.targets = None;
    assert!(!harness.plan().trusted && harness.plan().inject.is_empty());
    harness.observed.targets = Some(Vec::new());
    assert!(harness.plan().trusted, "the API server does not call yet");
}

#[test]
fn a_certificate_that_runs_out_is_replaced_by_the_same_ca() {
    let mut harness = Harness::settled();
    let (ca, first) = (harness.authorities(), harness.plan().serve.unwrap());
    harness.pass(SERVING_LIFETIME - RENEW_BEFORE - MINUTE);
    harness.assert_steady();
    harness.pass(2 * MINUTE);
    assert_eq!(harness.settle(), ["the certificate is to be replaced"]);
    harness.assert_steady();
    assert_eq!(harness.authorities(), ca);
    assert_ne!(harness.plan().serve.unwrap(), first);
}

/// Defect of ours: a target that cannot be set, for lack of a right to it, kept the certificate of all from being
/// renewed.
#[test]
fn a_certificate_that_runs_out_is_replaced_although_a_place_lacks_its_ca() {
    let mut harness = Harness::settled();
    harness.pass(SERVING_LIFETIME - RENEW_BEFORE + MINUTE);
    harness.targets()[1].bundles[0].1.clear();
    let plan = harness.plan();
    let why = plan.write.map(|write| write.why);
    assert_eq!((why, plan.inject.len()), (Some("the certificate is to be replaced"), 1));
}

/// Defect: the Go operator sets CAs at its start only, so a new CA breaks every call until it is started again.
#[test]
fn a_new_ca_is_spread_before_it_is_used_and_the_old_one_stays_for_a_day() {
    let mut harness = Harness::settled();
    let (old, first) = (harness.authorities(), harness.plan().serve.unwrap());
    harness.stored().ca_key.clear();
    assert_eq!(harness.settle(), ["there is no CA that can sign"]);
    assert_eq!(harness.authorities().len(), 2);
    assert_eq!(harness.authorities()[1], old[0]);
    let waiting = harness.plan();
    assert!(waiting.trusted && waiting.serve == Some(first.clone()), "the old one is served meanwhile");
    assert_eq!(waiting.again, PROPAGATION);

    // A target that is late holds everything up.
    harness.pass(PROPAGATION - Duration::from_secs(1));
    harness.targets()[0].bundles[1].1 = old[0].to_pem().into_bytes();
    harness.settle();
    harness.pass(PROPAGATION - Duration::from_secs(1));
    assert_eq!(harness.settle(), [""; 0]);
    harness.pass(Duration::from_secs(1));
    assert_eq!(harness.settle(), ["the certificate is to be replaced"]);
    let second = harness.plan().serve.unwrap();
    assert!(second.is_signed_by(&harness.authorities()[0]) && second != first);
    harness.assert_steady();

    harness.pass(OVERLAP - MINUTE);
    harness.assert_steady();
    harness.pass(2 * MINUTE);
    assert_eq!(harness.settle(), ["an old CA is not needed any more"]);
    assert_eq!(harness.authorities().len(), 1);
    harness.assert_steady();
    assert_eq!(harness.plan().serve, Some(second));
}

#[test]
fn a_ca_that_runs_out_is_replaced_while_the_old_one_is_valid() {
    let mut harness = Harness::settled();
    let old = harness.authorities()[0].clone();
    // Serving certificates are renewed on the way.
    while old.not_after.duration_since(harness.now) > jiff::SignedDuration::try_from(RENEW_BEFORE).unwrap() {
        harness.pass(SERVING_LIFETIME / 8);
        harness.settle();
        harness.pass(PROPAGATION);
        harness.settle();
        assert!(harness.plan().trusted);
    }
    assert_ne!(harness.authorities()[0], old);
    assert!(old.is_valid(harness.now));
}

#[test]
fn a_secret_that_was_deleted_comes_back_and_no_certificate_loses_trust() {
    let mut harness = Harness::settled();
    let served = harness.plan().serve;
    harness.observed.stored = None;
    let plan = harness.step();
    assert!(plan.trusted && plan.inject.is_empty());
    assert_eq!(harness.plan().serve, served);
    harness.settle();
    harness.pass(PROPAGATION);
    harness.settle();
    harness.assert_steady();
}

#[test]
fn garbage_is_repaired_part_by_part() {
    let garbage = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n\xff".to_vec();
    for part in 0..4 {
        for bytes in [Vec::new(), garbage.clone(), b"x".to_vec()] {
            let mut harness = Harness::settled();
            let served = harness.plan().serve;
            let stored = harness.stored();
            *[&mut stored.ca, &mut stored.ca_key, &mut stored.certificate, &mut stored.key][part] = bytes;
            let plan = harness.step();
            assert!(plan.write.is_some(), "part {part}");
            assert!(plan.trusted && plan.serve == served, "part {part}: what is remembered is still good");
            harness.settle();
            harness.pass(PROPAGATION);
            harness.settle();
            harness.assert_steady();
        }
    }
}

#[test]
fn garbage_that_a_new_process_finds_is_repaired() {
    for part in 0..4 {
        let mut harness = Harness::settled();
        harness.observed.remembered = None;
        let stored = harness.stored();
        *[&mut stored.ca, &mut stored.ca_key, &mut stored.certificate, &mut stored.key][part] = b"garbage".to_vec();
        harness.settle();
        harness.pass(PROPAGATION);
        harness.settle();
        harness.assert_steady();
    }
}

#[test]
fn a_certificate_for_another_service_is_replaced_at_once() {
    let mut harness = Harness::settled();
    harness.observed.remembered = None;
    harness.policy.host.service = "renamed".to_owned();
    assert_eq!(harness.settle(), ["there is no certificate that can be served"]);
    harness.assert_steady();
}

#[test]
fn a_clock_that_jumps_leaves_a_certificate_that_is_valid_now() {
    let year = SERVING_LIFETIME;
    for (jump, back) in [(2 * year, false), (20 * year, false), (2 * year, true), (20 * year, true)] {
        let mut harness = Harness::settled();
        assert!(harness.plan().again <= MINUTE, "a clock that is corrected raises no event");
        let jump = jiff::SignedDuration::try_from(jump).unwrap();
        harness.now = if back { harness.now - jump } else { harness.now + jump };
        harness.settle();
        harness.pass(PROPAGATION);
        harness.settle();
        harness.assert_steady();
        assert!(harness.plan().serve.unwrap().is_valid(harness.now), "{jump:?} back: {back}");
    }
}

#[test]
fn a_small_step_back_changes_nothing() {
    let mut harness = Harness::settled();
    harness.now -= jiff::SignedDuration::try_from(BACKDATE - MINUTE).unwrap();
    harness.assert_steady();
}

/// Whatever step a replica was killed after, another one that remembers nothing goes on.
#[test]
fn another_replica_takes_over_at_every_step_of_a_rotation() {
    let mut harness = Harness::settled();
    harness.stored().ca_key.clear();
    for _ in 0..4 {
        harness.observed.remembered = None;
        harness.observed.spread.clear();
        let plan = harness.step();
        assert!(plan.trusted, "{plan:?}");
        // The next one lives long enough to see that all targets are set, and for one step more.
        harness.step();
        harness.pass(PROPAGATION);
        harness.step();
    }
    assert!(harness.plan().serve.unwrap().is_signed_by(&harness.authorities()[0]));
}

/// A Secret that the Go operator or cert-manager made has a key with which we cannot sign.
#[test]
fn a_certificate_whose_ca_we_cannot_use_is_served_until_ours_is_known() {
    let mut harness = Harness::settled();
    let foreign = harness.plan().serve;
    harness.observed.remembered = None;
    harness.stored().ca_key = b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n".to_vec();
    let plan = harness.step();
    assert!(plan.trusted && plan.serve == foreign);
    harness.settle();
    assert_eq!(harness.plan().serve, foreign);
    harness.pass(PROPAGATION);
    harness.settle();
    assert_ne!(harness.plan().serve, foreign);
    harness.assert_steady();
}

/// A Secret with a CA and a certificate of its own, made long ago: a backup, or what another program wrote.
fn foreign(harness: &Harness) -> Contents {
    let mut other = Harness::new();
    other.now = harness.now - jiff::SignedDuration::from_hours(24 * 30);
    other.settle();
    other.observed.stored.unwrap()
}

/// Defect of ours: another valid CA and certificate in the Secret were served at once, before any API server trusted
/// them.
#[test]
fn a_secret_that_is_overwritten_by_another_valid_one_is_served_once_its_ca_is_known() {
    let mut harness = Harness::settled();
    harness.pass(OVERLAP);
    let (old, first) = (harness.authorities().remove(0), harness.plan().serve.unwrap());
    let restored = foreign(&harness);
    let new = Authority::read_all(&restored.ca).remove(0);
    let second = Pair::read(&restored.certificate, &restored.key).unwrap();
    harness.observed.stored = Some(restored.clone());

    let plan = harness.step();
    assert!(plan.trusted && plan.serve == Some(first.clone()), "the old one is served meanwhile");
    assert_eq!(Authority::read_all(&plan.bundle), [new.clone(), old.clone()], "both are trusted");
    assert_eq!(harness.authorities(), [new.clone(), old.clone()], "another replica sees what is still served");
    let stored = harness.stored().clone();
    assert!(stored.certificate == restored.certificate && stored.ca_key == restored.ca_key, "the rest stays as it is");
    assert_eq!(harness.settle(), [""; 0]);
    assert_eq!((harness.plan().serve, harness.plan().again), (Some(first.clone()), PROPAGATION));

    // A target that is late holds everything up.
    harness.pass(PROPAGATION - Duration::from_secs(1));
    harness.targets()[1].bundles[0].1 = old.to_pem().into_bytes();
    harness.settle();
    harness.pass(PROPAGATION - Duration::from_secs(1));
    assert_eq!((harness.settle(), harness.plan().serve), (vec![], Some(first)));
    harness.pass(Duration::from_secs(1));
    assert_eq!((harness.settle(), harness.plan().serve), (vec![], Some(second.clone())));
    harness.assert_steady();

    harness.pass(OVERLAP - MINUTE);
    harness.assert_steady();
    assert_eq!(harness.authorities().len(), 2, "made long ago, but in use since today only");
    harness.pass(2 * MINUTE);
    assert_eq!(harness.settle(), ["an old CA is not needed any more"]);
    assert_eq!((harness.authorities(), harness.plan().serve), (vec![new], Some(second)));
    harness.assert_steady();
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
        let mut harness = Harness::settled();
        harness.pass(OVERLAP);
        let (mut new, old) = (foreign(&harness), harness.stored().clone());
        edit(&mut new, &old);
        harness.observed.stored = Some(new);
        for _ in 0..12 {
            let plan = harness.step();
            assert!(plan.trusted && plan.serve.is_some(), "{what}: {:?}", plan.write);
            harness.pass(PROPAGATION / 4);
        }
        harness.settle();
        harness.assert_steady();
        let stored = harness.stored().clone();
        assert_eq!(harness.plan().serve, Pair::read(&stored.certificate, &stored.key), "{what}");
        harness.pass(OVERLAP + MINUTE);
        harness.settle();
        assert_eq!(harness.authorities().len(), 1, "{what}");
    }
}

/// A backup of everything brings the bundles back too: then the old certificate is the one that is not trusted.
#[test]
fn a_certificate_that_is_known_everywhere_is_served_at_once_if_the_old_one_is_not() {
    let mut harness = Harness::settled();
    let restored = foreign(&harness);
    for target in harness.targets() {
        for (_, bundle) in &mut target.bundles {
            bundle.clone_from(&restored.ca);
        }
    }
    let second = Pair::read(&restored.certificate, &restored.key);
    harness.observed.stored = Some(restored);
    let plan = harness.step();
    assert!(plan.trusted && plan.serve == second, "{plan:?}");
    harness.settle();
    harness.assert_steady();
}

#[test]
fn certificates_of_others_are_served_as_they_are_and_only_crds_get_their_ca() {
    let mut harness = Harness::settled();
    harness.policy.mode = CertProvisionMode::Manual;
    harness.policy.host.service = "whatever".to_owned();
    for target in harness.targets() {
        target.bundles[0].1.clear();
    }
    let plan = harness.step();
    let definitions: Vec<_> = plan.inject.iter().map(BundleTarget::is_definition).collect();
    assert_eq!((definitions, plan.trusted), (vec![true], false));
    assert!(harness.plan().trusted && harness.plan().write.is_none());
    harness.pass(20 * SERVING_LIFETIME);
    assert!(harness.plan().serve.is_some(), "not ours to judge");
    harness.observed.stored = None;
    assert_eq!((harness.plan().serve, harness.plan().write), (None, None));
}

#[test]
fn keys_are_never_shown() {
    let mut harness = Harness::settled();
    let bytes = |key: &[u8]| format!("{key:?}").trim_matches(['[', ']']).to_owned();
    let keys = [bytes(&harness.stored().key), bytes(&harness.stored().ca_key)];
    harness.stored().certificate.clear();
    let shown = format!("{:?} {:?}", harness.observed, harness.plan());
    assert!(keys.iter().all(|key| !shown.contains(key)));
}

#[test]
fn a_certificate_of_a_new_foreign_ca_waits_until_the_crds_have_that_ca() {
    let mut harness = Harness::settled();
    harness.policy.mode = CertProvisionMode::Manual;
    harness.settle();
    let (old, first) = (harness.authorities(), harness.plan().serve.unwrap());
    *harness.stored() = Harness::settled().stored().clone();
    let new = harness.authorities();
    let plan = harness.step();
    assert_eq!((plan.serve, plan.inject.len()), (None, 1), "the API server could not call us");
    assert_eq!(Authority::read_all(&plan.bundle), [new.clone(), old].concat());
    let plan = harness.step();
    assert_ne!(plan.serve.unwrap(), first);
    assert!(plan.inject.is_empty() && plan.again <= PROPAGATION, "other replicas may be late");
    (harness.observed.remembered, harness.observed.spread) = (None, Vec::new());
    assert!(harness.step().inject.is_empty(), "who has just started does not take away what others may serve");
    harness.pass(PROPAGATION);
    let plan = harness.plan();
    assert_eq!((Authority::read_all(&plan.bundle), plan.inject.len()), (new, 1));
    harness.observed.spread = plan.spread;
    assert_eq!(harness.step().inject.len(), 1, "the watch has not shown it yet");
    harness.assert_steady();
}

#[test]
fn what_another_client_wrote_is_served_at_once_where_nothing_good_is() {
    let mut harness = Harness::settled();
    harness.policy.mode = CertProvisionMode::Manual;
    harness.settle();
    *harness.stored() = Harness::settled().stored().clone();
    harness.pass(2 * SERVING_LIFETIME);
    let plan = harness.plan();
    assert!(plan.serve.is_some() && plan.inject.len() == 1, "what was served has expired");
    harness.observed.targets.as_mut().unwrap().retain(|target| !target.is_definition());
    harness.now = "2026-01-01T01:00:00Z".parse().unwrap();
    assert!(harness.plan().serve.is_some(), "no definition converts here");
}
