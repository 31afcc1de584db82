//! The watch of docker configuration Secrets. It is no cache: of each Secret, only the registries' names are kept.

use std::pin::pin;

use futures::{
    Stream, StreamExt,
    channel::{mpsc, oneshot},
};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use tracing::{info, warn};

use super::{PullSecrets, SELECTOR};
use crate::{
    failure::ErrorType,
    process::Context,
    store::{Pauses, WATCH_TIMEOUT},
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
    let api = context.scope.api::<Secret>(context.client.clone());
    let events = watcher(api, config()).backoff(Pauses::default());
    let (secrets, shutdown) = (secrets.clone(), context.shutdown.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = take_in(events, &secrets, done, &sender) => {}
            () = shutdown.requested() => {}
        }
    });
    Following { complete, changed }
}

fn config() -> watcher::Config {
    watcher::Config::default().streaming_lists().timeout(WATCH_TIMEOUT).fields(SELECTOR)
}

async fn take_in(
    events: impl Stream<Item = Result<Event<Secret>, watcher::Error>>,
    secrets: &PullSecrets,
    done: oneshot::Sender<()>,
    changed: &mpsc::UnboundedSender<String>,
) {
    let mut events = pin!(events);
    let mut done = Some(done);
    let mut told = false;
    while let Some(event) = events.next().await {
        let complete = match &event {
            Ok(Event::InitDone) => true,
            Ok(_) => false,
            Err(error) if is_forbidden(error) => {
                if !std::mem::replace(&mut told, true) {
                    warn!(%error, "no right to list Secrets: image pull secrets are not found by registry");
                }
                true
            }
            Err(error) => {
                warn!(%error, "watch of image pull secrets broke; trying again");
                false
            }
        };
        for namespace in event.map(|event| secrets.handle(event)).unwrap_or_default() {
            info!(namespace, "image pull secrets changed");
            // Fails only when the controller has ended.
            let _ = changed.unbounded_send(namespace);
        }
        if complete && let Some(done) = done.take() {
            let _ = done.send(());
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => ErrorType::of(error) == ErrorType::Forbidden,
        watcher::Error::WatchError(status) => status.code == 403,
        watcher::Error::NoResourceVersion => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{SELECTOR, WATCH_TIMEOUT, config};

    #[test]
    fn a_silent_connection_is_opened_anew() {
        let config = config();
        assert_eq!(config.timeout, Some(WATCH_TIMEOUT));
        assert_eq!(config.field_selector.as_deref(), Some(SELECTOR));
    }
}
