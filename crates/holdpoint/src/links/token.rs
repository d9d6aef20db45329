//! The text of a link: what it is for, and a signature. Pure: secrets and time come in as arguments. Only bytes that
//! were made here are read here, so there is exactly one spelling of every token.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use holdpoint_api::links::Intent;
use holdpoint_core::{NodeId, RunId, RunRef, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const VERSION: u8 = 1;
/// Longer texts are not looked at. What is minted keeps to it.
pub(crate) const CHARS_MAX: usize = 8192;
/// The number of hex digits of the digest in the id of a token.
const ID_DIGITS: usize = 16;
/// Signs nothing. What no secret of ours can have signed is held against it, so that it costs the same.
const DECOY: [u8; Secret::BYTES] = [0; Secret::BYTES];

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub of: RunRef,
    pub node: NodeId,
    /// The interrupt as it is called outside. A later visit of the node asks under another name.
    pub interrupt: String,
    pub expires_at: Timestamp,
    pub intent: Intent,
    /// In whose name the holder answers.
    pub sub: String,
    /// Who made it.
    pub by: String,
    /// The lineages of the keys that the link was made with. Empty in links of earlier versions.
    pub keys: Vec<String>,
}

impl Claims {
    /// Returns whether an earlier version made the link for the callback address of a run, without regard to the rights
    /// of the key that started the run.
    pub(crate) fn is_old_callback(&self, owner: &str) -> bool {
        self.keys.is_empty() && self.by == owner && self.sub == owner
    }
}

/// A secret and the name by which tokens refer to it.
#[derive(Clone)]
pub(crate) struct Secret {
    pub kid: String,
    bytes: [u8; Self::BYTES],
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// The signed bytes, member by member in this order.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Payload {
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

impl Secret {
    /// As much as the hash has.
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn new(kid: impl Into<String>, bytes: [u8; Self::BYTES]) -> Self {
        Self { kid: kid.into(), bytes }
    }

    /// From the text that it is kept as.
    pub(crate) fn parse(kid: &str, text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        Some(Self::new(kid, bytes.try_into().ok()?))
    }

    /// The text that it is kept as.
    pub(crate) fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.bytes)
    }
}

fn mac(key: &[u8; Secret::BYTES], message: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac
}

/// Signs. Nothing when the names in it are so long that no URL should carry them.
pub(crate) fn mint(secret: &Secret, claims: &Claims) -> Option<String> {
    let payload = bytes_of(&secret.kid, claims);
    let signature = mac(&secret.bytes, &payload).finalize().into_bytes();
    let token = format!("{}.{}", URL_SAFE_NO_PAD.encode(&payload), URL_SAFE_NO_PAD.encode(signature));
    (token.len() <= CHARS_MAX).then_some(token)
}

/// What a token says, if one of these secrets has signed it. Whether it has expired is for the caller to judge. Garbage
/// costs a hash, as a forgery does: how long it takes tells nothing.
pub(crate) fn verify(text: &str, ring: &[Secret]) -> Option<Claims> {
    let read = read(text);
    let named = read.as_ref().and_then(|read| ring.iter().find(|secret| secret.kid == read.kid));
    let key = named.map_or(&DECOY, |secret| &secret.bytes);
    let genuine = match &read {
        // In constant time: how much of a signature is right is nobody's business.
        Some(read) => mac(key, &read.payload).verify_slice(&read.signature).is_ok(),
        None => mac(key, &text.as_bytes()[..text.len().min(CHARS_MAX)]).verify_slice(&DECOY).is_ok(),
    };
    match (read, named) {
        (Some(read), Some(_)) if genuine => Some(read.claims),
        _ => None,
    }
}

/// Returns the name of the secret that a token says it was signed with, if that is none of these.
pub(crate) fn unknown_kid(text: &str, ring: &[Secret]) -> Option<String> {
    read(text).map(|read| read.kid).filter(|kid| !ring.iter().any(|secret| secret.kid == *kid))
}

/// Returns the id of a token: the beginning of its digest. It does not give access.
pub(crate) fn id(text: &str) -> String {
    let digest = holdpoint_core::hex(&Sha256::digest(text.as_bytes()));
    format!("lnk_{}", &digest[..ID_DIGITS])
}

struct Read {
    kid: String,
    claims: Claims,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

/// Takes a token apart without believing it. Only what `mint` could have written is taken: the decoder takes no padding
/// and no stray bits, and the payload must be what its own members are written as.
fn read(text: &str) -> Option<Read> {
    if text.len() > CHARS_MAX {
        return None;
    }
    let (payload, signature) = text.split_once('.')?;
    let (payload, signature) =
        (URL_SAFE_NO_PAD.decode(payload).ok()?, URL_SAFE_NO_PAD.decode(signature).ok()?);
    let said: Payload = serde_json::from_slice(&payload).ok()?;
    let expires_at = Timestamp(said.expires_at.parse::<jiff::Timestamp>().ok()?.as_millisecond());
    let claims = Claims {
        of: RunRef { tenant: said.tenant_id, run: said.run_id },
        node: said.node_id,
        interrupt: said.interrupt_id,
        expires_at,
        intent: said.intent,
        sub: said.sub,
        by: said.by,
        keys: said.keys,
    };
    let ours = said.v == VERSION && bytes_of(&said.kid, &claims) == payload;
    ours.then_some(Read { kid: said.kid, claims, payload, signature })
}

fn bytes_of(kid: &str, claims: &Claims) -> Vec<u8> {
    let payload = Payload {
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
