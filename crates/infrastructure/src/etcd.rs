//! etcd, through its JSON gateway.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Request, header};
use outbound::{Limits, Outbound};
use serde_json::{Value, json};

use crate::{Credentials, Error, layout};

const LIMITS: Limits = Limits { patience: Duration::from_secs(5), longest: 1 << 20 };

/// One etcd, with all its endpoints.
#[derive(Clone)]
pub struct Etcd {
    /// As `scheme://host:port`.
    endpoints: Vec<String>,
    client: Outbound,
    login: Option<(String, String)>,
}

impl Etcd {
    /// The etcd at these addresses: `host:port` or URLs, separated by commas.
    ///
    /// # Errors
    /// If an address or a certificate cannot be used.
    pub fn new(addresses: &str, credentials: &Credentials) -> Result<Self, Error> {
        let addresses = addresses.split(',').map(str::trim).filter(|address| !address.is_empty());
        let endpoints: Vec<String> = addresses.map(|address| with_scheme(address, credentials)).collect();
        if endpoints.is_empty() {
            let reason = "it names no server".to_owned();
            return Err(outbound::Error::Address { address: String::new(), reason }.into());
        }
        let client = Outbound::new(&credentials.trust)?;
        Ok(Self { endpoints, client, login: credentials.etcd.clone() })
    }

    /// Whether what the runtime keeps can be read.
    ///
    /// # Errors
    /// If it cannot, and why.
    pub async fn check(&self) -> Result<(), Error> {
        let prefix = b"v1/";
        self.ask("kv/range", range(prefix, json!({ "count_only": true }))).await.map(drop)
    }

    /// Removes every key that belongs to a Dynamo namespace, and says how many there were.
    ///
    /// # Errors
    /// If one of them may still be there.
    pub async fn remove_namespace(&self, namespace: &str) -> Result<u64, Error> {
        let mut removed = 0;
        for prefix in layout::etcd_prefixes(namespace) {
            let answer = self.ask("kv/deleterange", range(prefix.as_bytes(), json!({}))).await?;
            // The gateway writes large numbers as text, and none at all for zero.
            let deleted = answer.get("deleted").and_then(Value::as_str).and_then(|text| text.parse::<u64>().ok());
            removed += deleted.unwrap_or_default();
        }
        Ok(removed)
    }

    /// Removes the keys of one component that have no lease, and says how many there were. Those with a lease are of a process that
    /// lives, or go by themselves: another component may register under the same name.
    ///
    /// # Errors
    /// If one of them may still be there.
    pub async fn remove_component(&self, namespace: &str, component: &str) -> Result<u64, Error> {
        let mut removed = 0;
        for prefix in layout::etcd_component_prefixes(namespace, component) {
            let found = self.ask("kv/range", range(prefix.as_bytes(), json!({ "keys_only": true }))).await?;
            let keys = found.get("kvs").and_then(Value::as_array).into_iter().flatten();
            // The gateway leaves out what is zero.
            for key in keys.filter(|key| key.get("lease").is_none()).filter_map(|key| key.get("key")) {
                self.ask("kv/deleterange", json!({ "key": key })).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Asks the first endpoint that answers.
    async fn ask(&self, path: &str, body: Value) -> Result<Value, Error> {
        let mut last = None;
        for endpoint in &self.endpoints {
            match self.ask_one(endpoint, path, &body).await {
                Err(error @ Error::Connection(_)) => last = Some(error),
                answer => return answer,
            }
        }
        let none = Error::Etcd { server: String::new(), reason: "there is no endpoint".to_owned() };
        Err(last.unwrap_or(none))
    }

    async fn ask_one(&self, endpoint: &str, path: &str, body: &Value) -> Result<Value, Error> {
        let token = match &self.login {
            None => None,
            Some((name, password)) => {
                let answer = self
                    .post(endpoint, "auth/authenticate", &json!({ "name": name, "password": password }), None)
                    .await?;
                answer.get("token").and_then(Value::as_str).map(ToOwned::to_owned)
            }
        };
        self.post(endpoint, path, body, token.as_deref()).await
    }

    async fn post(&self, endpoint: &str, path: &str, body: &Value, token: Option<&str>) -> Result<Value, Error> {
        let failed = |reason: String| Error::Etcd { server: endpoint.to_owned(), reason };
        let mut request =
            Request::post(format!("{endpoint}/v3/{path}")).header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            let mut token = HeaderValue::try_from(token).map_err(|_| failed("its token cannot be sent".to_owned()))?;
            token.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.body(Bytes::from(body.to_string())).map_err(|error| failed(error.to_string()))?;
        let answer = self.client.send(request, LIMITS).await?;
        let value = serde_json::from_slice::<Value>(answer.body()).unwrap_or_default();
        if answer.status().is_success() {
            return Ok(value);
        }
        let message = value.get("message").or_else(|| value.get("error")).and_then(Value::as_str);
        Err(failed(message.map_or_else(|| format!("status {}", answer.status()), ToOwned::to_owned)))
    }
}

/// Without a scheme: TLS if we know whom to trust.
fn with_scheme(address: &str, credentials: &Credentials) -> String {
    let address = address.trim_end_matches('/');
    match (address.contains("://"), credentials.trust.authorities.is_some()) {
        (true, _) => address.to_owned(),
        (false, true) => format!("https://{address}"),
        (false, false) => format!("http://{address}"),
    }
}

/// A request for all keys with this prefix.
fn range(prefix: &[u8], mut more: Value) -> Value {
    more["key"] = json!(BASE64_STANDARD.encode(prefix));
    // "All that follow" is written as one zero byte.
    more["range_end"] = json!(BASE64_STANDARD.encode(layout::end_of_prefix(prefix).unwrap_or_else(|| vec![0])));
    more
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbound::Trust;

    #[test]
    fn addresses_are_read_as_the_runtime_reads_them() {
        let open = Credentials::default();
        let trust = Trust { authorities: Some(b"x".to_vec()), ..Trust::default() };
        let secured = Credentials { trust, ..Credentials::default() };
        assert_eq!(with_scheme("etcd:2379", &open), "http://etcd:2379");
        assert_eq!(with_scheme("etcd:2379", &secured), "https://etcd:2379");
        assert_eq!(with_scheme("http://etcd:2379/", &secured), "http://etcd:2379");
        assert!(Etcd::new(" , ", &open).is_err());
        assert_eq!(Etcd::new("a:1, http://b:2", &open).unwrap().endpoints, ["http://a:1", "http://b:2"]);
    }
}
