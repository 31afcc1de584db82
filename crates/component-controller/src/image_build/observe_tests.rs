//! Questions to registries and API stores that are not as they should be.

use super::*;
use api_types::v1alpha1::DynamoComponentSpec;
use axum::{Router, http::StatusCode, response::IntoResponse, routing::any};
use tokio::net::TcpListener;

/// Status, `WWW-Authenticate` and body for a method, a path, an `Authorization` and the server's own host.
type Answer = fn(&str, &str, Option<&str>, &str) -> (u16, String, String);

/// A server on which `answer` gives for each method and path a status, the header `WWW-Authenticate`, and a body.
async fn server(answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let own = host.clone();
    let handler = any(move |request: axum::extract::Request| {
        let path = request.uri().path_and_query().map(|path| path.as_str().to_owned()).unwrap_or_default();
        let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (status, challenge, body) = answer(request.method().as_str(), &path, shown, &own);
        async move {
            let status = StatusCode::from_u16(status).unwrap();
            (status, [(header::WWW_AUTHENTICATE, challenge)], body).into_response()
        }
    });
    let serving = axum::serve(listener, Router::new().fallback(handler));
    tokio::spawn(async move { serving.await });
    host
}

fn observer(api_store: &str) -> Observer {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let endpoint = format!("http://{api_store}");
    let settings = BuildSettings::read(|name| (name == "API_STORE_ENDPOINT").then(|| endpoint.clone()));
    Observer {
        client: Client::try_from(nowhere).unwrap(),
        caches: Caches { jobs: Store::new(), accounts: Store::new() },
        settings: Arc::new(settings),
        outbound: Outbound::new(&outbound::Trust::default()).unwrap(),
    }
}

#[tokio::test]
async fn a_registry_may_ask_for_a_token() {
    let host = server(|_, path, shown, host| match (path, shown) {
        ("/token?service=r&scope=pull", Some("Basic dTpw")) => (200, String::new(), r#"{"token":"t"}"#.to_owned()),
        ("/v2/there/manifests/v1", Some("Bearer t")) => (200, String::new(), String::new()),
        ("/v2/gone/manifests/v1", Some("Bearer t")) => (404, String::new(), String::new()),
        ("/v2/broken/manifests/v1", _) => (500, String::new(), String::new()),
        _ => (401, format!("Bearer realm=\"http://{host}/token\",service=\"r\",scope=\"pull\""), String::new()),
    })
    .await;
    let observer = observer("none");
    let login = ("u".to_owned(), "p".to_owned());
    let ask =
        async |name: &str, login| observer.has_manifest(&format!("http://{host}/v2/{name}/manifests/v1"), login).await;
    assert_eq!(ask("there", Some(&login)).await, Ok(true));
    assert_eq!(ask("gone", Some(&login)).await, Ok(false));
    assert!(ask("there", None).await.unwrap_err().contains("gave no token"));
    assert!(ask("broken", Some(&login)).await.unwrap_err().contains("500"));
}

#[tokio::test]
async fn the_api_store_says_where_the_archive_is() {
    let host = server(|method, path, _, _| match (method, path) {
        ("GET", "/api/v1/dynamo_components/chat/versions/v1") => (200, String::new(), r#"{"name":"v1"}"#.to_owned()),
        ("GET", "/api/v1/dynamo_components/chat/versions/v2") => {
            (200, String::new(), r#"{"transmission_strategy":"presigned_url"}"#.to_owned())
        }
        ("PATCH", "/api/v1/dynamo_components/chat/versions/v2/presign_download_url") => {
            (200, String::new(), r#"{"presigned_download_url":"s3://b/k"}"#.to_owned())
        }
        _ => (404, String::new(), String::new()),
    })
    .await;
    let observer = observer(&host);
    let place = async |what: &str| {
        let spec = DynamoComponentSpec { dynamo_component: what.to_owned(), ..Default::default() };
        observer.download(&DynamoComponent::new("c", spec)).await
    };
    let proxied = format!("http://{host}/api/v1/dynamo_components/chat/versions/v1/download");
    assert_eq!(place("chat:v1").await, Ok(proxied));
    assert_eq!(place("chat:v2").await, Ok("s3://b/k".to_owned()));
    assert!(matches!(place("chat:v3").await, Err(Hindrance::Unreachable(why)) if why.contains("404")));
}
