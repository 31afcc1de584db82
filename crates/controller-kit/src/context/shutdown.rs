//! When to stop, and when to stop waiting.

use std::time::Duration;

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tracing::info;

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
    #[must_use]
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

    /// Asks everybody to stop.
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
