//! `legacy-store ADDRESS FOLDER` replaces the API store of the legacy API and an image registry, so that
//! graphs of that API run on one machine. The store has an archive of each version of the components whose manifests
//! are in the folder, as `<component>.yaml`; there is nothing else in it. The registry has no images.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use axum::{
    Router,
    extract::{self, State},
    http::StatusCode,
    routing::get,
};
use serde_json::json;
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut args = env::args().skip(1);
    let address = args.next().context("usage: legacy-store ADDRESS FOLDER")?;
    let folder = PathBuf::from(args.next().context("usage: legacy-store ADDRESS FOLDER")?);
    let listener = TcpListener::bind(&address).await.with_context(|| format!("cannot listen on {address}"))?;
    axum::serve(listener, app(folder)).await.context("cannot serve")
}

fn app(folder: PathBuf) -> Router {
    let version = "/api/v1/dynamo_components/{component}/versions/{version}";
    Router::new()
        .route("/readyz", get(|| async { "ok" }))
        .route(version, get(describe))
        .route(&format!("{version}/download"), get(download))
        .with_state(folder)
}

async fn describe(
    State(folder): State<PathBuf>,
    extract::Path((component, version)): extract::Path<(String, String)>,
) -> Result<String, StatusCode> {
    manifest(&folder, &component)?;
    Ok(json!({ "name": version, "transmission_strategy": "proxy" }).to_string())
}

async fn download(
    State(folder): State<PathBuf>,
    extract::Path((component, _)): extract::Path<(String, String)>,
) -> Result<Vec<u8>, StatusCode> {
    archive(&manifest(&folder, &component)?).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

/// The manifest of a component. Its name becomes part of a path only if it is one of a file.
fn manifest(folder: &Path, component: &str) -> Result<Vec<u8>, StatusCode> {
    let is_name = component.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let path = Some(folder.join(format!("{component}.yaml"))).filter(|_| is_name);
    path.and_then(|path| fs::read(path).ok()).ok_or(StatusCode::NOT_FOUND)
}

/// A tar file with the manifest.
fn archive(manifest: &[u8]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(manifest.len().try_into()?);
    header.set_mode(0o644);
    archive.append_data(&mut header, "dynamo.yaml", manifest)?;
    Ok(archive.into_inner()?)
}
