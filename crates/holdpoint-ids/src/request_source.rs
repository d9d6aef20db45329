//! The source of a request: its origin and the protocol over which it arrived.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The origin of a request that starts a run or sends input to it.
    RunRequestOrigin {
        /// A client of the server: a person, a program or an SDK.
        User = "user",
        /// Another agent, over an agent-to-agent protocol.
        A2A = "a2a",
        /// The server: a parent run, a trigger, or the program that embeds the engine.
        Internal = "internal",
    }
}

words! {
    /// The protocol over which a request arrived.
    Transport as "Transport" {
        /// The HTTP API.
        Rest = "rest",
        /// AG-UI.
        Agui = "agui",
        /// The chat protocol of graphs.
        Chat = "chat",
        /// No protocol: a call inside of the process.
        Internal = "internal",
    }
}

/// The origin of a request and the protocol over which it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSource {
    /// The origin.
    pub origin: RunRequestOrigin,
    /// The protocol.
    pub transport: Transport,
}

impl RequestSource {
    /// A call inside of the process.
    pub const INTERNAL: Self = Self { origin: RunRequestOrigin::Internal, transport: Transport::Internal };

    /// Returns the source of a client's request over this protocol.
    pub const fn user(transport: Transport) -> Self {
        Self { origin: RunRequestOrigin::User, transport }
    }
}
