//! The controllers of the product, as tasks of this process.

use std::sync::Arc;

use controller_kit::{
    context::{Context, Readiness, Shutdown},
    metrics::Metrics,
    scope::Fence,
    settings::OperatorConfiguration,
    store::Scope,
};
use graph_controller::request::settings::RequestArgs;
use kube::Client;

/// Controllers with one scope. They stop when this is dropped.
pub struct Controllers {
    settings: Arc<OperatorConfiguration>,
    scope: Scope,
    fence: Fence,
    shutdown: Shutdown,
}

impl Controllers {
    /// None runs yet.
    pub fn new(settings: OperatorConfiguration, scope: Scope, fence: Fence) -> Self {
        Self { settings: Arc::new(settings), scope, fence, shutdown: Shutdown::manual() }
    }

    /// Starts the controllers of graphs and components with the rights of a client.
    pub fn start(&self, client: &Client) {
        self.start_graphs(client);
        self.start_components(client);
    }

    /// Starts the controller of graphs, requests and scaling adapters.
    pub fn start_graphs(&self, client: &Client) {
        let graphs = self.context(graph_controller::NAME, client);
        tokio::spawn(async move { graph_controller::run(graphs, RequestArgs::default()).await.unwrap() });
    }

    /// Starts the controller of components and checkpoints.
    pub fn start_components(&self, client: &Client) {
        let components = self.context(component_controller::NAME, client);
        tokio::spawn(async move { component_controller::run(components).await.unwrap() });
    }

    /// The context of one more controller.
    pub fn context(&self, name: &'static str, client: &Client) -> Context {
        Context {
            name,
            client: client.clone(),
            settings: Arc::clone(&self.settings),
            scope: self.scope.clone(),
            fence: self.fence.clone(),
            readiness: Readiness::default(),
            metrics: Metrics::new(),
            shutdown: self.shutdown.clone(),
            notifier: None,
            concurrency: 4,
        }
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.shutdown.request();
    }
}
