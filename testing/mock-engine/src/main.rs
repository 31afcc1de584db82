//! Replaces an inference engine, and a frontend, in tests on a real node: it answers probes and the calls by
//! which adapters are loaded, and ends by exhausting its memory on request. `mock-engine pause` only waits for
//! its end, which is what the container that holds a pod's namespaces does.

use std::{
    collections::BTreeMap,
    env, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{delete, get, post},
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// Port of frontends.
const HTTP_PORT: u16 = 8000;
/// Port of workers, unless the environment specifies another.
const SYSTEM_PORT: u16 = 9090;
const SYSTEM_PORT_ENV: &str = "DYN_SYSTEM_PORT";
/// Memory that is taken in one step, in bytes.
const BITE: usize = 8 << 20;

/// Names and sources of the adapters that were loaded.
type Adapters = Arc<Mutex<BTreeMap<String, String>>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let (mut terminated, mut interrupted) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (stop, stopped) = watch::channel(false);
    let ended = async move {
        tokio::select! { _ = terminated.recv() => {}, _ = interrupted.recv() => {} }
        // The reader has not ended yet, or there is no reader.
        let _ = stop.send(true);
    };
    if env::args().nth(1).as_deref() == Some("pause") {
        ended.await;
        return Ok(());
    }
    let adapters = Adapters::default();
    let system = env::var(SYSTEM_PORT_ENV).ok().and_then(|port| port.parse().ok()).unwrap_or(SYSTEM_PORT);
    let servers = async { tokio::try_join!(serve(HTTP_PORT, &adapters, &stopped), serve(system, &adapters, &stopped)) };
    let ((), outcome) = tokio::join!(ended, servers);
    println!("mock engine ended");
    outcome.map(|_| ())
}

async fn serve(port: u16, adapters: &Adapters, stopped: &watch::Receiver<bool>) -> io::Result<()> {
    let router = Router::new()
        .route("/health", get(healthy))
        .route("/live", get(healthy))
        .route("/v1/loras", get(list).post(load))
        .route("/v1/loras/{*name}", delete(unload))
        .route("/exhaust", post(exhaust))
        .with_state(Arc::clone(adapters));
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await?;
    println!("mock engine listens on {port}");
    let mut stopped = stopped.clone();
    let end = async move {
        // The sender being gone is the end, too.
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    axum::serve(listener, router).with_graceful_shutdown(end).await
}

async fn healthy() -> String {
    json!({ "status": "healthy" }).to_string()
}

async fn list(State(adapters): State<Adapters>) -> String {
    let adapters = adapters.lock().unwrap_or_else(PoisonError::into_inner);
    let ids: BTreeMap<&String, usize> = adapters.keys().zip(1..).collect();
    json!({ "status": "success", "loras": ids, "count": ids.len() }).to_string()
}

async fn load(State(adapters): State<Adapters>, body: String) -> (StatusCode, String) {
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    let text = |pointer| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let (Some(name), Some(source)) = (text("/lora_name"), text("/source/uri")) else {
        return (StatusCode::BAD_REQUEST, json!({ "message": "lora_name and source.uri are needed" }).to_string());
    };
    println!("adapter {name} from {source}");
    let answer = json!({ "status": "success", "lora_name": name }).to_string();
    adapters.lock().unwrap_or_else(PoisonError::into_inner).insert(name, source);
    (StatusCode::OK, answer)
}

async fn unload(State(adapters): State<Adapters>, Path(name): Path<String>) -> (StatusCode, String) {
    match adapters.lock().unwrap_or_else(PoisonError::into_inner).remove(&name) {
        Some(_) => (StatusCode::OK, json!({ "status": "success" }).to_string()),
        None => (StatusCode::NOT_FOUND, json!({ "message": format!("adapter {name} is not loaded") }).to_string()),
    }
}

/// Takes memory until the kernel ends the process.
async fn exhaust() -> String {
    println!("taking all the memory there is");
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        // Memory counts once it is written to.
        taken.push(vec![1; BITE]);
        tokio::task::yield_now().await;
    }
}
