//! An engine's API for adapters, with a real socket, that can be slow, flaky, lying or gone.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    routing::{delete, get},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// Behavior of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As the runtime does.
    Good,
    /// Answers after this time.
    Slow(Duration),
    /// Every second request fails.
    Flaky,
    /// Says yes to everything and does nothing.
    Lying,
    /// Cannot load another adapter.
    Full,
    /// Sends callers elsewhere.
    Redirecting,
    /// Never answers.
    Mute,
    /// Never answers a load, and everything else as the runtime does.
    Hanging,
    /// Runs without handlers for adapters.
    Unmanaged,
    /// Does not list its adapters.
    Listless,
}

/// State and history of an engine.
#[derive(Debug)]
struct Inner {
    holds: BTreeMap<String, String>,
    mode: Mode,
    log: Vec<String>,
    host: String,
}

/// An engine that listens. Its socket closes when it is stopped or dropped.
#[derive(Debug)]
pub struct Engine {
    pub socket: SocketAddr,
    inner: Shared,
    server: JoinHandle<()>,
}

type Shared = Arc<Mutex<Inner>>;
type Answer = (StatusCode, String);

impl Engine {
    /// An engine that listens on this address, on any free port.
    pub async fn start(address: &str) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let socket = listener.local_addr().unwrap();
        let inner = Inner { holds: BTreeMap::new(), mode: Mode::Good, log: Vec::new(), host: String::new() };
        let inner = Arc::new(Mutex::new(inner));
        let server = serve(listener, Arc::clone(&inner));
        Self { socket, inner, server }
    }

    /// Behaves like this from now on.
    pub fn set(&self, mode: Mode) {
        self.inner.lock().unwrap().mode = mode;
    }

    /// Names and sources of what it holds.
    pub fn holds(&self) -> BTreeMap<String, String> {
        self.inner.lock().unwrap().holds.clone()
    }

    /// Another client loads an adapter.
    pub fn load_by_hand(&self, name: &str, source: &str) {
        self.inner.lock().unwrap().holds.insert(name.to_owned(), source.to_owned());
    }

    /// Returns the requests that it received since the last call of [`Engine::forget_requests`].
    pub fn requests(&self) -> Vec<String> {
        self.inner.lock().unwrap().log.clone()
    }

    /// Counts the requests that begin with this text.
    pub fn times(&self, beginning: &str) -> usize {
        self.requests().iter().filter(|request| request.starts_with(beginning)).count()
    }

    /// Starts counting anew.
    pub fn forget_requests(&self) {
        self.inner.lock().unwrap().log.clear();
    }

    /// The `Host` that it was called by last.
    pub fn host(&self) -> String {
        self.inner.lock().unwrap().host.clone()
    }

    /// The process restarts: whatever it held is lost.
    pub fn lose_everything(&self) {
        self.inner.lock().unwrap().holds.clear();
    }

    /// The port is closed.
    pub async fn stop(&mut self) {
        self.server.abort();
        let _ = (&mut self.server).await;
    }

    /// Listens again, on the same socket.
    pub async fn listen_again(&mut self) {
        let listener = TcpListener::bind(self.socket).await.unwrap();
        self.server = serve(listener, Arc::clone(&self.inner));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn serve(listener: TcpListener, inner: Shared) -> JoinHandle<()> {
    let router = Router::new()
        .route("/v1/loras", get(list).post(load))
        .route("/v1/loras/{*name}", delete(unload))
        .with_state(inner);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() })
}

/// Notes a request, and answers it in place of the engine if its mode says so.
async fn respond(inner: &Shared, headers: &HeaderMap, request: String) -> Option<Answer> {
    let (mode, count) = {
        let mut inner = inner.lock().unwrap();
        inner.log.push(request.clone());
        inner.host = headers["host"].to_str().unwrap().to_owned();
        (inner.mode, inner.log.len())
    };
    let listing = request == "list";
    let error = |message: &str| Some((StatusCode::INTERNAL_SERVER_ERROR, json!({ "message": message }).to_string()));
    match mode {
        Mode::Slow(time) => tokio::time::sleep(time).await,
        Mode::Mute => std::future::pending().await,
        Mode::Hanging if request.starts_with("load") => std::future::pending().await,
        Mode::Flaky if count % 2 == 1 => return Some((StatusCode::SERVICE_UNAVAILABLE, "warming up".to_owned())),
        Mode::Lying if !listing => return Some((StatusCode::OK, "{}".to_owned())),
        Mode::Full if request.starts_with("load") => return error("LoRA capacity exceeded: at most 4"),
        Mode::Redirecting if !listing => return Some((StatusCode::TEMPORARY_REDIRECT, String::new())),
        Mode::Unmanaged => return error("LoRA management not available: no handler is registered"),
        Mode::Listless if listing => return Some((StatusCode::NOT_FOUND, String::new())),
        _ => {}
    }
    None
}

async fn list(State(inner): State<Shared>, headers: HeaderMap) -> Answer {
    if let Some(answer) = respond(&inner, &headers, "list".to_owned()).await {
        return answer;
    }
    let inner = inner.lock().unwrap();
    let ids: BTreeMap<&String, usize> = inner.holds.keys().zip(1..).collect();
    (StatusCode::OK, json!({ "status": "success", "loras": ids, "count": ids.len() }).to_string())
}

async fn load(State(inner): State<Shared>, headers: HeaderMap, body: Bytes) -> Answer {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let (name, uri) = (body["lora_name"].as_str().unwrap(), body["source"]["uri"].as_str().unwrap());
    if let Some(answer) = respond(&inner, &headers, format!("load {name} {uri}")).await {
        return answer;
    }
    // What is there already stays as it is, and the answer is a success.
    inner.lock().unwrap().holds.entry(name.to_owned()).or_insert_with(|| uri.to_owned());
    (StatusCode::OK, json!({ "status": "success", "lora_name": name }).to_string())
}

async fn unload(State(inner): State<Shared>, headers: HeaderMap, Path(name): Path<String>) -> Answer {
    if let Some(answer) = respond(&inner, &headers, format!("unload {name}")).await {
        return answer;
    }
    match inner.lock().unwrap().holds.remove(&name) {
        Some(_) => (StatusCode::OK, "{}".to_owned()),
        None => {
            let message = format!("LoRA adapter '{name}' not found. Available LoRAs: []");
            (StatusCode::INTERNAL_SERVER_ERROR, json!({ "message": message }).to_string())
        }
    }
}
