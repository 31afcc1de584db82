//! Admission for clients with a certificate only. The API server shows one for admission, and none for conversion.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kube::{Client, Config};
use serde_json::{Value, json};
use test_cluster::{Identity, Keys, wait};

use crate::{
    common::{Install, LIMIT, Replica, start_cluster_with},
    requests::{CONVERT, GRAPHS, conversion, send},
};

/// Creates the folder for the test's files.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("client-certificates-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The files of a certificate and its key.
fn files(folder: &Path, name: &str, identity: &Identity) -> (String, String) {
    let write = |end: &str, content: &str| {
        let path = folder.join(format!("{name}.{end}"));
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    (write("crt", &identity.certificate), write("key", &identity.key))
}

/// Flags of an API server that shows a certificate to every webhook.
fn apiserver_args(folder: &Path, (certificate, key): &(String, String)) -> Vec<String> {
    let user = json!({ "client-certificate": certificate, "client-key": key });
    let kubeconfig = json!({ "apiVersion": "v1", "kind": "Config", "users": [{ "name": "*", "user": user }] });
    let clients = folder.join("webhooks.json");
    fs::write(&clients, kubeconfig.to_string()).unwrap();
    let plugin = |name: &str| {
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": clients,
        });
        json!({ "name": name, "configuration": configuration })
    };
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [plugin("ValidatingAdmissionWebhook"), plugin("MutatingAdmissionWebhook")],
    });
    let path = folder.join("admission.json");
    fs::write(&path, configuration.to_string()).unwrap();
    vec![format!("--admission-control-config-file={}", path.display())]
}

/// A client that shows a certificate, or none.
async fn client(install: &Install, replica: &Replica, files: Option<&(String, String)>) -> Client {
    let mut config = Config::new(format!("https://{}", replica.webhook).parse().unwrap());
    let ca = install.stored("ca.crt").await;
    let certificates =
        <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::pem_slice_iter(&ca);
    config.root_cert = Some(certificates.map(|der| der.unwrap().to_vec()).collect());
    config.tls_server_name = Some(format!("webhook.{}.svc", install.namespace));
    (config.default_retry, config.proxy_url) = (false, None);
    if let Some((certificate, key)) = files {
        config.auth_info.client_certificate = Some(certificate.clone());
        config.auth_info.client_key = Some(key.clone());
    }
    Client::try_from(config).unwrap()
}

/// The status of an answer; none where there is no connection.
async fn status(client: &Client, path: &str, body: &Value) -> Option<u16> {
    let request = http::Request::builder().method("POST").uri(path).body(body.to_string().into_bytes().into());
    client.send(request.unwrap()).await.ok().map(|answer| answer.status().as_u16())
}

#[tokio::test]
async fn admission_is_for_clients_whose_certificate_the_ca_signed() {
    let folder = folder();
    let (ours, theirs) = (Keys::new().unwrap(), Keys::new().unwrap());
    let (own, foreign) = (files(&folder, "ours", &ours.client), files(&folder, "theirs", &theirs.client));
    let ca = folder.join("ca.crt");
    fs::write(&ca, &ours.authority).unwrap();

    let front = test_cluster::free_port().unwrap();
    let cluster = start_cluster_with("operator", front, apiserver_args(&folder, &own)).await;
    let mut install = Install::new(cluster, "operator", front).await;
    install.args = vec![format!("--client-ca-file={}", ca.display())];
    install.configure(None).await;
    install.start_crds().await;
    let replica = install.start().await;
    // Admission with the certificate, and conversion without.
    install.until_answering("default", "v1beta1").await;
    install.until_answering("default", "v1alpha1").await;

    let review = json!({});
    let anonymous = client(&install, &replica, None).await;
    let (code, text) = send(&anonymous, "POST", GRAPHS, review.to_string().into_bytes()).await;
    assert_eq!((code, text.contains("--client-ca-file")), (403, true), "{text}");
    let graphs = json!([crate::manifests::graph("v1alpha1", 1, None)]);
    assert_eq!(send(&anonymous, "POST", CONVERT, conversion(&graphs)).await.0, 200);
    let api_server = client(&install, &replica, Some(&own)).await;
    assert_eq!(status(&api_server, GRAPHS, &review).await, Some(400), "it is read");
    let stranger = client(&install, &replica, Some(&foreign)).await;
    assert_eq!(status(&stranger, GRAPHS, &review).await, None);

    // A server that converts nothing needs no connection without a certificate.
    install.args.push("--namespace=default".to_owned());
    let restricted = install.start_beside().await;
    assert_eq!(status(&client(&install, &restricted, None).await, CONVERT, &review).await, None);
    let api_server = client(&install, &restricted, Some(&own)).await;
    assert_eq!(status(&api_server, GRAPHS, &review).await, Some(400));

    // The file changes: first to nothing useful, which changes nothing, then to another CA.
    fs::write(&ca, "no certificate").unwrap();
    let logged = async || {
        let log = install.log(&replica);
        if log.contains("kept the earlier CAs of clients") { Ok(()) } else { Err(log) }
    };
    wait::until("the file to be rejected", LIMIT, logged).await.unwrap();
    assert_eq!(status(&client(&install, &replica, Some(&own)).await, GRAPHS, &review).await, Some(400));
    fs::write(&ca, &theirs.authority).unwrap();
    let accepted = async || match status(&client(&install, &replica, Some(&foreign)).await, GRAPHS, &review).await {
        Some(400) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    wait::until("the other CA to be used", LIMIT, accepted).await.unwrap();
    assert_eq!(status(&client(&install, &replica, Some(&own)).await, GRAPHS, &review).await, None);
    fs::remove_dir_all(&folder).unwrap();
}
