//! Client code for servers other than the API server: one HTTP request, to an API store, for the metrics of a DCGM
//! exporter or to a receiver of notifications, and TLS as clients of registries, NATS and etcd set it up. All of these
//! servers may be inside the cluster or outside.
//!
//! Every request has a connection of its own: there are few of them, and the other side need not keep connections of
//! idle operators. HTTP/1.1, TLS by rustls with ring. Redirects are not followed. Every request has a deadline and a
//! longest answer.

mod trust;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
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

/// Limits of the duration of an exchange and of the size of its answer.
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
    /// A client with these trust roots and this client identity.
    ///
    /// # Errors
    /// If a certificate or a key cannot be used.
    pub fn new(trust: &Trust) -> Result<Self, OutboundError> {
        Ok(Self { tls: TlsConnector::from(Arc::new(client_config(trust)?)), barred: None })
    }

    /// For servers that tenants name: connects to no address of the machine, its link or its cloud's metadata,
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
    pub async fn send(&self, request: Request<Bytes>, limits: Limits) -> Result<Response<Bytes>, OutboundError> {
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
    ) -> Result<StatusCode, OutboundError> {
        self.send_within(request, limits, Some(pieces)).await.map(|answer| answer.status())
    }

    async fn send_within(
        &self,
        request: Request<Bytes>,
        limits: Limits,
        pieces: Option<Sender<Bytes>>,
    ) -> Result<Response<Bytes>, OutboundError> {
        let Limits { patience, longest } = limits;
        let server = OutboundServer::of(request.uri())?;
        let unreachable = |reason: String| OutboundError::Unreachable { server: server.to_string(), reason };
        let exchange = async {
            let stream = tokio::time::timeout(CONNECT_PATIENCE, self.connect(&server)).await;
            let stream = stream.map_err(|_| unreachable("no connection in time".to_owned()))??;
            let request = in_origin_form(request, &server)?;
            if !server.secure {
                return send_over(stream, request, longest, pieces, &server).await;
            }
            let name = ServerName::try_from(server.host.clone()).map_err(|error| unreachable(error.to_string()))?;
            let stream = self.tls.connect(name, stream).await.map_err(|error| unreachable(error.to_string()))?;
            send_over(stream, request, longest, pieces, &server).await
        };
        let outcome = tokio::time::timeout(patience, exchange).await;
        outcome.unwrap_or_else(|_| Err(OutboundError::TimedOut { server: server.to_string(), patience }))
    }

    /// Connects to the first address of the server that answers. Addresses are judged after names are resolved, so that
    /// no name leads inside.
    async fn connect(&self, server: &OutboundServer) -> Result<TcpStream, OutboundError> {
        let unreachable = |reason: String| OutboundError::Unreachable { server: server.to_string(), reason };
        let found = tokio::net::lookup_host((server.host.as_str(), server.port)).await;
        let mut why = unreachable("its name has no address".to_owned());
        for address in found.map_err(|error| unreachable(error.to_string()))? {
            if self.barred.as_ref().is_some_and(|barred| is_inside(address.ip(), barred)) {
                why = OutboundError::Inside { server: server.to_string() };
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
    server: &OutboundServer,
) -> Result<Response<Bytes>, OutboundError> {
    let broken = |reason: String| OutboundError::Broken { server: server.to_string(), reason };
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
fn in_origin_form(request: Request<Bytes>, server: &OutboundServer) -> Result<Request<Full<Bytes>>, OutboundError> {
    let (mut head, body) = request.into_parts();
    let bad = |reason: String| OutboundError::Address { address: server.to_string(), reason };
    let host = HeaderValue::try_from(server.authority.as_str()).map_err(|error| bad(error.to_string()))?;
    head.headers.insert(header::HOST, host);
    head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    head.uri = path.parse::<Uri>().map_err(|error| bad(error.to_string()))?;
    Ok(Request::from_parts(head, Full::new(body)))
}

/// Server that a request is sent to.
struct OutboundServer {
    secure: bool,
    /// As in the header.
    authority: String,
    /// Without brackets.
    host: String,
    port: u16,
}

impl OutboundServer {
    fn of(uri: &Uri) -> Result<Self, OutboundError> {
        let bad = |reason: &str| OutboundError::Address { address: uri.to_string(), reason: reason.to_owned() };
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

impl std::fmt::Display for OutboundServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }
}

/// Addresses at which clouds serve credentials and settings of a machine, beside the link-local addresses.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Whether an address is the machine's own, that of its link or its cloud's metadata, or one of `barred`.
pub(crate) fn is_inside(address: IpAddr, barred: &[IpAddr]) -> bool {
    let address = address.to_canonical();
    let own = match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified() || v6.is_unicast_link_local(),
    };
    own || address.is_multicast() || METADATA.contains(&address) || barred.contains(&address)
}

/// Reason for a missing answer. None of the texts contains anything of a request except the server's address.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// The address cannot be used.
    #[error("address {address:?} cannot be used: {reason}")]
    Address {
        /// As given.
        address: String,
        /// Reason.
        reason: String,
    },
    /// A certificate or a key cannot be used.
    #[error("{what} cannot be used: {reason}")]
    Trust {
        /// Unusable item, such as the key.
        what: &'static str,
        /// Reason.
        reason: String,
    },
    /// There is no connection.
    #[error("{server} cannot be reached: {reason}")]
    Unreachable {
        /// Scheme and host.
        server: String,
        /// Reason.
        reason: String,
    },
    /// The server has a barred address.
    #[error("{server} has an address inside the machine, the link or the control plane, which is not contacted")]
    Inside {
        /// Scheme and host.
        server: String,
    },
    /// The connection broke, or what came over it is not HTTP or too long.
    #[error("{server} did not answer properly: {reason}")]
    Broken {
        /// Scheme and host.
        server: String,
        /// Reason.
        reason: String,
    },
    /// The answer took too long.
    #[error("{server} did not answer within {} s", patience.as_secs())]
    TimedOut {
        /// Scheme and host.
        server: String,
        /// Time limit of the answer.
        patience: Duration,
    },
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod reach_tests {
    use super::*;

    #[test]
    fn addresses_of_the_machine_its_link_and_its_cloud_are_inside() {
        let barred: IpAddr = "10.96.0.1".parse().unwrap();
        for (address, inside) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("169.254.169.254", true),
            ("255.255.255.255", true),
            ("224.0.0.1", true),
            ("168.63.129.16", true),
            ("10.96.0.1", true),
            ("::1", true),
            ("::", true),
            ("fe80::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:10.96.0.1", true),
            ("fd00:ec2::254", true),
            ("10.96.0.2", false),
            ("192.168.0.1", false),
            ("8.8.8.8", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_inside(address.parse().unwrap(), &[barred]), inside, "{address}");
        }
    }
}
