//! Connection of a process to the API server: the usual client, over connections that are watched themselves, with the
//! fence in it.

use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::{legacy, legacy::connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Config, Error,
    client::{Body, ClientBuilder, ConfigExt, retry::RetryPolicy},
};
use tower::{
    BoxError, ServiceBuilder, ServiceExt,
    retry::{Policy, RetryLayer},
    util::BoxService,
};

use crate::scope::Fence;

/// After how long a silence the other side is probed, how often it is probed again, and how many times at most. A watch
/// may be silent for minutes, and a connection that broke without an error, in a firewall or a load balancer, looks the
/// same: without these probes, which the kernels exchange among themselves, it goes unnoticed until the watch ends by
/// itself.
const SILENCE: Duration = Duration::from_secs(3);
const INTERVAL: Duration = Duration::from_secs(1);
const PROBES: u32 = 3;

/// Service that carries requests to the API server.
type Carrier = BoxService<Request<Body>, Response<Incoming>, BoxError>;

/// A client in the making for these credentials: kube's own stack of layers on a connector of ours. A fence is checked
/// before each try: an API server that is overloaded or starts answers "later", and later the namespace may be
/// another's.
///
/// # Errors
/// The credentials cannot be used, or need a proxy.
pub(super) fn client_builder(config: &Config, fence: &Fence) -> Result<ClientBuilder<Carrier>, Error> {
    if let Some(proxy) = &config.proxy_url {
        return Err(Error::ProxyProtocolUnsupported { proxy_url: Box::new(proxy.clone()) });
    }
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector())?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let carrier = ServiceBuilder::new()
        .option_layer(config.default_retry.then(|| RetryLayer::new(Repeated(RetryPolicy::server_retry()))))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .layer(fence)
        // Last, because the fence compares paths without a prefix.
        .layer(config.base_uri_layer())
        .service(client);
    Ok(ClientBuilder::new(carrier.boxed(), config.default_namespace.as_str()))
}

/// Policy for the requests that are repeated when the API server, or a load balancer before it, defers them: those for
/// whose answer a caller waits for a limited time. The pauses between the tries grow to more than a minute, for which a
/// cache would be stale after an outage; a cache has pauses of its own.
#[derive(Clone)]
struct Repeated(RetryPolicy);

impl<R> Policy<Request<Body>, Response<R>, BoxError> for Repeated {
    type Future = <RetryPolicy as Policy<Request<Body>, Response<R>, BoxError>>::Future;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        answer: &mut Result<Response<R>, BoxError>,
    ) -> Option<Self::Future> {
        self.0.retry(request, answer)
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        if fills_a_cache(request.uri()) {
            return None;
        }
        Policy::<_, Response<R>, BoxError>::clone_request(&mut self.0, request)
    }
}

/// A watch, or a list in pages, which begins one.
fn fills_a_cache(uri: &Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| parameter.starts_with("watch=") || parameter.starts_with("limit="))
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_keepalive(Some(SILENCE));
    connector.set_keepalive_interval(Some(INTERVAL));
    connector.set_keepalive_retries(Some(PROBES));
    connector
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use axum::{Router, http::StatusCode};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{
        Api,
        api::{DeleteParams, ListParams, WatchParams},
    };
    use socket2::SockRef;
    use tokio::net::TcpListener;

    use super::*;
    use crate::store::Scope;

    #[tokio::test]
    async fn a_connection_probes_whether_the_other_side_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let connection = connector().oneshot(address.parse().unwrap()).await.unwrap();
        let socket = SockRef::from(connection.inner());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), SILENCE);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), INTERVAL);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
    }

    #[test]
    fn a_proxy_is_refused_in_words() {
        let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
        config.proxy_url = Some("http://proxy.example:3128".parse().unwrap());
        let error = client_builder(&config, &Fence::unfenced()).err().unwrap().to_string();
        assert!(error.contains("proxy.example"), "{error}");
    }

    #[tokio::test]
    async fn the_fence_is_checked_again_before_a_write_is_repeated() {
        let (fence, tries) = (Fence::open(), Arc::<AtomicUsize>::default());
        let (counted, marked) = (Arc::clone(&tries), fence.clone());
        let busy = move || async move {
            counted.fetch_add(1, Ordering::SeqCst);
            // While the write waits, another operator takes the namespace.
            marked.mark("team");
            StatusCode::SERVICE_UNAVAILABLE
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}/prefix", listener.local_addr().unwrap()).parse().unwrap());
        tokio::spawn(axum::serve(listener, Router::new().fallback(busy)).into_future());
        let client = client_builder(&config, &fence).unwrap().build();
        let maps = Api::<ConfigMap>::namespaced(client, "team");
        let error = maps.delete("x", &DeleteParams::default()).await.unwrap_err();
        assert!(format!("{error:?}").contains("Marked"), "{error:?}");
        assert_eq!(tries.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn list_requests_fail_at_once_while_the_fence_is_closed() {
        let tries = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&tries);
        let busy = move || async move {
            counted.fetch_add(1, Ordering::SeqCst);
            StatusCode::SERVICE_UNAVAILABLE
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        tokio::spawn(axum::serve(listener, Router::new().fallback(busy)).into_future());
        let client = client_builder(&config, &Fence::unfenced()).unwrap().build();
        let scope = Scope::Namespace("team".to_owned());
        // What the API server streams, and what is listed.
        let maps = scope.api::<ConfigMap>(client.clone());
        let (watched, paged) = (WatchParams::default().initial_events(), ListParams::default().limit(500));
        let requests = async { (maps.watch(&watched, "").await.is_err(), maps.list(&paged).await.is_err()) };
        let refused = tokio::time::timeout(Duration::from_secs(60), requests).await;
        assert_eq!(refused.expect("it does not wait inside the client"), (true, true));
        assert_eq!(tries.load(Ordering::SeqCst), 2);
        let get = scope.api::<ConfigMap>(client);
        let repeated = async {
            while tries.load(Ordering::SeqCst) < 5 {
                tokio::task::yield_now().await
            }
        };
        tokio::select! {
            answer = get.get("x") => panic!("not repeated: {answer:?}"),
            () = repeated => {}
        }
    }
}
