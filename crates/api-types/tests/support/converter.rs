//! A conversion webhook for tests: the conversion library behind TLS, found by the API server as in production, through
//! a Service.

use std::sync::Arc;

use api_types::{conversion::review::Review, crds::ConversionService};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Client, ResourceExt,
    api::{Api, ListParams, Patch, PatchParams},
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};
use tokio_rustls::TlsAcceptor;

/// Namespace of the Service.
const NAMESPACE: &str = "converter";

/// Serves until it is dropped, on a thread of its own, because tests block theirs.
pub struct Converter {
    name: String,
    port: u16,
    certificate: rcgen::Certificate,
    runtime: Option<Runtime>,
}

impl Drop for Converter {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Converter {
    /// Begins to serve.
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let name = format!("converter-{port}");
        let host = format!("{name}.{NAMESPACE}.svc");
        let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([host]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            listener.set_nonblocking(true).unwrap();
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(acceptor.clone(), stream));
            }
        });
        Self { name, port, certificate: cert, runtime: Some(runtime) }
    }

    /// Makes the Service by which the API server finds it: one that leads to loopback.
    pub async fn expose(&self, client: &Client) {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
        apply(client, "/api/v1/namespaces", &namespace).await;
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": self.name, "namespace": NAMESPACE },
            "spec": { "type": "ExternalName", "externalName": "127.0.0.1", "ports": [{ "port": self.port }] },
        });
        apply(client, &format!("/api/v1/namespaces/{NAMESPACE}/services"), &service).await;
    }

    /// The Service.
    pub fn service(&self) -> ConversionService {
        format!("{NAMESPACE}/{}:{}", self.name, self.port).parse().unwrap()
    }

    /// Returns the CA bundle for its certificate.
    #[allow(dead_code, reason = "each test program uses a part")]
    pub fn bundle(&self) -> String {
        self.certificate.pem()
    }

    /// Puts the CA bundle into the installed definitions, as the owner of the certificate does.
    pub async fn inject(&self, client: &Client) {
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let bundle = k8s_openapi::ByteString(self.certificate.pem().into_bytes());
        let patch = json!({ "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": bundle } } } } });
        for crd in crds.list(&ListParams::default()).await.unwrap() {
            if crd.spec.conversion.as_ref().is_some_and(|conversion| conversion.strategy == "Webhook") {
                let params = PatchParams { field_manager: Some("converter".to_owned()), ..PatchParams::default() };
                crds.patch(&crd.name_any(), &params, &Patch::Merge(&patch)).await.unwrap();
            }
        }
    }
}

async fn apply(client: &Client, collection: &str, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let request = http::Request::patch(format!("{collection}/{name}?fieldManager=converter&force=true"))
        .header("content-type", "application/apply-patch+yaml")
        .body(serde_json::to_vec(object).unwrap())
        .unwrap();
    client.request::<Value>(request).await.unwrap();
}

/// Answers one review after the other, until the API server closes the connection.
async fn serve(acceptor: TlsAcceptor, stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufStream::new(acceptor.accept(stream).await?);
    loop {
        let mut length = 0;
        let mut line = String::new();
        while stream.read_line(&mut line).await? > 0 && line != "\r\n" {
            if let Some((_, value)) = line.to_ascii_lowercase().split_once("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        if length == 0 {
            return Ok(());
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let mut answer = Vec::new();
        Review::read(&body).unwrap().answer(&mut answer, |_| Ok(())).unwrap();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.write_all(&[head.as_bytes(), &answer].concat()).await?;
        stream.flush().await?;
    }
}
