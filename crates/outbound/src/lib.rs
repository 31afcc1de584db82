//! What programs need to call servers other than the API server: one HTTP request, to an API store, for the metrics of a
//! DCGM exporter or to a receiver of notifications, and TLS as clients of registries, NATS and etcd set it up. All of
//! them may be inside the cluster or outside.
//!
//! Every request has a connection of its own: there are few of them, and the other side need not keep connections of
//! idle operators. HTTP/1.1, TLS by rustls with ring. Redirects are not followed. Every request has a deadline and a
//! longest answer.

mod error;
mod reach;
mod trust;

use std::{net::IpAddr, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
pub use error::Error;
use http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::mpsc::Sender,
};
use tokio_rustls::TlsConnector;
pub use trust::{Identity, Trust, client_config, provide_tls};

/// A server that listens accepts a connection at once, wherever it is.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// How long an exchange may take, and how much an answer may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first packet to the last byte of the answer.
    pub patience: Duration,
    /// Bytes of the answer's body.
    pub longest: usize,
}

/// Sends requests. Cheap to clone.
#[derive(Clone)]
pub struct Outbound {
    tls: TlsConnector,
    /// Addresses that are refused beside the machine's own; none of either if it is not set.
    barred: Option<Arc<[IpAddr]>>,
}

impl Outbound {
    /// A client that trusts these authorities and shows this identity.
    ///
    /// # Errors
    /// If a certificate or a key cannot be used.
    pub fn new(trust: &Trust) -> Result<Self, Error> {
        Ok(Self { tls: TlsConnector::from(Arc::new(client_config(trust)?)), barred: None })
    }

    /// The same for servers that tenants name: connects to no address of the machine, its link or its cloud's metadata,
    /// and to none of these.
    #[must_use]
    pub fn only_outside(mut self, barred: &[IpAddr]) -> Self {
        self.barred = Some(barred.into());
        self
    }

    /// Sends `request`, whose URI is absolute, and returns the whole answer, whatever its status.
    ///
    /// # Errors
    /// If there is no answer within the limits.
    pub async fn send(&self, request: Request<Bytes>, limits: Limits) -> Result<Response<Bytes>, Error> {
        self.send_within(request, limits, None).await
    }

    /// Sends `request`, and passes on the body of the answer in pieces, until it ends or the receiver is gone. The body
    /// of an answer that is no success is not read.
    ///
    /// # Errors
    /// If the body does not end within the limits.
    pub async fn stream(
        &self,
        request: Request<Bytes>,
        limits: Limits,
        pieces: Sender<Bytes>,
    ) -> Result<StatusCode, Error> {
        self.send_within(request, limits, Some(pieces)).await.map(|answer| answer.status())
    }

    async fn send_within(
        &self,
        request: Request<Bytes>,
        limits: Limits,
        pieces: Option<Sender<Bytes>>,
    ) -> Result<Response<Bytes>, Error> {
        let server = Server::of(request.uri())?;
        let exchange = self.exchange(&server, request, limits.longest, pieces);
        let outcome = tokio::time::timeout(limits.patience, exchange).await;
        outcome.unwrap_or_else(|_| Err(Error::TimedOut { server: server.to_string(), patience: limits.patience }))
    }

    async fn exchange(
        &self,
        server: &Server,
        request: Request<Bytes>,
        longest: usize,
        pieces: Option<Sender<Bytes>>,
    ) -> Result<Response<Bytes>, Error> {
        let unreachable = |reason: String| Error::Unreachable { server: server.to_string(), reason };
        let stream = tokio::time::timeout(CONNECT_PATIENCE, self.connect(server)).await;
        let stream = stream.map_err(|_| unreachable("no connection in time".to_owned()))??;
        let request = in_origin_form(request, server)?;
        if !server.secure {
            return send_over(stream, request, longest, pieces, server).await;
        }
        let name = ServerName::try_from(server.host.clone()).map_err(|error| unreachable(error.to_string()))?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| unreachable(error.to_string()))?;
        send_over(stream, request, longest, pieces, server).await
    }
}

impl Outbound {
    /// Connects to the first address of the server that answers. Addresses are judged after names are resolved, so that
    /// no name leads inside.
    async fn connect(&self, server: &Server) -> Result<TcpStream, Error> {
        let unreachable = |reason: String| Error::Unreachable { server: server.to_string(), reason };
        let found = tokio::net::lookup_host((server.host.as_str(), server.port)).await;
        let mut why = unreachable("its name has no address".to_owned());
        for address in found.map_err(|error| unreachable(error.to_string()))? {
            if self.barred.as_ref().is_some_and(|barred| reach::is_inside(address.ip(), barred)) {
                why = Error::Inside { server: server.to_string() };
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => why = unreachable(error.to_string()),
            }
        }
        Err(why)
    }
}

async fn send_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    longest: usize,
    pieces: Option<Sender<Bytes>>,
    server: &Server,
) -> Result<Response<Bytes>, Error> {
    let broken = |reason: String| Error::Broken { server: server.to_string(), reason };
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| broken(error.to_string()))?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(|error| broken(error.to_string()))?;
        read_body(answer, longest, pieces).await.map_err(broken)
    };
    let mut exchange = pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        // The connection is closed as soon as everything is read; what was read is still to be handed on.
        _ = connection => exchange.await,
    }
}

/// The whole answer; without its body if that is passed on in pieces.
async fn read_body(
    answer: Response<Incoming>,
    longest: usize,
    pieces: Option<Sender<Bytes>>,
) -> Result<Response<Bytes>, String> {
    let (head, body) = answer.into_parts();
    let mut body = Limited::new(body, longest);
    let Some(pieces) = pieces else {
        let body = body.collect().await.map_err(|error| error.to_string())?;
        return Ok(Response::from_parts(head, body.to_bytes()));
    };
    while head.status.is_success()
        && let Some(frame) = body.frame().await
    {
        if let Ok(piece) = frame.map_err(|error| error.to_string())?.into_data()
            && pieces.send(piece).await.is_err()
        {
            break;
        }
    }
    Ok(Response::from_parts(head, Bytes::new()))
}

/// The request as HTTP/1.1 servers expect it: the path alone, and the host in a header.
fn in_origin_form(request: Request<Bytes>, server: &Server) -> Result<Request<Full<Bytes>>, Error> {
    let (mut head, body) = request.into_parts();
    let bad = |reason: String| Error::Address { address: server.to_string(), reason };
    let host = HeaderValue::try_from(server.authority.as_str()).map_err(|error| bad(error.to_string()))?;
    head.headers.insert(header::HOST, host);
    head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    head.uri = path.parse::<Uri>().map_err(|error| bad(error.to_string()))?;
    Ok(Request::from_parts(head, Full::new(body)))
}

/// Where a request goes.
struct Server {
    secure: bool,
    /// As in the header.
    authority: String,
    /// Without brackets.
    host: String,
    port: u16,
}

impl Server {
    fn of(uri: &Uri) -> Result<Self, Error> {
        let bad = |reason: &str| Error::Address { address: uri.to_string(), reason: reason.to_owned() };
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad("it begins with neither http:// nor https://")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(bad("it names no host"));
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        // Credentials in an address are no part of the host, and are not sent.
        let authority = authority.as_str().rsplit('@').next().unwrap_or_default().to_owned();
        Ok(Self { secure, authority, host, port })
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }
}

#[cfg(test)]
mod tests;
