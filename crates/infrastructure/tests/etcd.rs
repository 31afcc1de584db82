//! Against a real etcd.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on shall panic")]

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use infrastructure::{Credentials, Error, Etcd};
use outbound::{Limits, Outbound, Trust};
use serde_json::{Value, json};
use test_cluster::{
    assets::{Assets, Tool},
    free_port, wait,
};

const LIMITS: Limits = Limits { patience: Duration::from_secs(10), longest: 1 << 20 };

/// An etcd of its own, which ends with the test.
struct Server {
    child: Child,
    dir: PathBuf,
    url: String,
}

impl Server {
    async fn start() -> Self {
        let etcd = tokio::task::spawn_blocking(|| Assets::from_env().unwrap().find(Tool::Etcd).unwrap()).await.unwrap();
        let (clients, peers) = (free_port().unwrap(), free_port().unwrap());
        let (url, peers) = (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
        let dir = std::env::temp_dir().join(format!("dynamo-etcd-{}-{clients}", std::process::id()));
        let child = Command::new(etcd)
            .args(["--name=one", "--unsafe-no-fsync", "--log-level=error"])
            .arg(format!("--data-dir={}", dir.display()))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--listen-peer-urls={peers}"))
            .arg(format!("--initial-advertise-peer-urls={peers}"))
            .arg(format!("--initial-cluster=one={peers}"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, dir, url };
        let client = server.client(&Credentials::default());
        let answers = || async { client.check().await.map_err(|error| error.to_string()) };
        wait::until("etcd to answer", Duration::from_secs(60), answers).await.unwrap();
        server
    }

    fn client(&self, credentials: &Credentials) -> Etcd {
        Etcd::new(&self.url, credentials).unwrap()
    }

    /// Asks the gateway without our client.
    async fn raw(&self, path: &str, body: Value) -> Value {
        let request = http::Request::post(format!("{}/v3/{path}", self.url)).body(body.to_string().into()).unwrap();
        let answer = Outbound::new(&Trust::default()).unwrap().send(request, LIMITS).await.unwrap();
        assert!(answer.status().is_success(), "{path}: {answer:?}");
        serde_json::from_slice(answer.body()).unwrap()
    }

    async fn put(&self, key: &str) {
        self.raw("kv/put", json!({ "key": encoded(key), "value": encoded("x") })).await;
    }

    async fn has(&self, key: &str) -> bool {
        self.raw("kv/range", json!({ "key": encoded(key) })).await.get("count").is_some()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn encoded(text: &str) -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    BASE64_STANDARD.encode(text)
}

/// Defect of the operator of 2025: the keys that it deleted were never there, and those that were there stayed.
#[tokio::test]
async fn stale_keys_of_a_namespace_go_and_no_others() {
    let server = Server::start().await;
    let stale = ["v1/instances/team-llm/backend/generate/6af3", "v1/mdc/team-llm/backend/generate/6af3"];
    let others = ["v1/instances/team-llm-2/backend/generate/1", "v1/instances/team/backend/generate/2", "other"];
    for key in stale.iter().chain(&others) {
        server.put(key).await;
    }
    let client = server.client(&Credentials::default());
    assert_eq!(client.remove_namespace("team-llm").await.unwrap(), 2);
    for key in stale {
        assert!(!server.has(key).await, "{key}");
    }
    for key in others {
        assert!(server.has(key).await, "{key}");
    }
    assert_eq!(client.remove_namespace("team-llm").await.unwrap(), 0);
    assert_eq!(client.remove_namespace("").await.unwrap(), 0);

    // Of a component, only what no living process holds.
    let lease = server.raw("lease/grant", json!({ "TTL": 600 })).await["ID"].clone();
    let (held, free) = ("v1/instances/team/planner/generate/1", "v1/instances/team/planner/generate/2");
    server.raw("kv/put", json!({ "key": encoded(held), "value": encoded("x"), "lease": lease })).await;
    server.put(free).await;
    server.put("v1/instances/team/planner-2/generate/3").await;
    assert_eq!(client.remove_component("team", "planner").await.unwrap(), 1);
    assert!(server.has(held).await && !server.has(free).await);

    // The first endpoint is down: the second is asked.
    let both = Etcd::new(&format!("127.0.0.1:1,{}", server.url), &Credentials::default()).unwrap();
    both.check().await.unwrap();
    passwords_are_asked_for(&server).await;
}

/// From here on etcd lets nobody in without a password.
async fn passwords_are_asked_for(server: &Server) {
    server.raw("auth/user/add", json!({ "name": "root", "password": "secret" })).await;
    server.raw("auth/user/grant", json!({ "user": "root", "role": "root" })).await;
    server.raw("auth/enable", json!({})).await;
    let login =
        |password: &str| Credentials { etcd: Some(("root".to_owned(), password.to_owned())), ..Credentials::default() };
    server.client(&login("secret")).check().await.unwrap();
    for refused in [login("wrong"), Credentials::default()] {
        let error = server.client(&refused).check().await.unwrap_err();
        assert!(matches!(error, Error::Etcd { .. }), "{error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
}

#[tokio::test]
async fn an_etcd_that_is_not_there_says_so() {
    let error = Etcd::new("127.0.0.1:1", &Credentials::default()).unwrap().check().await.unwrap_err();
    assert!(matches!(&error, Error::Connection(_)), "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}
