//! Storage and rotation of the secrets that sign links. The server signs the links.

use holdpoint_core::Timestamp;

use super::{Engine, LinkSecrets, Once};
use crate::committer::{CommitReply, Work};
use crate::error::Error;
use crate::store::secrets::{self, LinkSecret};
use crate::store::{Statement, unreadable};

/// The number of attempts to rotate secrets while concurrent rotations win.
const ATTEMPTS_MAX: usize = 16;

/// The effect of a rotation on the links that older secrets signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldLinks {
    /// The links stay valid until they expire.
    Keep,
    /// The links become invalid with the commit of the rotation.
    Revoke,
}

impl LinkSecrets<'_> {
    /// The maximum lifetime of a link in milliseconds.
    pub const LIFE_MS_MAX: u64 = holdpoint_core::limits::LINK_LIFE_MS_MAX;

    /// Extra retention of a retired secret: a node signs with it until it reads the new one, and clocks differ.
    const SLACK_MS: u64 = 24 * 3_600_000;

    /// Returns all secrets that verify links, oldest first. The one that is not retired signs new links.
    pub async fn list(self) -> Result<Vec<LinkSecret>, Error> {
        let mut stored = secrets::all(&self.engine.0.db).await?;
        for secret in &mut stored {
            let opened = self.engine.seal()?.open(&seal_context(secret), &secret.secret)?;
            secret.secret = String::from_utf8(opened).map_err(|error| unreadable("link secret", error))?;
        }
        Ok(stored)
    }

    /// Stores the first secret. Returns false if another secret is active: of several nodes, one wins.
    pub async fn add(self, secret: &LinkSecret) -> Result<bool, Error> {
        Ok(matches!(self.engine.write(vec![self.engine.insertion(secret)?]).await?, CommitReply::Touched(1)))
    }

    /// Makes this secret the active one.
    pub async fn rotate(
        self,
        secret: &LinkSecret,
        old: OldLinks,
        once: Option<&Once<LinkSecret>>,
    ) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let before = match old {
                OldLinks::Keep => secrets::retire(secret.created_at),
                OldLinks::Revoke => secrets::revoke_all(),
            };
            let work = Work::Plain(vec![before, self.engine.insertion(secret)?]);
            if matches!(self.engine.submit(work, once, secret).await?, CommitReply::Touched(1)) {
                return Ok(());
            }
            // An earlier commit may have succeeded although its reply was lost.
            if self.list().await?.iter().any(|stored| stored.kid == secret.kid) {
                return Ok(());
            }
        }
        Err(Error::Busy)
    }
}

impl Engine {
    fn insertion(&self, secret: &LinkSecret) -> Result<Statement, Error> {
        let sealed = self.seal()?.seal(&seal_context(secret), secret.secret.as_bytes())?;
        Ok(secrets::insert(secret, &sealed))
    }

    /// Deletes secrets whose links have all expired.
    pub(crate) async fn purge_secrets(&self) -> Result<usize, Error> {
        let kept = LinkSecrets::LIFE_MS_MAX.saturating_add(LinkSecrets::SLACK_MS);
        let until = Timestamp(self.now().0.saturating_sub_unsigned(kept));
        match self.write(vec![secrets::purge(until)]).await? {
            CommitReply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }
}

/// Returns the context that a sealed secret is bound to.
fn seal_context(secret: &LinkSecret) -> String {
    format!("link/{}", secret.kid)
}
