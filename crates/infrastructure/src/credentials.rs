//! Contents of one Secret for NATS and etcd.

use std::{collections::BTreeMap, fmt};

use outbound::{Identity, Trust};

/// Credentials and certificates. Nothing of them is ever shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Trust roots and the client certificate: `ca.crt`, `tls.crt` and `tls.key`.
    pub trust: Trust,
    /// Login to NATS.
    pub nats: NatsLogin,
    /// User and password of etcd: `etcd-username`, `etcd-password`.
    pub etcd: Option<(String, String)>,
}

/// Login to NATS.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum NatsLogin {
    /// Without a login.
    #[default]
    Anonymous,
    /// `nats-username` and `nats-password`.
    Password(String, String),
    /// `nats-token`.
    Token(String),
    /// `nats-nkey`: the seed of an NKEY.
    Nkey(String),
    /// `nats-creds`: a credentials file with a JWT and a seed.
    CredentialsFile(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// A key of the Secret that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// One of two keys that belong together is missing.
    #[error("it has key {present} without {missing}; add it")]
    Half {
        /// The key that is there.
        present: &'static str,
        /// The one that is not.
        missing: &'static str,
    },
    /// A value is no text.
    #[error("the value of key {0} is no UTF-8 text")]
    NoText(&'static str),
    /// There are several ways into NATS.
    #[error("it has several of nats-username, nats-token, nats-nkey and nats-creds; keep one of them")]
    Ambiguous,
}

impl Credentials {
    /// Reads the data of a Secret. Keys that are missing mean: without.
    ///
    /// # Errors
    /// If a key that is there cannot be used.
    pub fn of_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, CredentialsError> {
        let identity = pair(data, "tls.crt", "tls.key")?
            .map(|(certificate, key)| Identity { certificate: certificate.to_vec(), key: key.to_vec() });
        let trust = Trust { authorities: data.get("ca.crt").cloned(), identity, ..Trust::default() };
        Ok(Self { trust, nats: nats_login(data)?, etcd: texts(data, "etcd-username", "etcd-password")? })
    }
}

fn nats_login(data: &BTreeMap<String, Vec<u8>>) -> Result<NatsLogin, CredentialsError> {
    let mut ways = Vec::new();
    if let Some((user, password)) = texts(data, "nats-username", "nats-password")? {
        ways.push(NatsLogin::Password(user, password));
    }
    ways.extend(text(data, "nats-token")?.map(NatsLogin::Token));
    ways.extend(text(data, "nats-nkey")?.map(NatsLogin::Nkey));
    // Of a credentials file every line has its end, the last one too.
    ways.extend(text(data, "nats-creds")?.map(|file| NatsLogin::CredentialsFile(file + "\n")));
    match ways.len() {
        0 | 1 => Ok(ways.pop().unwrap_or_default()),
        _ => Err(CredentialsError::Ambiguous),
    }
}

/// Two values that belong together, or none of them.
type CredentialPair<T> = Option<(T, T)>;

fn pair<'a>(
    data: &'a BTreeMap<String, Vec<u8>>,
    first: &'static str,
    second: &'static str,
) -> Result<CredentialPair<&'a [u8]>, CredentialsError> {
    match (data.get(first), data.get(second)) {
        (Some(one), Some(other)) => Ok(Some((one, other))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(CredentialsError::Half { present: first, missing: second }),
        (None, Some(_)) => Err(CredentialsError::Half { present: second, missing: first }),
    }
}

fn texts(
    data: &BTreeMap<String, Vec<u8>>,
    first: &'static str,
    second: &'static str,
) -> Result<CredentialPair<String>, CredentialsError> {
    pair(data, first, second)?;
    Ok(text(data, first)?.zip(text(data, second)?))
}

/// Values are often written with a line break at the end, which belongs to none of them.
fn text(data: &BTreeMap<String, Vec<u8>>, key: &'static str) -> Result<Option<String>, CredentialsError> {
    let text =
        data.get(key).map(|value| std::str::from_utf8(value).map_err(|_| CredentialsError::NoText(key))).transpose()?;
    Ok(text.map(|text| text.trim_end_matches(['\n', '\r']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &[u8])]) -> Result<Credentials, CredentialsError> {
        Credentials::of_secret(&pairs.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())).collect())
    }

    #[test]
    fn every_key_has_its_meaning() {
        assert_eq!(read(&[]), Ok(Credentials::default()));
        let all = read(&[("nats-token", b"t\n"), ("etcd-username", b"u"), ("etcd-password", b"p"), ("ca.crt", b"c")]);
        let all = all.unwrap();
        assert!(all.nats == NatsLogin::Token("t".to_owned()));
        assert_eq!(all.etcd, Some(("u".to_owned(), "p".to_owned())));
        assert_eq!(all.trust.authorities.as_deref(), Some(&b"c"[..]));
        assert_eq!(format!("{all:?}"), "Credentials(…)");
    }

    #[test]
    fn errors_name_the_key() {
        for (pairs, expected) in [
            (&[("tls.crt", &b"c"[..])][..], CredentialsError::Half { present: "tls.crt", missing: "tls.key" }),
            (&[("nats-password", b"p")], CredentialsError::Half { present: "nats-password", missing: "nats-username" }),
            (&[("nats-token", &[0xff])], CredentialsError::NoText("nats-token")),
            (&[("nats-token", b"t"), ("nats-nkey", b"n")], CredentialsError::Ambiguous),
        ] {
            assert_eq!(read(pairs), Err(expected));
        }
    }
}
