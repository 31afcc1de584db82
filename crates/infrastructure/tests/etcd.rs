//! Against a real etcd.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{collections::BTreeMap, time::Duration};

use etcd_client::{Client, PutOptions};
use infrastructure::{Credentials, Etcd, InfrastructureError};
use test_cluster::{Keys, Security, Server, wait};

const LIMIT: Duration = Duration::from_secs(60);

/// The operator's view of a server.
fn etcd(server: &Server, credentials: &Credentials) -> Etcd {
    Etcd::new(&server.address, credentials).unwrap()
}

/// Waits until the operator finds the server usable. It takes connections before it answers.
async fn usable(etcd: &Etcd) {
    let look = async || etcd.check().await.map_err(|error| error.to_string());
    wait::until("etcd to be usable", LIMIT, look).await.unwrap();
}

/// The keys of a Secret.
fn secret(pairs: &[(&str, &str)]) -> Credentials {
    let data: BTreeMap<String, Vec<u8>> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    Credentials::of_secret(&data).unwrap()
}

async fn put(client: &mut Client, key: &str) {
    client.put(key, "x", None).await.unwrap();
}

async fn has(client: &mut Client, key: &str) -> bool {
    client.get(key, None).await.unwrap().count() > 0
}

/// Defect of the legacy operator: the keys that it deleted were never there, and those that were there stayed.
#[tokio::test]
async fn stale_keys_of_a_namespace_go_and_no_others() {
    let server = Server::etcd(Security::Open).await.unwrap();
    let operator = etcd(&server, &Credentials::default());
    usable(&operator).await;
    let mut runtime = Client::connect([&server.address], None).await.unwrap();
    let stale = ["v1/instances/team-llm/backend/generate/6af3", "v1/mdc/team-llm/backend/generate/6af3"];
    let others = ["v1/instances/team-llm-2/backend/generate/1", "v1/instances/team/backend/generate/2", "other"];
    for key in stale.iter().chain(&others) {
        put(&mut runtime, key).await;
    }
    // No key goes that a living process holds.
    let lease = runtime.lease_grant(600, None).await.unwrap().id();
    let held = "v1/instances/team-llm/backend/generate/7";
    runtime.put(held, "x", Some(PutOptions::new().with_lease(lease))).await.unwrap();
    assert_eq!(operator.remove_namespace("team-llm").await.unwrap(), 2);
    assert!(has(&mut runtime, held).await);
    for key in stale {
        assert!(!has(&mut runtime, key).await, "{key}");
    }
    for key in others {
        assert!(has(&mut runtime, key).await, "{key}");
    }
    assert_eq!(operator.remove_namespace("team-llm").await.unwrap(), 0);
    assert_eq!(operator.remove_namespace("").await.unwrap(), 0);

    // The same for one component.
    let (held, free) = ("v1/instances/team/planner/generate/1", "v1/instances/team/planner/generate/2");
    runtime.put(held, "x", Some(PutOptions::new().with_lease(lease))).await.unwrap();
    put(&mut runtime, free).await;
    put(&mut runtime, "v1/instances/team/planner-2/generate/3").await;
    assert_eq!(operator.remove_component("team", "planner").await.unwrap(), 1);
    assert!(has(&mut runtime, held).await && !has(&mut runtime, free).await);
    assert!(has(&mut runtime, "v1/instances/team/planner-2/generate/3").await);

    // The first endpoint is down: the second is used.
    let both = Etcd::new(&format!("127.0.0.1:1,http://{}", server.address), &Credentials::default()).unwrap();
    usable(&both).await;
    passwords_are_required(&server, runtime).await;
}

/// From here on etcd refuses clients without a password.
async fn passwords_are_required(server: &Server, mut runtime: Client) {
    runtime.user_add("root", "secret", None).await.unwrap();
    runtime.user_grant_role("root", "root").await.unwrap();
    runtime.auth_enable().await.unwrap();
    let login = |password: &str| secret(&[("etcd-username", "root"), ("etcd-password", password)]);
    usable(&etcd(server, &login("secret"))).await;
    for refused in [login("wrong"), Credentials::default()] {
        let error = etcd(server, &refused).check().await.unwrap_err();
        assert!(matches!(error, InfrastructureError::Etcd { .. }), "{error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
}

#[tokio::test]
async fn certificates_come_from_the_secret() {
    let (keys, other) = (Keys::new().unwrap(), Keys::new().unwrap());
    let server = Server::etcd(Security::Tls(&keys)).await.unwrap();
    let (certificate, key) = (keys.client.certificate.as_str(), keys.client.key.as_str());
    let ours = [("ca.crt", keys.authority.as_str()), ("tls.crt", certificate), ("tls.key", key)];
    usable(&etcd(&server, &secret(&ours))).await;

    let foreign = secret(&[("ca.crt", &other.authority), ("tls.crt", certificate), ("tls.key", key)]);
    for refused in [secret(&ours[..1]), foreign, Credentials::default()] {
        let error = etcd(&server, &refused).check().await.unwrap_err();
        assert!(matches!(error, InfrastructureError::Connection(_)), "{error}");
        assert!(error.to_string().contains(&server.address), "{error}");
    }

    // A user of etcd whose name is in its certificate.
    let operator = etcd(&server, &secret(&ours));
    let tls = etcd_client::TlsOptions::new()
        .ca_certificate(etcd_client::Certificate::from_pem(&keys.authority))
        .identity(etcd_client::Identity::from_pem(certificate, key));
    let options = etcd_client::ConnectOptions::new().with_tls(tls);
    let mut admin = Client::connect([&server.address], Some(options)).await.unwrap();
    admin.user_add("root", "secret", None).await.unwrap();
    admin.user_grant_role("root", "root").await.unwrap();
    admin.auth_enable().await.unwrap();
    usable(&operator).await;
}

#[tokio::test]
async fn an_etcd_that_is_not_there_says_so() {
    let error = Etcd::new("127.0.0.1:1", &Credentials::default()).unwrap().check().await.unwrap_err();
    assert!(matches!(&error, InfrastructureError::Connection(_)), "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

/// It takes the connection and never says a word.
#[tokio::test(start_paused = true)]
async fn a_mute_server_is_given_up() {
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap().to_string();
    let error = Etcd::new(&address, &Credentials::default()).unwrap().check().await.unwrap_err();
    assert!(matches!(&error, InfrastructureError::Connection(outbound::OutboundError::TimedOut { .. })), "{error}");
}
