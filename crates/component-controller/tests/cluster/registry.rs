//! Image registries, queried as by the controller: a real one, openly and by TLS.

use std::{env, fs, process, sync::Arc};

use component_controller::image_build::{image::ImageName, observe::Registries, settings::KnownRegistries};
use http::{Request, header};
use outbound::{Limits, Outbound, Trust};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::json;
use test_cluster::{Keys, Server};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use crate::harness::LIMIT;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Asks registries of this machine.
fn registries() -> Registries {
    Registries { known: KnownRegistries::read("127.0.0.1,localhost"), ..Registries::default() }
}

/// Puts the manifest of an image into an open registry, which is all that is read.
pub async fn push(image: &str) {
    outbound::provide_tls();
    let (host, name) = image.split_once('/').unwrap();
    let (repository, tag) = name.rsplit_once(':').unwrap();
    let blob = |type_: &str| json!({ "mediaType": type_, "digest": format!("sha256:{}", "0".repeat(64)), "size": 2 });
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": blob("application/vnd.oci.image.config.v1+json"),
        "layers": [blob("application/vnd.oci.image.layer.v1.tar+gzip")],
    });
    let request = Request::put(format!("http://{host}/v2/{repository}/manifests/{tag}"));
    let request = request.header(header::CONTENT_TYPE, MANIFEST).body(manifest.to_string().into()).unwrap();
    let limits = Limits { patience: LIMIT, longest: 64 << 10 };
    let answer = Outbound::new(&Trust::default()).unwrap().send(request, limits).await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
}

/// A server that speaks TLS before another one; where it listens.
async fn before(plain: String, keys: &Keys) -> u16 {
    let certificate = CertificateDer::from_pem_slice(keys.server.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(keys.server.key.as_bytes()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate], key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, plain) = (acceptor.clone(), plain.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut behind = TcpStream::connect(plain).await.unwrap();
                // Either side may end it.
                let _ = copy_bidirectional(&mut stream, &mut behind).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn a_registry_has_what_was_put_there_and_nothing_else() {
    let server = Server::registry().await.unwrap();
    let (there, registries) = (format!("{}/team/there:v1", server.address), registries());
    let has = async |image: String| registries.has(&ImageName::read(image).unwrap(), false, None).await;
    assert_eq!(has(there.clone()).await, Ok(false));
    push(&there).await;
    assert_eq!(has(there).await, Ok(true));
    assert_eq!(has(format!("{}/team/there:v2", server.address)).await, Ok(false));
    assert_eq!(has(format!("{}/team/other:v1", server.address)).await, Ok(false));
}

#[tokio::test]
async fn a_registry_is_trusted_by_the_authority_that_is_given() {
    let server = Server::registry().await.unwrap();
    push(&format!("{}/there:v1", server.address)).await;
    let keys = Keys::new().unwrap();
    let image = format!("localhost:{}/there:v1", before(server.address.clone(), &keys).await);
    let image = ImageName::read(image).unwrap();
    let file = env::temp_dir().join(format!("registry-ca-{}.crt", process::id()));
    fs::write(&file, &keys.authority).unwrap();
    let given = Registries { authorities: Some(file.clone()), ..registries() };
    assert_eq!(given.has(&image, true, None).await, Ok(true));
    let error = registries().has(&image, true, None).await.unwrap_err();
    assert!(error.message().to_lowercase().contains("certificate"), "{error:?}");
    fs::remove_file(file).unwrap();
}
