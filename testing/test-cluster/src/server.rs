//! An etcd, a NATS or an image registry of one's own, beside any cluster: real servers for those who talk to them.

use std::{net::Ipv4Addr, path::PathBuf, time::Duration};

use tokio::{net::TcpStream, task::spawn_blocking};

use crate::{
    assets::{Assets, Tool},
    error::Error,
    home,
    pki::Keys,
    port,
    supervisor::{Program, Signal, Supervisor},
    wait,
};

/// The name of the server's only program.
const NAME: &str = "server";
/// Files in its directory.
const CA: &str = "ca.crt";
const CERTIFICATE: &str = "server.crt";
const KEY: &str = "server.key";
const CONFIG: &str = "server.conf";
/// Limit of new ports after another process took the port of a server.
const PORT_TRIES: u32 = 3;
const LISTEN_LIMIT: Duration = Duration::from_secs(60);

/// Protection of a server.
#[derive(Debug, Clone, Copy)]
pub enum Security<'a> {
    /// Not at all.
    Open,
    /// By TLS, and clients need a certificate, too.
    Tls(&'a Keys),
}

impl Security<'_> {
    fn is_tls(self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

/// A server on loopback. It ends with its owner, however that ends.
#[derive(Debug)]
pub struct Server {
    supervisor: Supervisor,
    /// Address it listens on: host and port.
    pub address: String,
}

impl Server {
    /// Starts an etcd that keeps nothing on disk for long.
    ///
    /// # Errors
    /// It cannot be built or started.
    pub async fn etcd(security: Security<'_>) -> Result<Self, Error> {
        Self::start(Tool::Etcd, security, |port| {
            let scheme = if security.is_tls() { "https" } else { "http" };
            let clients = format!("{scheme}://127.0.0.1:{port}");
            let mut args = vec![
                "--name=one".to_owned(),
                "--data-dir=data".to_owned(),
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
                format!("--listen-client-urls={clients}"),
                format!("--advertise-client-urls={clients}"),
                // A socket in its directory: no other member may join. It requires `host:port`, hence the form.
                "--listen-peer-urls=unix://peers:0".to_owned(),
                "--initial-advertise-peer-urls=unix://peers:0".to_owned(),
                "--initial-cluster=one=unix://peers:0".to_owned(),
            ];
            if security.is_tls() {
                // Its gateway would need a certificate of its own.
                args.push("--enable-grpc-gateway=false".to_owned());
                args.push("--client-cert-auth".to_owned());
                args.push(format!("--trusted-ca-file={CA}"));
                args.push(format!("--cert-file={CERTIFICATE}"));
                args.push(format!("--key-file={KEY}"));
            }
            (args, String::new())
        })
        .await
    }

    /// Starts a NATS. `more` goes into its configuration: whether it keeps streams, and who is let in.
    ///
    /// # Errors
    /// It cannot be built or started.
    pub async fn nats(security: Security<'_>, more: &str) -> Result<Self, Error> {
        Self::start(Tool::NatsServer, security, |port| {
            let tls = format!("tls {{ cert_file: {CERTIFICATE}, key_file: {KEY}, ca_file: {CA}, verify: true }}\n");
            let tls = if security.is_tls() { tls } else { String::new() };
            let config = format!("listen: \"127.0.0.1:{port}\"\n{tls}{more}\n");
            (vec!["--config".to_owned(), CONFIG.to_owned()], config)
        })
        .await
    }

    /// Starts an image registry that keeps everything in memory, has no TLS and needs no login.
    ///
    /// # Errors
    /// It cannot be built or started.
    pub async fn registry() -> Result<Self, Error> {
        Self::start(Tool::Registry, Security::Open, |port| (vec![format!("-port={port}")], String::new())).await
    }

    /// Ends the server at once, as a crash would.
    ///
    /// # Errors
    /// It does not end.
    pub async fn stop(&self) -> Result<(), Error> {
        self.supervisor.stop(NAME, Signal::Kill).await
    }

    /// Starts it again, at the same address and with what it kept.
    ///
    /// # Errors
    /// It does not start, or another process has its port.
    pub async fn start_again(&self) -> Result<(), Error> {
        self.supervisor.run_again(NAME).await?;
        self.listening().await
    }

    /// `command` gives the arguments and the configuration for a port.
    async fn start(
        tool: Tool,
        security: Security<'_>,
        command: impl Fn(u16) -> (Vec<String>, String),
    ) -> Result<Self, Error> {
        let executable = spawn_blocking(move || Assets::from_env()?.find(tool)).await??;
        let mut tries = 1;
        loop {
            match Self::start_once(executable.clone(), security, &command).await {
                Err(error) if error.is_lost_port() && tries < PORT_TRIES => tries += 1,
                outcome => return outcome,
            }
        }
    }

    async fn start_once(
        executable: PathBuf,
        security: Security<'_>,
        command: &impl Fn(u16) -> (Vec<String>, String),
    ) -> Result<Self, Error> {
        let port = port::free()?;
        let (args, config) = command(port);
        let supervisor = Supervisor::start(home::fresh()).await?;
        let write = |name: &str, content: &str| home::write_private(&supervisor.dir().join(name), content.as_bytes());
        write(CONFIG, &config)?;
        if let Security::Tls(keys) = security {
            write(CA, &keys.authority)?;
            write(CERTIFICATE, &keys.server.certificate)?;
            write(KEY, &keys.server.key)?;
        }
        let address = format!("{}:{port}", Ipv4Addr::LOCALHOST);
        let this = Self { supervisor, address };
        this.supervisor.run(&Program { name: NAME.to_owned(), executable, args, env: Vec::new() }).await?;
        this.listening().await?;
        Ok(this)
    }

    /// Returns once it takes connections.
    async fn listening(&self) -> Result<(), Error> {
        let connect = async || TcpStream::connect(self.address.as_str()).await;
        let connected = wait::until(format!("{} to listen", self.address), LISTEN_LIMIT, connect);
        tokio::select! {
            outcome = connected => Ok(outcome.map(drop)?),
            death = self.supervisor.first_death(&[NAME]) => Err(death),
        }
    }
}
