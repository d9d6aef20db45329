//! The text of a link: claims and a signature. Pure functions: secrets and time are arguments. Only the exact bytes
//! that `mint` writes are accepted, so that each token has one spelling.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use holdpoint_api::links::Intent;
use holdpoint_core::{NodeId, RunId, RunRef, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const VERSION: u8 = 1;
/// Maximum length of a token. Longer texts are rejected, and `mint` does not write them.
pub(crate) const CHARS_MAX: usize = 8192;
/// The number of hex digits of the digest in the id of a token.
const ID_DIGITS: usize = 16;
/// Key for the check of tokens that name no known secret, so that the check takes the same time. It signs no token.
const DUMMY_KEY: [u8; SigningSecret::BYTES] = [0; SigningSecret::BYTES];

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub of: RunRef,
    pub node: NodeId,
    /// The public id of the interrupt. A later visit of the node opens an interrupt with another id.
    pub interrupt: String,
    pub expires_at: Timestamp,
    pub intent: Intent,
    /// The principal in whose name the holder answers.
    pub sub: String,
    /// The principal that created the link.
    pub by: String,
    /// The lineages of the keys that created the link. Empty in links of earlier versions.
    pub keys: Vec<String>,
}

impl Claims {
    /// Returns true if an earlier version created the link for the callback address of a run, without regard to the
    /// rights of the key that started the run.
    pub(crate) fn is_old_callback(&self, owner: &str) -> bool {
        self.keys.is_empty() && self.by == owner && self.sub == owner
    }
}

/// A secret, and the id by which tokens refer to it.
#[derive(Clone)]
pub(crate) struct SigningSecret {
    pub kid: String,
    bytes: [u8; Self::BYTES],
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningSecret").field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// The signed bytes, member by member in this order.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignedPayload {
    v: u8,
    kid: String,
    tenant_id: TenantId,
    run_id: RunId,
    node_id: NodeId,
    interrupt_id: String,
    expires_at: String,
    intent: Intent,
    sub: String,
    by: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
}

impl SigningSecret {
    /// The length of a secret in bytes, which is that of the hash.
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn new(kid: impl Into<String>, bytes: [u8; Self::BYTES]) -> Self {
        Self { kid: kid.into(), bytes }
    }

    /// Parses the stored text.
    pub(crate) fn parse(kid: &str, text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        Some(Self::new(kid, bytes.try_into().ok()?))
    }

    /// Returns the text to store.
    pub(crate) fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.bytes)
    }
}

fn mac(key: &[u8; SigningSecret::BYTES], message: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac
}

/// Returns the signed token, or None if its names are too long for a URL.
pub(crate) fn mint(secret: &SigningSecret, claims: &Claims) -> Option<String> {
    let payload = bytes_of(&secret.kid, claims);
    let signature = mac(&secret.bytes, &payload).finalize().into_bytes();
    let token = format!("{}.{}", URL_SAFE_NO_PAD.encode(&payload), URL_SAFE_NO_PAD.encode(signature));
    (token.len() <= CHARS_MAX).then_some(token)
}

/// Returns the claims of a token that one of these secrets has signed. The caller checks the expiry. For an invalid
/// text a signature is computed, too, so that the time of the check reveals no information.
pub(crate) fn verify(text: &str, secrets: &[SigningSecret]) -> Option<Claims> {
    let parsed = parse(text);
    let named = parsed.as_ref().and_then(|parsed| secrets.iter().find(|secret| secret.kid == parsed.kid));
    let key = named.map_or(&DUMMY_KEY, |secret| &secret.bytes);
    let genuine = match &parsed {
        // In constant time: the time must not reveal how much of a signature matches.
        Some(parsed) => mac(key, &parsed.payload).verify_slice(&parsed.signature).is_ok(),
        None => mac(key, &text.as_bytes()[..text.len().min(CHARS_MAX)]).verify_slice(&DUMMY_KEY).is_ok(),
    };
    match (parsed, named) {
        (Some(parsed), Some(_)) if genuine => Some(parsed.claims),
        _ => None,
    }
}

/// Returns the id of the secret that a token names, if it is none of these.
pub(crate) fn unknown_kid(text: &str, secrets: &[SigningSecret]) -> Option<String> {
    parse(text).map(|parsed| parsed.kid).filter(|kid| !secrets.iter().any(|secret| secret.kid == *kid))
}

/// Returns the id of a token: the beginning of its digest. It does not give access.
pub(crate) fn id(text: &str) -> String {
    let digest = holdpoint_core::hex(&Sha256::digest(text.as_bytes()));
    format!("lnk_{}", &digest[..ID_DIGITS])
}

struct ParsedToken {
    kid: String,
    claims: Claims,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

/// Parses a token without verifying it. Accepts only texts that `mint` could have written: the decoder rejects padding
/// and stray bits, and the payload must equal the serialization of its members.
fn parse(text: &str) -> Option<ParsedToken> {
    if text.len() > CHARS_MAX {
        return None;
    }
    let (payload, signature) = text.split_once('.')?;
    let (payload, signature) =
        (URL_SAFE_NO_PAD.decode(payload).ok()?, URL_SAFE_NO_PAD.decode(signature).ok()?);
    let signed: SignedPayload = serde_json::from_slice(&payload).ok()?;
    let expires_at = Timestamp::parse_rfc3339(&signed.expires_at)?;
    let claims = Claims {
        of: RunRef { tenant: signed.tenant_id, run: signed.run_id },
        node: signed.node_id,
        interrupt: signed.interrupt_id,
        expires_at,
        intent: signed.intent,
        sub: signed.sub,
        by: signed.by,
        keys: signed.keys,
    };
    let is_canonical = signed.v == VERSION && bytes_of(&signed.kid, &claims) == payload;
    is_canonical.then_some(ParsedToken { kid: signed.kid, claims, payload, signature })
}

fn bytes_of(kid: &str, claims: &Claims) -> Vec<u8> {
    let payload = SignedPayload {
        v: VERSION,
        kid: kid.to_owned(),
        tenant_id: claims.of.tenant.clone(),
        run_id: claims.of.run.clone(),
        node_id: claims.node.clone(),
        interrupt_id: claims.interrupt.clone(),
        expires_at: claims.expires_at.to_string(),
        intent: claims.intent,
        sub: claims.sub.clone(),
        by: claims.by.clone(),
        keys: claims.keys.clone(),
    };
    serde_json::to_vec(&payload).expect("texts and numbers can always be written as JSON")
}

#[cfg(test)]
mod forgeries;
#[cfg(test)]
mod tests;
