//! The loop that reconciles certificates and targets, and watches of the Secret and the objects with CA bundles.

use std::time::{Duration, Instant};

use api_types::{GROUP, labels};
use controller_kit::{
    context::Gate,
    settings::CertProvisionMode,
    store::{Packed, Scope, Store, WatchSource, watch_and_read, watch_api, watch_named},
};
use jiff::Timestamp;
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};
use kube::{Api, Client, Resource};
use tokio::time::sleep;
use tracing::{info, warn};

use super::{
    BundleTarget, Contents,
    apply::{Hand, WriteError},
    material::Pair,
    plan::{CertificateObserved, CertificatePlan, Policy, plan},
    targets::Definition,
};
use crate::{
    changes::{Changes, ticks},
    configurations::{CONVERTED, Host},
    serve::CurrentCertificate,
};

/// Pause after a failure.
const RETRY: Duration = Duration::from_secs(2);
/// Minimum time between two certificates of one replica, so that replicas with different clocks do not write without
/// end.
const BETWEEN_WRITES: Duration = Duration::from_secs(5);

/// Reconciles the serving certificate, the Secret and all CA bundles.
pub struct CertificateKeeper {
    policy: Policy,
    serving: CurrentCertificate,
    trusted: Gate,
    sight: Sight,
    changes: Changes,
    hand: Hand,
}

impl CertificateKeeper {
    /// `config_map`: where the CA bundle for CRDs is published, if their objects are converted here. `trusted` opens
    /// when the API server can call this server.
    #[must_use]
    pub fn new(
        client: Client,
        policy: Policy,
        secret_name: &str,
        config_map: Option<String>,
        serving: CurrentCertificate,
        trusted: Gate,
    ) -> Self {
        let (sight, changes) = Sight::new(&client, &policy, secret_name, config_map.is_some());
        let hand = Hand::new(client, policy.host.clone(), secret_name.to_owned(), config_map);
        Self { policy, serving, trusted, sight, changes, hand }
    }

    /// Never returns.
    pub async fn run(mut self) {
        self.changes.read_until(self.sight.secrets.wait_until_ready()).await;
        let (mut memory, mut served, mut last_write) = (CertificateObserved::default(), None, None);
        loop {
            let observed = self.observe(memory);
            let plan = plan(&observed, &self.policy, Timestamp::now());
            self.serve(&plan, &mut served);
            let pause = match self.act(&plan, &mut last_write).await {
                Ok(pause) => pause,
                Err(error) => {
                    warn!(%error, "failed to reconcile certificates; retrying");
                    RETRY
                }
            };
            memory = CertificateObserved {
                remembered: plan.remember,
                spread: plan.spread,
                ..CertificateObserved::default()
            };
            self.wait(pause.min(plan.again), observed.targets.is_some()).await;
        }
    }

    fn observe(&self, memory: CertificateObserved) -> CertificateObserved {
        let stored = self.sight.secret().map(|secret| Contents::of(&secret.data.unwrap_or_default()));
        CertificateObserved { stored, targets: self.sight.targets(&self.policy.host), ..memory }
    }

    fn serve(&self, plan: &CertificatePlan, served: &mut Option<Pair>) {
        if let Some(pair) = plan.serve.as_ref().filter(|pair| served.as_ref() != Some(*pair)) {
            info!(not_before = %pair.not_before, not_after = %pair.not_after, "serving a new certificate");
            self.serving.replace(pair.key.clone());
            *served = Some(pair.clone());
        }
        if plan.trusted && served.is_some() {
            // Never closed again: while a certificate is served, some clients may trust it.
            self.trusted.open();
        }
    }

    /// Applies the plan. Returns when to plan again at the latest.
    ///
    /// A target that cannot be written does not block the Secret: then one target lacks the CA, while a certificate
    /// that is not renewed would break all of them.
    async fn act(&mut self, plan: &CertificatePlan, last_write: &mut Option<Instant>) -> Result<Duration, WriteError> {
        let secret = self.sight.secret();
        let version = secret.as_ref().and_then(|secret| secret.metadata.resource_version.clone());
        let injected = self.hand.inject(plan, version.as_deref()).await;
        let Some(write) = &plan.write else { return injected.map(|()| Duration::MAX) };
        let left = last_write.map_or(Duration::ZERO, |last| BETWEEN_WRITES.saturating_sub(last.elapsed()));
        if !left.is_zero() {
            return injected.map(|()| left);
        }
        *last_write = Some(Instant::now());
        self.hand.store(write, secret, Timestamp::now()).await?;
        injected.map(|()| BETWEEN_WRITES)
    }

    /// Waits for a change, or until the plan may change with time.
    async fn wait(&mut self, pause: Duration, places_known: bool) {
        let Self { sight, changes, .. } = self;
        let other = async {
            tokio::select! {
                () = sight.places_known(), if !places_known => {}
                () = sleep(pause) => {}
            }
        };
        changes.next_or(other).await;
    }
}

/// Everything that certificates depend on, as of the last event of each watch.
struct Sight {
    /// The one Secret, if it is there.
    secrets: Store<Packed<Secret>>,
    /// None if others set their CA: then an install for one namespace has no right to read them.
    configurations: Option<(Store<ValidatingWebhookConfiguration>, Store<MutatingWebhookConfiguration>)>,
    definitions: Vec<Store<Definition>>,
}

impl Sight {
    /// Starts the watches.
    fn new(client: &Client, policy: &Policy, secret_name: &str, converts: bool) -> (Self, Changes) {
        let host = &policy.host;
        let client = || client.clone();
        let (secrets, secret_watch) =
            watch_named::<Secret>(&WatchSource::all(client(), &Scope::Namespace(host.namespace.clone())), secret_name);
        let mut changes = vec![ticks(secret_watch)];
        let configurations = (policy.mode == CertProvisionMode::Auto).then(|| {
            let ours =
                format!("{}={},{}={}", labels::PART_OF, labels::OPERATOR, labels::OPERATOR_NAMESPACE, host.namespace);
            let (validating, validating_watch) =
                watch_api::<ValidatingWebhookConfiguration>(Api::all(client()), Some(&ours), None);
            let (mutating, mutating_watch) =
                watch_api::<MutatingWebhookConfiguration>(Api::all(client()), Some(&ours), None);
            changes.extend([ticks(validating_watch), ticks(mutating_watch)]);
            (validating, mutating)
        });
        let mut definitions = Vec::new();
        for plural in CONVERTED.iter().filter(|_| converts) {
            let (store, watch) = watch_and_read::<Definition>(&client(), &format!("{plural}.{GROUP}"));
            definitions.push(store);
            changes.push(ticks(watch));
        }
        (Self { secrets, configurations, definitions }, Changes::of(changes))
    }

    /// Returns when all targets were listed.
    async fn places_known(&self) {
        if let Some((validating, mutating)) = &self.configurations {
            validating.wait_until_ready().await;
            mutating.wait_until_ready().await;
        }
        for definitions in &self.definitions {
            definitions.wait_until_ready().await;
        }
    }

    /// The Secret. One that cannot be parsed counts as empty.
    fn secret(&self) -> Option<Secret> {
        let packed = self.secrets.all().pop()?;
        let metadata = packed.metadata.clone();
        Some(packed.unpack().unwrap_or(Secret { metadata, ..Secret::default() }))
    }

    /// All targets with bundles for this server, if they were listed.
    fn targets(&self, host: &Host) -> Option<Vec<BundleTarget>> {
        let mut all = Vec::new();
        if let Some((validating, mutating)) = &self.configurations {
            all.extend(targets(validating, |object| BundleTarget::of_validating(object, host))?);
            all.extend(targets(mutating, |object| BundleTarget::of_mutating(object, host))?);
        }
        for definitions in &self.definitions {
            all.extend(targets(definitions, |object| BundleTarget::of_definition(object, host))?);
        }
        Some(all)
    }
}

/// The objects of a watch as targets, if it was listed.
fn targets<O: Resource>(store: &Store<O>, target: impl Fn(&O) -> BundleTarget) -> Option<Vec<BundleTarget>> {
    store.is_ready().then(|| store.all().iter().map(|object| target(object)).collect())
}
