//! The watch of docker configuration Secrets. It is no cache: of each Secret, only the registries' names are kept.

use crate::component::pull_secrets::{self, PullSecrets};
use api_types::v1beta1::DynamoComponentDeployment;
use controller_kit::{
    failure::ErrorType,
    process::Context,
    store::{Key, Packed, Pauses, Store, WATCH_TIMEOUT},
};
use futures::{
    Stream, StreamExt,
    channel::{mpsc, oneshot},
};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use std::pin::pin;
use tracing::{info, warn};

/// Keeps the knowledge about docker configuration Secrets up to date in the background. Returns what completes when the
/// first list is in, or when there is no right to have it; and the components whose namespace saw a change.
pub(super) fn follow(
    context: &Context,
    secrets: &PullSecrets,
    components: &Store<Packed<DynamoComponentDeployment>>,
) -> (oneshot::Receiver<()>, mpsc::UnboundedReceiver<Key>) {
    let (done, complete) = oneshot::channel();
    let (sender, keys) = mpsc::unbounded();
    let api = context.scope.api::<Secret>(context.client.clone());
    let events = watcher(api, config()).backoff(Pauses::default());
    let (secrets, components, shutdown) = (secrets.clone(), components.clone(), context.shutdown.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = take_in(events, &secrets, &components, done, &sender) => {}
            () = shutdown.requested() => {}
        }
    });
    (complete, keys)
}

fn config() -> watcher::Config {
    watcher::Config::default().streaming_lists().timeout(WATCH_TIMEOUT).fields(pull_secrets::SELECTOR)
}

async fn take_in(
    events: impl Stream<Item = Result<Event<Secret>, watcher::Error>>,
    secrets: &PullSecrets,
    components: &Store<Packed<DynamoComponentDeployment>>,
    done: oneshot::Sender<()>,
    keys: &mpsc::UnboundedSender<Key>,
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
            let all = components.all();
            let concerned = all.iter().map(|component| Key::of(component.as_ref()));
            for key in concerned.filter(|key| key.namespace == namespace) {
                // Fails only when the controller has ended.
                let _ = keys.unbounded_send(key);
            }
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
    use super::*;

    #[test]
    fn a_silent_connection_is_opened_anew() {
        let config = config();
        assert_eq!(config.timeout, Some(WATCH_TIMEOUT));
        assert_eq!(config.field_selector.as_deref(), Some(pull_secrets::SELECTOR));
    }
}
