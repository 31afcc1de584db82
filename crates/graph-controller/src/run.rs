//! Caches, what wakes a graph, and the loop.

use std::convert::Infallible;
use std::sync::Arc;

use api_types::external::{DestinationRule, InferencePool};
use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use api_types::{annotations, labels};
use controller_kit::apply::Applier;
use controller_kit::controller::{Controller, owner_key};
use controller_kit::events::EventSink;
use controller_kit::process::Context;
use controller_kit::store::{
    Key, Packed, ServedApi, Store, controller_owner, watch, watch_if_served, watch_metadata_by,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Resource, ResourceExt};

use crate::NAME;
use crate::graph::Reconciler;
use crate::graph::apply::graph_of;
use crate::graph::observe::{Apis, Caches};
use crate::graph::settings::Settings;

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

    let (config_maps, config_map_watch) = watch::<ConfigMap>(client(), scope, Some(labels::GRAPH));
    let (claim_templates, claim_watch) =
        watch_if_served::<ResourceClaimTemplate>(client(), scope, Some(labels::OWN_GRAPH));
    let (pools, pool_watch) = watch_if_served::<InferencePool>(client(), scope, Some(labels::GRAPH));
    let (destination_rules, rule_watch) = watch_if_served::<DestinationRule>(client(), scope, Some(labels::OWN_GRAPH));

    let own_namespace = std::env::var("POD_NAMESPACE").ok();
    let settings = Arc::new(Settings::of(&context.settings, scope, own_namespace));
    // Without a key to copy, the selector matches nothing.
    let copies = format!("metadata.name={}", settings.mpi_key.as_ref().map_or("-", |key| key.name.as_str()));
    let (mpi_keys, key_watch) = watch_metadata_by::<Secret>(client(), scope, None, Some(&copies));

    let caches = Caches {
        graphs,
        components,
        accounts,
        roles,
        bindings,
        worker_pods: pods,
        config_maps,
        claim_templates,
        pools,
        destination_rules,
        mpi_keys,
    };
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
            Arc::new(caches.config_maps.clone()),
            Arc::new(caches.claim_templates.clone()),
            Arc::new(caches.pools.clone()),
            Arc::new(caches.destination_rules.clone()),
            Arc::new(caches.mpi_keys.clone()),
        ],
    )
    .with_predecessors(&[annotations::LAST_APPLIED_HASH]);
    let leader_worker_sets = GroupVersionKind::gvk("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet");
    let leader_worker_sets = ServedApi::new(client(), ApiResource::from_gvk(&leader_worker_sets));
    let reconciler = Reconciler {
        applier: applier.clone(),
        events: EventSink::new(client(), NAME),
        apis: Apis { leader_worker_sets: settings.leader_worker_sets.then_some(leader_worker_sets) },
        settings,
        caches,
    };
    let graphs = &reconciler.caches.graphs;
    let (by_account, by_binding, by_key) = (concerned_by(graphs), concerned_by(graphs), concerned_by(graphs));

    Controller::new(graph_watch)
        .writes_with(&applier)
        .triggered_by(component_watch, |d| graph_of(d).into_iter().collect())
        .triggered_by(account_watch, by_account)
        .owns(role_watch)
        .triggered_by(binding_watch, by_binding)
        .owns(config_map_watch)
        .owns(claim_watch)
        .owns(pool_watch)
        .owns(rule_watch)
        .triggered_by(key_watch, by_key)
        .triggered_by(pod_watch, |pod| graph_of(pod).into_iter().collect())
        .run(&context, move |graph| {
            let reconciler = reconciler.clone();
            async move { reconciler.reconcile(graph).await }
        })
        .await;
    Ok(())
}

/// The graphs that an object concerns: its owner, or all of its namespace if they share it.
fn concerned_by<K: Resource>(graphs: &Store<Packed<DynamoGraphDeployment>>) -> impl Fn(&K) -> Vec<Key> + Send + use<K> {
    let graphs = graphs.clone();
    move |object| {
        if controller_owner(object).is_some() {
            return owner_key::<DynamoGraphDeployment, K>(object).into_iter().collect();
        }
        let all = graphs.all();
        let neighbours = all.iter().filter(|graph| graph.namespace() == object.meta().namespace);
        neighbours.map(|graph| Key::of(graph.as_ref())).collect()
    }
}
