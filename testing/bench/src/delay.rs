//! A proxy that brings the answers of a server later, as a network does.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// Pieces of answers that are under way on a connection; further ones wait.
const UNDER_WAY: usize = 1024;
const PIECE: usize = 64 * 1024;

/// Ends, with all of its connections, when it is dropped.
pub(super) struct Delay {
    /// The port on 127.0.0.1 that takes connections.
    pub(super) port: u16,
    _connections: JoinSet<()>,
}

impl Delay {
    /// Takes connections on loopback and passes them on to a server, whose answers arrive `delay` later.
    pub(super) async fn start(server: String, delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no free port on 127.0.0.1")?;
        let (port, mut tasks) = (listener.local_addr()?.port(), JoinSet::new());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, server.clone(), delay));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, _connections: tasks })
    }
}

/// Forwards a connection with a delay. A failure ends it on both sides.
async fn pass(client: TcpStream, server: String, delay: Duration) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    if client.set_nodelay(true).and(server.set_nodelay(true)).is_err() {
        return;
    }
    let ((mut requests, answers), (source, mut target)) = (client.into_split(), server.into_split());
    tokio::select! {
        _ = copy(&mut requests, &mut target) => {}
        _ = later(source, answers, delay) => {}
    }
}

async fn later(mut source: OwnedReadHalf, mut target: OwnedWriteHalf, delay: Duration) -> std::io::Result<()> {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let read = async {
        let mut buffer = vec![0; PIECE];
        loop {
            let length = source.read(&mut buffer).await?;
            if length == 0 || sender.send((Instant::now() + delay, buffer[..length].to_vec())).await.is_err() {
                return std::io::Result::Ok(());
            }
        }
    };
    let write = async {
        while let Some((at, piece)) = pieces.recv().await {
            sleep_until(at).await;
            target.write_all(&piece).await?;
        }
        Ok(())
    };
    tokio::select! {
        done = read => done,
        done = write => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_come_later_and_whole() {
        let (delay, size) = (Duration::from_millis(50), 3 * PIECE + 1);
        let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let proxy = Delay::start(server.local_addr().unwrap().to_string(), delay).await.unwrap();
        let echo = tokio::spawn(async move {
            let (mut connection, _) = server.accept().await.unwrap();
            let mut content = vec![0; size];
            connection.read_exact(&mut content).await.unwrap();
            connection.write_all(&content).await.unwrap();
            connection
        });
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        let (begin, content) = (Instant::now(), (0..size).map(|index| index as u8).collect::<Vec<_>>());
        client.write_all(&content).await.unwrap();
        let mut answer = vec![0; size];
        client.read_exact(&mut answer).await.unwrap();
        assert!(begin.elapsed() >= delay);
        assert!(answer == content);
        drop(echo.await);
    }
}
