//! The loop: observe, plan, apply; at the end, release the marker if the install is removed.

use std::time::{Duration, Instant};

use controller_kit::{
    context::{Context, Gate},
    scope::{Marker, Markers, RELEASE_WAIT},
    store::Scope,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{
    apply::{LeaseScopeError, MarkerLease},
    plan::{MarkerStep, ObservedMarker, by_install, by_marker, goes},
};

/// Time limit of the shutdown, in which the marker is released.
pub const GRACE: Duration = RELEASE_WAIT.saturating_add(Duration::from_secs(5));

/// Arguments beside the configuration file.
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

/// Errors of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No namespace is configured.
    #[error("no namespace to mark; set namespace.restricted in the configuration, or --namespace")]
    NoNamespace,
    /// The other processes could not distinguish this marker from another install's.
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
        /// Duration of a marker's validity.
        duration: Duration,
    },
}

/// Marks the namespace until shutdown.
///
/// # Errors
/// If the configuration is invalid. Failed requests are logged and retried.
pub async fn run(context: Context, config: Config) -> Result<(), ConfigError> {
    let Scope::Namespace(namespace) = &context.scope else { return Err(ConfigError::NoNamespace) };
    let times = &context.settings.namespace.scope;
    let (interval, duration) = (times.lease_renew_interval.0, times.lease_duration.0);
    if interval.is_zero() || interval >= duration || duration.subsec_nanos() != 0 {
        return Err(ConfigError::Times { interval, duration });
    }
    // The other processes stop some time before a marker expires, and one renewal may be late.
    let interval = interval.min(duration / 2);
    if times.owner.is_empty() {
        return Err(ConfigError::NoOwner);
    }
    let install = config.install_namespace.as_deref().unwrap_or(namespace);
    let mut keeper = MarkerKeeper {
        lease: MarkerLease {
            leases: Api::namespaced(context.client.clone(), namespace),
            deployments: Api::namespaced(context.client.clone(), install),
            siblings: config.siblings,
            owner: times.owner.clone(),
            version: config.operator_version,
            duration,
            patience: interval / 2,
        },
        namespace: namespace.clone(),
        interval,
        markers: Markers::default(),
        held: None,
        last: None,
        failed: false,
        gate: context.readiness.gate("the marker of the namespace is held by this install"),
    };
    loop {
        keeper.round().await;
        tokio::select! {
            () = sleep(keeper.pause()) => {}
            () = context.shutdown.requested() => break,
        }
    }
    keeper.end().await;
    Ok(())
}

/// Keeps the marker.
struct MarkerKeeper {
    lease: MarkerLease,
    namespace: String,
    /// Time between two renewals.
    interval: Duration,
    markers: Markers,
    /// The marker as this process wrote it last.
    held: Option<Lease>,
    /// The last step; only changes are logged.
    last: Option<MarkerStep>,
    failed: bool,
    gate: Gate,
}

impl MarkerKeeper {
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
            Err(error) => warn!(namespace = self.namespace, %error, "failed to renew the marker; retrying"),
        }
        if self.is_kept() { self.gate.open() } else { self.gate.close() }
    }

    /// Whether the install holds the marker, and which replica renews it.
    fn is_kept(&self) -> bool {
        let marker = self.markers.kept(&self.namespace, Instant::now());
        marker.is_some_and(|marker| marker.owner.as_deref() == Some(&self.lease.owner))
    }

    async fn step(&mut self) -> Result<MarkerStep, LeaseScopeError> {
        let started = Instant::now();
        let live = self.lease.get().await?;
        let marker = live.as_ref().and_then(Marker::of);
        self.held.take_if(|held| Marker::of(held) != marker);
        self.markers.observe(&self.namespace, marker, started);
        // Later changes were written while this process ran.
        self.markers.settle();
        let (markers, overdue) = (&self.markers, self.interval + self.interval / 2);
        let observed = ObservedMarker { held: self.held.is_some(), markers, namespace: &self.namespace, overdue };
        let step = match by_marker(&observed, &self.lease.owner, Instant::now()) {
            Some(step) => step,
            None => by_install(live.is_some(), &self.lease.siblings().await?),
        };
        let started = Instant::now();
        let written = match (&step, live) {
            (MarkerStep::Create, _) => self.lease.create().await?,
            (MarkerStep::TakeOver | MarkerStep::Renew, Some(live)) => self.lease.write(live).await?,
            _ => {
                self.held = None;
                return Ok(step);
            }
        };
        self.markers.observe(&self.namespace, Marker::of(&written), started);
        self.held = Some(written);
        Ok(step)
    }

    /// The pause is short while the marker is not held or was not renewed, so that the namespace gets an operator soon.
    fn pause(&self) -> Duration {
        let renews = self.held.is_some() && !self.failed;
        if renews { self.interval } else { self.interval.min(Duration::from_secs(1)) }
    }

    fn say(&self, step: &MarkerStep) {
        let namespace = &self.namespace;
        match step {
            MarkerStep::Create | MarkerStep::TakeOver => {
                info!(namespace, owner = self.lease.owner, "marked the namespace")
            }
            MarkerStep::Renew => info!(namespace, "renewed the marker"),
            MarkerStep::StandBy => info!(namespace, "another replica renews the marker"),
            MarkerStep::Refused { holder, owner } => warn!(
                namespace,
                holder,
                owner,
                "another operator holds the namespace; this install waits. Uninstall the other one, or use another namespace"
            ),
            MarkerStep::Incomplete(missing) => info!(namespace, ?missing, "waiting for the rest of the install"),
        }
    }

    /// Leaves the marker to the successor, or releases it if the whole install is removed.
    async fn end(mut self) {
        let Some(lease) = self.held.take() else { return };
        let namespace = &self.namespace;
        match self.lease.siblings().await {
            Ok(siblings) if goes(&siblings) => match self.give_back(lease).await {
                Ok(()) => info!(namespace, "released the namespace"),
                Err(error) => warn!(namespace, %error, "failed to release the marker; it expires"),
            },
            Ok(_) => info!(namespace, "left the marker to the successor"),
            Err(error) => {
                warn!(namespace, %error, "failed to list the Deployments of the install; left the marker, which expires")
            }
        }
    }

    /// Stops the processes of the install, holds the marker until their last requests have ended, and deletes it.
    async fn give_back(&self, lease: Lease) -> Result<(), LeaseScopeError> {
        let end = Instant::now() + RELEASE_WAIT;
        let mut lease = self.lease.release(lease).await?;
        info!(namespace = self.namespace, seconds = RELEASE_WAIT.as_secs(), "releasing the namespace");
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            sleep(rest.min(self.interval)).await;
            if rest <= self.interval {
                break self.lease.delete(&lease).await;
            }
            lease = self.lease.release(lease).await?;
        }
    }
}
