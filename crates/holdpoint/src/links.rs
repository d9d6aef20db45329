//! Signed links: the holder of a link can see one interrupt, and answer it, without an API key. A link is text with a
//! signature and is not stored. The core applies the same rules to answers over links as to all other answers.

mod access;
mod limit;
mod secret_cache;
mod token;

use std::net::SocketAddr;

use holdpoint_api::ErrorCode;
use holdpoint_api::ids::encode_segment;
pub(crate) use holdpoint_api::links::Intent;
use holdpoint_core::{Interrupt, NodeId, Run, RunId, RunRef, TenantId, Timestamp};
use holdpoint_engine::Engine;

use crate::auth::RESPOND;
use crate::error::ApiError;
use limit::LinkLimit;
use secret_cache::SecretCache;

pub(crate) use access::{CanInspect, CanResolve, Link, link_refusal};
pub(crate) use limit::address_key;
pub(crate) use secret_cache::new_secret;
pub(crate) use token::Claims;

/// The address of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// Settings of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkConfig {
    /// Base URL of links, without a trailing slash.
    pub public_url: String,
    /// Prefix of page URLs: the public URL, or empty if the operator set none.
    pub page_base: String,
    /// Maximum lifetime of a link.
    pub life_ms_max: u64,
    /// Requests per second over the links of one principal to one interrupt, and invalid links from one address. None
    /// means no limit.
    pub rate_limit: Option<u32>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        let rate_limit = Some(Self::RATE_DEFAULT);
        let life_ms_max = Self::LIFE_SECONDS_MAX_DEFAULT * 1000;
        Self { public_url: String::new(), page_base: String::new(), life_ms_max, rate_limit }
    }
}

impl LinkConfig {
    pub(crate) const LIFE_SECONDS_MAX_DEFAULT: u64 = 7 * 24 * 3600;
    pub(crate) const RATE_DEFAULT: u32 = 20;
}

/// Creates links and verifies them.
#[derive(Debug)]
pub(crate) struct Links {
    pub secrets: SecretCache,
    settings: LinkConfig,
    limit: Option<LinkLimit>,
}

/// A new link. The URL contains the token; both are shown once.
pub(crate) struct NewLink {
    pub token: String,
    pub url: String,
    pub claims: Claims,
}

impl NewLink {
    /// Returns the same id as [`Link::id`].
    pub(crate) fn id(&self) -> String {
        token::id(&self.token)
    }
}

/// The properties of a link to create.
#[derive(Clone, Debug)]
pub(crate) struct LinkRequest {
    pub intent: Intent,
    pub life_ms: u64,
    pub sub: String,
    /// The principal that creates the link.
    pub by: String,
    /// The lineages of the keys that create the link. The link ends when one of them has no active key.
    pub keys: Vec<String>,
}

impl LinkRequest {
    /// The default lifetime: half an hour.
    pub(crate) const LIFE_MS_DEFAULT: u64 = 30 * 60_000;
}

impl Links {
    pub(crate) fn new(settings: LinkConfig) -> Self {
        let limit = settings.rate_limit.map(LinkLimit::new);
        Self { secrets: SecretCache::default(), settings, limit }
    }

    /// Returns the base URL at which users reach this server.
    pub(crate) fn public_url(&self) -> &str {
        &self.settings.public_url
    }

    /// Returns the page of the inbox on which a person answers an interrupt: a path, or a URL if the operator has set the
    /// public URL.
    pub(crate) fn page_url(&self, run: &RunId, node: &NodeId, interrupt: Option<&str>) -> String {
        let (base, run, node) =
            (&self.settings.page_base, encode_segment(run.as_str()), encode_segment(node.as_str()));
        let query = interrupt.map(|name| format!("?interrupt={}", encode_segment(name))).unwrap_or_default();
        format!("{base}/inbox/pauses/{run}/{node}{query}")
    }

    pub(crate) fn life_ms_max(&self) -> u64 {
        self.settings.life_ms_max
    }

    /// Creates a link to an open interrupt. The link never outlives the interrupt.
    pub(crate) async fn mint(
        &self,
        engine: &Engine,
        of: &RunRef,
        run: &Run,
        interrupt: &Interrupt,
        wanted: LinkRequest,
    ) -> Result<NewLink, ApiError> {
        let secret = self.secrets.signing(engine).await?;
        let claims = Claims {
            of: of.clone(),
            node: interrupt.node.clone(),
            interrupt: run.interrupt_name(interrupt.id),
            expires_at: expiry(engine.now(), wanted.life_ms.min(self.life_ms_max()), interrupt.expires_at()),
            intent: wanted.intent,
            sub: wanted.sub,
            by: wanted.by,
            keys: wanted.keys,
        };
        let token = token::mint(&secret, &claims).ok_or_else(too_long)?;
        let url = format!("{}/v1/interrupts/{token}", self.settings.public_url);
        Ok(NewLink { token, url, claims })
    }
}

/// Returns the intent that links of these key lineages may have now: `Resolve` if each lineage has an active key that
/// may answer, and None if a lineage has no active key. Without lineages the keys are unknown, and links may only
/// inspect.
pub(crate) async fn find_allowed_intent(
    engine: &Engine,
    tenant: &TenantId,
    lineages: &[String],
) -> Result<Option<Intent>, ApiError> {
    let mut right = if lineages.is_empty() { Intent::Inspect } else { Intent::Resolve };
    for lineage in lineages {
        let mut keys = engine.keys().lineage(tenant, lineage).await?;
        keys.retain(|key| key.is_active(engine.now()));
        if keys.is_empty() {
            return Ok(None);
        }
        if !keys.iter().any(|key| key.scopes.iter().any(|scope| scope == RESPOND)) {
            right = Intent::Inspect;
        }
    }
    Ok(Some(right))
}

fn expiry(now: Timestamp, life_ms: u64, deadline: Option<Timestamp>) -> Timestamp {
    let wanted = now.plus_ms(life_ms);
    deadline.map_or(wanted, |deadline| deadline.min(wanted))
}

fn too_long() -> ApiError {
    let message = "the ids of this node and this run are too long for a link; answer with a key";
    ApiError::new(ErrorCode::LinkTooLong, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_never_outlives_its_interrupt() {
        let (now, at) = (Timestamp(1000), |ms| Some(Timestamp(ms)));
        assert_eq!(expiry(now, 500, None), Timestamp(1500));
        assert_eq!(expiry(now, 500, at(1501)), Timestamp(1500));
        assert_eq!(expiry(now, 500, at(1499)), Timestamp(1499));
        assert_eq!(expiry(now, u64::MAX, None), Timestamp(i64::MAX));
    }
}
