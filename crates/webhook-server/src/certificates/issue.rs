//! Creates CAs and certificates.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::{BACKDATE, CA_LIFETIME, Contents, SERVING_LIFETIME, material::Authority, plan::SecretWrite};
use crate::configurations::Host;

/// Names of the CA, as in the upstream operator.
const CA_NAME: &str = "Dynamo-Webhook-CA";
const ORGANISATION: &str = "NVIDIA";

/// Reason why a certificate could not be created.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The library failed.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A key is not text.
    #[error("cannot make a certificate: the key of the CA is no PEM")]
    Key,
}

/// Creates what is planned, and adds what is kept.
///
/// # Errors
/// If the CA that is to sign cannot be used.
pub fn carry_out(write: &SecretWrite, host: &Host, now: Timestamp) -> Result<Contents, IssueError> {
    let (authority, ca_key, issuer) = signer(write.signer.as_ref(), now)?;
    let ca = Authority::add_all(authority.into_bytes(), &write.trust);
    let (certificate, key) = match &write.serving {
        Some(kept) => kept.clone(),
        None => serving(&issuer, host, now)?,
    };
    Ok(Contents { ca, ca_key, certificate, key })
}

/// Certificate and key of the CA as PEM, and the CA ready to sign.
fn signer(
    kept: Option<&(Authority, Vec<u8>)>,
    now: Timestamp,
) -> Result<(String, Vec<u8>, Issuer<'static, KeyPair>), IssueError> {
    match kept {
        Some((authority, pem)) => {
            let text = std::str::from_utf8(pem).map_err(|_| IssueError::Key)?;
            let issuer = Issuer::from_ca_cert_der(&authority.der.as_slice().into(), KeyPair::from_pem(text)?)?;
            Ok((authority.to_pem(), pem.clone(), issuer))
        }
        None => {
            let (params, key) = (authority_params(now), KeyPair::generate()?);
            let certificate = params.self_signed(&key)?;
            Ok((certificate.pem(), key.serialize_pem().into_bytes(), Issuer::new(params, key)))
        }
    }
}

fn authority_params(now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, ORGANISATION);
    params.distinguished_name.push(DnType::CommonName, CA_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    set_validity(&mut params, now, CA_LIFETIME);
    params
}

/// A serving certificate and its key, as PEM.
fn serving(issuer: &Issuer<'_, KeyPair>, host: &Host, now: Timestamp) -> Result<(Vec<u8>, Vec<u8>), IssueError> {
    let mut params = CertificateParams::new(host.names())?;
    params.distinguished_name = DistinguishedName::new();
    // A common name has at most 64 characters. Clients check the names of the Service instead.
    let name = host.name();
    params.distinguished_name.push(DnType::CommonName, if name.len() <= 64 { name.as_str() } else { CA_NAME });
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, SERVING_LIFETIME);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok((certificate.pem().into_bytes(), key.serialize_pem().into_bytes()))
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, lifetime: Duration) {
    let now = SystemTime::from(now);
    params.not_before = (now - BACKDATE).into();
    params.not_after = (now + lifetime).into();
}
