//! Certificates and keys in Secrets, and the content of the Secret. The parsers accept any bytes.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rcgen::{KeyPair, PublicKeyData};
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// A CA certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    /// The certificate.
    pub der: Vec<u8>,
    /// Start of its validity.
    pub not_before: Timestamp,
    /// End of its validity.
    pub not_after: Timestamp,
}

impl Authority {
    /// Reads the CA certificates of a bundle; skips everything else.
    #[must_use]
    pub fn read_all(bundle: &[u8]) -> Vec<Self> {
        certificates(bundle).iter().filter_map(|der| Self::read(der)).collect()
    }

    /// The bundle with these CAs appended.
    #[must_use]
    pub fn add_all<'a>(mut bundle: Vec<u8>, authorities: impl IntoIterator<Item = &'a Self>) -> Vec<u8> {
        for authority in authorities {
            if !bundle.is_empty() && !bundle.ends_with(b"\n") {
                bundle.push(b'\n');
            }
            bundle.extend(authority.to_pem().into_bytes());
        }
        bundle
    }

    fn read(der: &[u8]) -> Option<Self> {
        let parsed = parse(der)?;
        let (not_before, not_after) = validity(&parsed)?;
        // The library that signs with the CA fails on empty parts of names.
        let named = parsed.subject().iter().all(|part| part.iter().next().is_some());
        (parsed.is_ca() && named).then(|| Self { der: der.to_owned(), not_before, not_after })
    }

    /// Whether it is valid at a time.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.not_before <= now && now < self.not_after
    }

    /// Whether this is the private key of the CA, and can sign.
    #[must_use]
    pub fn fits(&self, key: &[u8]) -> bool {
        let Some(key) = std::str::from_utf8(key).ok().and_then(|pem| KeyPair::from_pem(pem).ok()) else { return false };
        let Some(parsed) = parse(&self.der) else { return false };
        parsed.public_key().raw == key.subject_public_key_info().as_slice()
    }

    /// As PEM.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem::encode_config(
            &pem::Pem::new("CERTIFICATE", self.der.as_slice()),
            pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
        )
    }
}

/// Shows the validity only; certificates are long.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({} to {})", self.not_before, self.not_after)
    }
}

/// A serving certificate with its key.
#[derive(Clone)]
pub struct Pair {
    certificate: Vec<u8>,
    /// Start of its validity.
    pub not_before: Timestamp,
    /// End of its validity.
    pub not_after: Timestamp,
    /// For the TLS server.
    pub key: CertifiedKey,
}

impl Pair {
    /// Reads a certificate chain and its key, if they belong together.
    #[must_use]
    pub fn read(chain: &[u8], key: &[u8]) -> Option<Self> {
        let chain = certificates(chain);
        let certificate = chain.first()?.to_vec();
        let parsed = parse(&certificate)?;
        let (not_before, not_after) = validity(&parsed)?;
        let key = PrivateKeyDer::from_pem_slice(key).ok()?;
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider()).ok()?;
        Some(Self { certificate, not_before, not_after, key })
    }

    /// Whether it is valid at a time.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.not_before <= now && now < self.not_after
    }

    /// Whether it is valid for this name.
    #[must_use]
    pub fn is_for(&self, name: &str) -> bool {
        let Some(parsed) = parse(&self.certificate) else { return false };
        let Ok(Some(names)) = parsed.subject_alternative_name() else { return false };
        names.value.general_names.iter().any(|own| matches!(own, GeneralName::DNSName(own) if *own == name))
    }

    /// Whether this CA has signed it.
    #[must_use]
    pub fn is_signed_by(&self, authority: &Authority) -> bool {
        let (Some(own), Some(parsed)) = (parse(&self.certificate), parse(&authority.der)) else { return false };
        own.issuer().as_raw() == parsed.subject().as_raw() && own.verify_signature(Some(parsed.public_key())).is_ok()
    }
}

/// Shows the validity only, never the key.
impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pair({} to {})", self.not_before, self.not_after)
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.certificate == other.certificate
    }
}

fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

fn validity(certificate: &X509Certificate<'_>) -> Option<(Timestamp, Timestamp)> {
    let validity = certificate.validity();
    let time = |seconds| Timestamp::from_second(seconds).ok();
    Some((time(validity.not_before.timestamp())?, time(validity.not_after.timestamp())?))
}

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
