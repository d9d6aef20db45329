//! Browser sessions. A session has the permissions of the key that signed in. The server handles the tokens.

use holdpoint_core::{TenantId, Timestamp};

use super::{Engine, Sessions};
use crate::committer::CommitReply;
use crate::error::Error;
use crate::store::dependence::Dependence;
use crate::store::keys::ApiKey;
use crate::store::sessions::{self, BrowserSession, LinkUse, SignInLink};

/// Limits of a session or a key that is created with a credential that can end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialLimits {
    /// The latest end.
    pub ends_at: Option<Timestamp>,
    /// The sessions that it was created with. It ends when one of them is revoked.
    pub depends_on: Dependence,
}

impl Sessions<'_> {
    /// The lifetime of an unused session in milliseconds.
    pub const IDLE_MS: u64 = 12 * 3_600_000;

    /// The maximum lifetime of a session in milliseconds.
    pub const LIFE_MS: u64 = sessions::LIFE_MS;

    /// The lifetime of a sign-in link in milliseconds.
    pub const LINK_MS: u64 = 30 * 60_000;

    /// The minimum time between two recorded uses of a session.
    const USE_MS: u64 = 5 * 60_000;

    /// Creates a session for a key. `token_hash` is the hash of the token in the browser.
    pub async fn add(
        self,
        key: &ApiKey,
        session_id: &str,
        token_hash: &str,
    ) -> Result<BrowserSession, Error> {
        let now = self.engine.now();
        let session = BrowserSession {
            session_id: session_id.to_owned(),
            key_id: key.key_id.clone(),
            tenant: key.tenant.clone(),
            created_at: now,
            used_at: now,
            expires_at: now.plus_ms(Self::IDLE_MS),
            ends_at: now.plus_ms(Self::LIFE_MS),
            revoked_at: None,
            depends_on: key.depends_on.clone(),
        };
        self.engine.write(vec![sessions::insert(&session, token_hash)]).await?;
        Ok(session)
    }

    /// Returns a session and the current state of its key. The caller checks whether they are valid.
    pub async fn get_by_hash(self, token_hash: &str) -> Result<Option<(BrowserSession, ApiKey)>, Error> {
        Ok(sessions::by_hash(self.engine.db(), token_hash).await?)
    }

    /// Records a use of a session, which extends it, and returns the session.
    pub async fn record_use(self, session: BrowserSession) -> Result<BrowserSession, Error> {
        let now = self.engine.now();
        if now < session.used_at.plus_ms(Self::USE_MS) {
            return Ok(session);
        }
        let expires_at = now.plus_ms(Self::IDLE_MS).min(session.ends_at);
        self.engine.write(vec![sessions::used(&session.session_id, now, expires_at)]).await?;
        Ok(BrowserSession { used_at: now, expires_at, ..session })
    }

    /// Returns the valid sessions of a key, newest first.
    pub async fn list(
        self,
        tenant: &TenantId,
        key_id: &str,
        limit: u64,
    ) -> Result<Vec<BrowserSession>, Error> {
        Ok(sessions::of_key(self.engine.db(), tenant, key_id, self.engine.now(), limit).await?)
    }

    /// Revokes a session and the keys, sessions and sign-in links that were created with it. Returns false if the key
    /// has no such session.
    pub async fn revoke(self, tenant: &TenantId, key_id: &str, session_id: &str) -> Result<bool, Error> {
        // A session never changes its key, so that the result stays valid.
        if !sessions::is_owned(self.engine.db(), tenant, key_id, session_id).await? {
            return Ok(false);
        }
        self.engine.write(sessions::revoke(tenant, key_id, session_id, self.engine.now())).await?;
        Ok(true)
    }

    /// Stores a link that signs in once with this key, and returns the expiry time of the link. The session of the
    /// link ends at `limits.ends_at` at the latest, so that no session or key can extend its own lifetime by a link.
    /// Returns `None` if a session that the link depends on was revoked.
    pub async fn add_link(
        self,
        key_id: &str,
        link_hash: &str,
        limits: &CredentialLimits,
    ) -> Result<Option<Timestamp>, Error> {
        let usual = self.engine.now().plus_ms(Self::LINK_MS);
        let (session_ends_at, depends_on) = (limits.ends_at, &limits.depends_on);
        let expires_at = session_ends_at.map_or(usual, |end| end.min(usual));
        let link = SignInLink { token_hash: link_hash, key_id, expires_at, session_ends_at, depends_on };
        let stored = self.engine.write(sessions::insert_link(link)).await?;
        Ok(matches!(stored, CommitReply::Touched(1)).then_some(expires_at))
    }

    /// Signs in with a link, which can be used once. Returns `None` if the link does not exist, was used or has
    /// expired, or if its key has ended; such a link causes no write. If several callers use a link at once, one signs
    /// in.
    pub async fn sign_in_by_link(
        self,
        link_hash: &str,
        session_id: &str,
        token_hash: &str,
    ) -> Result<Option<(BrowserSession, ApiKey)>, Error> {
        let now = self.engine.now();
        if !sessions::link_is_open(self.engine.db(), link_hash, now).await? {
            return Ok(None);
        }
        let expires_at = now.plus_ms(Self::IDLE_MS);
        let link = LinkUse { link_hash, session_id, token_hash, now, expires_at };
        self.engine.write(sessions::by_link(link)).await?;
        // Read back instead of counting changed rows: an earlier commit may have succeeded although its reply was lost.
        self.get_by_hash(token_hash).await
    }
}

impl Engine {
    /// Deletes sessions and links that have ended.
    pub(crate) async fn purge_sessions(&self, limit: usize) -> Result<usize, Error> {
        let most = u64::try_from(limit).unwrap_or(u64::MAX);
        match self.write(sessions::purge(self.now(), most).into()).await? {
            CommitReply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }
}
