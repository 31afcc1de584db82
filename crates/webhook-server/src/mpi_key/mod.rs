//! The SSH key with which the nodes of one worker reach each other, for engines that start their processes by MPI.
//!
//! Each namespace has a key of its own: who can read it can open a shell in the pods that accept it. A graph whose
//! replicas span nodes says in its status that its namespace lacks the Secret; then it is made there, and never again
//! while it exists: pods that run have read it. All replicas do so: a Secret that exists already, of any origin,
//! stays as it is.

mod run;

use std::collections::BTreeMap;

use controller_kit::apply;
use k8s_openapi::ByteString;
use ring::{
    rand::{SecureRandom, SystemRandom},
    signature::{Ed25519KeyPair, KeyPair},
};
pub use run::KeyMaker;
use ssh_key::{
    LineEnding, PrivateKey,
    private::{Ed25519Keypair, Ed25519PrivateKey, KeypairData},
    public::Ed25519PublicKey,
};

/// Keys of the Secret, known to what reads it in pods.
const PRIVATE: &str = "private.key";
const PUBLIC: &str = "private.key.pub";
/// Purpose that the public key contains as its comment.
const COMMENT: &str = "dynamo-mpi";

/// Reason why there is no Secret with a key now.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The operating system.
    #[error("cannot make an SSH key: no random numbers")]
    Random,
    /// The format.
    #[error("cannot write an SSH key: {0}")]
    Format(#[from] ssh_key::Error),
    /// The API server refused or did not answer.
    #[error(transparent)]
    Write(#[from] Box<apply::RequestError>),
}

/// A new key pair as the data of its Secret: the private key in the format of OpenSSH, the public one as a line of
/// `authorized_keys`.
///
/// # Errors
/// If there are no random numbers.
pub fn make() -> Result<BTreeMap<String, ByteString>, KeyError> {
    let mut seed = [0; Ed25519PrivateKey::BYTE_SIZE];
    SystemRandom::new().fill(&mut seed).map_err(|_| KeyError::Random)?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| KeyError::Random)?;
    let public = Ed25519PublicKey::try_from(pair.public_key().as_ref())?;
    let pair = Ed25519Keypair { public, private: Ed25519PrivateKey::from_bytes(&seed) };
    let key = PrivateKey::new(KeypairData::Ed25519(pair), COMMENT)?;
    let (private, public) = (key.to_openssh(LineEnding::LF)?, key.public_key().to_openssh()?);
    let data = [(PRIVATE, private.as_bytes().to_vec()), (PUBLIC, (public + "\n").into_bytes())];
    Ok(data.map(|(key, value)| (key.to_owned(), ByteString(value))).into())
}

#[cfg(test)]
mod tests {
    use ssh_key::PublicKey;

    use super::*;

    #[test]
    fn both_halves_belong_together_and_no_two_keys_are_equal() {
        let (one, two) = (make().unwrap(), make().unwrap());
        let text = |data: &BTreeMap<String, ByteString>, key: &str| String::from_utf8(data[key].0.clone()).unwrap();
        let private = PrivateKey::from_openssh(text(&one, PRIVATE)).unwrap();
        let public = PublicKey::from_openssh(&text(&one, PUBLIC)).unwrap();
        assert_eq!(private.public_key(), &public);
        assert!(text(&one, PUBLIC).ends_with(" dynamo-mpi\n"));
        assert_ne!(text(&one, PRIVATE), text(&two, PRIVATE));
    }
}
