//! Plain HTTP for probes and metrics.

use std::{collections::BTreeSet, net::SocketAddr};

use axum::{
    Router, extract::State, http::StatusCode, http::header::CONTENT_TYPE, response::IntoResponse, routing::get,
};
use tokio::net::TcpListener;
use tracing::{info, warn};

use super::{Readiness, StartError};
use crate::metrics::Metrics;

/// The type of the OpenMetrics text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Listens before it returns; requests are answered in the background. Both addresses serve all three paths, so that they
/// may be one.
pub(super) async fn start(
    health: SocketAddr,
    metrics: SocketAddr,
    readiness: &Readiness,
    registry: &Metrics,
) -> Result<(), StartError> {
    let router = router(readiness.clone(), registry.clone());
    for address in BTreeSet::from([health, metrics]) {
        let listener = TcpListener::bind(address).await.map_err(|source| StartError::Listen { address, source })?;
        info!(address = %listener.local_addr().unwrap_or(address), "serving health and metrics");
        let router = router.clone();
        tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                warn!(%error, "health and metrics are no longer served");
            }
        });
    }
    Ok(())
}

fn router(readiness: Readiness, metrics: Metrics) -> Router {
    let metrics = Router::new().route("/metrics", get(show_metrics)).with_state(metrics);
    let ready = Router::new().route("/readyz", get(show_ready)).with_state(readiness);
    Router::new().route("/healthz", get(|| async { "ok" })).merge(metrics).merge(ready)
}

async fn show_metrics(State(metrics): State<Metrics>) -> impl IntoResponse {
    ([(CONTENT_TYPE, OPEN_METRICS)], metrics.text())
}

async fn show_ready(State(readiness): State<Readiness>) -> impl IntoResponse {
    match readiness.missing() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {}", missing.join(", "))),
    }
}
