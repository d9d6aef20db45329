//! Verifies the signature of a webhook delivery.
//!
//! ```
//! use holdpoint_client::webhook::{self, Rejection};
//!
//! let headers = [
//!     ("x-openwop-timestamp", "1700000000"),
//!     ("x-openwop-signature", "sha256=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03"),
//! ];
//! let find = |name: &str| headers.iter().find(|(given, _)| *given == name).map(|(_, value)| *value);
//! let body = br#"{"a":1}"#; // The bytes as received, not parsed and serialized again.
//!
//! let signed = webhook::verify("key", find, body, 1_700_000_060)?;
//! assert_eq!(signed.age_seconds, 60);
//! assert_eq!(webhook::verify("another", find, body, 1_700_000_060), Err(Rejection::BadSignature));
//! # Ok::<(), Rejection>(())
//! ```

use hmac::{Hmac, KeyInit, Mac};
use holdpoint_api::ids::hex;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// The maximum age of a signature, and the maximum difference of the clocks, in seconds.
pub const WINDOW_SECONDS: i64 = 300;

/// The valid signature of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSignature {
    /// The time of the signature, in seconds since 1970.
    pub timestamp: i64,
    /// Seconds since the signature. Negative if the clock of the sender is ahead.
    pub age_seconds: i64,
    /// The type of the event, if the delivery has this header. The signature does not cover the header; the body has
    /// the type, too.
    pub event_type: Option<String>,
}

/// The reason to reject a delivery.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The secret is empty.
    #[error("the secret is empty")]
    NoSecret,
    /// The delivery names a signature algorithm that this version does not support.
    #[error("unknown signature algorithm {0:?}; this version supports v1")]
    UnknownAlgorithm(String),
    /// The delivery has no timestamp.
    #[error("the header X-openwop-Timestamp is missing")]
    NoTimestamp,
    /// The timestamp is not a number of seconds.
    #[error("X-openwop-Timestamp is not a number of seconds")]
    BadTimestamp,
    /// The delivery has no signature.
    #[error("the header X-openwop-Signature is missing")]
    NoSignature,
    /// The signature does not begin with `sha256=`.
    #[error("X-openwop-Signature does not begin with sha256=")]
    BadSignatureFormat,
    /// The signature does not match the secret, the timestamp and the body.
    #[error("invalid signature: it does not match the secret, the timestamp and the body")]
    BadSignature,
    /// The timestamp differs from the current time by this number of seconds, which is more than [`WINDOW_SECONDS`].
    #[error(
        "the timestamp differs from the current time by {0} seconds, more than {WINDOW_SECONDS}; the delivery may be a replay"
    )]
    OutsideWindow(i64),
}

/// Verifies a delivery: the signature over the timestamp and the body, then its age. `header` finds the value of a
/// header by its name in lower case. `now` is in seconds since 1970.
pub fn verify<'a>(
    secret: &str,
    header: impl Fn(&str) -> Option<&'a str>,
    body: &[u8],
    now: i64,
) -> Result<WebhookSignature, Rejection> {
    if secret.is_empty() {
        return Err(Rejection::NoSecret);
    }
    let find =
        |name: &str| header(&format!("x-openwop-{name}")).or_else(|| header(&format!("openwop-{name}")));
    let algorithm = find("signature-algorithm").unwrap_or("v1");
    if algorithm != "v1" {
        return Err(Rejection::UnknownAlgorithm(algorithm.to_owned()));
    }
    let text = find("timestamp").ok_or(Rejection::NoTimestamp)?;
    let timestamp: i64 = text.parse().map_err(|_| Rejection::BadTimestamp)?;
    let signature = find("signature").ok_or(Rejection::NoSignature)?;
    let given = signature.strip_prefix("sha256=").ok_or(Rejection::BadSignatureFormat)?;
    // During the overlap of a rotation there is a second signature, with the new secret.
    let next = find("signature-next").and_then(|text| text.strip_prefix("sha256=")).unwrap_or_default();
    let expected = sign(secret, text, body);
    let matches = |given: &str| expected.as_bytes().ct_eq(given.to_ascii_lowercase().as_bytes());
    if !bool::from(matches(given) | matches(next)) {
        return Err(Rejection::BadSignature);
    }
    let age_seconds = now.saturating_sub(timestamp);
    if age_seconds.saturating_abs() > WINDOW_SECONDS {
        return Err(Rejection::OutsideWindow(age_seconds.saturating_abs()));
    }
    Ok(WebhookSignature { timestamp, age_seconds, event_type: find("event-type").map(str::to_owned) })
}

/// Returns the signature of a body in hexadecimal digits.
fn sign(secret: &str, timestamp: &str, body: &[u8]) -> String {
    // Cannot fail, because HMAC accepts keys of every length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    hex(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Computed with `printf '%s' '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key`.
    const SIGNATURE: &str = "sha256=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03";
    const BODY: &[u8] = br#"{"a":1}"#;
    const NOW: i64 = 1_700_000_000;

    fn verified(
        headers: &[(&str, &str)],
        body: &[u8],
        secret: &str,
        now: i64,
    ) -> Result<WebhookSignature, Rejection> {
        let find = |name: &str| headers.iter().find(|(given, _)| *given == name).map(|(_, value)| *value);
        verify(secret, find, body, now)
    }

    #[test]
    fn a_genuine_delivery_is_accepted_under_both_names_and_within_the_window() {
        let good = WebhookSignature { timestamp: NOW, age_seconds: 300, event_type: None };
        let headers = [("x-openwop-timestamp", "1700000000"), ("x-openwop-signature", SIGNATURE)];
        assert_eq!(verified(&headers, BODY, "key", NOW + 300), Ok(good));
        let headers = [("openwop-timestamp", "1700000000"), ("openwop-signature", SIGNATURE)];
        assert!(verified(&headers, BODY, "key", NOW - 300).is_ok());
        let headers = [
            ("x-openwop-timestamp", "1700000000"),
            ("x-openwop-signature", "sha256=00"),
            ("x-openwop-signature-next", SIGNATURE),
        ];
        assert!(verified(&headers, BODY, "key", NOW).is_ok(), "the new secret of a rotation");
    }

    #[test]
    fn every_defect_of_a_delivery_has_its_rejection() {
        let stamp = ("x-openwop-timestamp", "1700000000");
        let signed = ("x-openwop-signature", SIGNATURE);
        let rejected = |headers: &[_], body: &[u8], secret: &str, now| {
            verified(headers, body, secret, now).expect_err("the delivery is not genuine")
        };
        assert_eq!(rejected(&[stamp, signed], b"{\"a\":2}", "key", NOW), Rejection::BadSignature);
        assert_eq!(rejected(&[stamp, signed], BODY, "yek", NOW), Rejection::BadSignature);
        let later = ("x-openwop-timestamp", "1700000001");
        assert_eq!(rejected(&[later, signed], BODY, "key", NOW), Rejection::BadSignature);
        assert_eq!(rejected(&[stamp, signed], BODY, "key", NOW + 301), Rejection::OutsideWindow(301));
        assert_eq!(rejected(&[stamp, signed], BODY, "key", NOW - 301), Rejection::OutsideWindow(301));
        let v2 = ("x-openwop-signature-algorithm", "v2");
        let unknown = Rejection::UnknownAlgorithm("v2".to_owned());
        assert_eq!(rejected(&[stamp, signed, v2], BODY, "key", NOW), unknown);
        assert_eq!(rejected(&[signed], BODY, "key", NOW), Rejection::NoTimestamp);
        assert_eq!(rejected(&[stamp], BODY, "key", NOW), Rejection::NoSignature);
        assert_eq!(rejected(&[stamp, signed], BODY, "", NOW), Rejection::NoSecret);
        let soon = ("x-openwop-timestamp", "soon");
        assert_eq!(rejected(&[soon, signed], BODY, "key", NOW), Rejection::BadTimestamp);
        let other = ("x-openwop-signature", "v1=ab");
        assert_eq!(rejected(&[stamp, other], BODY, "key", NOW), Rejection::BadSignatureFormat);
    }
}
