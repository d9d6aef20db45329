//! The kinds of interrupts.

use serde::{Deserialize, Serialize};

/// The kind of an interrupt. It determines the shape of the interrupt's data and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "InterruptKind"))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Approval,
    Clarification,
    ExternalEvent,
    Custom,
    #[serde(rename = "conversation.start")]
    ConversationStart,
    #[serde(rename = "conversation.exchange")]
    ConversationExchange,
    #[serde(rename = "conversation.close")]
    ConversationClose,
    LowConfidence,
}

impl Kind {
    pub const ALL: [Kind; 8] = [
        Kind::Approval,
        Kind::Clarification,
        Kind::ExternalEvent,
        Kind::Custom,
        Kind::ConversationStart,
        Kind::ConversationExchange,
        Kind::ConversationClose,
        Kind::LowConfidence,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Approval => "approval",
            Kind::Clarification => "clarification",
            Kind::ExternalEvent => "external-event",
            Kind::Custom => "custom",
            Kind::ConversationStart => "conversation.start",
            Kind::ConversationExchange => "conversation.exchange",
            Kind::ConversationClose => "conversation.close",
            Kind::LowConfidence => "low-confidence",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Whether it is part of a conversation, which a host may have or not.
    pub fn is_of_conversation(self) -> bool {
        match self {
            Kind::ConversationStart | Kind::ConversationExchange | Kind::ConversationClose => true,
            Kind::Approval
            | Kind::Clarification
            | Kind::ExternalEvent
            | Kind::Custom
            | Kind::LowConfidence => false,
        }
    }

    /// Nobody is waited for: it is asked and answered in one.
    pub fn returns_at_once(self) -> bool {
        match self {
            Kind::ConversationStart | Kind::ConversationClose => true,
            Kind::Approval
            | Kind::Clarification
            | Kind::ExternalEvent
            | Kind::Custom
            | Kind::ConversationExchange
            | Kind::LowConfidence => false,
        }
    }
}
