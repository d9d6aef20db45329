//! The idempotency key of an outgoing call. The called server uses it to recognize a repeated call.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdpoint_core::{NodeId, RunId, TenantId};
use sha2::{Digest, Sha256};

/// Returns the key of one effect of one node. Every attempt of the effect has the same key. `ordinal` distinguishes
/// effects of the same node, `provider` the called services.
pub fn activity_key(tenant: &TenantId, run: &RunId, node: &NodeId, ordinal: u32, provider: &str) -> String {
    let ordinal = ordinal.to_string();
    let parts = ["openwop:activity:v2", tenant.as_str(), run.as_str(), node.as_str(), &ordinal, provider];
    // No part can contain the separator, because ids have no control characters.
    URL_SAFE_NO_PAD.encode(Sha256::digest(parts.join("\0")))
}
