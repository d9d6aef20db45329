//! The end of an interrupt: an answer or a timeout.

use serde_json::{Map, Value};

use super::assignee_rules;
use crate::event::Event;
use crate::{Timestamp, Via};

/// The end of an interrupt.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "most interrupts are answered")]
pub enum Resolution {
    /// An answer resolved the interrupt.
    Answered {
        /// The recorded answer.
        value: Value,
        /// The principal that decided.
        by: String,
        /// The time of the answer.
        at: Timestamp,
        /// The decision id that the client chose, for idempotency.
        decision: Option<String>,
        /// The credential that the answer was sent with.
        via: Option<Via>,
        /// Data that the client sent with the answer. The engine does not verify it.
        client_metadata: Map<String, Value>,
    },
    /// The interrupt expired.
    TimedOut {
        /// The time of the expiry.
        at: Timestamp,
    },
}

impl Resolution {
    /// Returns the resolution that an event records: an answer, or a timeout for every other event.
    pub(crate) fn of(event: &Event, at: Timestamp) -> Self {
        let Event::InterruptResolved { value, by, decision, via, client_metadata, .. } = event else {
            return Self::TimedOut { at };
        };
        let (value, by, decision, via) = (value.clone(), by.clone(), decision.clone(), via.clone());
        Self::Answered { value, by, at, decision, via, client_metadata: client_metadata.clone() }
    }

    /// Returns the time at which the interrupt was closed.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Answered { at, .. } | Self::TimedOut { at } => *at,
        }
    }

    /// Returns the credential that closed the interrupt. Answers of principals that older versions recorded have none.
    pub fn via(&self) -> Option<Via> {
        match self {
            Self::Answered { via: Some(via), .. } => Some(via.clone()),
            Self::Answered { by, via: None, .. } => assignee_rules::is_host_name(by).then(Via::host),
            Self::TimedOut { .. } => Some(Via::timeout()),
        }
    }
}
