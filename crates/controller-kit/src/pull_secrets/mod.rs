//! Docker configuration Secrets: which registries they open, and which of them exist. Only host names are kept.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    pin::pin,
    sync::{Arc, Mutex},
};

use futures::{
    Stream, StreamExt,
    channel::{mpsc, oneshot},
};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::Event;
use rendering::{PullSecretIndex, RegistryHosts};
use tracing::{info, warn};

use crate::{
    context::Context,
    failure::ErrorType,
    store::{
        Key, Packed, Pauses, keep,
        list_watch::WatchError,
        watch::{map, untyped_events},
    },
    sync::locked,
};

/// Field selector for the Secrets that matter.
const SELECTOR: &str = "type=kubernetes.io/dockerconfigjson";

/// Key of a docker configuration within a Secret.
pub const DATA_KEY: &str = ".dockerconfigjson";

/// Everything known of docker configuration Secrets. Cheap to clone; clones share the content.
#[derive(Clone, Debug, Default)]
pub struct PullSecrets {
    registry: Arc<Mutex<Registry>>,
}

impl PullSecrets {
    /// The Secrets of one namespace by registry.
    pub fn index(&self, namespace: &str) -> Arc<PullSecretIndex> {
        locked(&self.registry).namespaces.get(namespace).map(|known| Arc::clone(&known.index)).unwrap_or_default()
    }

    /// Whether a docker configuration Secret of this name is known.
    pub fn lists(&self, namespace: &str, name: &str) -> bool {
        locked(&self.registry).namespaces.get(namespace).is_some_and(|known| known.secrets.contains_key(name))
    }

    /// Takes in one event of the watch; names the namespaces in which something changed.
    pub fn handle(&self, event: Event<Secret>) -> BTreeSet<String> {
        locked(&self.registry).handle(event)
    }
}

type Secrets = BTreeMap<String, RegistryHosts>;

#[derive(Debug, Default)]
struct Registry {
    namespaces: HashMap<String, NamespaceSecrets>,
    /// Secrets of a list that is not complete yet.
    incoming: HashMap<String, Secrets>,
}

#[derive(Debug, Default)]
struct NamespaceSecrets {
    secrets: Secrets,
    index: Arc<PullSecretIndex>,
}

impl Registry {
    fn handle(&mut self, event: Event<Secret>) -> BTreeSet<String> {
        match event {
            Event::Init => {
                self.incoming.clear();
                BTreeSet::new()
            }
            Event::InitApply(secret) => {
                let key = Key::of(&secret);
                self.incoming.entry(key.namespace).or_default().insert(key.name, hosts(&secret));
                BTreeSet::new()
            }
            Event::InitDone => self.replace_all(),
            Event::Apply(secret) => self.change(Key::of(&secret), Some(hosts(&secret))),
            Event::Delete(secret) => self.change(Key::of(&secret), None),
        }
    }

    fn replace_all(&mut self) -> BTreeSet<String> {
        let mut incoming = std::mem::take(&mut self.incoming);
        let mut changed: BTreeSet<String> = self.namespaces.keys().chain(incoming.keys()).cloned().collect();
        changed.retain(|namespace| self.set(namespace, incoming.remove(namespace).unwrap_or_default()));
        changed
    }

    fn change(&mut self, key: Key, hosts: Option<RegistryHosts>) -> BTreeSet<String> {
        let mut secrets = self.namespaces.get(&key.namespace).map(|known| known.secrets.clone()).unwrap_or_default();
        match hosts {
            Some(hosts) => secrets.insert(key.name, hosts),
            None => secrets.remove(&key.name),
        };
        if self.set(&key.namespace, secrets) { BTreeSet::from([key.namespace]) } else { BTreeSet::new() }
    }

    /// Returns whether anything changed; new credentials for the same registries are no change.
    fn set(&mut self, namespace: &str, secrets: Secrets) -> bool {
        if self.namespaces.get(namespace).map(|known| &known.secrets).unwrap_or(&Secrets::new()) == &secrets {
            return false;
        }
        if secrets.is_empty() {
            self.namespaces.remove(namespace);
        } else {
            let index = Arc::new(PullSecretIndex::new(secrets.clone()));
            self.namespaces.insert(namespace.to_owned(), NamespaceSecrets { secrets, index });
        }
        true
    }
}

/// One Secret that cannot be read must not stop the others: it exists, and opens nothing.
fn hosts(secret: &Secret) -> RegistryHosts {
    let Some(config) = secret.data.as_ref().and_then(|data| data.get(DATA_KEY)) else {
        return RegistryHosts::default();
    };
    RegistryHosts::parse(&config.0).unwrap_or_else(|error| {
        warn!(secret = %Key::of(secret), %error, "not used for image pulls");
        RegistryHosts::default()
    })
}

/// Results of following the Secrets.
pub struct Following {
    /// Completes when the first list is in, or when there is no right to have it.
    pub complete: oneshot::Receiver<()>,
    /// Namespaces that saw a change.
    pub changed: mpsc::UnboundedReceiver<String>,
}

/// Keeps the knowledge about docker configuration Secrets up to date in the background.
#[must_use]
pub fn follow(context: &Context, secrets: &PullSecrets) -> Following {
    let (done, complete) = oneshot::channel();
    let (sender, changed) = mpsc::unbounded();
    let events = untyped_events(&context.everywhere(), None, Some(SELECTOR), keep::any, Pauses::default());
    let (secrets, shutdown) = (secrets.clone(), context.shutdown.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = take_in(events, &secrets, done, &sender) => {}
            () = shutdown.requested() => {}
        }
    });
    Following { complete, changed }
}

async fn take_in(
    events: impl Stream<Item = Result<Event<Packed<Secret>>, WatchError>>,
    secrets: &PullSecrets,
    done: oneshot::Sender<()>,
    changed: &mpsc::UnboundedSender<String>,
) {
    let mut events = pin!(events);
    let mut done = Some(done);
    let mut warned = false;
    while let Some(event) = events.next().await {
        let complete = match &event {
            Ok(Event::InitDone) => true,
            Ok(_) => false,
            Err(error) if error.error_type() == ErrorType::Forbidden => {
                if !std::mem::replace(&mut warned, true) {
                    warn!(%error, "no right to list Secrets: image pull secrets are not found by registry");
                }
                true
            }
            Err(error) => {
                warn!(%error, "watch of image pull secrets broke; trying again");
                false
            }
        };
        for namespace in event.map(|event| secrets.handle(map(event, read))).unwrap_or_default() {
            info!(namespace, "image pull secrets changed");
            // Fails only when the controller has ended.
            let _ = changed.unbounded_send(namespace);
        }
        if complete && let Some(done) = done.take() {
            let _ = done.send(());
        }
    }
}

/// One Secret that cannot be read must not stop the others: it exists, and holds nothing. The error would quote its
/// content.
fn read(packed: Packed<Secret>) -> Secret {
    packed.unpack().unwrap_or_else(|_| {
        warn!(secret = %Key::of(&packed), "cannot be read; not used for image pulls");
        Secret { metadata: packed.metadata, ..Secret::default() }
    })
}

#[cfg(test)]
mod tests;
