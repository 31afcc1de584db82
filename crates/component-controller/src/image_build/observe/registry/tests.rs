//! Tests of misbehaving registries. A real one is queried in `tests/cluster/registry.rs`.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::any,
};
use futures::stream;
use rendering::RegistryHost;
use tokio::net::TcpListener;

use super::{answer::login, *};

/// Digest of an existing image, as registries report it.
const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Answer of a server: status, `WWW-Authenticate` or `Location`, and body.
type Answer = (u16, String, &'static str);

/// A server that answers by path and query, `Authorization`, and its own host.
async fn server(answer: fn(&str, Option<&str>, &str) -> Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let own = host.clone();
    let handler = any(move |request: Request| {
        let path = request.uri().path_and_query().map(|path| path.as_str().to_owned()).unwrap_or_default();
        let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (status, challenge, body) = answer(&path, shown, &own);
        let status = StatusCode::from_u16(status).unwrap();
        let digest = if status.is_success() { DIGEST } else { "" };
        let name = if status.is_redirection() { "location" } else { "www-authenticate" };
        let mut headers = axum::http::HeaderMap::new();
        for (name, value) in [(name, challenge.as_str()), ("docker-content-digest", digest)] {
            if !value.is_empty() {
                headers.insert(name, value.parse().unwrap());
            }
        }
        async move { (status, headers, body).into_response() }
    });
    let serving = axum::serve(listener, Router::new().fallback(handler));
    tokio::spawn(async move { serving.await });
    host
}

fn user() -> Option<(String, String)> {
    Some(("u".to_owned(), "p".to_owned()))
}

async fn has(host: &str, name: &str, login: Option<(String, String)>) -> Result<bool, ImageBuildObstacle> {
    known(host).has(&named(&format!("{host}/{name}:v1")), false, login).await
}

/// Asks without TLS, and inside this machine, only the servers that are listed.
fn known(host: &str) -> Registries {
    Registries { known: KnownRegistries::read(host), ..Registries::default() }
}

fn named(image: &str) -> ImageName {
    ImageName::read(image.to_owned()).unwrap()
}

fn none() -> String {
    String::new()
}

#[tokio::test]
async fn a_registry_may_require_a_token() {
    let host = server(|path, shown, host| match (path, shown) {
        ("/token?scope=repository%3Ateam%2Fthere%3Apull&service=r", Some("Basic dTpw")) => {
            (200, none(), r#"{"token":"t"}"#)
        }
        ("/token?scope=repository%3Ateam%2Fgone%3Apull&service=r", Some("Basic dTpw")) => {
            (200, none(), r#"{"token":"t"}"#)
        }
        (path, _) if path.starts_with("/token") => (403, none(), "who\nare you?"),
        ("/v2/team/there/manifests/v1", Some("Bearer t")) => (200, none(), ""),
        ("/v2/team/gone/manifests/v1", Some("Bearer t")) => (404, none(), ""),
        _ => (401, format!("Bearer realm=\"http://{host}/token\",service=\"r\""), ""),
    })
    .await;
    assert_eq!(has(&host, "team/there", user()).await, Ok(true));
    assert_eq!(has(&host, "team/gone", user()).await, Ok(false));
    let refused = has(&host, "team/there", None).await.unwrap_err();
    // The realm may be any server: what it answers is not shown.
    let ImageBuildObstacle::Blocked(text) = &refused else { panic!("{refused:?}") };
    assert!(text.contains("see team/there; name a docker") && text.contains("dockerConfigJsonSecretName"), "{text}");
}

#[tokio::test]
async fn a_registry_may_require_a_password() {
    let host = server(|path, shown, _| match (path, shown) {
        ("/v2/there/manifests/v1", Some("Basic dTpw")) => (200, none(), ""),
        (path, Some("Basic dTpw")) if path.starts_with("/v2/gone/") => {
            (404, none(), r#"{"errors":[{"code":"NAME_UNKNOWN","message":"no"}]}"#)
        }
        (path, Some("Basic dTpw")) if path.starts_with("/v2/secret/") => {
            (403, none(), r#"{"errors":[{"code":"DENIED","message":"not for you"}]}"#)
        }
        _ => (401, "Basic realm=\"r\"".to_owned(), ""),
    })
    .await;
    assert_eq!(has(&host, "there", user()).await, Ok(true));
    assert_eq!(has(&host, "gone", user()).await, Ok(false));
    let refused = has(&host, "secret", user()).await.unwrap_err();
    assert!(matches!(&refused, ImageBuildObstacle::Blocked(text) if text.contains("(not for you)")), "{refused:?}");
    assert!(matches!(has(&host, "there", None).await, Err(ImageBuildObstacle::Blocked(_))));
}

/// Credentials are kept for no longer than a query takes.
#[tokio::test]
async fn no_request_uses_the_login_of_another_registry() {
    let host = server(|_, shown, _| match shown {
        Some("Basic dTpw") => (200, none(), ""),
        _ => (401, "Basic realm=\"r\"".to_owned(), ""),
    })
    .await;
    let registries = known(&host);
    let image = named(&format!("{host}/there:v1"));
    assert_eq!(registries.has(&image, false, user()).await, Ok(true));
    assert!(matches!(registries.has(&image, false, None).await, Err(ImageBuildObstacle::Blocked(_))));
}

#[tokio::test]
async fn what_does_not_answer_is_not_taken_for_absent() {
    let broken = server(|path, _, _| if path == "/v2/" { (200, none(), "") } else { (500, none(), "oops") }).await;
    let error = has(&broken, "there", None).await.unwrap_err();
    assert_eq!(error, ImageBuildObstacle::Unreachable(format!("registry {broken}: it answered 500")));
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let error = has(&gone, "there", None).await.unwrap_err();
    let ImageBuildObstacle::Unreachable(error) = &error else { panic!("{error:?}") };
    assert!(error.starts_with(&format!("registry {gone}: ")), "{error}");
    assert!(error.contains("refused"), "the cause is missing: {error}");
    // A registry whose tokens cannot be had is not one that refuses.
    let alone = server(|_, _, _| (401, "Bearer realm=\"http://127.0.0.1:1/token\"".to_owned(), "")).await;
    let error = has(&alone, "there", None).await.unwrap_err();
    assert!(matches!(error, ImageBuildObstacle::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn authorities_that_cannot_be_read_are_named() {
    let registries = Registries { authorities: Some(PathBuf::from("/nowhere/ca.crt")), ..Registries::default() };
    let error = registries.has(&named("r.io/x:v1"), true, None).await.unwrap_err();
    assert!(error.message().contains("DOCKER_REGISTRY_CA_FILE: /nowhere/ca.crt"), "{error:?}");
}

#[test]
fn a_password_is_shown_to_its_own_host_only() {
    let config =
        br#"{"auths":{"https://r.io/v1/":{"auth":"dTpwOnE="},"index.docker.io":{"username":"h","password":"s"}}}"#;
    let of = |image: &str| login(config, &RegistryHost::of_image(image));
    assert_eq!(of("r.io/a"), Some(("u".to_owned(), "p:q".to_owned())));
    assert_eq!(of("ubuntu"), Some(("h".to_owned(), "s".to_owned())));
    assert_eq!(of("my-r.io/a"), None);
    assert_eq!(login(b"{", &RegistryHost::of_image("r.io/a")), None);
}

/// Counts the requests to a server that must get none.
async fn internal_service() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let handler = any(move || {
        count.fetch_add(1, Ordering::SeqCst);
        async { r#"{"token":"secret"}"# }
    });
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
    (host, requests)
}

/// A tenant's registry sent the operator to services that only the operator reaches.
#[tokio::test]
async fn a_registry_leads_to_no_other_server() {
    let (internal, requests) = internal_service().await;
    INTERNAL.set(internal).unwrap();
    let other = || format!("http://{}/t", INTERNAL.get().unwrap());
    let by_redirect = server(|path, _, _| match path {
        "/v2/" => (200, none(), ""),
        _ => (307, format!("http://{}/t", INTERNAL.get().unwrap()), ""),
    })
    .await;
    let by_realm = server(|_, _, _| (401, format!("Bearer realm=\"http://{}/t\"", INTERNAL.get().unwrap()), "")).await;
    let by_scheme = server(|_, _, _| (401, "Bearer realm=\"https://r.io/t\"".to_owned(), "")).await;
    for host in [by_redirect, by_realm, by_scheme] {
        let error = has(&host, "there", user()).await.unwrap_err();
        assert!(matches!(&error, ImageBuildObstacle::Unreachable(_)), "{error:?}");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 0, "{} got a request", other());
}

static INTERNAL: OnceLock<String> = OnceLock::new();

/// Redirects on one host are followed, but not for ever.
#[tokio::test]
async fn redirects_stay_on_their_host_and_end() {
    let host = server(|path, _, _| match path {
        "/v2/" => (200, none(), ""),
        "/v2/moved/manifests/v1" => (307, "/v2/there/manifests/v1".to_owned(), ""),
        "/v2/there/manifests/v1" => (200, none(), ""),
        path => (302, path.to_owned(), ""),
    })
    .await;
    assert_eq!(has(&host, "moved", None).await, Ok(true));
    let error = has(&host, "round", None).await.unwrap_err();
    assert!(error.message().contains("redirects again and again"), "{error:?}");
}

/// A registry that a tenant names answered without end, until the controller had no memory left.
#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let handler = any(move || {
        let count = Arc::clone(&count);
        let endless = stream::repeat_with(move || {
            count.fetch_add(1 << 16, Ordering::SeqCst);
            Ok::<_, std::io::Error>(Bytes::from(vec![b'a'; 1 << 16]))
        });
        async move { Body::from_stream(endless) }
    });
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
    let error = has(&host, "there", None).await.unwrap_err();
    assert!(matches!(&error, ImageBuildObstacle::Unreachable(_)), "{error:?}");
    let sent = sent.load(Ordering::SeqCst);
    assert!(sent < 32 << 20, "{sent} bytes were sent, most of them into buffers of the sockets");
}

/// Tenants chose which servers inside the cluster were queried, and without TLS.
#[tokio::test]
async fn only_listed_registries_are_queried_without_tls_or_inside_the_machine() {
    let (internal, requests) = internal_service().await;
    let image = named(&format!("{internal}/x:v1"));
    let error = Registries::default().has(&image, false, user()).await.unwrap_err();
    assert!(matches!(error, ImageBuildObstacle::Blocked(_)), "{error:?}");
    assert!(error.message().contains("DOCKER_REGISTRY_INSECURE_HOSTS"), "{error:?}");
    let error = Registries::default().has(&image, true, user()).await.unwrap_err();
    assert!(error.message().contains("inside the machine"), "{error:?}");
    assert_eq!(requests.load(Ordering::SeqCst), 0);
}
