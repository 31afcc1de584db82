//! Context that a process gives to its controllers: client, settings, readiness and shutdown.

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tracing::info;

use crate::{
    metrics::Metrics,
    notifications::Notifier,
    scope::Fence,
    settings::OperatorConfiguration,
    store::{Scope, WatchSource},
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
    /// In which of them to act. The client checks it before every write.
    pub fence: Fence,
    /// Steps that have to be done before the process is ready.
    pub readiness: Readiness,
    /// Metrics of the process.
    pub metrics: Metrics,
    /// Notifies of failing objects; `None` if the configuration names no receiver.
    pub notifier: Option<Notifier>,
    /// Signal to stop.
    pub shutdown: Shutdown,
    /// Number of objects that a controller reconciles at the same time.
    pub concurrency: usize,
}

impl Context {
    /// The objects that watches read and caches keep: those of the namespaces that this replica serves.
    pub fn source(&self) -> WatchSource {
        WatchSource::shared(self.client.clone(), &self.scope, self.fence.shard().map(|shard| shard.cached()))
    }

    /// Watch source with the objects of all replicas, for what is counted over all of them.
    pub fn everywhere(&self) -> WatchSource {
        WatchSource::all(self.client.clone(), &self.scope)
    }
}

/// Named gates; the process is ready when there is at least one and all are open. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    gates: Arc<watch::Sender<Vec<GateState>>>,
}

/// One gate. Closed until opened; it can close again.
#[derive(Debug, Clone)]
pub struct Gate {
    readiness: Readiness,
    index: usize,
}

#[derive(Debug)]
struct GateState {
    name: String,
    open: bool,
}

impl Readiness {
    /// Adds a closed gate. `name` says what is waited for, for example `Deployment caches`. Two of one name are two
    /// gates.
    #[must_use]
    pub fn gate(&self, name: &str) -> Gate {
        let mut index = 0;
        self.gates.send_modify(|gates| {
            index = gates.len();
            gates.push(GateState { name: name.to_owned(), open: false });
        });
        Gate { readiness: self.clone(), index }
    }

    /// The gates that are closed, by name; `None` if the process is ready.
    pub fn missing(&self) -> Option<Vec<String>> {
        let gates = self.gates.borrow();
        let mut closed: Vec<String> = gates.iter().filter(|gate| !gate.open).map(|gate| gate.name.clone()).collect();
        closed.sort();
        (!are_open(&gates)).then_some(closed)
    }

    /// Returns once the process is ready.
    pub(crate) async fn ready(&self) {
        // Fails only when the sender is gone, and `self` holds it.
        let _ = self.gates.subscribe().wait_for(|gates| are_open(gates)).await;
    }
}

fn are_open(gates: &[GateState]) -> bool {
    !gates.is_empty() && gates.iter().all(|gate| gate.open)
}

impl Gate {
    /// Opens the gate.
    pub fn open(&self) {
        self.set(true);
    }

    /// Closes the gate.
    pub fn close(&self) {
        self.set(false);
    }

    fn set(&self, open: bool) {
        self.readiness.gates.send_if_modified(|gates| {
            gates.get_mut(self.index).is_some_and(|gate| std::mem::replace(&mut gate.open, open) != open)
        });
    }
}

/// Time between the request to stop and the end of the process, whatever still runs, unless a program needs another
/// one.
pub const GRACE: Duration = Duration::from_secs(10);

/// Signals that the process is to stop. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shutdown {
    requested: watch::Sender<bool>,
}

impl Shutdown {
    /// A shutdown that only [`Shutdown::request`] starts.
    pub fn manual() -> Self {
        Self { requested: watch::Sender::new(false) }
    }

    /// A shutdown that SIGTERM and SIGINT start. Must be called inside a Tokio runtime.
    pub(crate) fn on_signals() -> std::io::Result<Self> {
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let shutdown = Self::manual();
        let requested = shutdown.clone();
        tokio::spawn(async move {
            let name = tokio::select! {
                _ = term.recv() => "SIGTERM",
                _ = int.recv() => "SIGINT",
            };
            info!(signal = name, "stopping");
            requested.request();
        });
        Ok(shutdown)
    }

    /// Requests the shutdown of all tasks.
    pub fn request(&self) {
        self.requested.send_replace(true);
    }

    /// Returns once the process is to stop.
    pub async fn requested(&self) {
        // Fails only when the sender is gone, and `self` holds it.
        let _ = self.requested.subscribe().wait_for(|requested| *requested).await;
    }

    /// Returns when waiting is over: so long after the request.
    pub(crate) async fn deadline(&self, grace: Duration) {
        self.requested().await;
        tokio::time::sleep(grace).await;
    }
}

#[cfg(test)]
mod tests {
    use super::Readiness;

    #[test]
    fn ready_when_every_gate_is_open() {
        let readiness = Readiness::default();
        assert_eq!(readiness.missing(), Some(vec![]), "nothing has started yet");
        let (a, b) = (readiness.gate("a"), readiness.gate("b"));
        a.open();
        assert_eq!(readiness.missing(), Some(vec!["b".to_owned()]));
        b.open();
        assert_eq!(readiness.missing(), None);
        a.close();
        assert_eq!(readiness.missing(), Some(vec!["a".to_owned()]));
    }

    #[test]
    fn no_gate_hides_another_of_its_name() {
        let readiness = Readiness::default();
        let (one, other) = (readiness.gate("a"), readiness.gate("a"));
        other.open();
        assert_eq!(readiness.missing(), Some(vec!["a".to_owned()]), "the first is closed");
        one.open();
        assert_eq!(readiness.missing(), None);
    }
}
