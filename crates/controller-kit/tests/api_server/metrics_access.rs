//! Access to the metrics of a process. The process is this test program, started a second time with [`ROLE`] set.

use std::{
    convert::Infallible,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use controller_kit::{
    access::role,
    context::GRACE,
    process::{self, CommonArgs},
};
use futures::future::join_all;
use kube::{Client, Config};
use serde_json::{Value, json};
use test_cluster::{Cluster, Controllers, Options, Program, wait};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const ROLE: &str = "KIT_TEST_METRICS_FLAGS";
const NAMESPACE: &str = "default";
const LIMIT: Duration = Duration::from_secs(60);
/// The time in which an answer counts as given at once, on a machine that has other things to do.
const SOON: Duration = Duration::from_secs(8);

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
}

/// Not a test of its own: the process whose metrics are read.
#[test]
fn the_process_itself() {
    let Ok(flags) = std::env::var(ROLE) else { return };
    let args = Args::parse_from(["kit"].into_iter().chain(flags.split('\n')));
    let code = process::run_within(GRACE, "kit-test", &args.common, |context| async move {
        context.shutdown.requested().await;
        Ok::<_, Infallible>(())
    });
    assert_eq!(code, ExitCode::SUCCESS);
}

/// A ClusterRole and its binding to an account.
fn bound(account: &str, role: Value) -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": account },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role["metadata"]["name"] },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": NAMESPACE }],
    });
    [role, binding]
}

/// The token of a new account with these rules.
async fn token(cluster: &Cluster, account: &str, rules: &[Value]) -> String {
    cluster.service_account_kubeconfig(NAMESPACE, account, rules).await.unwrap();
    cluster.token(NAMESPACE, account).await.unwrap()
}

/// A client of the metrics, which takes any certificate as Prometheus does.
fn client(port: u16, token: Option<&str>) -> Client {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    (config.accept_invalid_certs, config.default_retry, config.proxy_url) = (true, false, None);
    config.auth_info.token = token.map(|token| token.to_owned().into());
    Client::try_from(config).unwrap()
}

async fn get(port: u16, token: Option<&str>, path: &str) -> (u16, String) {
    let request = http::Request::get(path).body(Vec::new().into()).unwrap();
    let answer = client(port, token).send(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect_bytes().await.unwrap();
    (status, String::from_utf8(body.into()).unwrap())
}

/// Returns the answer of an address to a request in plain HTTP.
async fn plain(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_for_clients_with_the_right_to_read_them() {
    let options = Options { controllers: Controllers::Off, ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let own = bound("process", role("process", None, &[]));
    let kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, "process", &own).await.unwrap();
    let reader = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "metrics-reader" },
        "rules": [{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }],
    });
    let (allowed, late, forbidden) = (
        token(&cluster, "prometheus", &bound("prometheus", reader.clone())).await,
        token(&cluster, "late", &bound("late", reader)).await,
        token(&cluster, "tenant", &[]).await,
    );
    let (health, metrics) = (test_cluster::free_port().unwrap(), test_cluster::free_port().unwrap());
    let flags = [
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--health-address=127.0.0.1:{health}"),
        format!("--metrics-address=127.0.0.1:{metrics}"),
    ];
    let program = Program {
        name: "kit".to_owned(),
        executable: std::env::current_exe().unwrap(),
        args: ["--exact", "metrics_access::the_process_itself", "--nocapture"].map(str::to_owned).to_vec(),
        env: vec![(ROLE.to_owned(), flags.join("\n"))],
    };
    cluster.run(&program).await.unwrap();
    let alive = async || plain(health, "/healthz").await.ok().filter(|answer| answer.starts_with("HTTP/1.0 200"));
    wait::until("the process to be alive", LIMIT, alive).await.unwrap();

    // Probes need no token and are on their own port; metrics are on the other one, over TLS.
    assert!(plain(health, "/metrics").await.unwrap().starts_with("HTTP/1.0 404"));
    assert!(!plain(metrics, "/metrics").await.unwrap_or_default().contains("HTTP/1"));
    for (token, status) in [(None, 401), (Some("no.such.token"), 401), (Some(&*forbidden), 403), (Some(&allowed), 200)]
    {
        let (found, text) = get(metrics, token, "/metrics").await;
        assert_eq!(found, status, "{text}");
        assert_eq!(text.contains("# EOF"), status == 200, "{text}");
    }
    assert_eq!(get(metrics, Some(&allowed), "/healthz").await.0, 404);

    // A flood: each token of its own would be a review.
    let begin = Instant::now();
    let mut reviewed = 0;
    for round in 0..5 {
        let tokens: Vec<String> = (0..40).map(|number| format!("flood-{round}-{number}")).collect();
        for (status, _) in join_all(tokens.iter().map(|token| get(metrics, Some(token), "/metrics"))).await {
            assert!([401, 429].contains(&status), "{status}");
            reviewed += u64::from(status == 401);
        }
        assert_eq!(get(metrics, Some(&allowed), "/metrics").await.0, 200, "an answer that holds");
    }
    assert!((1..=5 * (begin.elapsed().as_secs() + 2)).contains(&reviewed), "{reviewed} in {:?}", begin.elapsed());

    // Without the API server, what is known goes on, and what is not known is refused at once.
    cluster.stop_apiserver().await.unwrap();
    assert_eq!(get(metrics, Some(&allowed), "/metrics").await.0, 200);
    let refused = async || {
        let begin = Instant::now();
        let (status, text) = get(metrics, Some(&late), "/metrics").await;
        assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
        // The flood may have used up the reviews of this second.
        if status == 503 { Ok(()) } else { Err(format!("{status}: {text}")) }
    };
    wait::until("the API server to be missed", LIMIT, refused).await.unwrap();
    cluster.start_apiserver().await.unwrap();
    let again = async || match get(metrics, Some(&late), "/metrics").await {
        (200, _) => Ok(()),
        (status, text) => Err(format!("{status}: {text}")),
    };
    wait::until("reviews to go on", LIMIT, again).await.unwrap();
}
