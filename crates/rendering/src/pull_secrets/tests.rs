//! Tests of the Secrets that are found for images.

use super::*;

#[test]
fn images_name_their_registry() {
    for (image, host) in [
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0", "nvcr.io"),
        ("localhost:5000/a/b@sha256:00", "localhost:5000"),
        ("localhost/a", "localhost"),
        ("Registry.Example.COM/a", "registry.example.com"),
        ("[::1]:5000/a", "[::1]:5000"),
        ("nginx", "docker.io"),
        ("nginx:1.29", "docker.io"),
        ("library/nginx:1.29", "docker.io"),
        ("docker.io/library/nginx", "docker.io"),
        ("index.docker.io/library/nginx", "docker.io"),
        ("", "docker.io"),
    ] {
        assert_eq!(RegistryHost::of_image(image).0, host, "{image}");
    }
}

#[test]
fn docker_configurations_name_registries_as_hosts_or_urls() {
    for (key, host) in [
        ("nvcr.io", Some("nvcr.io")),
        ("https://nvcr.io", Some("nvcr.io")),
        ("https://index.docker.io/v1/", Some("docker.io")),
        ("docker.io", Some("docker.io")),
        ("registry.example.com:5000/team", Some("registry.example.com:5000")),
        ("", None),
        ("https://", None),
    ] {
        assert_eq!(RegistryHost::of_registry(key).map(|registry| registry.0).as_deref(), host, "{key}");
    }
}

#[test]
fn every_image_finds_its_secrets_sorted() {
    let hosts = |json: &str| RegistryHosts::parse(json.as_bytes()).unwrap();
    let index = PullSecretIndex::new([
        ("b".to_owned(), hosts(r#"{"auths":{"nvcr.io":{"auth":"x"},"https://nvcr.io/v2":{}}}"#)),
        ("a".to_owned(), hosts(r#"{"auths":{"https://nvcr.io":{}}}"#)),
        ("hub".to_owned(), hosts(r#"{"auths":{"https://index.docker.io/v1/":{"username":"u"}}}"#)),
        ("empty".to_owned(), hosts(r#"{"auths":null}"#)),
        ("none".to_owned(), hosts("{}")),
    ]);
    let found = |image| index.secrets_for(image).collect::<Vec<_>>();
    assert_eq!(found("nvcr.io/a:1"), ["a", "b"]);
    assert_eq!(found("nginx"), ["hub"]);
    assert_eq!(found("quay.io/a"), [""; 0]);
}

#[test]
fn a_malformed_configuration_is_reported_without_its_contents() {
    for contents in [r#""s3cret""#, r#"{"auths": "s3cret"}"#, r#"{"auths": {"a": s3cret}}"#, "", "[]"] {
        let message = RegistryHosts::parse(contents.as_bytes()).unwrap_err();
        assert!(!message.contains("s3cret"), "{message}");
    }
    assert!(RegistryHosts::parse(b"\xff").is_err());
}
