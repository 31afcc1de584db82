//! The watch of docker configuration Secrets. It is no cache: of each Secret, only the registries' names are kept.

use std::pin::pin;

use futures::{
    Stream, StreamExt,
    channel::{mpsc, oneshot},
};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::Event;
use tracing::{info, warn};

use super::{PullSecrets, SELECTOR};
use crate::{
    context::Context,
    failure::ErrorType,
    store::{
        Key, Packed, Pauses, keep,
        list_watch::WatchError,
        watch::{map, untyped_events},
    },
};

/// What comes of following the Secrets.
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
