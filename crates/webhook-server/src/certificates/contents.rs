//! Content of the Secret.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::ByteString;

/// Keys of the Secret. Three of them are those of cert-manager; the fourth exists only if the operator created the CA.
const CA: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Content of the Secret as PEM; empty if absent.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// CAs to trust, the newest first.
    pub ca: Vec<u8>,
    /// Private key of the newest CA.
    pub ca_key: Vec<u8>,
    /// The certificate to serve, with its chain.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

impl Contents {
    /// From the data of the Secret.
    #[must_use]
    pub fn of(data: &BTreeMap<String, ByteString>) -> Self {
        let get = |key: &str| data.get(key).map(|value| value.0.clone()).unwrap_or_default();
        Self { ca: get(CA), ca_key: get(CA_KEY), certificate: get(CERTIFICATE), key: get(KEY) }
    }

    /// Writes everything to the data of the Secret. Other keys stay.
    pub fn put(&self, data: &mut BTreeMap<String, ByteString>) {
        let values = [(CA, &self.ca), (CA_KEY, &self.ca_key), (CERTIFICATE, &self.certificate), (KEY, &self.key)];
        data.extend(values.map(|(key, value)| (key.to_owned(), ByteString(value.clone()))));
    }
}

/// Keys are never shown.
impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}
