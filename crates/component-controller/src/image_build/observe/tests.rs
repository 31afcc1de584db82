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

fn observer(api_store: &str) -> Observer {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let endpoint = format!("http://me:secret@{api_store}");
    let settings = BuildSettings::read(|name| (name == "API_STORE_ENDPOINT").then(|| endpoint.clone()));
    let client = Client::try_from(nowhere).unwrap();
    Observer {
        client: client.clone(),
        caches: Caches { jobs: Store::new(), accounts: Store::new() },
        settings: Arc::new(settings),
        outbound: Outbound::new(&outbound::Trust::default()).unwrap(),
        registries: Registries::default(),
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
    let Err(Obstacle::Unreachable(why)) = place("chat:v3").await else { panic!("it answers 404") };
    assert!(why.contains("404") && !why.contains("secret"), "conditions show no password: {why}");
}

/// In a registry that lets nodes in by who they are, the operator sees nothing.
#[test]
fn where_nodes_log_in_by_themselves_a_refusal_is_no_hindrance() {
    let refused = || Err(Obstacle::Blocked("no".to_owned()));
    let away = || Err(Obstacle::Unreachable("no".to_owned()));
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
        let before = Known { known, found, nodes_log_in };
        assert_eq!(evaluate(answer.clone(), before), expected, "{answer:?} {before:?}");
    }
}
