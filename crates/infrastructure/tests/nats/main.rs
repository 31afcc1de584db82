//! Against a real NATS server.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod operator;

use std::collections::BTreeMap;

use async_nats::jetstream::{self, stream::Config};
use futures::TryStreamExt;
use infrastructure::{Credentials, InfrastructureError, Nats};
use nkeys::KeyPair;
use test_cluster::{Keys, Security, Server};

const JETSTREAM: &str = "jetstream: { store_dir: \"kept\" }";

/// The operator's view of a server.
fn nats(server: &Server, credentials: &Credentials) -> Nats {
    Nats::new(&format!("nats://{}", server.address), credentials)
}

/// The keys of a Secret.
fn secret(pairs: &[(&str, &str)]) -> Credentials {
    let data: BTreeMap<String, Vec<u8>> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    Credentials::of_secret(&data).unwrap()
}

#[tokio::test]
async fn leftovers_of_a_namespace_go_and_no_others() {
    let server = Server::nats(Security::Open, JETSTREAM).await.unwrap();
    let runtime = jetstream::new(async_nats::connect(&server.address).await.unwrap());
    let stale = [
        "namespace_team-llm_component_backend_kv_events",
        "OBJ_namespace_team-llm_component_x-radix-bucket",
        "KV_team-llm_v1_instances",
    ];
    let others = ["namespace_team-llm-2_component_backend_kv_events", "orders"];
    for name in stale.iter().chain(&others) {
        let config = Config { name: (*name).to_owned(), subjects: vec![format!("{name}.>")], ..Config::default() };
        runtime.create_stream(config).await.unwrap();
    }
    let operator = nats(&server, &Credentials::default());
    operator.check().await.unwrap();
    assert_eq!(operator.remove_namespace("team-llm").await.unwrap(), 3);
    let mut left: Vec<String> = runtime.stream_names().try_collect().await.unwrap();
    left.sort();
    assert_eq!(left, others);
    assert_eq!(operator.remove_namespace("team-llm").await.unwrap(), 0);
}

#[tokio::test]
async fn a_server_without_streams_has_no_leftovers() {
    let server = Server::nats(Security::Open, "").await.unwrap();
    assert_eq!(nats(&server, &Credentials::default()).remove_namespace("team-llm").await.unwrap(), 0);
}

/// Each way in, a wrong one of the same kind, and none.
#[tokio::test]
async fn a_login_is_shown_to_the_server_and_to_no_other() {
    let (known, unknown) = (KeyPair::new_user(), KeyPair::new_user());
    let seed = |pair: &KeyPair| secret(&[("nats-nkey", &pair.seed().unwrap())]);
    let users = format!("{{ user: me, password: secret }}, {{ nkey: {} }}", known.public_key());
    let password = |password: &str| secret(&[("nats-username", "me"), ("nats-password", password)]);
    let token = |token: &str| secret(&[("nats-token", token)]);
    let (first, second) = (operator::Operator::new(), operator::Operator::new());
    let file = |operator: &operator::Operator| secret(&[("nats-creds", &operator.credentials_file())]);
    for (config, good, bad) in [
        (format!("authorization: {{ users: [{users}] }}"), password("secret\n"), password("wrong")),
        (format!("authorization: {{ users: [{users}] }}"), seed(&known), seed(&unknown)),
        ("authorization: { token: secret }".to_owned(), token("secret\n"), token("wrong")),
        (first.server_config(), file(&first), file(&second)),
    ] {
        let server = Server::nats(Security::Open, &config).await.unwrap();
        nats(&server, &good).check().await.unwrap();
        for refused in [bad, Credentials::default()] {
            let error = nats(&server, &refused).check().await.unwrap_err();
            assert!(matches!(error, InfrastructureError::Nats { .. }), "{error}");
            assert!(!error.to_string().contains("wrong"), "{error}");
        }
    }
}

#[tokio::test]
async fn certificates_come_from_the_secret() {
    let (keys, other) = (Keys::new().unwrap(), Keys::new().unwrap());
    let server = Server::nats(Security::Tls(&keys), JETSTREAM).await.unwrap();
    let (certificate, key) = (keys.client.certificate.as_str(), keys.client.key.as_str());
    let ours = [("ca.crt", keys.authority.as_str()), ("tls.crt", certificate), ("tls.key", key)];
    nats(&server, &secret(&ours)).check().await.unwrap();
    assert_eq!(nats(&server, &secret(&ours)).remove_namespace("team-llm").await.unwrap(), 0);
    let foreign = secret(&[("ca.crt", &other.authority), ("tls.crt", certificate), ("tls.key", key)]);
    for refused in [secret(&ours[..1]), foreign, Credentials::default()] {
        let error = nats(&server, &refused).check().await.unwrap_err();
        assert!(matches!(&error, InfrastructureError::Nats { .. }), "{error}");
        assert!(error.to_string().contains(&server.address), "{error}");
    }

    // A client with a trust root expects TLS: it sends nothing to a server that offers none.
    let open = Server::nats(Security::Open, JETSTREAM).await.unwrap();
    let error = nats(&open, &secret(&ours)).check().await.unwrap_err();
    assert!(matches!(&error, InfrastructureError::Nats { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_says_so() {
    let error = Nats::new("nats://127.0.0.1:1", &Credentials::default()).check().await.unwrap_err();
    assert!(matches!(&error, InfrastructureError::Nats { server, .. } if server == "nats://127.0.0.1:1"), "{error}");
}
