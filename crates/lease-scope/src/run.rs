//! The loop: look, decide, write; give the marker back at the end.

use std::time::{Duration, Instant};

use controller_kit::{
    process::{Context, Gate},
    scope::{Marker, Markers},
    store::Scope,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{
    apply::{Error, MarkerLease},
    decide::{Observed, Step, decide},
};

/// What the process is told beside the configuration file.
#[derive(Debug, Clone, clap::Args)]
pub struct Config {
    /// Namespace of the install's Deployments; default: the namespace that is marked
    #[arg(long, env = "POD_NAMESPACE")]
    pub install_namespace: Option<String>,

    /// Label selector of the Deployments that have to be available before the namespace is taken
    #[arg(
        long,
        env = "DYNAMO_SIBLINGS",
        default_value = "app.kubernetes.io/part-of=dynamo-operator,app.kubernetes.io/component!=lease-scope"
    )]
    pub siblings: String,

    /// Version of the install, for the holder's name in the Lease
    #[arg(long, env = "DYNAMO_OPERATOR_VERSION", default_value = env!("CARGO_PKG_VERSION"))]
    pub operator_version: String,
}

/// Why the process cannot work.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is nothing to mark.
    #[error("no namespace to mark; set namespace.restricted in the configuration, or --namespace")]
    NoNamespace,
    /// Siblings could not tell our marker from another install's.
    #[error(
        "no owner for the marker; set namespace.scope.owner in the configuration, the same for all processes of the install"
    )]
    NoOwner,
    /// A renewal has to come before the marker expires.
    #[error(
        "namespace.scope.leaseRenewInterval ({}s) must be more than 0 and less than leaseDuration ({}s), which must be whole \
         seconds", interval.as_secs_f64(), duration.as_secs_f64()
    )]
    Times {
        /// Time between two renewals.
        interval: Duration,
        /// How long a marker is valid.
        duration: Duration,
    },
}

/// Marks the namespace until the process is told to stop.
///
/// # Errors
/// If the configuration cannot work. What goes wrong with the API server is logged and tried again.
pub async fn run(context: Context, config: Config) -> Result<(), ConfigError> {
    let Scope::Namespace(namespace) = &context.scope else { return Err(ConfigError::NoNamespace) };
    let times = &context.settings.namespace.scope;
    let (interval, duration) = (times.lease_renew_interval.0, times.lease_duration.0);
    if interval.is_zero() || interval >= duration || duration.subsec_nanos() != 0 {
        return Err(ConfigError::Times { interval, duration });
    }
    // Siblings stop a while before a marker expires, and one renewal may come late.
    let interval = interval.min(duration / 2);
    if times.owner.is_empty() {
        return Err(ConfigError::NoOwner);
    }
    let install = config.install_namespace.as_deref().unwrap_or(namespace);
    let lease = MarkerLease {
        leases: Api::namespaced(context.client.clone(), namespace),
        deployments: Api::namespaced(context.client.clone(), install),
        siblings: config.siblings,
        owner: times.owner.clone(),
        version: config.operator_version,
        duration,
        patience: interval / 2,
    };
    let gate = context.readiness.gate("the namespace's marker is ours");
    let mut markers = Markers::default();
    // It acts on what it wrote itself.
    markers.settle();
    let mut keeper =
        Keeper { lease, namespace: namespace.clone(), markers, held: None, last: None, failed: false, gate };
    loop {
        keeper.round().await;
        tokio::select! {
            () = sleep(keeper.pause(interval)) => {}
            () = context.shutdown.requested() => break,
        }
    }
    keeper.give_back().await;
    Ok(())
}

/// Keeps the marker.
struct Keeper {
    lease: MarkerLease,
    namespace: String,
    markers: Markers,
    /// The marker as we wrote it last.
    held: Option<Lease>,
    /// What was done last, to log what changes and not what stays.
    last: Option<Step>,
    failed: bool,
    gate: Gate,
}

impl Keeper {
    async fn round(&mut self) {
        let step = self.step().await;
        self.failed = step.is_err();
        match step {
            Ok(step) => {
                if self.last.as_ref() != Some(&step) {
                    self.say(&step);
                }
                self.last = Some(step);
            }
            Err(error) => warn!(namespace = self.namespace, %error, "cannot keep the marker; trying again"),
        }
        if self.holds() { self.gate.open() } else { self.gate.close() }
    }

    /// Whether our siblings may still act on what we wrote.
    fn holds(&self) -> bool {
        let marker = self.markers.valid_for_its_owner(&self.namespace, Instant::now());
        self.held.is_some() && marker.is_some_and(|marker| marker.owner.as_deref() == Some(&self.lease.owner))
    }

    async fn step(&mut self) -> Result<Step, Error> {
        let live = self.lease.get().await?;
        self.markers.observe(&self.namespace, live.as_ref().and_then(Marker::of), Instant::now());
        let siblings = if self.holds() { Vec::new() } else { self.lease.siblings().await? };
        let observed = Observed {
            exists: live.is_some(),
            held: self.held.is_some(),
            markers: &self.markers,
            namespace: &self.namespace,
            siblings: &siblings,
        };
        let step = decide(&observed, &self.lease.owner, Instant::now());
        let written = match (&step, live) {
            (Step::Create, _) => self.lease.create().await?,
            (Step::TakeOver | Step::Renew, Some(live)) => self.lease.write(live).await?,
            _ => {
                self.held = None;
                return Ok(step);
            }
        };
        self.markers.observe(&self.namespace, Marker::of(&written), Instant::now());
        self.held = Some(written);
        Ok(step)
    }

    /// An install that waits, or could not renew, looks often, so that the namespace is without an operator for no longer than needed.
    fn pause(&self, interval: Duration) -> Duration {
        if self.holds() && !self.failed { interval } else { interval.min(Duration::from_secs(1)) }
    }

    fn say(&self, step: &Step) {
        let namespace = &self.namespace;
        match step {
            Step::Create | Step::TakeOver => info!(namespace, owner = self.lease.owner, "marked the namespace as ours"),
            Step::Renew => info!(namespace, "keeping the marker"),
            Step::Refused { holder, owner } => warn!(
                namespace,
                holder,
                owner,
                "another operator holds the namespace; this install waits. Uninstall the other one, or use another namespace"
            ),
            Step::Incomplete(missing) => info!(namespace, ?missing, "waiting for the rest of the install"),
        }
    }

    async fn give_back(&mut self) {
        let Some(lease) = self.held.take() else { return };
        match self.lease.delete(&lease).await {
            Ok(()) => info!(namespace = self.namespace, "gave the namespace back"),
            Err(error) => warn!(namespace = self.namespace, %error, "cannot delete the marker; it expires by itself"),
        }
    }
}
