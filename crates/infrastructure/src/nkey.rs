//! NKEYs: how NATS writes Ed25519 keys, and how a login is signed with one.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{Ed25519KeyPair, KeyPair};

/// The mark of a seed in the first five bits.
const SEED: u8 = 18 << 3;
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// A key pair.
pub struct Nkey {
    pair: Ed25519KeyPair,
    /// The mark of what the key is of, such as a user.
    kind: u8,
}

impl Nkey {
    /// Reads a seed: text that begins with `S`. None if it is not one.
    pub fn from_seed(seed: &str) -> Option<Self> {
        let raw = decode(seed)?;
        let (content, check) = raw.split_last_chunk::<2>()?;
        let [first, second, secret @ ..] = content else { return None };
        if u16::from_le_bytes(*check) != checksum(content) || first & 0xf8 != SEED {
            return None;
        }
        let kind = (first & 7) << 5 | (second & 0xf8) >> 3;
        Some(Self { pair: Ed25519KeyPair::from_seed_unchecked(secret).ok()?, kind })
    }

    /// The public key as text.
    pub fn public(&self) -> String {
        let mut raw = vec![self.kind];
        raw.extend_from_slice(self.pair.public_key().as_ref());
        raw.extend_from_slice(&checksum(&raw).to_le_bytes());
        encode(&raw)
    }

    /// The signature of a nonce, as text.
    pub fn sign(&self, nonce: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.pair.sign(nonce.as_bytes()))
    }
}

/// The JWT and the seed of a credentials file, each the line below its heading.
pub fn of_credentials_file(text: &str) -> Option<(String, Nkey)> {
    let below = |heading: &str| {
        let mut lines = text.lines().skip_while(|line| !line.contains(heading)).skip(1);
        lines.next().map(str::trim)
    };
    Some((below("BEGIN NATS USER JWT")?.to_owned(), Nkey::from_seed(below("BEGIN USER NKEY SEED")?)?))
}

/// CRC-16 with the polynomial 0x1021.
fn checksum(bytes: &[u8]) -> u16 {
    let step = |crc: u16, _: i32| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ u16::from(*byte) << 8, step))
}

/// Base 32 without padding. Bits at the end that make no byte are dropped.
fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::new());
    for letter in text.bytes() {
        let digit = ALPHABET.iter().position(|known| *known == letter)?;
        bits = bits << 5 | u32::try_from(digit).ok()?;
        held += 5;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    Some(bytes)
}

fn encode(bytes: &[u8]) -> String {
    let (mut bits, mut held, mut text) = (0_u32, 0, String::new());
    let letter = |five: u32| ALPHABET.get(five as usize & 31).map_or('A', |letter| char::from(*letter));
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        held += 8;
        while held >= 5 {
            held -= 5;
            text.push(letter(bits >> held));
        }
    }
    if held > 0 {
        text.push(letter(bits << (5 - held)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair of which NATS' documentation shows both halves.
    const PAIR: [&str; 2] = [
        "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
        "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
    ];

    #[test]
    fn a_seed_gives_its_public_key() {
        assert_eq!(Nkey::from_seed(PAIR[0]).unwrap().public(), PAIR[1]);
        assert_eq!(Nkey::from_seed(PAIR[0]).unwrap().sign("nonce").len(), 86);
        for wrong in ["", "SUACSSL3", PAIR[1], &PAIR[0].replace('3', "4")] {
            assert!(Nkey::from_seed(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_credentials_file_has_two_parts() {
        let seed = PAIR[0];
        let text = format!(
            "-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        let (jwt, key) = of_credentials_file(&text).unwrap();
        assert_eq!((jwt.as_str(), key.public().as_str()), ("a.b.c", PAIR[1]));
        assert!(of_credentials_file("none").is_none());
    }
}
