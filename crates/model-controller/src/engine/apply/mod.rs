//! Sends the requests that the fleet wants sent, and tells the models for which something changed.

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
    fleet::{Fleet, Job},
    wishes::Wishes,
};

/// How long changes are collected before models are told: engines answer by the hundred.
const COLLECT: Duration = Duration::from_millis(100);

/// The fleet, shared by those who look at it and the one that works for it. Cheap to clone.
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

    /// Looks at the fleet, or changes it. Never held across a wait.
    pub fn lock(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Fleet::sync`], and sees to it that what follows is done.
    pub fn sync(&self, pool: &PoolId, endpoints: &[Endpoint], wishes: Wishes) {
        if self.lock().sync(pool, endpoints, wishes, Instant::now()) {
            self.work.notify_one();
        }
    }

    /// Works until dropped. Requests under way are given up then: what they did is asked anew next time. Namespaces that
    /// another install has taken are left alone.
    pub async fn work(&self, http: Http, changed: mpsc::UnboundedSender<Key>, fence: &Fence) {
        let mut tasks: JoinSet<(Job, Outcome)> = JoinSet::new();
        let mut tell_at: Option<Instant> = None;
        loop {
            let (jobs, wake) = {
                let mut fleet = self.lock();
                fleet.leave(|namespace| fence.may_act(namespace).is_err());
                fleet.advance(Instant::now())
            };
            for job in jobs {
                let http = http.clone();
                tasks.spawn(async move {
                    let outcome = http.ask(job.socket, &job.request).await;
                    (job, outcome)
                });
            }
            tokio::select! {
                () = self.work.notified() => {}
                Some(done) = tasks.join_next() => {
                    // A request that panicked is one that never ends; nothing in it can.
                    if let Ok((job, outcome)) = done {
                        log(&job, &outcome);
                        self.lock().finish(&job, outcome, Instant::now());
                    }
                }
                () = sleep_until(tell_at) => {
                    for key in self.lock().take_changed() {
                        // Fails only when the controller has ended.
                        let _ = changed.unbounded_send(key);
                    }
                    tell_at = None;
                    continue;
                }
                () = sleep_until(wake) => {}
            }
            tell_at = tell_at.or_else(|| Instant::now().checked_add(COLLECT));
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

fn log(job: &Job, outcome: &Outcome) {
    let (pod, engine) = (&job.pod_name, job.socket);
    let namespace = &job.engine.pool.namespace;
    let adapter = job.request.name().map(tracing::field::display);
    match (&job.request, outcome) {
        (Request::Load { .. }, Outcome::Done) => info!(%namespace, pod, %engine, adapter, "loaded adapter"),
        (Request::Unload { .. }, Outcome::Done) => info!(%namespace, pod, %engine, adapter, "unloaded adapter"),
        (Request::List { .. }, Outcome::Listed { names, others }) => {
            debug!(%namespace, pod, %engine, adapters = names.len(), others, "asked for adapters");
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
