//! A NATS operator with one account and one user, who are known by signed tokens.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use nkeys::KeyPair;
use serde_json::{Value, json};

/// Their keys.
pub struct Operator {
    operator: KeyPair,
    account: KeyPair,
    user: KeyPair,
}

impl Operator {
    pub fn new() -> Self {
        Self { operator: KeyPair::new_operator(), account: KeyPair::new_account(), user: KeyPair::new_user() }
    }

    /// Configuration of the server: its trust root and its accounts.
    pub fn server_config(&self) -> String {
        let operator = token(&self.operator, &self.operator, &json!({ "type": "operator", "version": 2 }));
        let limits = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        });
        let account = json!({ "type": "account", "version": 2, "limits": limits });
        let account = token(&self.operator, &self.account, &account);
        let name = self.account.public_key();
        format!("operator: {operator}\nresolver: MEMORY\nresolver_preload: {{ {name}: {account} }}")
    }

    /// Returns the credentials file of the user.
    pub fn credentials_file(&self) -> String {
        let user = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
        let token = token(&self.account, &self.user, &user);
        let seed = self.user.seed().unwrap();
        let part = |name: &str, text: &str| format!("-----BEGIN {name}-----\n{text}\n------END {name}------\n\n");
        part("NATS USER JWT", &token) + &part("USER NKEY SEED", &seed)
    }
}

/// Returns a token of `issuer` about `subject`.
fn token(issuer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    let encoded = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let head = encoded(&json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let issuer_name = issuer.public_key();
    let body = encoded(&json!({
        "jti": subject.public_key(), "iat": 1_700_000_000, "iss": issuer_name, "sub": subject.public_key(),
        "name": "test", "nats": claims,
    }));
    let signed = format!("{head}.{body}");
    let signature = BASE64_URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}
