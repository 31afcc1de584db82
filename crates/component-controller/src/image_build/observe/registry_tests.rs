//! Registries that are not as they should be. How a real one is asked stands in `tests/cluster/registry.rs`.

use super::*;
use axum::{Router, extract::Request, http::StatusCode, http::header, response::IntoResponse, routing::any};
use tokio::net::TcpListener;

/// What there is of an image, as registries say it.
const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// What a server says: status, `WWW-Authenticate` and body.
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
        let mut headers = axum::http::HeaderMap::new();
        for (name, value) in [("www-authenticate", challenge.as_str()), ("docker-content-digest", digest)] {
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

async fn ask(host: &str, name: &str, login: Option<(String, String)>) -> Result<bool, Unanswered> {
    Registries::default().has(&named(&format!("{host}/{name}:v1")), false, login).await
}

fn named(image: &str) -> Named {
    Named::read(image.to_owned()).unwrap()
}

fn none() -> String {
    String::new()
}

#[tokio::test]
async fn a_registry_may_ask_for_a_token() {
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
    assert_eq!(ask(&host, "team/there", user()).await, Ok(true));
    assert_eq!(ask(&host, "team/gone", user()).await, Ok(false));
    let refused = ask(&host, "team/there", None).await.unwrap_err();
    // The realm may be anybody's: what it answers is not shown.
    assert!(matches!(&refused, Unanswered::Unauthorised { reason, .. } if reason.is_empty()), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("team/there") && text.contains("dockerConfigJsonSecretName"), "{text}");
}

#[tokio::test]
async fn a_registry_may_ask_for_a_password() {
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
    assert_eq!(ask(&host, "there", user()).await, Ok(true));
    assert_eq!(ask(&host, "gone", user()).await, Ok(false));
    let refused = ask(&host, "secret", user()).await.unwrap_err();
    assert!(matches!(&refused, Unanswered::Unauthorised { reason, .. } if reason == "not for you"), "{refused}");
    assert!(matches!(ask(&host, "there", None).await, Err(Unanswered::Unauthorised { .. })));
}

/// Credentials are kept for no longer than a question takes.
#[tokio::test]
async fn nobody_asks_with_the_login_of_another() {
    let host = server(|_, shown, _| match shown {
        Some("Basic dTpw") => (200, none(), ""),
        _ => (401, "Basic realm=\"r\"".to_owned(), ""),
    })
    .await;
    let registries = Registries::default();
    let image = named(&format!("{host}/there:v1"));
    assert_eq!(registries.has(&image, false, user()).await, Ok(true));
    assert!(matches!(registries.has(&image, false, None).await, Err(Unanswered::Unauthorised { .. })));
}

#[tokio::test]
async fn what_does_not_answer_is_not_taken_for_absent() {
    let broken = server(|path, _, _| if path == "/v2/" { (200, none(), "") } else { (500, none(), "oops") }).await;
    let error = ask(&broken, "there", None).await.unwrap_err();
    assert_eq!(error, Unanswered::Unreachable { registry: broken, reason: "it answered 500".to_owned() });
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let error = ask(&gone, "there", None).await.unwrap_err();
    assert!(matches!(&error, Unanswered::Unreachable { registry, .. } if *registry == gone), "{error}");
    assert!(error.to_string().contains("refused"), "the cause is told: {error}");
    // A registry whose tokens cannot be had is not one that refuses.
    let alone = server(|_, _, _| (401, "Bearer realm=\"http://127.0.0.1:1/token\"".to_owned(), "")).await;
    let error = ask(&alone, "there", None).await.unwrap_err();
    assert!(matches!(error, Unanswered::Unreachable { .. }), "{error}");
}

#[test]
fn a_name_that_no_registry_knows_is_a_mistake() {
    for image in ["r.io/", "r.io/Team/x:v1", "r.io/x:v1:v2", ""] {
        let error = Named::read(image.to_owned()).unwrap_err();
        assert!(error.starts_with(&format!("{image:?} is not the name of an image: ")), "{error}");
    }
}

#[tokio::test]
async fn authorities_that_cannot_be_read_are_named() {
    let registries = Registries { authorities: Some(PathBuf::from("/nowhere/ca.crt")) };
    let error = registries.has(&named("r.io/x:v1"), true, None).await.unwrap_err();
    assert!(error.to_string().contains("DOCKER_REGISTRY_CA_FILE: /nowhere/ca.crt"), "{error}");
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
