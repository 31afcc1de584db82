//! A server with TLS on loopback: the admission webhooks that the API server calls, and the port of the kubelets from
//! which it reads logs.

use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::kubelet::Kubelets;

/// Denial message of an admission webhook.
pub const DENIAL: &str = "images of this registry are not signed";

/// A server that runs until the process ends.
pub struct Server {
    pub port: u16,
    /// Its certificate, as PEM.
    pub certificate: String,
}

impl Server {
    /// A server whose certificate is valid, or expired long ago.
    pub async fn start(kubelets: Kubelets, expired: bool) -> Self {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        if expired {
            (params.not_before, params.not_after) = (date_time_ymd(2024, 1, 1), date_time_ymd(2025, 1, 1));
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let chain = vec![certificate.der().clone()];
        let config = config.unwrap().with_no_client_auth().with_single_cert(chain, private).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that goes, or does not trust the certificate, ends its connection only.
                tokio::spawn(serve(acceptor.clone(), stream, kubelets.clone()));
            }
        });
        Self { port, certificate: certificate.pem() }
    }
}

/// Accepts connections and never answers. Returns its port.
pub async fn mute() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    port
}

/// An engine that refuses every adapter. Returns its port.
pub async fn engine() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(refuse(BufStream::new(stream)));
        }
    });
    port
}

async fn refuse(mut stream: BufStream<TcpStream>) -> std::io::Result<()> {
    let Some((first, _)) = read(&mut stream).await? else { return Ok(()) };
    let (status, body) = match first.starts_with("GET ") {
        true => ("200 OK", json!({ "status": "success", "loras": {}, "count": 0 })),
        false => ("500 Internal Server Error", json!({ "message": "no such repository" })),
    };
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
    stream.flush().await
}

/// The first line and the body of the next request; none if the client has closed the connection.
async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    if stream.read_line(&mut first).await? == 0 {
        return Ok(None);
    }
    while stream.read_line(&mut line).await? > 0 && line != "\r\n" {
        if let Some((_, value)) = line.to_ascii_lowercase().split_once("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some((first, body)))
}

/// Answers one request after the other, until the client closes the connection.
async fn serve(acceptor: TlsAcceptor, stream: TcpStream, kubelets: Kubelets) -> std::io::Result<()> {
    let mut stream = BufStream::new(acceptor.accept(stream).await?);
    while let Some((first, body)) = read(&mut stream).await? {
        let path = first.split(' ').nth(1).unwrap_or_default();
        let (kind, answer) = match path.strip_prefix("/containerLogs/") {
            Some(rest) => ("text/plain", kubelets.log(rest.split('/').next().unwrap_or_default())),
            None => ("application/json", denial(&body)),
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.write_all(&[head.as_bytes(), answer.as_bytes()].concat()).await?;
        stream.flush().await?;
    }
    Ok(())
}

fn denial(review: &[u8]) -> String {
    let review: Value = serde_json::from_slice(review).unwrap_or_default();
    let response = json!({ "uid": review["request"]["uid"], "allowed": false, "status": { "message": DENIAL } });
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }).to_string()
}
