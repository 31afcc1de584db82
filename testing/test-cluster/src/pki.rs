//! Keys and certificates of a cluster: a CA of its own, so that no client of one cluster accepts another.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::{error::Error, home::write_private};

/// TLS identity of one side of a connection, as PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// An authority of its own, and what it has signed: for a server on this machine, and for a client called `root`.
#[derive(Debug, Clone)]
pub struct Keys {
    /// The authority's certificate, as PEM.
    pub authority: String,
    /// The server's.
    pub server: Identity,
    /// The client's.
    pub client: Identity,
}

impl Keys {
    /// Makes them.
    ///
    /// # Errors
    /// A certificate cannot be made.
    pub fn new() -> Result<Self, Error> {
        let ca = authority().map_err(naming("ca"))?;
        let identity = |(certificate, key)| Identity { certificate, key };
        let server = leaf(&ca, "server", None, ExtendedKeyUsagePurpose::ServerAuth, &["127.0.0.1", "localhost"]);
        let client = leaf(&ca, "root", None, ExtendedKeyUsagePurpose::ClientAuth, &[]);
        Ok(Self {
            authority: ca.pem(),
            server: server.map(identity).map_err(naming("server"))?,
            client: client.map(identity).map_err(naming("client"))?,
        })
    }
}

/// Names and addresses by which clients reach the API server.
const SERVER_NAMES: [&str; 7] = [
    "127.0.0.1",
    // The Service `kubernetes`, as the first address of its range.
    "10.96.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The parts of a kubeconfig for the administrator, as PEM.
pub(crate) struct Admin {
    pub(crate) ca: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Writes `ca.crt`, `apiserver.crt`, `apiserver.key`, `sa.key` (signs tokens) and `sa.pub` to `dir`.
pub(crate) fn write(dir: &Path) -> Result<Admin, Error> {
    std::fs::create_dir(dir).map_err(Error::io("make", dir))?;
    let ca = authority().map_err(naming("ca"))?;
    let server = leaf(&ca, "kube-apiserver", None, ExtendedKeyUsagePurpose::ServerAuth, &SERVER_NAMES);
    let (server, server_key) = server.map_err(naming("apiserver"))?;
    let admin = leaf(&ca, "admin", Some("system:masters"), ExtendedKeyUsagePurpose::ClientAuth, &[]);
    let (certificate, key) = admin.map_err(naming("admin"))?;
    let tokens = KeyPair::generate().map_err(naming("sa"))?;
    for (name, content) in [
        ("ca.crt", ca.pem()),
        ("apiserver.crt", server),
        ("apiserver.key", server_key),
        ("sa.key", tokens.serialize_pem()),
        ("sa.pub", tokens.public_key_pem()),
    ] {
        write_private(&dir.join(name), content.as_bytes())?;
    }
    Ok(Admin { ca: ca.pem(), certificate, key })
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "test-cluster-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn leaf(
    ca: &CertifiedIssuer<'_, KeyPair>,
    name: &str,
    group: Option<&str>,
    usage: ExtendedKeyUsagePurpose,
    sans: &[&str],
) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new(sans.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, ca)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn naming(name: &str) -> impl FnOnce(rcgen::Error) -> Error {
    let name = name.to_owned();
    move |source| Error::Certificate { name, source }
}
