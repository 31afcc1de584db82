//! What a process hands to its controllers: client, settings, readiness and shutdown.

mod readiness;
mod shutdown;

use std::sync::Arc;

use kube::Client;

pub use self::{
    readiness::{Gate, Readiness},
    shutdown::{GRACE, Shutdown},
};
use crate::{
    metrics::Metrics,
    notifications::Notifier,
    scope::Fence,
    settings::OperatorConfiguration,
    store::{Scope, Source},
};

/// Everything a process hands to its controllers. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// Name of the program: user agent and field manager.
    pub name: &'static str,
    /// Client of the API server.
    pub client: Client,
    /// The configuration file, or its defaults.
    pub settings: Arc<OperatorConfiguration>,
    /// The namespaces to watch.
    pub scope: Scope,
    /// In which of them to act. The client asks it before every write.
    pub fence: Fence,
    /// What has to be done before the process is ready.
    pub readiness: Readiness,
    /// Metrics of the process.
    pub metrics: Metrics,
    /// Notifies of failing objects; `None` if the configuration names no receiver.
    pub notifier: Option<Notifier>,
    /// When to stop.
    pub shutdown: Shutdown,
    /// How many objects a controller reconciles at the same time.
    pub concurrency: usize,
}

impl Context {
    /// The objects that watches read and caches keep: those of the namespaces that this replica serves.
    #[must_use]
    pub fn source(&self) -> Source {
        Source::shared(self.client.clone(), &self.scope, self.fence.shard().map(|shard| shard.cached()))
    }

    /// The same with the objects of all replicas, for what is counted over all of them.
    #[must_use]
    pub fn everywhere(&self) -> Source {
        Source::all(self.client.clone(), &self.scope)
    }
}
