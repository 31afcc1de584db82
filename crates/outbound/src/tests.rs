//! Requests against real sockets.

use std::sync::Arc;

use axum::{Router, routing::any};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::{io::AsyncWriteExt, net::TcpListener};
use tokio_rustls::TlsAcceptor;

use super::*;

const LIMITS: Limits = Limits { patience: Duration::from_secs(30), longest: 1 << 20 };

fn get(uri: &str) -> Request<Bytes> {
    Request::get(uri).body(Bytes::new()).unwrap()
}

async fn plain_server() -> String {
    let echo = any(|request: axum::extract::Request| async move {
        let host = request.headers()[header::HOST].to_str().unwrap().to_owned();
        format!("{} {} at {host}", request.method(), request.uri())
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = axum::serve(listener, Router::new().fallback(echo));
    tokio::spawn(async move { serving.await });
    format!("127.0.0.1:{}", address.port())
}

#[tokio::test]
async fn a_request_arrives_as_it_was_made() {
    let server = plain_server().await;
    let client = Outbound::new(&Trust::default()).unwrap();
    let answer = client.send(get(&format!("http://u:p@{server}/a?b=c")), LIMITS).await.unwrap();
    assert_eq!(answer.body(), &format!("GET /a?b=c at {server}"));
}

#[tokio::test]
async fn what_cannot_be_reached_says_so() {
    let client = Outbound::new(&Trust::default()).unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = client.send(get(&format!("http://{gone}/")), LIMITS).await.unwrap_err();
    assert!(
        matches!(&error, OutboundError::Unreachable { server, .. } if *server == format!("http://{gone}")),
        "{error}"
    );
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let limits = Limits { patience: Duration::from_millis(50), ..LIMITS };
    let error = client.send(get(&format!("http://{}/", mute.local_addr().unwrap())), limits).await.unwrap_err();
    assert!(matches!(error, OutboundError::TimedOut { .. }), "{error}");
    let error = client.send(get("ftp://x/"), LIMITS).await.unwrap_err();
    assert!(error.to_string().contains("neither http:// nor https://"), "{error}");
}

#[tokio::test]
async fn a_name_that_leads_inside_is_not_followed() {
    let server = plain_server().await;
    let client = Outbound::new(&Trust::default()).unwrap().only_outside(&[]);
    for host in [server.clone(), server.replace("127.0.0.1", "localhost")] {
        let error = client.send(get(&format!("http://{host}/")), LIMITS).await.unwrap_err();
        assert!(matches!(error, OutboundError::Inside { .. }), "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_refused() {
    let server = plain_server().await;
    let client = Outbound::new(&Trust::default()).unwrap();
    let limits = Limits { longest: 3, ..LIMITS };
    let error = client.send(get(&format!("http://{server}/")), limits).await.unwrap_err();
    assert!(matches!(error, OutboundError::Broken { .. }), "{error}");
}

#[tokio::test]
async fn a_body_in_pieces_ends_with_its_receiver_or_at_its_limit() {
    let server = plain_server().await;
    let client = Outbound::new(&Trust::default()).unwrap();
    let uri = format!("http://{server}/a");
    let (pieces, mut received) = tokio::sync::mpsc::channel(8);
    assert_eq!(client.stream(get(&uri), LIMITS, pieces).await.unwrap(), StatusCode::OK);
    assert_eq!(received.recv().await.unwrap(), format!("GET /a at {server}"));
    assert_eq!(received.recv().await, None);
    let (pieces, received) = tokio::sync::mpsc::channel(8);
    drop(received);
    assert_eq!(client.stream(get(&uri), LIMITS, pieces).await.unwrap(), StatusCode::OK);
    let (pieces, _received) = tokio::sync::mpsc::channel(8);
    let error = client.stream(get(&uri), Limits { longest: 3, ..LIMITS }, pieces).await.unwrap_err();
    assert!(matches!(error, OutboundError::Broken { .. }), "{error}");
}

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_only() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
            stream.write_all(answer).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    let uri = format!("https://localhost:{port}/");
    let trust = Trust { authorities: Some(made.cert.pem().into_bytes()), ..Trust::default() };
    let answer = Outbound::new(&trust).unwrap().send(get(&uri), LIMITS).await.unwrap();
    assert_eq!(answer.body(), "ok");
    let beside = Trust { additional: trust.authorities.clone(), ..Trust::default() };
    assert_eq!(Outbound::new(&beside).unwrap().send(get(&uri), LIMITS).await.unwrap().body(), "ok");
    let error = Outbound::new(&Trust::default()).unwrap().send(get(&uri), LIMITS).await.unwrap_err();
    assert!(matches!(error, OutboundError::Unreachable { .. }), "{error}");
    let garbage = Trust { authorities: Some(b"none".to_vec()), ..Trust::default() };
    assert!(matches!(Outbound::new(&garbage), Err(OutboundError::Trust { .. })));
}
