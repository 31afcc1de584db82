//! Caches, triggers and the loop.

use crate::{
    NAME,
    component::{
        Reconciler,
        observe::Observer,
        pull_secrets::{self, PullSecrets},
    },
};
use api_types::{labels, v1beta1::DynamoComponentDeployment};
use controller_kit::{
    apply::Applier,
    controller::{Controller, owner_key},
    events::EventSink,
    failure::ErrorType,
    process::Context,
    settings::{DiscoveryBackend, OperatorConfiguration},
    store::{Key, Packed, Store, watch, watch_metadata},
};
use futures::{
    Stream, StreamExt,
    channel::{mpsc, oneshot},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Secret, Service, ServiceAccount},
};
use kube::{
    Resource,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use std::{convert::Infallible, pin::pin, sync::Arc};
use tracing::{info, warn};
use workload::PodSettings;

/// Runs the controller until the process is to stop.
///
/// # Errors
/// None: what goes wrong is tried again.
pub async fn run(context: Context) -> Result<(), Infallible> {
    let (client, scope) = (context.client.clone(), &context.scope);
    let (components, component_watch) = watch::<DynamoComponentDeployment>(client.clone(), scope, None);
    let (deployments, deployment_watch) = watch::<Deployment>(client.clone(), scope, Some(labels::COMPONENT));
    let (services, service_watch) = watch::<Service>(client.clone(), scope, Some(labels::COMPONENT));
    let labelled = format!("{}={}", labels::COMPONENT_POD_ACCOUNT, labels::TRUE);
    let (accounts, account_watch) = watch_metadata::<ServiceAccount>(client.clone(), scope, Some(&labelled));
    let applier = Applier::new(
        client.clone(),
        NAME,
        context.metrics.clone(),
        vec![Arc::new(components.clone()), Arc::new(deployments.clone()), Arc::new(services.clone())],
    );
    let controller = Controller::new(component_watch)
        .writes_with(&applier)
        .triggered_by(deployment_watch, child_keys)
        .triggered_by(service_watch, child_keys)
        // Another account for component pods counts from the next change on: labelling one must not roll what runs.
        .triggered_by(account_watch, |_| Vec::new());

    let secrets = PullSecrets::default();
    let controller = if context.settings.image_pull_secret_discovery.enabled {
        let (complete, keys) = follow_secrets(&context, &secrets, &components);
        tokio::select! {
            _ = complete => {}
            () = context.shutdown.requested() => return Ok(()),
        }
        controller.also(keys.boxed())
    } else {
        controller
    };
    let reconciler = Arc::new(Reconciler {
        observer: Observer::new(client.clone(), deployments, services, accounts, secrets),
        applier,
        events: EventSink::new(client, NAME),
        settings: pod_settings(&context.settings),
    });
    controller
        .run(&context, move |component| {
            let reconciler = Arc::clone(&reconciler);
            async move { reconciler.reconcile(component).await }
        })
        .await;
    Ok(())
}

/// The components that a child concerns: its owner, and whoever would give a child this name, which matters when an
/// object that was in the way goes.
fn child_keys<K: Resource>(child: &K) -> Vec<Key> {
    let same_name = Key::of(child);
    let owner = owner_key::<DynamoComponentDeployment, K>(child).filter(|owner| *owner != same_name);
    owner.into_iter().chain([same_name]).collect()
}

/// Settings of the operator that reach pods; empty addresses are none.
fn pod_settings(settings: &OperatorConfiguration) -> PodSettings {
    let address = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let infrastructure = &settings.infrastructure;
    PodSettings {
        discovery_backend: match settings.discovery.backend {
            DiscoveryBackend::Kubernetes => workload::DiscoveryBackend::Kubernetes,
            DiscoveryBackend::Etcd => workload::DiscoveryBackend::Etcd,
        },
        nats_address: address(&infrastructure.nats_address),
        etcd_address: address(&infrastructure.etcd_address),
        model_express_url: address(&infrastructure.model_express_url),
        prometheus_endpoint: address(&infrastructure.prometheus_endpoint),
    }
}

/// Keeps the knowledge about docker configuration Secrets up to date in the background. Returns what completes when the
/// first list is in, or when there is no right to have it; and the components whose namespace saw a change.
fn follow_secrets(
    context: &Context,
    secrets: &PullSecrets,
    components: &Store<Packed<DynamoComponentDeployment>>,
) -> (oneshot::Receiver<()>, mpsc::UnboundedReceiver<Key>) {
    let (done, complete) = oneshot::channel();
    let (sender, keys) = mpsc::unbounded();
    let config = watcher::Config::default().streaming_lists().fields(pull_secrets::SELECTOR);
    let api = context.scope.api::<Secret>(context.client.clone());
    let events = watcher(api, config).default_backoff();
    let (secrets, components, shutdown) = (secrets.clone(), components.clone(), context.shutdown.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = take_in(events, &secrets, &components, done, &sender) => {}
            () = shutdown.requested() => {}
        }
    });
    (complete, keys)
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
