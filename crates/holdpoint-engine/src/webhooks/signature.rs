//! Signatures of deliveries. Subscribers verify them to check origin and integrity.

use holdpoint_core::hex;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};

const SECRET_BYTES: usize = 32;

/// Returns the value of the signature header: the HMAC of the timestamp and the bytes of the body. The key is the text
/// of the secret, not its decoded bytes.
pub fn sign(secret: &str, unix_seconds: i64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{unix_seconds}.").as_bytes());
    context.update(body);
    format!("sha256={}", hex(context.sign().as_ref()))
}

/// Returns a short digest that identifies a secret in logs and lists.
pub fn fingerprint(secret: &str) -> String {
    hex(&Sha256::digest(secret)[..4])
}

/// Returns a random secret, or None if the system has no random source.
pub(crate) fn fresh_secret() -> Option<String> {
    let mut bytes = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_hmac_of_timestamp_and_body() {
        // Computed with `printf '%s' '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key`.
        let expected = "sha256=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03";
        assert_eq!(sign("key", 1_700_000_000, br#"{"a":1}"#), expected);
        assert_ne!(sign("key", 1_700_000_001, br#"{"a":1}"#), expected);
        assert_ne!(sign("yek", 1_700_000_000, br#"{"a":1}"#), expected);
    }

    #[test]
    fn a_secret_has_64_hex_digits_and_is_random() {
        let (one, two) = (fresh_secret().unwrap(), fresh_secret().unwrap());
        assert!(one.len() == 64 && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(one, two);
        assert_eq!(fingerprint("abc"), "ba7816bf");
    }
}
