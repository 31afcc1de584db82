//! Makes a key in each namespace that needs one.

use std::{collections::BTreeMap, time::Duration};

use controller_kit::{
    scope::Fence,
    settings::Mpi,
    store::{Key, Scope, Store},
};
use kube::Client;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::{
    apply::create_key,
    observe::{Graph, namespaces_in_need, watch_graphs},
};
use crate::changes::Changes;

/// After something failed, and where another install acts.
const RETRY: Duration = Duration::from_secs(5);
/// After a key was made or found. The graph says that it has it much earlier, unless no controller serves the graph.
const AGAIN: Duration = Duration::from_secs(30);

/// Where keys are made.
pub struct Served {
    /// A client that the fence keeps out of namespaces of others.
    pub client: Client,
    /// Which namespaces this process looks at.
    pub scope: Scope,
    /// In which of them it may act.
    pub fence: Fence,
}

/// Makes a key in each namespace whose graphs need one, and never touches a Secret that is there.
pub struct KeyMaker {
    /// Name of all Secrets.
    name: String,
    graphs: Store<Graph>,
    changes: Changes,
    served: Served,
    /// When to look at a namespace again that still says that it lacks the key.
    later: BTreeMap<String, Instant>,
}

impl KeyMaker {
    /// For the name of the configuration; `None` if there is none.
    #[must_use]
    pub fn new(mpi: &Mpi, served: Served) -> Option<Self> {
        let name = Some(mpi.ssh_secret_name.clone()).filter(|name| !name.is_empty())?;
        let (graphs, changes) = watch_graphs(served.client.clone(), &served.scope);
        Some(Self { name, graphs, changes, served, later: BTreeMap::new() })
    }

    /// Never returns.
    pub async fn run(mut self) {
        loop {
            let next = self.make_all().await;
            self.changes.next_or(sleep_until(next.unwrap_or_else(|| Instant::now() + AGAIN))).await;
        }
    }

    /// Makes the keys that are needed. Returns the time of the next pass.
    async fn make_all(&mut self) -> Option<Instant> {
        let wanted = namespaces_in_need(&self.graphs);
        self.later.retain(|namespace, _| wanted.contains(namespace));
        for namespace in wanted {
            if self.later.get(&namespace).is_none_or(|later| *later <= Instant::now()) {
                let pause = self.make_in(&namespace).await;
                self.later.insert(namespace, Instant::now() + pause);
            }
        }
        self.later.values().min().copied()
    }

    /// Makes the key of a namespace. Returns for how long it need not be looked at.
    async fn make_in(&self, namespace: &str) -> Duration {
        if let Err(excluded) = self.served.fence.may_act(namespace) {
            debug!(%excluded, "made no SSH key for MPI");
            return RETRY;
        }
        let key = Key::new(namespace, &self.name);
        match create_key(&self.served.client, &key).await {
            Ok(true) => info!(secret = %key, "made the SSH key for MPI"),
            Ok(false) => debug!(secret = %key, "the SSH key for MPI exists"),
            Err(error) => {
                warn!(secret = %key, %error, "cannot make the SSH key for MPI; trying again");
                return RETRY;
            }
        }
        AGAIN
    }
}
