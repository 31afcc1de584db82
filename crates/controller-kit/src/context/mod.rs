//! What a process hands to its controllers: client, settings, readiness and shutdown.

mod readiness;
mod shutdown;

use std::sync::Arc;

use kube::Client;

pub use self::{
    readiness::{Gate, Readiness},
    shutdown::{GRACE, Shutdown},
};
use crate::{metrics::Metrics, notifications::Notifier, scope::Fence, settings::OperatorConfiguration, store::Scope};

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
