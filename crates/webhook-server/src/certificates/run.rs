//! The loop that keeps certificates and places true.

use std::time::{Duration, Instant};

use controller_kit::context::Gate;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use tokio::time::sleep;
use tracing::{info, warn};

use super::{
    Contents,
    apply::{ActError, Hand},
    decide::{Decision, Observed, Policy, decide},
    material::Pair,
    observe::Sight,
};
use crate::{changes::Changes, serve::Serving};

/// After something failed.
const RETRY: Duration = Duration::from_secs(2);
/// The least time between two certificates of one replica, so that replicas whose clocks contradict each other do not write
/// without end.
const BETWEEN_WRITES: Duration = Duration::from_secs(5);

/// Keeps the serving certificate, the Secret and all CA bundles true, for as long as the process lives.
pub struct Keeper {
    policy: Policy,
    serving: Serving,
    trusted: Gate,
    sight: Sight,
    changes: Changes,
    hand: Hand,
}

impl Keeper {
    /// `config_map`: where the CA bundle for CRDs is published, if their objects are converted here. `trusted` opens when
    /// the API server can call us.
    #[must_use]
    pub fn new(
        client: Client,
        policy: Policy,
        secret_name: &str,
        config_map: Option<String>,
        serving: Serving,
        trusted: Gate,
    ) -> Self {
        let (sight, changes) = Sight::new(&client, &policy, secret_name, config_map.is_some());
        let hand = Hand::new(client, policy.host.clone(), secret_name.to_owned(), config_map);
        Self { policy, serving, trusted, sight, changes, hand }
    }

    /// Never returns.
    pub async fn run(mut self) {
        self.changes.read_until(self.sight.secret_known()).await;
        let (mut memory, mut served, mut last_write) = (Observed::default(), None, None);
        loop {
            let observed = self.observe(memory);
            let decision = decide(&observed, &self.policy, Timestamp::now());
            self.serve(&decision, &mut served);
            let pause = match self.act(&decision, &mut last_write).await {
                Ok(pause) => pause,
                Err(error) => {
                    warn!(%error, "certificates are not as they should be; trying again");
                    RETRY
                }
            };
            memory = Observed { remembered: decision.remember, spread: decision.spread, ..Observed::default() };
            self.wait(pause.min(decision.again), observed.places.is_some()).await;
        }
    }

    fn observe(&self, memory: Observed) -> Observed {
        let stored = self.sight.secret().map(|secret| Contents::of(&secret.data.unwrap_or_default()));
        Observed { stored, places: self.sight.places(), ..memory }
    }

    fn serve(&self, decision: &Decision, served: &mut Option<Pair>) {
        if let Some(pair) = decision.serve.as_ref().filter(|pair| served.as_ref() != Some(*pair)) {
            info!(not_before = %pair.not_before, not_after = %pair.not_after, "serving this certificate from now on");
            self.serving.replace(pair.certified_key());
            *served = Some(pair.clone());
        }
        if decision.trusted && self.serving.is_loaded() {
            // Never closed again: while a certificate is served, somebody may be able to use it.
            self.trusted.open();
        }
    }

    /// Does what was decided. Returns when to look again at the latest.
    ///
    /// A place that cannot be set keeps nobody from writing the Secret: one place is without its CA then, and with a certificate
    /// that is never renewed all of them would be without an answer.
    async fn act(&mut self, decision: &Decision, last_write: &mut Option<Instant>) -> Result<Duration, ActError> {
        let secret = self.sight.secret();
        let version = secret.as_ref().and_then(|secret| secret.metadata.resource_version.clone());
        let injected = self.hand.inject(decision, version.as_deref()).await;
        let pause = self.write(decision, secret, last_write).await?;
        injected.map(|()| pause)
    }

    /// Writes the Secret, if that was decided. Returns when to look again at the latest.
    async fn write(
        &self,
        decision: &Decision,
        secret: Option<Secret>,
        last_write: &mut Option<Instant>,
    ) -> Result<Duration, ActError> {
        let Some(write) = &decision.write else { return Ok(Duration::MAX) };
        let left = last_write.map_or(Duration::ZERO, |last| BETWEEN_WRITES.saturating_sub(last.elapsed()));
        if left.is_zero() {
            *last_write = Some(Instant::now());
            self.hand.store(write, secret, Timestamp::now()).await?;
            return Ok(BETWEEN_WRITES);
        }
        Ok(left)
    }

    /// Waits until something has changed, or time alone may change what is to be done.
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
