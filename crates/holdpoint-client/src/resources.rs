//! The resources of the API. Each method builds a request, and awaiting the request sends it.

mod admin;
mod agents;
mod chats;
mod holds;
mod interrupts;
mod mailbox;
mod runs;
mod triggers;
mod webhooks;
mod workflows;

use std::time::Duration;

use crate::Client;

pub use admin::{Keys, LinkSecrets, ServerInfo, Sessions};
pub use agents::{Agents, Threads};
pub use chats::Chats;
pub use holds::{Grants, Holds};
pub use interrupts::Interrupts;
pub use mailbox::Mailbox;
pub use runs::{RunStatusOnly, Runs};
pub use triggers::Triggers;
pub use webhooks::Webhooks;
pub use workflows::Workflows;

/// The delay before the next long poll if the server responds early.
const EARLY_PAUSE: Duration = Duration::from_millis(200);

macro_rules! resources {
    ($($(#[$doc:meta])* $name:ident: $resource:ident;)*) => {
        impl Client {
            $($(#[$doc])* pub fn $name(&self) -> $resource<'_> {
                $resource(self)
            })*
        }
    };
}

resources! {
    /// Returns the requests about runs.
    runs: Runs;
    /// Returns the requests about interrupts.
    interrupts: Interrupts;
    /// Returns the requests about holds.
    holds: Holds;
    /// Returns the requests about grants.
    grants: Grants;
    /// Returns the requests about workflow definitions.
    workflows: Workflows;
    /// Returns the requests about triggers.
    triggers: Triggers;
    /// Returns the requests about webhooks.
    webhooks: Webhooks;
    /// Returns the requests about agents.
    agents: Agents;
    /// Returns the requests about threads of agents.
    threads: Threads;
    /// Returns the requests about graphs by their state key.
    chats: Chats;
    /// Returns the requests about the dispatch queue.
    mailbox: Mailbox;
    /// Returns the requests about API keys.
    keys: Keys;
    /// Returns the requests about sessions.
    sessions: Sessions;
    /// Returns the requests about the secrets of links.
    link_secrets: LinkSecrets;
    /// Returns the requests about the server itself.
    server_info: ServerInfo;
}
