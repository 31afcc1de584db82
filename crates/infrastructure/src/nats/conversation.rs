//! One connection to one server: its greeting, our login, and requests one after the other.

use std::str::FromStr;

use outbound::Trust;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

use super::Address;
use crate::{
    Credentials,
    credentials::NatsLogin,
    nkey::{self, Nkey},
};

/// What the server calls us.
const NAME: &str = "dynamo-operator";
/// Where answers go to; the connection is ours alone, and there is one question at a time.
const INBOX: &str = "_INBOX.dynamo-operator";
/// Longest line and longest message that is read.
const LONGEST: u64 = 4 << 20;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// An answer to a request.
pub enum Answer {
    /// The message.
    Message(Vec<u8>),
    /// Nobody listens to such requests.
    Nobody,
}

/// A connection whose login succeeded.
pub struct Conversation {
    stream: BufReader<Box<dyn Stream>>,
    /// Number of the newest question; every one has an inbox of its own.
    asked: u64,
}

impl Conversation {
    /// Connects, logs in, and waits for the server's word.
    pub async fn begin(address: &Address, credentials: &Credentials, tls: &TlsConnector) -> Result<Self, String> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(text)?;
        let mut stream: BufReader<Box<dyn Stream>> = BufReader::new(Box::new(stream));
        let greeting = line(&mut stream).await?;
        let info = greeting.strip_prefix("INFO ").ok_or("what listens there is no NATS server")?;
        let info: Value = serde_json::from_str(info).map_err(text)?;
        if address.secure || wants_tls(&credentials.trust) || info.get("tls_required") == Some(&Value::Bool(true)) {
            let name = ServerName::try_from(address.host.clone()).map_err(text)?;
            // Nothing is left in the buffer: the server waits for us now.
            let secured = tls.connect(name, stream.into_inner()).await.map_err(text)?;
            stream = BufReader::new(Box::new(secured));
        }
        let login = login(address, &credentials.nats, info.get("nonce").and_then(Value::as_str))?;
        let mut conversation = Self { stream, asked: 0 };
        conversation.write(&format!("CONNECT {login}\r\nPING\r\n")).await?;
        while conversation.line().await? != "PONG" {}
        Ok(conversation)
    }

    /// Asks, and waits for the first answer.
    pub async fn request(&mut self, subject: &str, body: &str) -> Result<Answer, String> {
        self.asked += 1;
        let id = self.asked;
        let request =
            format!("SUB {INBOX}.{id} {id}\r\nUNSUB {id} 1\r\nPUB {subject} {INBOX}.{id} {}\r\n{body}\r\n", body.len());
        self.write(&request).await?;
        loop {
            let line = self.line().await?;
            let mut words = line.split_ascii_whitespace();
            let kind = words.next();
            if !matches!(kind, Some("MSG" | "HMSG")) {
                continue;
            }
            let numbers: Vec<usize> = words.rev().map_while(|word| usize::from_str(word).ok()).collect();
            let length = *numbers.first().ok_or("a message without a length")?;
            if length as u64 > LONGEST {
                return Err(format!("a message of {length} bytes"));
            }
            let mut message = vec![0; length + 2];
            self.stream.read_exact(&mut message).await.map_err(text)?;
            message.truncate(length);
            if kind == Some("MSG") {
                return Ok(Answer::Message(message));
            }
            // With headers: the length of the headers stands before that of the whole.
            if message.starts_with(b"NATS/1.0 503") {
                return Ok(Answer::Nobody);
            }
            let headers = numbers.get(1).copied().unwrap_or_default().min(length);
            return Ok(Answer::Message(message.split_off(headers)));
        }
    }

    /// The next line that is for us. The server's own questions are answered, its complaints are errors.
    async fn line(&mut self) -> Result<String, String> {
        loop {
            let line = line(&mut self.stream).await?;
            if line == "PING" {
                self.write("PONG\r\n").await?;
            } else if let Some(complaint) = line.strip_prefix("-ERR ") {
                return Err(complaint.trim_matches('\'').to_owned());
            } else {
                return Ok(line);
            }
        }
    }

    async fn write(&mut self, what: &str) -> Result<(), String> {
        self.stream.get_mut().write_all(what.as_bytes()).await.map_err(text)?;
        self.stream.get_mut().flush().await.map_err(text)
    }
}

async fn line(stream: &mut BufReader<Box<dyn Stream>>) -> Result<String, String> {
    let mut line = String::new();
    let read = (&mut *stream).take(LONGEST).read_line(&mut line).await.map_err(text)?;
    match read {
        0 => Err("the server closed the connection".to_owned()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

/// Whom to trust is told only where there is TLS.
fn wants_tls(trust: &Trust) -> bool {
    trust.authorities.is_some()
}

/// The content of `CONNECT`. A Secret wins over what stands in the address.
fn login(address: &Address, way: &NatsLogin, nonce: Option<&str>) -> Result<Value, String> {
    let mut login = json!({
        "verbose": false, "pedantic": false, "tls_required": false, "lang": "rust", "version": env!("CARGO_PKG_VERSION"),
        "name": NAME, "protocol": 1, "echo": true, "headers": true, "no_responders": true,
    });
    let nonce = nonce.unwrap_or_default();
    match (way, &address.login) {
        (NatsLogin::Password(user, password), _) => (login["user"], login["pass"]) = (json!(user), json!(password)),
        (NatsLogin::Token(token), _) => login["auth_token"] = json!(token),
        (NatsLogin::Nkey(seed), _) => {
            let key = Nkey::from_seed(seed).ok_or("nats-nkey is no seed of an NKEY")?;
            (login["nkey"], login["sig"]) = (json!(key.public()), json!(key.sign(nonce)));
        }
        (NatsLogin::CredentialsFile(file), _) => {
            let (jwt, key) = nkey::of_credentials_file(file).ok_or("nats-creds is no credentials file")?;
            (login["jwt"], login["sig"]) = (json!(jwt), json!(key.sign(nonce)));
        }
        (NatsLogin::Anybody, Some((user, password))) => {
            (login["user"], login["pass"]) = (json!(user), json!(password));
        }
        (NatsLogin::Anybody, None) => {}
    }
    Ok(login)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
