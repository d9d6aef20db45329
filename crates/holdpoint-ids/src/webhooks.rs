//! Enums of webhooks, and the names of the events that they report.

use crate::words::words;

/// The names of all events, in the order of the variants of `Event` in the core.
pub const EVENT_NAMES: &[&str] = &[
    "run.started",
    "node.started",
    "node.completed",
    "node.failed",
    "holdpoint.node.delayed",
    "node.skipped",
    "node.suspended",
    "node.resumed",
    "interrupt.requested",
    "approval.requested",
    "clarification.requested",
    "interrupt.resolved",
    "interrupt.timed_out",
    "approval.received",
    "clarification.resolved",
    "holdpoint.vote.cast",
    "holdpoint.vote.repeated",
    "holdpoint.ask.raised",
    "holdpoint.ask.answered",
    "authorization.decided",
    "approval.granted",
    "approval.rejected",
    "approval.overridden",
    "conversation.opened",
    "conversation.exchanged",
    "conversation.closed",
    "agent.decided",
    "holdpoint.step.recorded",
    "holdpoint.sleep.started",
    "holdpoint.sleep.ended",
    "node.retried",
    "variable.changed",
    "channel.written",
    "ai.message.chunk",
    "holdpoint.reasoning.chunk",
    "holdpoint.tool.chunk",
    "holdpoint.activity.reported",
    "holdpoint.message.added",
    "holdpoint.model.replied",
    "agent.toolCalled",
    "holdpoint.tool.suspended",
    "holdpoint.tool.begun",
    "agent.toolReturned",
    "artifact.created",
    "holdpoint.loop.turned",
    "workflow.loopback-limit",
    "cap.breached",
    "node.dispatched",
    "holdpoint.node.awaiting",
    "holdpoint.child.changed",
    "holdpoint.child.ended",
    "holdpoint.pause.requested",
    "run.paused",
    "run.resumed",
    "replay.diverged",
    "run.completed",
    "run.failed",
    "run.cancelled",
];

words! {
    /// The guarantee for the deliveries of a subscription.
    Mode {
        /// At most one attempt for each event.
        BestEffort = "best-effort",
        /// Attempts until one succeeds or the retry policy ends.
        Durable = "durable",
    }
}

words! {
    /// The state of a subscription.
    SubscriptionState {
        Active = "active",
        /// Paused by an operator, or because its owner has no active key.
        Paused = "paused",
        /// Too many attempts failed; an operator must resume it.
        Failed = "failed",
        /// The receiver responded with 410.
        DeadLettered = "dead-lettered",
    }
}

words! {
    /// The state of a delivery.
    DeliveryState {
        Queued = "queued",
        InFlight = "in-flight",
        Delivered = "delivered",
        /// Not tried again, and stored for inspection and replay.
        DeadLettered = "dead-lettered",
        /// A best-effort attempt failed, or the subscription was deleted.
        Dropped = "dropped",
    }
}

words! {
    /// The reason for a change of a subscription.
    ChangeReason {
        RetryExhausted = "retry-exhausted",
        OperatorPaused = "operator-paused",
        OperatorResumed = "operator-resumed",
        /// The receiver responded with 410.
        SourceRemoved = "source-removed",
        /// The circuit breaker of a best-effort subscription opened or closed.
        CircuitOpened = "circuit-opened",
        CircuitClosed = "circuit-closed",
        /// The last key of the owner's lineage was revoked.
        KeyRevoked = "key-revoked",
        /// The last key of the owner's lineage has expired.
        KeyExpired = "key-expired",
        /// The keys of the owner's lineage lack a scope that a trigger needs, or this version cannot read its schedule.
        ProvenanceUnevaluable = "provenance-unevaluable",
        /// A new secret was created; the state did not change.
        SecretRotated = "secret-rotated",
    }
}

words! {
    /// The outcome of an attempt.
    AttemptOutcome {
        Delivered = "delivered",
        Retrying = "retrying",
        DeadLettered = "dead-lettered",
        /// A best-effort attempt failed; it is not repeated.
        Failed = "failed",
        /// No attempt was made: the circuit breaker was open, or the queue was full.
        Dropped = "dropped",
    }
}

impl SubscriptionState {
    /// Returns true if the subscription may be resumed. After a response with 410 it must be registered again.
    pub fn may_resume(self) -> bool {
        match self {
            Self::Active | Self::Paused | Self::Failed => true,
            Self::DeadLettered => false,
        }
    }

    /// Returns the first state of a new durable delivery: queued, or a dead letter without an attempt.
    pub fn first_delivery_state(self) -> DeliveryState {
        match self {
            Self::Active | Self::Paused => DeliveryState::Queued,
            Self::Failed | Self::DeadLettered => DeliveryState::DeadLettered,
        }
    }
}

impl DeliveryState {
    /// Returns true if no further attempt follows automatically.
    pub fn ended(self) -> bool {
        match self {
            Self::Queued | Self::InFlight => false,
            Self::Delivered | Self::DeadLettered | Self::Dropped => true,
        }
    }
}

words! {
    /// The growth of the delays between attempts.
    Backoff {
        None = "none",
        Fixed = "fixed",
        Exponential = "exponential",
    }
}

words! {
    /// The reason why a delivery is a dead letter.
    DeadReason {
        RetriesExhausted = "retries_exhausted",
        /// The receiver responded with 410.
        Gone = "gone",
        /// The subscription failed or ended before the delivery was tried.
        SubscriptionEnded = "subscription_ended",
    }
}

words! {
    /// The type of an event of a subscription.
    WebhookEventType {
        StateChanged = "trigger.subscription.state.changed",
        Attempted = "trigger.delivery.attempted",
    }
}
