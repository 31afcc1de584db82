//! Steps of the Tiltfile that write to the cluster, on a real API server.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{
    collections::BTreeMap,
    process::{Command, Output},
};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    api::{Api, ObjectMeta, PostParams},
    config::Kubeconfig,
};
use test_cluster::{Access, TestNamespace};

/// Runs a step as the Tiltfile does: credentials are in the environment.
fn step(access: &Access, namespace: &str, password: &str, step: &[&str]) -> Output {
    let context = Kubeconfig::read_from(access.kubeconfig()).unwrap().current_context.unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["tilt", step[0], "--context", &context, "--namespace", namespace])
        .args(&step[1..])
        .env("KUBECONFIG", access.kubeconfig())
        .envs([("REGISTRY_USERNAME", "user-name"), ("REGISTRY_PASSWORD", password)])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    assert!(!said.contains(password), "{said}");
    output
}

const REGISTRY: [&str; 3] = ["secret", "--registry", "registry.example.com/me"];

async fn content(secrets: &Api<Secret>, name: &str, key: &str) -> String {
    let data = secrets.get(name).await.unwrap().data.unwrap();
    String::from_utf8(data[key].0.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_password_of_the_registry_reaches_the_cluster() {
    let access = test_cluster::shared(&[]).await.unwrap();
    let namespace = TestNamespace::new(access, "tilt").await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(namespace.client(), namespace.name());
    for password in ["first-password", "second-password"] {
        let output = step(access, namespace.name(), password, &REGISTRY);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let expected =
            format!(r#"{{"auths":{{"registry.example.com":{{"password":"{password}","username":"user-name"}}}}}}"#);
        assert_eq!(content(&secrets, "registry-secret", ".dockerconfigjson").await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_the_loop_has_not_made_are_never_written() {
    let access = test_cluster::shared(&[]).await.unwrap();
    let namespace = TestNamespace::new(access, "tilt").await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(namespace.client(), namespace.name());
    for name in ["registry-secret", "webhook-echo"] {
        let secret = Secret {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            data: Some(BTreeMap::from([("token".to_owned(), ByteString(b"mine".to_vec()))])),
            ..Secret::default()
        };
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let refused = step(access, namespace.name(), "third-password", &REGISTRY);
    assert!(!refused.status.success());
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("image_pull_secret"), "{error}");
    assert!(step(access, namespace.name(), "none", &["bootstrap"]).status.success());
    for name in ["registry-secret", "webhook-echo"] {
        assert_eq!(content(&secrets, name, "token").await, "mine");
    }
}
