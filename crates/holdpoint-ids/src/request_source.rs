//! The source of a request: its origin and the protocol over which it arrived.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

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

words! {
    /// The value of `transport` in the event `run.started`. OpenWOP defines it.
    EventTransport as "EventTransport" {
        /// The HTTP API, or a call inside of the process.
        Rest = "rest",
        /// A protocol of front ends: AG-UI or chat.
        Ui = "ui",
    }
}

impl Transport {
    /// Returns the value that OpenWOP has for this protocol.
    pub fn in_event(self) -> EventTransport {
        match self {
            Self::Rest | Self::Internal => EventTransport::Rest,
            Self::Agui | Self::Chat => EventTransport::Ui,
        }
    }
}

/// The origin of a request and the protocol over which it arrived. Stored as one short text, such as `user:rest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Serialize for RequestSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}:{}", self.origin.as_str(), self.transport.as_str()))
    }
}

impl<'de> Deserialize<'de> for RequestSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(RequestSourceVisitor)
    }
}

struct RequestSourceVisitor;

impl Visitor<'_> for RequestSourceVisitor {
    type Value = RequestSource;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an origin and a transport, separated by a colon")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RequestSource, E> {
        let found = text.split_once(':').and_then(|(origin, transport)| {
            let (origin, transport) = (RunRequestOrigin::parse(origin)?, Transport::parse(transport)?);
            Some(RequestSource { origin, transport })
        });
        found.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_stored_as_one_text() {
        for origin in RunRequestOrigin::ALL {
            for transport in Transport::ALL {
                let source = RequestSource { origin, transport };
                let text = serde_json::to_string(&source).unwrap();
                assert_eq!(text, format!("\"{}:{}\"", origin.as_str(), transport.as_str()));
                assert_eq!(serde_json::from_str::<RequestSource>(&text).unwrap(), source);
            }
        }
    }

    #[test]
    fn an_unknown_source_is_rejected() {
        for text in ["\"user\"", "\"user:\"", "\"rest:user\"", "\"user:rest:x\"", "{}"] {
            assert!(serde_json::from_str::<RequestSource>(text).is_err(), "{text}");
        }
    }
}
