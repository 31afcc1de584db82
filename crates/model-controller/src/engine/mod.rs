//! Loads the desired adapters into the engines of a base model, and unloads others.
//!
//! This file has the data that its modules share, such as the desired adapters of the engines of a base model.
//!
//! ```text
//! state     observed state of one engine: adapters, requests under way, failures and when to retry
//! plan      (engine, desired, now) → requests to send, and when to plan again          pure
//! record    (engine, request, outcome, now) → new state of the engine                   pure
//! fleet     all engines; limits concurrent requests                                     pure
//! protocol  requests and responses in HTTP                                              pure
//! apply     sends requests, and enqueues the models concerned
//! ```
//!
//! If an engine lists its adapters, its list is the truth: an adapter counts as loaded when it is listed, not when the
//! load succeeded. The list is requested again at the next audit, or when the engine may have restarted.

pub mod apply;
#[cfg(test)]
mod fixtures;
pub mod fleet;
#[cfg(test)]
mod fleet_tests;
pub mod plan;
pub mod protocol;
pub mod record;
#[cfg(test)]
mod simulation_tests;
pub mod state;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use controller_kit::store::Key;

/// Name under which an adapter is loaded and served. It may contain slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdapterName(Arc<str>);

impl AdapterName {
    /// The name.
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
pub struct AdapterSource(Arc<str>);

impl AdapterSource {
    /// The URI.
    pub fn uri(&self) -> &str {
        &self.0
    }

    /// A digest that identifies the source without showing it.
    pub fn digest(&self) -> String {
        api_types::names::sha256_hex(self.0.as_bytes(), 16)
    }
}

impl From<&str> for AdapterSource {
    fn from(uri: &str) -> Self {
        Self(uri.into())
    }
}

impl fmt::Debug for AdapterSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.digest())
    }
}

/// The engines of one base model in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId {
    /// Namespace of the models and of the workers.
    pub namespace: Arc<str>,
    /// Value of the label that names the base model.
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
    /// Address of the pod.
    pub address: IpAddr,
    /// Whether Kubernetes reports the pod as ready.
    pub ready: bool,
}

/// A request to an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineRequest {
    /// List the loaded adapters.
    List {
        /// Names to return. Of other adapters, only the number is kept.
        counted: Arc<BTreeSet<AdapterName>>,
    },
    /// Load this adapter.
    Load {
        /// Its name.
        name: AdapterName,
        /// Its source.
        source: AdapterSource,
        /// Time limit; the engine downloads the adapter before it responds.
        timeout: Duration,
    },
    /// Unload this adapter.
    Unload {
        /// Its name.
        name: AdapterName,
    },
}

impl EngineRequest {
    /// The adapter it is about.
    pub fn name(&self) -> Option<&AdapterName> {
        match self {
            Self::List { .. } => None,
            Self::Load { name, .. } | Self::Unload { name } => Some(name),
        }
    }

    /// Its name in logs and metrics.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::List { .. } => "list",
            Self::Load { .. } => "load",
            Self::Unload { .. } => "unload",
        }
    }

    /// Time limit of the response.
    pub fn timeout(&self) -> Duration {
        match self {
            Self::List { .. } => LIST_TIMEOUT,
            Self::Load { timeout, .. } => *timeout,
            Self::Unload { .. } => UNLOAD_TIMEOUT,
        }
    }
}

const LIST_TIMEOUT: Duration = Duration::from_secs(10);
const UNLOAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineOutcome {
    /// The engine reported success.
    Done,
    /// The engine lists its adapters.
    Listed {
        /// The requested names among them.
        names: Vec<AdapterName>,
        /// Number of all others.
        others: usize,
    },
    /// The engine has no list: no such route, or a response that is no list.
    NoList,
    /// The engine has no adapter of that name, or has no route to unload one.
    NotThere,
    /// The engine reports that it does not manage adapters.
    Unmanaged,
    /// The engine refused the request.
    Refused {
        /// HTTP status.
        status: u16,
        /// Its message, shortened.
        message: String,
    },
    /// No connection, or a broken one.
    Unreachable {
        /// The reason.
        reason: String,
    },
    /// No response in time.
    TimedOut,
}

/// Limits and timeouts of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineLimits {
    /// Maximum concurrent requests to all engines. One namespace gets at most three quarters of them.
    pub requests: usize,
    /// Maximum concurrent loads and unloads on one engine.
    pub per_engine: usize,
    /// Time between two lists of an engine without a sign of a change.
    pub audit: Duration,
    /// Pause after the first failure; doubled after each further one.
    pub first_pause: Duration,
    /// Longest pause.
    pub longest_pause: Duration,
    /// Timeout of the first load; doubled after each timeout.
    pub first_load_timeout: Duration,
    /// Longest timeout of a load.
    pub longest_load_timeout: Duration,
    /// Longest wait of a model's deletion for engines that keep its adapter.
    pub unload_timeout: Duration,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self {
            requests: 128,
            per_engine: 2,
            audit: Duration::from_secs(300),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(300),
            first_load_timeout: Duration::from_secs(30),
            longest_load_timeout: Duration::from_secs(300),
            unload_timeout: Duration::from_secs(30),
        }
    }
}

impl EngineLimits {
    /// Pause after so many failures in a row.
    pub fn pause(&self, failures: u32) -> Duration {
        doubled(self.first_pause, failures.saturating_sub(1)).min(self.longest_pause)
    }

    /// Timeout of a load after so many timeouts.
    pub fn load_timeout(&self, timeouts: u32) -> Duration {
        doubled(self.first_load_timeout, timeouts).min(self.longest_load_timeout)
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX))
}

/// Desired adapters of the engines of a base model. Adapters in neither list were loaded by others and stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredAdapters {
    /// Adapters to load into every engine.
    pub load: BTreeMap<AdapterName, DesiredAdapter>,
    /// Adapters to unload from every engine, with the models that loaded them.
    pub unload: BTreeMap<AdapterName, BTreeSet<Key>>,
    /// A model is about to request an adapter. Until then, the state of the engines is kept.
    pub pending: bool,
}

/// An adapter to load into every engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredAdapter {
    /// Location from which it is loaded.
    pub source: AdapterSource,
    /// The models that request it.
    pub models: BTreeSet<Key>,
    /// Copies of unknown source that count as this adapter.
    pub trust: CopyTrust,
}

/// Copies of unknown source that count. An engine lists such copies although this process did not load them. A list
/// contains names and no sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CopyTrust {
    /// All: the source has not changed since it was first loaded.
    #[default]
    Everywhere,
    /// Those on these endpoints, which loaded the new source after a change. Others may hold the old one.
    Only(Arc<BTreeSet<String>>),
}

impl CopyTrust {
    /// Whether a copy on this endpoint counts.
    pub fn holds_for(&self, endpoint: &Endpoint) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Only(proven) => proven.contains(&endpoint.url()),
        }
    }
}

impl DesiredAdapters {
    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.load.is_empty() && self.unload.is_empty()
    }

    /// Names of adapters to load or to unload.
    pub fn names(&self) -> impl Iterator<Item = &AdapterName> {
        self.load.keys().chain(self.unload.keys())
    }

    /// The models that an adapter concerns.
    pub fn models(&self, name: &AdapterName) -> impl Iterator<Item = &Key> {
        let loading = self.load.get(name).into_iter().flat_map(|adapter| &adapter.models);
        loading.chain(self.unload.get(name).into_iter().flatten())
    }
}

impl Endpoint {
    /// URL of the engine's system server, as the status shows it.
    pub fn url(&self) -> String {
        format!("http://{}", self.socket())
    }

    /// Returns the socket address of the engine's system server.
    pub fn socket(&self) -> std::net::SocketAddr {
        (self.address, SYSTEM_PORT).into()
    }
}

/// Port of the system server. Engines listen on the port that their container declares under this number.
const SYSTEM_PORT: u16 = 9090;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_and_patience_double_up_to_their_limit() {
        let pace = EngineLimits::default();
        let pauses: Vec<u64> = [1, 2, 3, 9, 10, 99].map(|failures| pace.pause(failures).as_secs()).to_vec();
        assert_eq!(pauses, [1, 2, 4, 256, 300, 300]);
        let timeout: Vec<u64> = [0, 1, 3, 4, 99].map(|times| pace.load_timeout(times).as_secs()).to_vec();
        assert_eq!(timeout, [30, 60, 240, 300, 300]);
    }

    #[test]
    fn a_source_is_never_shown() {
        let source = AdapterSource::from("s3://key:secret@bucket/adapter");
        assert!(!format!("{source:?}").contains("secret"));
        assert_eq!(source.digest().len(), 16);
    }
}
