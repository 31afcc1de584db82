//! The engines: what each worker of a base model holds, what it shall hold, and how the two are brought together.
//!
//! ```text
//! wishes    what the engines of one base model shall hold: adapters to load, names to unload
//! state     what is known of one engine: what it holds, what is under way, what went wrong and when to try again
//! decide    (engine, wishes, now) → requests to send, and when to look again            pure
//! record    (engine, request, outcome, now) → the engine afterwards                     pure
//! fleet     all engines; bounds how many requests run at the same time                  pure
//! protocol  requests and answers as HTTP has them                                       pure
//! apply     sends requests, and tells the models concerned
//! ```
//!
//! The engine's own list of adapters is the truth wherever an engine answers that question. An adapter counts as loaded
//! when it is listed, not when the engine said yes to loading it. What the list confirmed is not asked again until the
//! next audit, or until the engine may have restarted.

pub mod apply;
pub mod decide;
pub mod fleet;
pub mod protocol;
pub mod record;
pub mod state;
pub mod view;
pub mod wishes;

use std::{collections::BTreeSet, fmt, net::IpAddr, sync::Arc, time::Duration};

/// Name under which an adapter is loaded, and under which requests ask for it. May hold slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdapterName(Arc<str>);

impl AdapterName {
    /// The name as the API and the engines spell it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for AdapterName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for AdapterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// URI from which an adapter is loaded. It may hold credentials, so it is never logged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(Arc<str>);

impl Source {
    /// The URI.
    pub fn uri(&self) -> &str {
        &self.0
    }

    /// What tells this source from others without saying it.
    pub fn digest(&self) -> String {
        api_types::names::sha256_hex(self.0.as_bytes(), 16)
    }
}

impl From<&str> for Source {
    fn from(uri: &str) -> Self {
        Self(uri.into())
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.digest())
    }
}

/// The engines of one base model in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId {
    /// Namespace of models and workers alike: models never reach into another one.
    pub namespace: Arc<str>,
    /// Value of the label that stands for the base model.
    pub base_model_hash: Arc<str>,
}

/// One engine: the main process of one pod, for the life of that pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineId {
    /// The base model it runs.
    pub pool: PoolId,
    /// Uid of its pod; the pod's name where no uid is known.
    pub pod: Arc<str>,
}

/// An endpoint of a base model's Services: the address of one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Name of the pod.
    pub pod_name: Arc<str>,
    /// Uid of the pod; its name where no uid is known.
    pub pod: Arc<str>,
    /// Where the pod listens.
    pub address: IpAddr,
    /// Whether the pod is ready, as Kubernetes sees it.
    pub ready: bool,
}

/// A request to an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Which adapters do you hold?
    List {
        /// The names that matter. The answer keeps these, and the number of the others.
        counted: Arc<BTreeSet<AdapterName>>,
    },
    /// Load this adapter.
    Load {
        /// Its name.
        name: AdapterName,
        /// Where from.
        source: Source,
        /// How long it may take: the engine downloads the adapter before it answers.
        patience: Duration,
    },
    /// Unload this adapter.
    Unload {
        /// Its name.
        name: AdapterName,
    },
}

impl Request {
    /// The adapter it is about.
    pub fn name(&self) -> Option<&AdapterName> {
        match self {
            Self::List { .. } => None,
            Self::Load { name, .. } | Self::Unload { name } => Some(name),
        }
    }

    /// How long to wait for the answer.
    pub fn patience(&self) -> Duration {
        match self {
            Self::List { .. } => LIST_PATIENCE,
            Self::Load { patience, .. } => *patience,
            Self::Unload { .. } => UNLOAD_PATIENCE,
        }
    }
}

const LIST_PATIENCE: Duration = Duration::from_secs(10);
const UNLOAD_PATIENCE: Duration = Duration::from_secs(15);

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, says the engine.
    Done,
    /// The engine lists its adapters.
    Listed {
        /// Those that were counted.
        names: Vec<AdapterName>,
        /// Number of all others.
        others: usize,
    },
    /// The engine does not answer this question: no such route, or an answer that is no list.
    NoList,
    /// The engine knows no adapter of that name, or has no route to unload one.
    NotThere,
    /// The engine says in so many words that it manages no adapters.
    Unmanaged,
    /// The engine says no.
    Refused {
        /// HTTP status.
        status: u16,
        /// What it says; shortened.
        message: String,
    },
    /// No connection, or one that broke.
    Unreachable {
        /// Why.
        reason: String,
    },
    /// No answer in time.
    TimedOut,
}

/// How fast things go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Requests to all engines together at the same time. One namespace gets at most three quarters of them.
    pub requests: usize,
    /// Loads and unloads on one engine at the same time.
    pub per_engine: usize,
    /// Time between two looks at what an engine holds, when nothing suggests that it changed.
    pub audit: Duration,
    /// Pause after the first failure; doubles with each further one.
    pub first_pause: Duration,
    /// Longest pause.
    pub longest_pause: Duration,
    /// Patience with the first load; doubles each time it was too short.
    pub load_patience: Duration,
    /// Most patience.
    pub most_patience: Duration,
    /// How long a deleted model waits for engines that do not let go of its adapter.
    pub farewell: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            requests: 128,
            per_engine: 2,
            audit: Duration::from_secs(300),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(300),
            load_patience: Duration::from_secs(30),
            most_patience: Duration::from_secs(300),
            farewell: Duration::from_secs(30),
        }
    }
}

impl Pace {
    /// Pause after so many failures in a row.
    pub fn pause(&self, failures: u32) -> Duration {
        doubled(self.first_pause, failures.saturating_sub(1)).min(self.longest_pause)
    }

    /// Patience with a load that was given up so many times.
    pub fn patience(&self, given_up: u32) -> Duration {
        doubled(self.load_patience, given_up).min(self.most_patience)
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod fleet_tests;
#[cfg(test)]
mod simulation_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_and_patience_double_up_to_their_limit() {
        let pace = Pace::default();
        let pauses: Vec<u64> = [1, 2, 3, 9, 10, 99].map(|failures| pace.pause(failures).as_secs()).to_vec();
        assert_eq!(pauses, [1, 2, 4, 256, 300, 300]);
        let patience: Vec<u64> = [0, 1, 3, 4, 99].map(|times| pace.patience(times).as_secs()).to_vec();
        assert_eq!(patience, [30, 60, 240, 300, 300]);
    }

    #[test]
    fn a_source_is_never_shown() {
        let source = Source::from("s3://key:secret@bucket/adapter");
        assert!(!format!("{source:?}").contains("secret"));
        assert_eq!(source.digest().len(), 16);
    }
}
