//! Requests in the plainest HTTP, to servers of our own.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const LIMIT: Duration = Duration::from_secs(20);

/// Asks, and gives the whole answer.
pub async fn send(address: &str, method: &str, path: &str) -> Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let what = || format!("{method} {path} at {address}");
    tokio::time::timeout(LIMIT, exchange).await.with_context(what)?.with_context(what)
}
