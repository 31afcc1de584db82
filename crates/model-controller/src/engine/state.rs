//! What is known of one engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{AdapterName, Endpoint, EngineId, Pace, Source};

/// An engine that fails so often in a row is taken for lost, although Kubernetes calls its pod ready.
pub const LOST_AFTER: u32 = 3;

/// What is known of one engine.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Which one.
    pub id: EngineId,
    /// Where it is, and whether its pod is ready.
    pub endpoint: Endpoint,
    /// Whether it tells what it holds.
    pub list: ListAnswer,
    /// The names that its last list was searched for.
    pub counted: Arc<BTreeSet<AdapterName>>,
    /// Number of other adapters in its last list.
    pub others: usize,
    /// What it holds, and how that is known.
    pub held: BTreeMap<AdapterName, Held>,
    /// What it does not hold; kept only for engines that do not tell.
    pub absent: BTreeSet<AdapterName>,
    /// Loads and unloads under way.
    pub running: BTreeSet<AdapterName>,
    /// Loads that were given up, and until when they may end well all the same: an engine goes on when the caller has gone,
    /// and does not list the adapter before it has it.
    pub abandoned: BTreeMap<AdapterName, Instant>,
    /// The question under way: names whose answer does not count, because they were being loaded or unloaded when it was
    /// put.
    pub asking: Option<BTreeSet<AdapterName>>,
    /// Nothing is started before the engine has told what it holds.
    pub must_ask: bool,
    /// Its process may be another one by now: what is known of it does not count before it has been asked.
    pub doubtful: bool,
    /// When to ask again.
    pub ask_at: Instant,
    /// When it was asked last.
    pub asked_at: Option<Instant>,
    /// What went wrong with an adapter, until it goes right.
    pub setbacks: BTreeMap<AdapterName, Setback>,
    /// What went wrong with the connection, until it works again.
    pub outage: Option<Setback>,
    /// How often in a row the question what it holds was refused.
    pub list_refusals: u32,
}

/// Whether an engine tells what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListAnswer {
    /// It has not been asked.
    Unasked,
    /// It does: its answer is the truth.
    Given,
    /// It does not: its answers to loads and unloads have to do.
    None,
}

/// How it is known that an engine holds an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// The engine said yes to loading it, and has not listed it yet.
    Accepted {
        /// From where.
        source: Source,
    },
    /// It is listed; or the engine said yes and has no list.
    Loaded {
        /// From where; `None` if it was there before this process.
        source: Option<Source>,
    },
    /// The engine said yes to unloading it, and has not shown a list without it yet.
    Dropped,
}

/// Something that went wrong, and when to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setback {
    /// What went wrong last.
    pub problem: Problem,
    /// How often in a row.
    pub failures: u32,
    /// How often a load took too long.
    pub given_up: u32,
    /// Not before.
    pub retry_at: Instant,
    /// The source that was tried; another one has a fresh start.
    pub source: Option<Source>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The engine said no.
    Refused {
        /// HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// The engine manages no adapters.
    Unmanaged,
    /// The engine said yes, and does not list the adapter.
    NotListed,
    /// The engine reported the adapter as unloaded or not found, and still lists it.
    StillListed,
    /// No connection.
    Unreachable {
        /// Why.
        reason: String,
    },
    /// No answer in time.
    TimedOut,
}

impl Problem {
    /// True if trying again is unlikely to help before somebody changes something.
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
            Self::Refused { status, message } if message.is_empty() => write!(f, "refuses with HTTP {status}"),
            Self::Refused { status, message } => write!(f, "refuses with HTTP {status}: {message}"),
            Self::Unmanaged => f.write_str("manages no adapters; start the engine with LoRA enabled"),
            Self::NotListed => f.write_str("accepted the adapter, and does not list it"),
            Self::StillListed => f.write_str("reported the adapter as unloaded or not found, and still lists it"),
            Self::Unreachable { reason } => write!(f, "cannot be reached: {reason}"),
            Self::TimedOut => f.write_str("did not answer in time"),
        }
    }
}

impl Engine {
    /// An engine nothing is known of.
    pub fn new(id: EngineId, endpoint: Endpoint, now: Instant) -> Self {
        Self {
            id,
            endpoint,
            list: ListAnswer::Unasked,
            counted: Arc::default(),
            others: 0,
            held: BTreeMap::new(),
            absent: BTreeSet::new(),
            running: BTreeSet::new(),
            abandoned: BTreeMap::new(),
            asking: None,
            must_ask: true,
            doubtful: false,
            ask_at: now,
            asked_at: None,
            setbacks: BTreeMap::new(),
            outage: None,
            list_refusals: 0,
        }
    }

    /// Takes in what Kubernetes says of the endpoint. Returns whether that may change what is to be done.
    ///
    /// A pod that becomes ready may have restarted its engine, and with it lost all adapters: the engine is asked before
    /// anything is believed, and old failures are forgotten.
    pub fn meet(&mut self, endpoint: &Endpoint, now: Instant) -> bool {
        if self.endpoint == *endpoint {
            return false;
        }
        let moved = self.endpoint.address != endpoint.address;
        if moved || (endpoint.ready && !self.endpoint.ready) {
            self.must_ask = true;
            self.doubtful = self.list != ListAnswer::Unasked;
            self.ask_at = now;
            self.outage = None;
            self.setbacks.clear();
        }
        self.endpoint = endpoint.clone();
        true
    }

    /// True if the engine might hold the adapter.
    pub fn may_hold(&self, name: &AdapterName) -> bool {
        if self.held.contains_key(name) || self.running.contains(name) {
            return true;
        }
        match self.list {
            ListAnswer::Given => {
                let unseen = self.others > 0 && !self.counted.contains(name);
                self.abandoned.contains_key(name) || ((self.must_ask || unseen) && self.endpoint.ready)
            }
            // An engine that is not ready and was never seen to hold anything is most likely new.
            ListAnswer::Unasked => self.endpoint.ready,
            ListAnswer::None => !self.absent.contains(name),
        }
    }

    /// Records that something went wrong with an adapter.
    pub fn set_back(
        &mut self,
        name: &AdapterName,
        source: Option<Source>,
        problem: Problem,
        pace: &Pace,
        now: Instant,
    ) {
        let before = self.setbacks.get(name).filter(|setback| setback.source == source);
        let timed_out = u32::from(problem == Problem::TimedOut);
        let given_up = before.map_or(0, |before| before.given_up) + timed_out;
        let failures = before.map_or(0, |before| before.failures) + 1;
        let retry_at = now + pace.pause(failures);
        self.setbacks.insert(name.clone(), Setback { problem, failures, given_up, retry_at, source });
    }

    /// Records that the engine could not be asked at all.
    pub fn lose_contact(&mut self, problem: Problem, pace: &Pace, now: Instant) {
        let failures = self.outage.as_ref().map_or(0, |outage| outage.failures) + 1;
        let retry_at = now + pace.pause(failures);
        self.outage = Some(Setback { problem, failures, given_up: 0, retry_at, source: None });
    }

    /// Time until the next audit: a tenth more or less, so that engines that appeared together are not asked together.
    pub fn audit_pause(&self, pace: &Pace) -> Duration {
        let mut hasher = DefaultHasher::new();
        self.id.hash(&mut hasher);
        let share = u32::try_from(hasher.finish() % 200).unwrap_or_default();
        pace.audit * (900 + share) / 1000
    }

    /// True if the engine has not answered for so long that what was known of it no longer counts.
    pub fn is_lost(&self) -> bool {
        self.outage.as_ref().is_some_and(|outage| outage.failures >= LOST_AFTER)
    }
}

/// What an engine says of itself, cut to what fits a condition.
pub fn shorten(message: &str) -> String {
    const LONGEST: usize = 200;
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((end, _)) = line.char_indices().nth(LONGEST) else { return line };
    format!("{}…", &line[..end])
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
