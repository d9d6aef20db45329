//! The sessions with which a key, a session or a sign-in link was created. The credential ends when one of them is
//! revoked.

use super::{Statement, params};

/// Locks a session, so that its revocation comes either before this transaction or after it.
const LOCK: &str = "UPDATE sessions SET used_ms = used_ms WHERE session_id = $1";

/// The sessions with which a credential was created, by id, the oldest first. Empty if it was created with a key
/// alone. A session of the list need not depend on those before it: the rotation of a key adds the sessions of the
/// caller to those of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependence(Vec<String>);

impl Dependence {
    /// Adds the sessions of another dependence. Sessions that are in both take the positions of the other.
    #[must_use]
    pub fn joined(mut self, other: &Self) -> Self {
        self.0.retain(|id| !other.0.contains(id));
        self.0.extend_from_slice(&other.0);
        self
    }

    /// Adds a session: returns the dependence of a credential that is created with a session of this dependence.
    #[must_use]
    pub fn over(mut self, session_id: &str) -> Self {
        self.0.push(session_id.to_owned());
        self
    }

    /// Returns true if there are no sessions, so that no sign-out ends the credential.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Locks all sessions of the list in its order: a session comes before its dependents, as in a sign-out.
    pub(super) fn lock(&self) -> impl Iterator<Item = Statement> {
        self.0.iter().map(|id| Statement::new(LOCK, params![id.as_str()]))
    }

    pub(super) fn stored(&self) -> Option<String> {
        (!self.is_empty()).then(|| format!(" {} ", self.0.join(" ")))
    }

    pub(super) fn read(stored: Option<&str>) -> Self {
        Self(stored.unwrap_or_default().split_whitespace().map(str::to_owned).collect())
    }

    /// Returns a pattern for LIKE that matches the dependents of the session. A `_` in the id matches any character;
    /// ids are random, so that no other id matches.
    pub(super) fn pattern(session_id: &str) -> String {
        format!("% {session_id} %")
    }
}
