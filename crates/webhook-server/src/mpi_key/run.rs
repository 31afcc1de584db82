//! Makes the key where it is missing, and copies it where it is needed.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_kit::scope::Fence;
use controller_kit::settings::Mpi;
use controller_kit::store::{Key, Scope};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::apply::{copy_key, create_key};
use super::observe::Sight;
use crate::changes::Changes;

/// After something failed, and where another install acts.
const RETRY: Duration = Duration::from_secs(5);
/// After a copy was made or found. The graph says that it has it much earlier, unless nobody looks after the graph.
const AGAIN: Duration = Duration::from_secs(30);

/// Where copies are made.
pub struct Served {
    /// A client that the fence keeps out of namespaces of others.
    pub client: Client,
    /// Which namespaces this process looks at.
    pub scope: Scope,
    /// In which of them it may act.
    pub fence: Fence,
}

/// Makes the key where it is missing, copies it to namespaces whose graphs need it, and never touches a Secret that is there.
pub struct KeyMaker {
    install: Client,
    key: Key,
    sight: Sight,
    changes: Changes,
    served: Served,
    /// When to look at a namespace again that still says that it lacks the key.
    later: BTreeMap<String, Instant>,
}

impl KeyMaker {
    /// For the Secret of the configuration, by default in the operator's own namespace; `None` if it names none. `install` is a
    /// client for what belongs to the install itself.
    #[must_use]
    pub fn new(install: Client, mpi: &Mpi, own_namespace: &str, served: Served) -> Option<Self> {
        let namespace =
            Some(&*mpi.ssh_secret_namespace).filter(|namespace| !namespace.is_empty()).unwrap_or(own_namespace);
        let name = Some(&*mpi.ssh_secret_name).filter(|name| !name.is_empty())?;
        let key = Key::new(namespace, name);
        let (sight, changes) = Sight::new(install.clone(), &key, served.client.clone(), &served.scope);
        Some(Self { install, key, sight, changes, served, later: BTreeMap::new() })
    }

    /// Never returns.
    pub async fn run(mut self) {
        self.changes.read_until(self.sight.key_known()).await;
        loop {
            let next = match self.sight.key() {
                Ok(Some(key)) => self.copy(&key).await,
                Ok(None) => self.create().await,
                Err(error) => {
                    warn!(secret = %self.key, %error, "the SSH key for MPI cannot be copied");
                    None
                }
            };
            // What was created comes back as a change, and so does every deletion.
            self.changes.next_or(sleep_until(next.unwrap_or_else(|| Instant::now() + AGAIN))).await;
        }
    }

    /// Makes the key. Returns when to look again.
    async fn create(&self) -> Option<Instant> {
        match create_key(&self.install, &self.key).await {
            Ok(true) => info!(secret = %self.key, "made the SSH key for MPI"),
            Ok(false) => debug!(secret = %self.key, "another replica was faster"),
            Err(error) => {
                warn!(secret = %self.key, %error, "the SSH key for MPI is missing; trying again");
                return Some(Instant::now() + RETRY);
            }
        }
        None
    }

    /// Copies the key to where it is needed. Returns when to look again.
    async fn copy(&mut self, key: &Secret) -> Option<Instant> {
        let wanted = self.sight.namespaces_in_need();
        self.later.retain(|namespace, _| wanted.contains(namespace));
        for namespace in wanted {
            if self.later.get(&namespace).is_none_or(|later| *later <= Instant::now()) {
                let pause = self.copy_to(&namespace, key).await;
                self.later.insert(namespace, Instant::now() + pause);
            }
        }
        self.later.values().min().copied()
    }

    /// Copies the key to a namespace. Returns for how long it need not be looked at.
    async fn copy_to(&self, namespace: &str, key: &Secret) -> Duration {
        if let Err(excluded) = self.served.fence.may_act(namespace) {
            debug!(%excluded, "the SSH key for MPI is not for us to copy");
            return RETRY;
        }
        let copy = Key::new(namespace, &self.key.name);
        match copy_key(&self.served.client, &copy, key.clone()).await {
            Ok(true) => info!(secret = %copy, from = %self.key, "copied the SSH key for MPI"),
            Ok(false) => debug!(secret = %copy, "it is there already"),
            Err(error) => {
                warn!(secret = %copy, %error, "cannot copy the SSH key for MPI; trying again");
                return RETRY;
            }
        }
        AGAIN
    }
}
