//! The loop of image builds.

use std::{
    sync::{Arc, LazyLock, Mutex},
    time::Instant,
};

use api_types::{labels, v1alpha1::DynamoComponent};
use controller_kit::{
    apply::Applier,
    context::Context,
    controller::{Controller, Outputs, owner_key},
    pods::PodDiagnostics,
    store::{Packed, Store, Watch, keep, watch_by, watch_metadata},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::ServiceAccount};
use outbound::{Outbound, Trust};

use crate::{
    NAME,
    image_build::{
        ImageBuildReconciler,
        build_slots::{BuildServer, BuildSlots},
        manifest::ReadSlots,
        observe::{ImageBuildObserver, Registries},
        settings::{BuildSettings, DEFAULT_CONCURRENCY},
    },
};

/// Follows DynamoComponents until the process is to stop.
pub(super) async fn run(
    context: &Context,
    settings: BuildSettings,
    components: Store<Packed<DynamoComponent>>,
    component_watch: Watch<Packed<DynamoComponent>>,
) {
    let client = context.client.clone();
    let is_builder = format!("{}={}", labels::IMAGE_BUILDER, labels::TRUE);
    let (jobs, job_watch) =
        watch_by::<Job>(&context.everywhere(), Some(&is_builder), keep::owned_or_orphaned::<DynamoComponent>);
    let for_builders = format!("{}={}", labels::IMAGE_BUILDER_ACCOUNT, labels::TRUE);
    let (accounts, account_watch) = watch_metadata::<ServiceAccount>(&context.source(), Some(&for_builders), None);
    let fence = context.fence.clone();
    let server = move |namespace: &str| match fence.serves(namespace) {
        true => BuildServer::This,
        false if fence.is_taken(namespace) => BuildServer::Operator,
        false => BuildServer::Replica,
    };
    // No Job is created while the setting is invalid.
    let limit = settings.concurrency.clone().unwrap_or(DEFAULT_CONCURRENCY);
    let build_slots = Arc::new(BuildSlots::new(limit, jobs.clone(), components.clone(), server));
    let applier =
        Applier::new(client.clone(), NAME, context.metrics.clone(), vec![Arc::new(components), Arc::new(jobs.clone())]);
    let waiting = Arc::clone(&build_slots);
    let controller = Controller::new(component_watch)
        .triggered_by(job_watch, move |job| {
            let owner = owner_key::<DynamoComponent, _>(job);
            owner.into_iter().chain(waiting.next_in_turn(Instant::now())).collect()
        })
        // Another account counts from the next build on.
        .triggered_by(account_watch, |_| Vec::new());
    let api_server = std::env::var("KUBERNETES_SERVICE_HOST").ok().and_then(|host| host.parse().ok());
    let reconciler = Arc::new(ImageBuildReconciler {
        observer: ImageBuildObserver {
            client: client.clone(),
            jobs,
            accounts,
            registries: Registries {
                authorities: settings.authorities.clone(),
                known: settings.known.clone(),
                barred: api_server.into_iter().collect(),
            },
            manifests: ReadSlots::default(),
            pods: PodDiagnostics::new(client.clone()),
            settings: Arc::new(settings),
            outbound: LazyLock::new(|| Outbound::new(&Trust::default())),
        },
        outputs: Outputs::new(applier),
        build_slots,
        backoff: Mutex::default(),
    });
    controller.drive(context, reconciler).await;
}
