//! The loops over pods that cannot serve any more.

use std::sync::Arc;

use api_types::labels;
use controller_kit::{apply::Applier, context::Context, controller::Controller, events::EventSink, store::watch};
use futures::join;
use k8s_openapi::api::core::v1::Pod;

use crate::{NAME, graph::settings::Settings, recovery::Recovery};

/// Follows such pods until the process is to stop, as far as the operator's configuration allows for any.
pub(super) async fn run(context: &Context, settings: &Settings, events: &EventSink) {
    let groups = async {
        if settings.grove.enabled {
            let (recovery, controller) = open(context, events, labels::FAILOVER_ENGINE);
            let restart = move |pod| {
                let recovery = recovery.clone();
                async move { recovery.restart_group(pod).await }
            };
            controller.run(context, restart).await;
        }
    };
    let forgetful = async {
        if settings.snapshots.is_some() {
            let (recovery, controller) = open(context, events, labels::RESTORE_TARGET);
            let replace = move |pod| {
                let recovery = recovery.clone();
                async move { recovery.replace_after_gms_restart(pod).await }
            };
            controller.run(context, replace).await;
        }
    };
    join!(groups, forgetful);
}

/// Pods with a label that is `true`, and what acts on them.
fn open(context: &Context, events: &EventSink, label: &str) -> (Recovery, Controller<Pod>) {
    let selector = format!("{label}={}", labels::TRUE);
    let (pods, watch) = watch::<Pod>(&context.source(), Some(&selector));
    let caches: Vec<Arc<dyn controller_kit::store::CacheView>> = vec![Arc::new(pods.clone())];
    let applier = Applier::new(context.client.clone(), NAME, context.metrics.clone(), caches);
    let controller = Controller::new(watch).writes_with(&applier).of_those(label);
    (Recovery::new(applier, events.clone(), pods), controller)
}
