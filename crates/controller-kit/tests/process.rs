//! A whole process against an API server that is not there: it starts, says that it is not ready, and stops on a
//! signal.
//!
//! The process is this test program, started a second time with [`ROLE`] set.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use clap::Parser;
use controller_kit::{
    context::{Context, GRACE},
    controller::{Action, Controller},
    failure::{ErrorType, Failure},
    process::{self, CommonArgs},
    store,
};
use k8s_openapi::api::core::v1::ConfigMap;

const ROLE: &str = "KIT_TEST_KUBECONFIG";

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, thiserror::Error)]
#[error("never")]
struct Never;

impl Failure for Never {
    fn error_type(&self) -> ErrorType {
        ErrorType::Internal
    }
}

async fn controller(context: Context) -> Result<(), Never> {
    let (_, roots) = store::watch::<ConfigMap>(&context.source(), None);
    Controller::new(roots).run(&context, async |_| Ok::<_, Never>(Action::AwaitChange)).await;
    Ok(())
}

/// Not a test of its own: the process that the others look at.
#[test]
fn the_process_itself() {
    let Ok(kubeconfig) = std::env::var(ROLE) else { return };
    let config = format!("{kubeconfig}.config");
    let flags = ["--kubeconfig", &kubeconfig, "--config", &config];
    let flags = ["kit", "--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"].into_iter().chain(flags);
    let code = process::run_within(GRACE, "kit-test", &Args::parse_from(flags).common, controller);
    assert_eq!(code, ExitCode::SUCCESS);
}

/// Starts the process with a kubeconfig that names a closed port.
fn start() -> (Child, PathBuf) {
    let file = std::env::temp_dir().join(format!("kit-{}.kubeconfig", std::process::id()));
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "users": [{ "name": "u", "user": {} }],
    });
    std::fs::write(&file, config.to_string()).unwrap();
    // Without an API server no client may read metrics that are secured. The file of the receiver is there for
    // controllers only.
    let config = serde_json::json!({
        "apiVersion": "operator.config.dynamo.nvidia.com/v1alpha1", "kind": "OperatorConfiguration",
        "server": { "metrics": { "secure": false } },
        "notifications": { "receivers": [{ "name": "a", "url": "http://a", "caFile": "/nowhere/ca.crt" }] },
    });
    std::fs::write(format!("{}.config", file.display()), config.to_string()).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_itself", "--nocapture"])
        .env(ROLE, &file)
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (child, file)
}

/// The address in the first line of the log that has one, and the rest of the log.
fn address(child: &mut Child) -> (String, impl BufRead + use<>) {
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while log.read_line(&mut line).unwrap() > 0 {
        let entry: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(address) = entry["address"].as_str() {
            return (address.to_owned(), log);
        }
        line.clear();
    }
    panic!("no address in the log");
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn without_an_api_server_it_is_alive_not_ready_and_stops_at_the_first_signal() {
    let (mut child, kubeconfig) = start();
    let (address, mut log) = address(&mut child);
    std::fs::remove_file(format!("{}.config", kubeconfig.display())).unwrap();
    std::fs::remove_file(kubeconfig).unwrap();
    assert!(get(&address, "/healthz").starts_with("HTTP/1.1 200"), "alive");
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut ready = get(&address, "/readyz");
    while !ready.contains("waiting for ConfigMap caches") && Instant::now() < deadline {
        ready = get(&address, "/readyz");
    }
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("waiting for ConfigMap caches"), "{ready}");
    let metrics = get(&address, "/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200") && metrics.ends_with("# EOF\n"), "{metrics}");

    let begun = Instant::now();
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    // The pipe closes when the process ends; reading it keeps the process from blocking on its log.
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}\n{rest}");
    assert!(begun.elapsed() < GRACE, "took {:?}", begun.elapsed());
    assert!(rest.contains("SIGTERM"), "{rest}");
}
