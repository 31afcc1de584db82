//! Caches, what wakes a graph, and the loop.

use std::convert::Infallible;
use std::sync::Arc;

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use api_types::{annotations, labels};
use controller_kit::apply::Applier;
use controller_kit::controller::Controller;
use controller_kit::events::EventSink;
use controller_kit::process::Context;
use controller_kit::settings;
use controller_kit::store::{watch, watch_metadata_by};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};

use crate::NAME;
use crate::graph::Reconciler;
use crate::graph::apply::graph_of;
use crate::graph::observe::Caches;
use crate::graph::validate::DiscoveryBackend;

/// Pods that still hold resources.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Runs the controller until the process is told to stop.
///
/// # Errors
/// Never: what goes wrong is retried, and shows in logs, metrics and status.
pub async fn run(context: Context) -> Result<(), Infallible> {
    let (client, scope) = (|| context.client.clone(), &context.scope);
    let accounts_of_graphs =
        format!("{}={},{}={}", labels::MANAGED_BY, labels::OPERATOR, labels::APP_COMPONENT, labels::RBAC);
    let worker_pods = format!("{},{}", labels::GRAPH, labels::WORKER_HASH);

    let (graphs, graph_watch) = watch::<DynamoGraphDeployment>(client(), scope, None);
    let (components, component_watch) = watch::<DynamoComponentDeployment>(client(), scope, Some(labels::GRAPH));
    let (accounts, account_watch) = watch::<ServiceAccount>(client(), scope, Some(&accounts_of_graphs));
    let (roles, role_watch) = watch::<Role>(client(), scope, Some(&accounts_of_graphs));
    let (bindings, binding_watch) = watch::<RoleBinding>(client(), scope, Some(&accounts_of_graphs));
    let (pods, pod_watch) = watch_metadata_by::<Pod>(client(), scope, Some(&worker_pods), Some(NOT_ENDED));

    let caches = Caches { graphs, components, accounts, roles, bindings, worker_pods: pods };
    let applier = Applier::new(
        client(),
        NAME,
        context.metrics.clone(),
        vec![
            Arc::new(caches.graphs.clone()),
            Arc::new(caches.components.clone()),
            Arc::new(caches.accounts.clone()),
            Arc::new(caches.roles.clone()),
            Arc::new(caches.bindings.clone()),
        ],
    )
    .with_predecessors(&[annotations::LAST_APPLIED_HASH]);
    let discovery = match context.settings.discovery.backend {
        settings::DiscoveryBackend::Kubernetes => DiscoveryBackend::Kubernetes,
        settings::DiscoveryBackend::Etcd => DiscoveryBackend::Etcd,
    };
    let reconciler = Reconciler { caches, applier: applier.clone(), events: EventSink::new(client(), NAME), discovery };

    Controller::new(graph_watch)
        .writes_with(&applier)
        .triggered_by(component_watch, |d| graph_of(d).into_iter().collect())
        .owns(account_watch)
        .owns(role_watch)
        .owns(binding_watch)
        .triggered_by(pod_watch, |pod| graph_of(pod).into_iter().collect())
        .run(&context, move |graph| {
            let reconciler = reconciler.clone();
            async move { reconciler.reconcile(graph).await }
        })
        .await;
    Ok(())
}
