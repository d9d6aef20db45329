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
    /// An API key.
    pub fn key(id: impl Into<String>) -> Self {
        Self { kind: ViaType::Key, id: id.into() }
    }

    /// The session of a browser.
    pub fn session(id: impl Into<String>) -> Self {
        Self { kind: ViaType::Session, id: id.into() }
    }

    /// A signed link.
    pub fn link(id: impl Into<String>) -> Self {
        Self { kind: ViaType::Link, id: id.into() }
    }

    /// The host.
    pub fn system(id: impl Into<String>) -> Self {
        Self { kind: ViaType::System, id: id.into() }
    }

    /// The interrupt's deadline passed.
    pub fn timeout() -> Self {
        Self::system("timeout")
    }

    /// A node or a rule of the host gave the answer.
    pub fn host() -> Self {
        Self::system("host")
    }

    /// An agent decided without a person.
    pub fn agent() -> Self {
        Self::system("agent")
    }

    /// The server matched an external event with the interrupt.
    pub fn event() -> Self {
        Self::system("event")
    }

    /// A copy of a run repeats an answer from the record of its source.
    pub fn replay() -> Self {
        Self::system("replay")
    }
}
