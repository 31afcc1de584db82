//! Questions to API stores that are not as they should be.

use api_types::v1alpha1::DynamoComponentSpec;
use axum::{Router, http::StatusCode, response::IntoResponse, routing::any};
use tokio::net::TcpListener;

use super::*;

/// A server on which `answer` gives for each method and path a status and a body.
async fn server(answer: fn(&str, &str) -> (u16, String)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let handler = any(move |request: axum::extract::Request| {
        let path = request.uri().path_and_query().map(|path| path.as_str().to_owned()).unwrap_or_default();
        let (status, body) = answer(request.method().as_str(), &path);
        async move { (StatusCode::from_u16(status).unwrap(), body).into_response() }
    });
    let serving = axum::serve(listener, Router::new().fallback(handler));
    tokio::spawn(async move { serving.await });
    host
}

fn observer(api_store: &str) -> ImageBuildObserver {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let endpoint = format!("http://me:secret@{api_store}");
    let settings = BuildSettings::read(|name| (name == "API_STORE_ENDPOINT").then(|| endpoint.clone()));
    let client = Client::try_from(nowhere).unwrap();
    ImageBuildObserver {
        client: client.clone(),
        jobs: Store::new(),
        accounts: Store::new(),
        settings: Arc::new(settings),
        outbound: LazyLock::new(|| Outbound::new(&outbound::Trust::default())),
        registries: Registries::default(),
        manifests: ReadSlots::default(),
        pods: PodDiagnostics::new(client),
    }
}

#[tokio::test]
async fn the_api_store_says_where_the_archive_is() {
    let host = server(|method, path| match (method, path) {
        ("GET", "/api/v1/dynamo_components/chat/versions/v1") => (200, r#"{"name":"v1"}"#.to_owned()),
        ("GET", "/api/v1/dynamo_components/chat/versions/v2") => {
            (200, r#"{"transmission_strategy":"presigned_url"}"#.to_owned())
        }
        ("PATCH", "/api/v1/dynamo_components/chat/versions/v2/presign_download_url") => {
            (200, r#"{"presigned_download_url":"s3://b/k"}"#.to_owned())
        }
        _ => (404, String::new()),
    })
    .await;
    let observer = observer(&host);
    let place = async |what: &str| {
        let spec = DynamoComponentSpec { dynamo_component: what.to_owned(), ..Default::default() };
        observer.download(&DynamoComponent::new("c", spec)).await
    };
    let proxied = format!("http://me:secret@{host}/api/v1/dynamo_components/chat/versions/v1/download");
    assert_eq!(place("chat:v1").await, Ok(proxied));
    assert_eq!(place("chat:v2").await, Ok("s3://b/k".to_owned()));
    let Err(ImageBuildObstacle::Unreachable(why)) = place("chat:v3").await else { panic!("it answers 404") };
    assert!(why.contains("404") && !why.contains("secret"), "conditions show no password: {why}");
    for elsewhere in ["..:v1", "chat/../../admin:v1", "chat:v1?x=", "chat:v1#", "chat:v1%2f.."] {
        let Err(ImageBuildObstacle::Invalid(why)) = place(elsewhere).await else {
            panic!("{elsewhere} is another address")
        };
        assert!(why.starts_with("spec.dynamoComponent: "), "{why}");
    }
}

/// A tar file with a manifest, as text.
fn archive() -> String {
    let manifest = b"service: graphs.agg:Frontend\nservices:\n- name: Frontend\n";
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(manifest.len() as u64);
    archive.append_data(&mut header, "./dynamo.yaml", manifest.as_slice()).unwrap();
    String::from_utf8(archive.into_inner().unwrap()).unwrap()
}

fn with_manifest(version: &str) -> DynamoComponent {
    let spec = DynamoComponentSpec { dynamo_component: format!("chat:{version}"), ..Default::default() };
    let mut component = DynamoComponent::new(version, spec);
    component.metadata.generation = Some(1);
    component.metadata.annotations = Some([(annotations::READ_MANIFEST.to_owned(), "true".to_owned())].into());
    component
}

#[tokio::test]
async fn the_manifest_is_read_from_the_archive_where_a_graph_requests_it() {
    let host = server(|method, path| {
        let path = path.trim_start_matches("/api/v1/dynamo_components/chat/versions/");
        match (method, path) {
            ("GET", "v1" | "v2") => (200, "{}".to_owned()),
            ("GET", "v1/download") => (200, archive()),
            ("GET", "v2/download") => (200, "no archive".repeat(100)),
            ("GET", "v3") => (200, r#"{"transmission_strategy":"presigned_url"}"#.to_owned()),
            ("PATCH", _) => (200, r#"{"presigned_download_url":"http://127.0.0.1:1/x?signature=secret"}"#.to_owned()),
            _ => (404, String::new()),
        }
    })
    .await;
    let observer = observer(&host);
    let read = async |version: &str| observer.manifest(&with_manifest(version)).await;
    let mut plain = with_manifest("v1");
    plain.metadata.annotations = None;
    assert_eq!(observer.manifest(&plain).await, ManifestRead::default(), "no graph needs it");

    let ManifestRead { outcome: Some(Ok(manifest)), retry_after: None } = read("v1").await else { panic!("readable") };
    assert_eq!((manifest.dynamo_tag.as_str(), manifest.services.len()), ("graphs.agg:Frontend", 1));

    let invalid = read("v2").await;
    assert!(matches!(&invalid.outcome, Some(Err(ImageBuildObstacle::Invalid(_)))), "{invalid:?}");
    assert_eq!(invalid.retry_after, None, "the archive does not change");
    let inside = read("v3").await.outcome.unwrap().unwrap_err();
    assert!(matches!(&inside, ImageBuildObstacle::Blocked(_)) && !inside.message().contains("secret"), "{inside:?}");

    let absent = read("v4").await;
    assert!(matches!(&absent.outcome, Some(Err(ImageBuildObstacle::Unreachable(_)))), "{absent:?}");
    let paused = read("v4").await;
    assert!(absent.retry_after.is_some() && paused.retry_after.is_some());
    assert_eq!(paused.outcome, None, "no request within the pause");

    let mut elsewhere = with_manifest("v1");
    elsewhere.spec.download_url = Some("s3://b/k".to_owned());
    assert!(matches!(observer.manifest(&elsewhere).await.outcome, Some(Err(ImageBuildObstacle::Blocked(_)))));
}

#[test]
fn a_manifest_is_read_once_for_each_generation() {
    for (generation, status, reason, due) in [
        (1, "True", "Reconciling", false),
        (2, "True", "Reconciling", true),
        (1, "False", "InvalidSpec", false),
        (1, "False", "Unreachable", true),
        (1, "False", "Blocked", true),
    ] {
        let mut component = with_manifest("v1");
        component.metadata.generation = Some(generation);
        let manifest = (status == "True").then(|| json!({ "dynamoTag": "m:S", "services": [] }));
        let read = json!({ "manifest": manifest, "conditions": [{ "type": "ManifestRead", "status": status, "reason": reason, "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2025-07-01T00:00:00Z" }] });
        component.status = Some(serde_json::from_value(read).unwrap());
        assert_eq!(manifest::is_due(&component), due, "{generation} {status} {reason}");
        component.status.as_mut().unwrap().manifest = None;
        assert!(status == "False" || manifest::is_due(&component), "the manifest was not stored");
    }
}

#[test]
fn one_manifest_of_a_namespace_is_read_at_a_time() {
    let (slots, now) = (ReadSlots::default(), Instant::now());
    let key = |namespace: &str, name: &str| Key::new(namespace, name);
    let first = slots.try_acquire(&key("a", "x"), None, now).unwrap();
    assert!(slots.try_acquire(&key("a", "y"), None, now).is_err());
    let others = ["b", "c", "d"].map(|namespace| slots.try_acquire(&key(namespace, "x"), None, now).unwrap());
    assert!(slots.try_acquire(&key("e", "x"), None, now).is_err(), "four in all");
    drop((first, others));
    assert!(slots.try_acquire(&key("a", "y"), None, now).is_ok());
    let pause = slots.failed(&key("a", "y"), Some(1), now);
    assert_eq!(slots.try_acquire(&key("a", "y"), Some(1), now).unwrap_err(), pause);
    assert!(slots.try_acquire(&key("a", "y"), Some(2), now).is_ok(), "another spec is read at once");
    assert!(slots.failed(&key("a", "y"), Some(1), now) > pause, "pauses grow");
}

/// In a registry that lets nodes in by who they are, the operator sees nothing.
#[test]
fn where_nodes_log_in_by_themselves_a_rejection_is_no_hindrance() {
    let refused = || Err(ImageBuildObstacle::Blocked("no".to_owned()));
    let away = || Err(ImageBuildObstacle::Unreachable("no".to_owned()));
    let table = [
        // answer, known, found, nodes log in: what it means
        (refused(), false, false, true, Some(Ok(false))),
        (refused(), true, false, true, None),
        (refused(), true, true, true, None),
        (refused(), false, false, false, Some(refused())),
        (refused(), true, true, false, None),
        (away(), false, false, true, Some(away())),
        (Ok(true), false, false, true, Some(Ok(true))),
        (Ok(false), false, false, true, Some(Ok(false))),
        (Ok(false), true, false, false, None),
        (Ok(false), true, true, false, Some(Ok(false))),
    ];
    for (answer, known, found, nodes_log_in, expected) in table {
        let before = KnownSource { known, found, nodes_log_in };
        assert_eq!(evaluate(answer.clone(), before), expected, "{answer:?} {before:?}");
    }
}
