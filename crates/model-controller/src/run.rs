//! Caches, triggers and the loop.

use std::{convert::Infallible, sync::Arc, time::Duration};

use api_types::{conditions, labels, v1alpha1::DynamoModel};
use controller_kit::{
    apply::Applier,
    context::Context,
    controller::{Controller, Outputs},
    store::watch,
};
use futures::{StreamExt, channel::mpsc};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::{
    NAME,
    engine::{
        EngineLimits,
        apply::{Dial, EngineMetrics, Http, SharedFleet},
        fleet::Fleet,
    },
    model::{ModelReconciler, finalize::ReleaseWaits, observe::ModelObserver},
};

/// Delay of a status of a model that differs in counts only: a status of hundreds of endpoints is large, and every load
/// changes it.
const COUNT_DELAY: Duration = Duration::from_secs(3);

/// Time between two syncs of all models and engines, for deletions that were missed.
const SWEEP: Duration = Duration::from_secs(60);

/// Options that tests change.
#[derive(Clone, Default)]
pub struct Options {
    /// Limits and timeouts.
    pub pace: EngineLimits,
    /// Addresses of engines.
    pub dial: Dial,
}

/// Runs the controller until shutdown.
///
/// # Errors
/// None: failures are retried.
pub async fn run(context: Context) -> Result<(), Infallible> {
    run_with(context, Options::default()).await
}

/// As [`run`], with other options.
///
/// # Errors
/// None: failures are retried.
pub async fn run_with(context: Context, options: Options) -> Result<(), Infallible> {
    let (client, source) = (context.client.clone(), context.source());
    let (models, model_watch) = watch::<DynamoModel>(&source, None);
    let (slices, slice_watch) = watch::<EndpointSlice>(&source, Some(labels::BASE_MODEL_HASH));
    context.metrics.count_resources(&models, &context.fence, |model| state(&model.status()));
    let http = Http { dial: options.dial, metrics: EngineMetrics::register(&context.metrics) };
    let fleet = SharedFleet::new(Fleet::new(options.pace));
    let observer = Arc::new(ModelObserver::new(client.clone(), models.clone(), slices, fleet.clone()));
    let applier =
        Applier::new(client, NAME, context.metrics.clone(), vec![Arc::new(models)]).with_count_delay(COUNT_DELAY);
    let reconciler = Arc::new(ModelReconciler {
        observer: Arc::clone(&observer),
        outputs: Outputs::new(applier).notifying(context.notifier.as_ref()),
        release_timeout: options.pace.unload_timeout,
        waits: ReleaseWaits::default(),
    });
    let (changed, keys) = mpsc::unbounded();
    let of_slice = Arc::clone(&observer);
    let controller = Controller::new(model_watch)
        .triggered_by(slice_watch, move |slice| of_slice.models_of(&slice.metadata))
        .also(keys.boxed());
    tokio::select! {
        () = controller.drive(&context, reconciler) => {}
        () = fleet.work(http, changed, &context.fence) => {}
        () = sweep(&observer) => {}
    }
    Ok(())
}

async fn sweep(observer: &ModelObserver) {
    loop {
        tokio::time::sleep(SWEEP).await;
        observer.sweep();
    }
}

/// State of a model in the metric that counts models, by the upstream operator's names.
fn state(status: &serde_json::Value) -> &'static str {
    let conditions = status["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == conditions::READY);
    if ready.is_some_and(|condition| condition["status"] == "True") { "ready" } else { "not_ready" }
}
