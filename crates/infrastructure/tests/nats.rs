//! Against a server that speaks as much of NATS as the questions need: a greeting, a login, and JetStream's own API.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on shall panic")]

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use infrastructure::{Credentials, Error, Nats};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// What the server keeps, and whom it lets in.
#[derive(Default)]
struct Kept {
    streams: BTreeSet<String>,
    without_jetstream: bool,
    token: Option<&'static str>,
}

struct Server {
    address: String,
    kept: Arc<Mutex<Kept>>,
}

impl Server {
    async fn start(kept: Kept) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("nats://{}", listener.local_addr().unwrap());
        let kept = Arc::new(Mutex::new(kept));
        let shared = Arc::clone(&kept);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, Arc::clone(&shared)));
            }
        });
        Self { address, kept }
    }

    fn client(&self, credentials: &Credentials) -> Nats {
        Nats::new(&self.address, credentials)
    }
}

async fn converse(stream: TcpStream, kept: Arc<Mutex<Kept>>) -> Option<()> {
    let (read, mut write) = stream.into_split();
    let greeting = json!({
        "server_id": "t", "server_name": "t", "version": "2.10.0", "proto": 1, "go": "", "host": "127.0.0.1", "port": 1,
        "headers": true, "max_payload": 1048576, "auth_required": kept.lock().unwrap().token.is_some(),
    });
    write.write_all(format!("INFO {greeting}\r\n").as_bytes()).await.ok()?;
    let mut read = BufReader::new(read);
    let mut inbox = String::new();
    let mut line = String::new();
    while read.read_line(&mut line).await.ok()? > 0 {
        let words: Vec<String> = line.split_whitespace().map(ToOwned::to_owned).collect();
        match words.first().map(String::as_str) {
            Some("CONNECT") => {
                let login: Value = serde_json::from_str(line.trim_start_matches("CONNECT ")).ok()?;
                if kept.lock().unwrap().token.is_some_and(|token| login["auth_token"] != token) {
                    write.write_all(b"-ERR 'Authorization Violation'\r\n").await.ok()?;
                    return None;
                }
            }
            Some("PING") => write.write_all(b"PONG\r\n").await.ok()?,
            Some("SUB") => inbox = words.last()?.clone(),
            Some("PUB") => answer(&mut read, &mut write, &words, &inbox, &kept).await?,
            _ => {}
        }
        line.clear();
    }
    Some(())
}

/// Answers `PUB <subject> <reply to> <bytes>`.
async fn answer(
    read: &mut BufReader<OwnedReadHalf>,
    write: &mut OwnedWriteHalf,
    words: &[String],
    inbox: &str,
    kept: &Mutex<Kept>,
) -> Option<()> {
    let (subject, reply) = (words.get(1)?, words.get(2)?);
    let mut payload = vec![0; words.last()?.parse::<usize>().ok()? + 2];
    read.read_exact(&mut payload).await.ok()?;
    let body = match kept.lock().unwrap() {
        kept if kept.without_jetstream => {
            json!({ "error": { "code": 503, "err_code": 10076, "description": "jetstream not enabled" } })
        }
        mut kept => match subject.strip_prefix("$JS.API.")? {
            "INFO" => account(),
            "STREAM.NAMES" => {
                json!({ "total": kept.streams.len(), "offset": 0, "limit": 1024, "streams": kept.streams })
            }
            deletion => json!({ "success": kept.streams.remove(deletion.strip_prefix("STREAM.DELETE.")?) }),
        },
    };
    let body = body.to_string();
    write.write_all(format!("MSG {reply} {inbox} {}\r\n{body}\r\n", body.len()).as_bytes()).await.ok()
}

/// An account of JetStream, in which all that is mandatory is zero.
fn account() -> Value {
    json!({
        "memory": 0, "storage": 0, "reserved_memory": 0, "reserved_storage": 0, "streams": 0, "consumers": 0,
        "api": { "total": 0, "errors": 0 },
        "limits": {
            "max_memory": -1, "max_storage": -1, "max_streams": -1, "max_consumers": -1, "max_bytes_required": false,
            "max_ack_pending": -1, "memory_max_stream_bytes": -1, "storage_max_stream_bytes": -1,
        },
    })
}

#[tokio::test]
async fn leftovers_of_a_namespace_go_and_no_others() {
    let stale = ["namespace_team-llm_component_backend_kv_events", "OBJ_namespace_team-llm_component_x-radix-bucket"];
    let others = ["namespace_team-llm-2_component_backend_kv_events", "orders"];
    let streams = stale.iter().chain(&others).map(ToString::to_string).collect();
    let server = Server::start(Kept { streams, ..Kept::default() }).await;
    let client = server.client(&Credentials::default());
    client.check().await.unwrap();
    assert_eq!(client.remove_namespace("team-llm").await.unwrap(), 2);
    assert!(server.kept.lock().unwrap().streams.iter().eq(others.iter()));
    assert_eq!(client.remove_namespace("team-llm").await.unwrap(), 0);
}

#[tokio::test]
async fn a_server_without_streams_has_no_leftovers() {
    let server = Server::start(Kept { without_jetstream: true, ..Kept::default() }).await;
    assert_eq!(server.client(&Credentials::default()).remove_namespace("team-llm").await.unwrap(), 0);
}

#[tokio::test]
async fn a_login_is_shown_to_the_server_and_to_nobody_else() {
    let server = Server::start(Kept { token: Some("secret"), ..Kept::default() }).await;
    let login = |token: &[u8]| Credentials::of_secret(&[("nats-token".to_owned(), token.to_vec())].into()).unwrap();
    server.client(&login(b"secret\n")).check().await.unwrap();
    for refused in [login(b"wrong"), Credentials::default()] {
        let error = server.client(&refused).check().await.unwrap_err();
        assert!(matches!(error, Error::Nats { .. }), "{error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_says_so() {
    let error = Nats::new("nats://127.0.0.1:1", &Credentials::default()).check().await.unwrap_err();
    assert!(matches!(&error, Error::Nats { server, .. } if server == "nats://127.0.0.1:1"), "{error}");
}
