//! Metrics of one replica among those that share the namespaces.

use std::{sync::atomic::AtomicU64, time::Instant};

use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};

use super::handover::Duty;
use crate::metrics::Metrics;

/// Upper bounds of the hand-over histogram, in seconds. A killed owner is waited for.
const BUCKETS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0];

/// What a replica owns, and how long it waits for what it is given.
pub(super) struct ShardMetrics {
    ranges: Gauge,
    share: Gauge<f64, AtomicU64>,
    gains: Counter,
    losses: Counter,
    lag: Histogram,
    /// Since when it has been given places where it does not act yet.
    waiting: Option<Instant>,
}

impl ShardMetrics {
    /// Adds the families to those of the process.
    pub(super) fn register(metrics: &Metrics) -> Self {
        let this = Self {
            ranges: Gauge::default(),
            share: Gauge::default(),
            gains: Counter::default(),
            losses: Counter::default(),
            lag: Histogram::new(BUCKETS),
            waiting: None,
        };
        metrics.register(|registry| {
            registry.register("shard_ranges", "Ranges of namespaces in which this replica acts", this.ranges.clone());
            registry.register("shard_share", "Share of all places in which this replica acts", this.share.clone());
            registry.register("shard_gains", "Hand-overs of ranges to this replica", this.gains.clone());
            registry.register("shard_losses", "Hand-overs of ranges from this replica", this.losses.clone());
            registry.register(
                "shard_handover_duration_seconds",
                "Time from the assignment of ranges until this replica acts there",
                this.lag.clone(),
            );
        });
        this
    }

    /// Records where the replica acts, and whether it waits for more.
    pub(super) fn show(&mut self, duty: &Duty, now: Instant) {
        self.ranges.set(i64::try_from(duty.active().spans().len()).unwrap_or(i64::MAX));
        self.share.set(duty.active().share());
        let waits = !duty.mine().without(duty.active()).is_empty();
        self.waiting = waits.then(|| self.waiting.unwrap_or(now));
    }

    /// The replica acts in places that it was given.
    pub(super) fn gained(&mut self, now: Instant) {
        self.gains.inc();
        let waiting = self.waiting.map_or(0.0, |since| now.saturating_duration_since(since).as_secs_f64());
        self.lag.observe(waiting);
    }

    /// Another replica may act in places of this one.
    pub(super) fn lost(&self) {
        self.losses.inc();
    }
}
