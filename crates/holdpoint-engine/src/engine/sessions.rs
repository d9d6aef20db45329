//! Sessions: keys that somebody has signed in with. What they may is what their keys may; who sees a token is not
//! known here.

use holdpoint_core::{TenantId, Timestamp};

use super::Engine;
use crate::committer::Reply;
use crate::error::Error;
use crate::store::dependence::Dependence;
use crate::store::keys::ApiKey;
use crate::store::sessions::{self, Link, Session};

/// Limits of a session or a key that is made with a credential which can end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialLimits {
    /// The latest end.
    pub ends_at: Option<Timestamp>,
    /// The sessions over which it is made. It ends when one of them is revoked.
    pub depends_on: Dependence,
}

impl Engine {
    /// How long a session that nobody uses is good for.
    pub const SESSION_IDLE_MS: u64 = 12 * 3_600_000;
    /// How long one is good for at most.
    pub const SESSION_LIFE_MS: u64 = sessions::LIFE_MS;
    /// How long a link that signs in is good for.
    pub const SESSION_LINK_MS: u64 = 30 * 60_000;
    /// A use that follows another so soon is not written down.
    const SESSION_USE_MS: u64 = 5 * 60_000;

    /// Signs in with a key. `token_hash` is that of what the browser keeps.
    pub async fn add_session(
        &self,
        key: &ApiKey,
        session_id: &str,
        token_hash: &str,
    ) -> Result<Session, Error> {
        let now = self.now();
        let session = Session {
            session_id: session_id.to_owned(),
            key_id: key.key_id.clone(),
            tenant: key.tenant.clone(),
            created_at: now,
            used_at: now,
            expires_at: now.plus_ms(Self::SESSION_IDLE_MS),
            ends_at: now.plus_ms(Self::SESSION_LIFE_MS),
            revoked_at: None,
            depends_on: key.depends_on.clone(),
        };
        self.write(vec![sessions::insert(&session, token_hash)]).await?;
        Ok(session)
    }

    /// The session, and its key as it is now. Whether they are still good is for the caller to judge.
    pub async fn session_by_hash(&self, token_hash: &str) -> Result<Option<(Session, ApiKey)>, Error> {
        Ok(sessions::by_hash(self.db(), token_hash).await?)
    }

    /// Lets a session that is used last longer. The session as it is then.
    pub async fn use_session(&self, session: Session) -> Result<Session, Error> {
        let now = self.now();
        if now < session.used_at.plus_ms(Self::SESSION_USE_MS) {
            return Ok(session);
        }
        let expires_at = now.plus_ms(Self::SESSION_IDLE_MS).min(session.ends_at);
        self.write(vec![sessions::used(&session.session_id, now, expires_at)]).await?;
        Ok(Session { used_at: now, expires_at, ..session })
    }

    /// The sessions of a key that are still good, the newest first.
    pub async fn sessions(&self, tenant: &TenantId, key_id: &str, limit: u64) -> Result<Vec<Session>, Error> {
        Ok(sessions::of_key(self.db(), (tenant, key_id), self.now(), limit).await?)
    }

    /// Revokes a session, and with it the keys, sessions and sign-in links that were made over it. Returns false if the
    /// key has no such session.
    pub async fn revoke_session(
        &self,
        tenant: &TenantId,
        key_id: &str,
        session_id: &str,
    ) -> Result<bool, Error> {
        // A session never changes its key, so that this answer stays right.
        if !sessions::is_owned(self.db(), (tenant, key_id), session_id).await? {
            return Ok(false);
        }
        self.write(sessions::revoke(tenant, key_id, session_id, self.now())).await?;
        Ok(true)
    }

    /// Stores a link that signs in with this key once, and returns when the link expires. The session that the link
    /// makes ends at `limits.ends_at` at the latest: no session or key can extend its own life by a link. Returns None
    /// if a session that the link depends on was revoked.
    pub async fn add_session_link(
        &self,
        key_id: &str,
        link_hash: &str,
        limits: &CredentialLimits,
    ) -> Result<Option<Timestamp>, Error> {
        let usual = self.now().plus_ms(Self::SESSION_LINK_MS);
        let (session_ends_at, depends_on) = (limits.ends_at, &limits.depends_on);
        let expires_at = session_ends_at.map_or(usual, |end| end.min(usual));
        let link = Link { token_hash: link_hash, key_id, expires_at, session_ends_at, depends_on };
        let stored = self.write(sessions::insert_link(link)).await?;
        Ok(matches!(stored, Reply::Touched(1)).then_some(expires_at))
    }

    /// Uses a link up and signs in with its key. Returns None if there is no such link, if it was used, or if it or its
    /// key has ended; a link that cannot be used costs no write. If several callers use a link at once, one signs in.
    pub async fn sign_in_by_link(
        &self,
        link_hash: &str,
        session_id: &str,
        token_hash: &str,
    ) -> Result<Option<(Session, ApiKey)>, Error> {
        let now = self.now();
        if !sessions::link_is_open(self.db(), link_hash, now).await? {
            return Ok(None);
        }
        let until = now.plus_ms(Self::SESSION_IDLE_MS);
        self.write(sessions::by_link(link_hash, session_id, token_hash, (now, until))).await?;
        // Asked for rather than counted: a commit whose answer was lost has happened, too.
        self.session_by_hash(token_hash).await
    }

    /// Deletes sessions and links that have ended.
    pub(crate) async fn purge_sessions(&self, limit: usize) -> Result<usize, Error> {
        let most = u64::try_from(limit).unwrap_or(u64::MAX);
        match self.write(sessions::purge(self.now(), most).into()).await? {
            Reply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }
}
