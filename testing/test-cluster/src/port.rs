//! A free port for the API server.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
};

use crate::{error::Error, home::random};

/// Number of ports below the range of outgoing connections that are candidates, and number of attempts.
const SPAN: u64 = 12_000;
const TRIES: usize = 200;
/// Default start of that range on Linux.
const USUAL_LOW: u64 = 32_768;

/// A free port on loopback. Another process may take it before it is used.
///
/// It is chosen below the range of outgoing connections: clients that keep dialling an API server which is stopped for
/// a while can otherwise get its port as their own source port, and it could not be started again.
///
/// # Errors
/// No port is free.
pub fn free() -> Result<u16, Error> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let low = range.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(USUAL_LOW);
    let first = low.saturating_sub(SPAN).max(1024);
    if low <= first {
        return bind(0).ok_or(Error::NoPort);
    }
    let candidates = std::iter::repeat_with(|| u16::try_from(first + random() % (low - first)).ok());
    candidates.flatten().take(TRIES).find_map(bind).ok_or(Error::NoPort)
}

fn bind(port: u16) -> Option<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .and_then(|listener| listener.local_addr())
        .ok()
        .map(|addr| addr.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_not_free() {
        let port = free().unwrap();
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(bind(port), None);
    }
}
