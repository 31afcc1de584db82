//! Sends the requests that the fleet plans, and enqueues the models whose state changed.

mod http;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use controller_kit::{scope::Fence, store::Key};
use futures::channel::mpsc;
pub use http::{Dial, Http};
use tokio::{sync::Notify, task::JoinSet};
use tracing::{debug, info, warn};

use super::{
    Endpoint, Outcome, PoolId, Request,
    desired::DesiredAdapters,
    fleet::{EngineCall, Fleet},
};

/// How long changes are collected before models are enqueued: hundreds of engines respond at the same time.
const COLLECT: Duration = Duration::from_millis(100);

/// The fleet, shared by the reconciles and the task that sends its requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SharedFleet {
    fleet: Arc<Mutex<Fleet>>,
    work: Arc<Notify>,
}

impl SharedFleet {
    /// Shares a fleet.
    pub fn new(fleet: Fleet) -> Self {
        Self { fleet: Arc::new(Mutex::new(fleet)), work: Arc::default() }
    }

    /// Locks the fleet. Never held across an await.
    pub fn lock(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Fleet::sync`]; wakes the task that sends requests.
    pub fn sync(&self, pool: &PoolId, endpoints: &[Endpoint], desired: DesiredAdapters) {
        if self.lock().sync(pool, endpoints, desired, Instant::now()) {
            self.work.notify_one();
        }
    }

    /// Sends requests until dropped, which cancels those under way: the next lists show what they did. Skips namespaces
    /// of other installs.
    pub async fn work(&self, http: Http, changed: mpsc::UnboundedSender<Key>, fence: &Fence) {
        let mut tasks: JoinSet<(EngineCall, Outcome)> = JoinSet::new();
        let mut notify_at: Option<Instant> = None;
        loop {
            let (calls, wake) = {
                let mut fleet = self.lock();
                fleet.forget_namespaces(|namespace| fence.may_act(namespace).is_err());
                fleet.advance(Instant::now())
            };
            for call in calls {
                // Another replica takes the namespace after the request, unless it is long. None: it has been lost by
                // now, and the engine is forgotten in the next turn.
                let permit = fence.begin_work(&call.engine.pool.namespace).ok();
                let http = http.clone();
                tasks.spawn(async move {
                    let outcome = match permit {
                        Some(_until_answered) => http.send(call.socket, &call.request).await,
                        None => Outcome::Unreachable { reason: "another process serves the namespace".to_owned() },
                    };
                    (call, outcome)
                });
            }
            tokio::select! {
                () = self.work.notified() => {}
                Some(done) = tasks.join_next() => {
                    // A request that panics never ends; nothing in it panics.
                    if let Ok((call, outcome)) = done {
                        log(&call, &outcome);
                        self.lock().finish(&call, outcome, Instant::now());
                    }
                }
                () = sleep_until(notify_at) => {
                    for key in self.lock().take_changed() {
                        // Fails only after the controller has ended.
                        let _ = changed.unbounded_send(key);
                    }
                    notify_at = None;
                    continue;
                }
                () = sleep_until(wake) => {}
            }
            notify_at = notify_at.or_else(|| Instant::now().checked_add(COLLECT));
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

fn log(call: &EngineCall, outcome: &Outcome) {
    let (pod, engine) = (&call.pod_name, call.socket);
    let namespace = &call.engine.pool.namespace;
    let adapter = call.request.name().map(tracing::field::display);
    match (&call.request, outcome) {
        (Request::Load { .. }, Outcome::Done) => info!(%namespace, pod, %engine, adapter, "loaded adapter"),
        (Request::Unload { .. }, Outcome::Done) => info!(%namespace, pod, %engine, adapter, "unloaded adapter"),
        (Request::List { .. }, Outcome::Listed { names, others }) => {
            debug!(%namespace, pod, %engine, adapters = names.len(), others, "listed adapters");
        }
        (Request::List { .. }, Outcome::NoList) => debug!(%namespace, pod, %engine, "does not list its adapters"),
        (request, outcome) => {
            let request = match request {
                Request::List { .. } => "list",
                Request::Load { .. } => "load",
                Request::Unload { .. } => "unload",
            };
            warn!(%namespace, pod, %engine, adapter, request, ?outcome, "request to an engine failed");
        }
    }
}
