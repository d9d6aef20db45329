//! The credential with which a decision was sent. `Via` has an id that may be shown, never the credential itself.

use serde::{Deserialize, Serialize};

/// The credential of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Via {
    #[serde(rename = "type")]
    pub kind: ViaType,
    /// The id of the key, the session or the link. For system: timeout, host, agent, event or replay.
    pub id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum ViaType {
    /// An API key.
    Key,
    /// The session of a browser.
    Session,
    /// A signed link.
    Link,
    /// No credential: the host decided, and the id names the reason.
    System,
}

impl Via {
    /// Returns the credential of an API key.
    pub fn key(id: impl Into<String>) -> Self {
        Self { kind: ViaType::Key, id: id.into() }
    }

    /// Returns the credential of a browser session.
    pub fn session(id: impl Into<String>) -> Self {
        Self { kind: ViaType::Session, id: id.into() }
    }

    /// Returns the credential of a signed link.
    pub fn link(id: impl Into<String>) -> Self {
        Self { kind: ViaType::Link, id: id.into() }
    }

    /// Returns the entry for a decision of the host, with its reason.
    pub fn system(id: impl Into<String>) -> Self {
        Self { kind: ViaType::System, id: id.into() }
    }

    /// Returns the entry for an interrupt whose deadline passed.
    pub fn timeout() -> Self {
        Self::system("timeout")
    }

    /// Returns the entry for an answer that a node or a rule of the host gave.
    pub fn host() -> Self {
        Self::system("host")
    }

    /// Returns the entry for a decision of an agent without a person.
    pub fn agent() -> Self {
        Self::system("agent")
    }

    /// Returns the entry for an interrupt that an external event resolved.
    pub fn event() -> Self {
        Self::system("event")
    }

    /// Returns the entry for an answer that a replay repeats from the record of its source.
    pub fn replay() -> Self {
        Self::system("replay")
    }
}
