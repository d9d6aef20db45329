//! The kinds of interrupts.

use crate::words::words;

words! {
    /// The kind of an interrupt. It determines the shape of the interrupt's data and of its answer.
    Kind as "InterruptKind" {
        Approval = "approval",
        Clarification = "clarification",
        ExternalEvent = "external-event",
        Custom = "custom",
        ConversationStart = "conversation.start",
        ConversationExchange = "conversation.exchange",
        ConversationClose = "conversation.close",
        LowConfidence = "low-confidence",
    }
}

impl Kind {
    /// Returns whether the interrupt is part of a conversation. Hosts may support conversations or not.
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

    /// Returns whether the interrupt needs no answer: it is resolved when it is requested.
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
