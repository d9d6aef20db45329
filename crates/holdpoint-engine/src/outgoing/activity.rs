//! The key under which the other side can tell a repeated call from a new one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdpoint_core::{NodeId, RunId, TenantId};
use sha2::{Digest, Sha256};

/// The same for every attempt of one effect of one node, and for nothing else. `ordinal` tells apart effects of the
/// same node, `provider` who is called.
pub fn activity_key(tenant: &TenantId, run: &RunId, node: &NodeId, ordinal: u32, provider: &str) -> String {
    let ordinal = ordinal.to_string();
    let parts = ["openwop:activity:v2", tenant.as_str(), run.as_str(), node.as_str(), &ordinal, provider];
    // None of the parts can contain the separator: ids are without control characters.
    URL_SAFE_NO_PAD.encode(Sha256::digest(parts.join("\0")))
}
