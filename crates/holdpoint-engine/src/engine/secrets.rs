//! What links are signed with: kept, replaced, ended. Who signs what with them is not known here.

use holdpoint_core::Timestamp;

use super::{Engine, Once};
use crate::committer::{Reply, Work};
use crate::error::Error;
use crate::store::secrets::{self, LinkSecret};
use crate::store::{Statement, unreadable};

/// Others may replace the secret at the same moment; then it is done again.
const ATTEMPTS_MAX: usize = 16;

impl Engine {
    /// How long a link can be good for at most, whoever makes it.
    pub const LINK_LIFE_MS_MAX: u64 = holdpoint_core::limits::LINK_LIFE_MS_MAX;
    /// A node that has not heard of a new secret signs with the old one for a moment, and clocks differ.
    const SECRET_SLACK_MS: u64 = 24 * 3_600_000;

    /// Every secret that links may be signed with, the oldest first. The one that is not retired signs.
    pub async fn secrets(&self) -> Result<Vec<LinkSecret>, Error> {
        let mut stored = secrets::all(&self.0.db).await?;
        for secret in &mut stored {
            let opened = self.seal()?.open(&place(secret), &secret.secret)?;
            secret.secret = String::from_utf8(opened).map_err(|error| unreadable("link secret", error))?;
        }
        Ok(stored)
    }

    /// Stores the first secret. False when another one signs already: of several nodes one wins.
    pub async fn add_secret(&self, secret: &LinkSecret) -> Result<bool, Error> {
        Ok(matches!(self.write(vec![self.insertion(secret)?]).await?, Reply::Touched(1)))
    }

    /// Lets this secret sign from now on. What the others have signed stays good until it expires; with `revoke` it
    /// ends with this commit.
    pub async fn rotate_secrets(
        &self,
        secret: &LinkSecret,
        revoke: bool,
        once: Option<&Once<LinkSecret>>,
    ) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let before = if revoke { secrets::revoke_all() } else { secrets::retire(secret.created_at) };
            let work = Work::Plain(vec![before, self.insertion(secret)?]);
            if matches!(self.submit(work, once, secret).await?, Reply::Touched(1)) {
                return Ok(());
            }
            // A commit whose answer was lost has done it already.
            if self.secrets().await?.iter().any(|stored| stored.kid == secret.kid) {
                return Ok(());
            }
        }
        Err(Error::Busy)
    }

    fn insertion(&self, secret: &LinkSecret) -> Result<Statement, Error> {
        let sealed = self.seal()?.seal(&place(secret), secret.secret.as_bytes())?;
        Ok(secrets::insert(secret, &sealed))
    }

    /// Deletes secrets when every link that they can have signed has expired.
    pub(crate) async fn purge_secrets(&self) -> Result<usize, Error> {
        let kept = Self::LINK_LIFE_MS_MAX.saturating_add(Self::SECRET_SLACK_MS);
        let until = Timestamp(self.now().0.saturating_sub_unsigned(kept));
        match self.write(vec![secrets::purge(until)]).await? {
            Reply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }
}

/// What a sealed secret is bound to.
fn place(secret: &LinkSecret) -> String {
    format!("link/{}", secret.kid)
}
