//! Secrets that sign deliveries and callbacks: generation, sealing and rotation.

use std::fmt;

use holdpoint_core::{TenantId, hex};
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};

use super::webhooks::{failed, new_mark};
use super::{ATTEMPTS_MAX, Engine, Once, Webhooks};
use crate::committer::{CommitReply, Work};
use crate::error::Error;
use crate::store::webhooks::{self, OldSecret, SealedSecret, Webhook};

const SECRET_BYTES: usize = 32;
/// The context that secrets of callbacks are sealed for. It has no run id, because forks of a run share its secret.
const CALLBACK_CONTEXT: &str = "callback";

/// The secrets that sign a delivery.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecrets {
    /// Signs in the header of the protocol.
    pub secret: String,
    /// Signs in an additional header during the overlap of a rotation, and replaces the other secret afterwards.
    pub next: Option<String>,
}

impl fmt::Debug for SigningSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningSecrets").finish_non_exhaustive()
    }
}

impl Webhooks<'_> {
    /// Replaces the secret of a webhook and returns the new one. It cannot be read again. The old secret stays valid
    /// for the overlap; a secret from an earlier rotation ends now.
    pub async fn rotate_secret(
        self,
        tenant: &TenantId,
        id: &str,
        overlap_ms: u64,
        once: Option<&Once<Webhook>>,
    ) -> Result<(Webhook, String), Error> {
        let (secret, sealed) = self.engine.make_webhook_secret(id)?;
        for _ in 0..ATTEMPTS_MAX {
            let from = self.get(tenant, id).await?;
            let now = self.engine.now();
            let old_secret = (overlap_ms > 0).then(|| OldSecret {
                fingerprint: from.fingerprint.clone(),
                until: now.plus_ms(overlap_ms),
                sealed: from.sealed.clone(),
            });
            let to = Webhook {
                fingerprint: fingerprint(&secret),
                sealed: sealed.clone(),
                old_secret,
                mark: new_mark(),
                updated_at: now,
                ..from.clone()
            };
            let rotation = Work::Plain(webhooks::rotate(&from, &to));
            if let CommitReply::Touched(1) = self.engine.submit(rotation, once, &to).await? {
                return Ok((to, secret));
            }
        }
        Err(Error::Busy)
    }

    /// Seals the secret that the callbacks of a run are signed with: the given one, or a new one. Returns the sealed
    /// text for [`StartRequest::callback_secret`](holdpoint_core::StartRequest::callback_secret), and the secret.
    pub fn seal_callback_secret(self, given: Option<String>) -> Result<(String, String), Error> {
        let secret =
            given.or_else(fresh_secret).ok_or_else(|| failed("the system has no source of randomness"))?;
        let sealed = self.engine.seal()?.seal(CALLBACK_CONTEXT, secret.as_bytes()).map_err(failed)?;
        Ok((sealed, secret))
    }
}

impl Engine {
    /// Returns a new secret for a webhook, as text and sealed.
    pub(super) fn make_webhook_secret(&self, id: &str) -> Result<(String, SealedSecret), Error> {
        let secret = fresh_secret().ok_or_else(|| failed("the system has no source of randomness"))?;
        let sealed = self.seal()?.seal(&seal_context(id), secret.as_bytes()).map_err(failed)?;
        Ok((secret, SealedSecret(sealed)))
    }

    /// Returns the secrets that sign a delivery now. During an overlap the old secret signs in the header of the
    /// protocol, so that receivers that know only the old one accept deliveries until its end.
    pub(crate) fn webhook_secrets(&self, hook: &Webhook) -> Result<SigningSecrets, Error> {
        let open = |sealed: &SealedSecret| {
            let secret = self.seal()?.open(&seal_context(&hook.id), &sealed.0).map_err(failed)?;
            String::from_utf8(secret).map_err(failed)
        };
        let newest = open(&hook.sealed)?;
        match &hook.old_secret {
            None => Ok(SigningSecrets { secret: newest, next: None }),
            Some(old) => Ok(SigningSecrets { secret: open(&old.sealed)?, next: Some(newest) }),
        }
    }

    pub(crate) fn callback_secret(&self, sealed: &str) -> Result<String, Error> {
        let secret = self.seal()?.open(CALLBACK_CONTEXT, sealed).map_err(failed)?;
        String::from_utf8(secret).map_err(failed)
    }
}

/// Returns a short digest that identifies a secret in logs and lists.
pub fn fingerprint(secret: &str) -> String {
    hex(&Sha256::digest(secret)[..4])
}

/// Returns a random secret, or None if the system has no random source.
fn fresh_secret() -> Option<String> {
    let mut bytes = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

/// Returns the context that a secret is sealed for. The secret of one webhook cannot be opened for another.
fn seal_context(id: &str) -> String {
    format!("webhook/{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_64_hex_digits_and_is_random() {
        let (one, two) = (fresh_secret().unwrap(), fresh_secret().unwrap());
        assert!(one.len() == 64 && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(one, two);
        assert_eq!(fingerprint("abc"), "ba7816bf");
    }

    #[test]
    fn debug_output_does_not_contain_the_secrets() {
        let secrets = SigningSecrets { secret: "one".to_owned(), next: Some("two".to_owned()) };
        assert_eq!(format!("{secrets:?}"), "SigningSecrets { .. }");
    }
}
