//! Asks a process whether it is ready, in the plainest HTTP.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, bail};
use test_cluster::wait;

use crate::http::send;

/// Returns when `/readyz` answers with 200. Gives up early when the process is seen to have ended.
pub(super) async fn until_ready(address: SocketAddr, limit: Duration, alive: impl Fn() -> bool) -> Result<()> {
    let outcome = wait::until(format!("/readyz of {address}"), limit, async || {
        // The inner result ends the wait, the outer one goes on waiting.
        if alive() { readyz(address).await.map(Ok) } else { Ok(Err("the process ended")) }
    });
    match outcome.await? {
        Ok(()) => Ok(()),
        Err(death) => bail!(death),
    }
}

async fn readyz(address: SocketAddr) -> Result<(), String> {
    let answer = send(&address.to_string(), "GET", "/readyz").await.map_err(|error| format!("{error:#}"))?;
    let status = answer.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) == Some("200") { Ok(()) } else { Err(answer) }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    async fn serving(answers: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 256];
                let _ = stream.read(&mut request).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn waits_until_the_answer_is_200() {
        let address = serving(&["HTTP/1.1 503 No\r\n\r\nnot synced", "HTTP/1.1 200 OK\r\n\r\nok"]).await;
        until_ready(address, Duration::from_secs(60), || true).await.unwrap();
    }

    #[tokio::test]
    async fn a_dead_process_is_not_waited_for() {
        let address = serving(&[]).await;
        let error = until_ready(address, Duration::from_secs(3600), || false).await.unwrap_err();
        assert_eq!(error.to_string(), "the process ended");
    }
}
