//! Observed state of one engine, and state of one adapter on it, as the adapter's model reports it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{AdapterName, AdapterSource, DesiredAdapter, Endpoint, EngineId, EngineLimits};

/// Failures in a row after which an engine counts as lost, even if its pod is ready.
pub const LOST_AFTER: u32 = 3;

/// Observed state of one engine.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The engine.
    pub id: EngineId,
    /// Address and readiness of its pod.
    pub endpoint: Endpoint,
    /// Limits and timeouts of its requests.
    pub pace: EngineLimits,
    /// Whether it lists its adapters.
    pub list: ListSupport,
    /// Names that its last list was searched for.
    pub counted: Arc<BTreeSet<AdapterName>>,
    /// Number of other adapters in its last list.
    pub others: usize,
    /// Its adapters.
    pub held: BTreeMap<AdapterName, Held>,
    /// Adapters that it does not hold; only for engines without a list.
    pub absent: BTreeSet<AdapterName>,
    /// Loads and unloads under way.
    pub running: BTreeSet<AdapterName>,
    /// Loads that timed out, and until when they may still succeed: an engine continues after the connection is closed,
    /// and lists the adapter only when it is loaded.
    pub abandoned: BTreeMap<AdapterName, Instant>,
    /// Set while a list is requested: adapters that were being loaded or unloaded at that time, for which the list does
    /// not count.
    pub listing: Option<BTreeSet<AdapterName>>,
    /// No load or unload is sent before the next list.
    pub must_list: bool,
    /// The engine may have restarted: its state does not count before the next list.
    pub stale: bool,
    /// Time at which the next list is requested.
    pub list_at: Instant,
    /// Time at which the last list was requested.
    pub listed_at: Option<Instant>,
    /// Failed loads and unloads, until one succeeds.
    pub request_failures: BTreeMap<AdapterName, RequestFailure>,
    /// Failed connections, until one succeeds.
    pub outage: Option<RequestFailure>,
    /// Refused lists in a row.
    pub list_rejections: u32,
}

/// Whether an engine lists its adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListSupport {
    /// No list was requested yet.
    Unknown,
    /// It does, and its list is the truth.
    Supported,
    /// It does not: its answers to loads and unloads count instead.
    Unsupported,
}

/// State of an adapter in an engine, and how it was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// The load from this source succeeded, and the adapter is not listed yet.
    Accepted(AdapterSource),
    /// It is listed; or the load succeeded and the engine has no list. `None` if this process did not load it.
    Loaded(Option<AdapterSource>),
    /// The unload succeeded, and no list confirmed it yet.
    Dropped,
}

/// Failures of one kind of request, and when to retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFailure {
    /// The last problem.
    pub problem: Problem,
    /// Failures in a row.
    pub failures: u32,
    /// Timeouts of loads.
    pub timeouts: u32,
    /// Earliest time of the next attempt.
    pub retry_at: Instant,
    /// The source of the load; failures of another source do not count.
    pub source: Option<AdapterSource>,
}

/// A problem with an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The engine refused the request.
    Refused {
        /// HTTP status.
        status: u16,
        /// Its message.
        message: String,
    },
    /// The engine manages no adapters.
    Unmanaged,
    /// The load succeeded, and the engine does not list the adapter.
    NotListed,
    /// The engine reported the adapter as unloaded or not found, and still lists it.
    StillListed,
    /// No connection.
    Unreachable {
        /// The reason.
        reason: String,
    },
    /// No response in time.
    TimedOut,
}

impl Problem {
    /// Whether a retry is unlikely to succeed before a user changes the worker.
    pub fn needs_help(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::Unmanaged | Self::NotListed | Self::StillListed => true,
            Self::Unreachable { .. } | Self::TimedOut => false,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { status: 404, .. } => {
                f.write_str("has no API for adapters (HTTP 404); set DYN_LORA_ENABLED=true on the worker")
            }
            Self::Refused { status, message } if message.is_empty() => write!(f, "rejects with HTTP {status}"),
            Self::Refused { status, message } => write!(f, "rejects with HTTP {status}: {message}"),
            Self::Unmanaged => f.write_str("manages no adapters; start the engine with LoRA enabled"),
            Self::NotListed => f.write_str("accepted the adapter, and does not list it"),
            Self::StillListed => f.write_str("reported the adapter as unloaded or not found, and still lists it"),
            Self::Unreachable { reason } => write!(f, "cannot be reached: {reason}"),
            Self::TimedOut => f.write_str("did not answer in time"),
        }
    }
}

impl Engine {
    /// An engine that was not observed yet.
    pub fn new(id: EngineId, endpoint: Endpoint, pace: EngineLimits, now: Instant) -> Self {
        Self {
            id,
            endpoint,
            pace,
            list: ListSupport::Unknown,
            counted: Arc::default(),
            others: 0,
            held: BTreeMap::new(),
            absent: BTreeSet::new(),
            running: BTreeSet::new(),
            abandoned: BTreeMap::new(),
            listing: None,
            must_list: true,
            stale: false,
            list_at: now,
            listed_at: None,
            request_failures: BTreeMap::new(),
            outage: None,
            list_rejections: 0,
        }
    }

    /// Sets address and readiness. Returns whether the plan may change.
    ///
    /// A pod that becomes ready may have restarted its engine and lost all adapters: the next list counts, and old
    /// failures are dropped.
    pub fn update_endpoint(&mut self, endpoint: &Endpoint, now: Instant) -> bool {
        if self.endpoint == *endpoint {
            return false;
        }
        let moved = self.endpoint.address != endpoint.address;
        if moved || (endpoint.ready && !self.endpoint.ready) {
            self.must_list = true;
            self.stale = self.list != ListSupport::Unknown;
            self.list_at = now;
            self.outage = None;
            self.request_failures.clear();
        }
        self.endpoint = endpoint.clone();
        true
    }

    /// Whether the engine may hold the adapter.
    pub fn may_hold(&self, name: &AdapterName) -> bool {
        if self.held.contains_key(name) || self.running.contains(name) {
            return true;
        }
        match self.list {
            ListSupport::Supported => {
                let unseen = self.others > 0 && !self.counted.contains(name);
                self.abandoned.contains_key(name) || ((self.must_list || unseen) && self.endpoint.ready)
            }
            // An engine that is not ready and was never listed is most likely new.
            ListSupport::Unknown => self.endpoint.ready,
            ListSupport::Unsupported => !self.absent.contains(name),
        }
    }

    /// Records a failed load or unload.
    pub fn record_failure(
        &mut self,
        name: &AdapterName,
        source: Option<AdapterSource>,
        problem: Problem,
        now: Instant,
    ) {
        let before = self.request_failures.get(name).filter(|failure| failure.source == source);
        let timed_out = u32::from(problem == Problem::TimedOut);
        let timeouts = before.map_or(0, |before| before.timeouts) + timed_out;
        let failures = before.map_or(0, |before| before.failures) + 1;
        let retry_at = now + self.pace.pause(failures);
        self.request_failures.insert(name.clone(), RequestFailure { problem, failures, timeouts, retry_at, source });
    }

    /// Records a failed connection.
    pub fn record_outage(&mut self, problem: Problem, now: Instant) {
        let failures = self.outage.as_ref().map_or(0, |outage| outage.failures) + 1;
        let retry_at = now + self.pace.pause(failures);
        self.outage = Some(RequestFailure { problem, failures, timeouts: 0, retry_at, source: None });
    }

    /// Time until the next audit, with a jitter of a tenth, so that engines that started together are not listed
    /// together.
    pub fn audit_pause(&self) -> Duration {
        let mut hasher = DefaultHasher::new();
        self.id.hash(&mut hasher);
        let share = u32::try_from(hasher.finish() % 200).unwrap_or_default();
        self.pace.audit * (900 + share) / 1000
    }

    /// Whether so many connections failed that the observed state no longer counts.
    pub fn is_lost(&self) -> bool {
        self.outage.as_ref().is_some_and(|outage| outage.failures >= LOST_AFTER)
    }
}

/// A message of an engine, cut to what fits a condition.
pub fn shorten(message: &str) -> String {
    const LONGEST: usize = 200;
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((end, _)) = line.char_indices().nth(LONGEST) else { return line };
    format!("{}…", &line[..end])
}

/// State of one adapter on each engine, by the uid of its pod.
pub type AdapterStates = HashMap<Arc<str>, AdapterState>;

/// State of one adapter on one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterState {
    /// Not observed yet by this process.
    Unknown,
    /// The engine serves it.
    Loaded,
    /// It is being loaded, or will be as soon as the engine is ready.
    Loading,
    /// The engine manages no adapters.
    Unmanaged,
    /// The last attempt failed.
    Failing {
        /// The last problem.
        problem: Problem,
        /// Failures in a row.
        failures: u32,
    },
}

/// State of a desired adapter.
pub fn adapter_state(engine: &Engine, name: &AdapterName, adapter: &DesiredAdapter) -> AdapterState {
    let trusted = adapter.trust.holds_for(&engine.endpoint);
    let fits = match engine.held.get(name) {
        Some(Held::Loaded(Some(source))) => *source == adapter.source,
        Some(Held::Loaded(None)) => trusted,
        Some(Held::Accepted(_) | Held::Dropped) | None => false,
    };
    if let Some(outage) = engine.outage.as_ref().filter(|_| !fits || engine.is_lost()) {
        return AdapterState::Failing { problem: outage.problem.clone(), failures: outage.failures };
    }
    if fits {
        return if engine.stale { AdapterState::Loading } else { AdapterState::Loaded };
    }
    match engine.request_failures.get(name) {
        Some(failure) if failure.problem == Problem::Unmanaged => AdapterState::Unmanaged,
        Some(failure) if failure.source.as_ref().is_none_or(|source| *source == adapter.source) => {
            AdapterState::Failing { problem: failure.problem.clone(), failures: failure.failures }
        }
        _ if unknown(engine, name) => AdapterState::Unknown,
        _ => AdapterState::Loading,
    }
}

fn unknown(engine: &Engine, name: &AdapterName) -> bool {
    match engine.list {
        ListSupport::Unknown => true,
        ListSupport::Unsupported => !engine.held.contains_key(name) && !engine.absent.contains(name),
        ListSupport::Supported => false,
    }
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(shorten(" a\n  b "), "a b");
        let cut = shorten(&"ü".repeat(300));
        assert_eq!(cut.chars().count(), 201);
    }
}
