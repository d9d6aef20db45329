//! Who is told of what happens, and what becomes of it: which events a subscription wants, when its circuit opens, when
//! a delivery is tried again and when it is given up. Sends nothing, and knows neither URLs nor secrets.

use serde::{Deserialize, Serialize};

mod breaker;
mod retry;
mod retry_after;

pub use breaker::{Breaker, FAILURES_MAX, Gate};
pub use retry::{Backoff, BadPolicy, DeadReason, Next, Reception, RetryPolicy};
pub use retry_after::retry_after_ms;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == text)
            }
        }
    };
}
pub(crate) use words;

words! {
    /// How hard a subscription's deliveries are tried.
    Mode {
        /// At most one attempt for each event.
        BestEffort = "best-effort",
        /// Attempts until one succeeds or the policy gives up.
        Durable = "durable",
    }
}

words! {
    SubscriptionState {
        Active = "active",
        /// By an operator, or because its owner has no active key.
        Paused = "paused",
        /// Too much went wrong; somebody has to look at it.
        Failed = "failed",
        /// The other side said that it is gone for good.
        DeadLettered = "dead-lettered",
    }
}

words! {
    DeliveryState {
        Queued = "queued",
        InFlight = "in-flight",
        Delivered = "delivered",
        /// Given up, and kept to be looked at and replayed.
        DeadLettered = "dead-lettered",
        /// Best effort was not enough, or the subscription went away.
        Dropped = "dropped",
    }
}

words! {
    /// Why a subscription is in another state.
    ChangeReason {
        RetryExhausted = "retry-exhausted",
        OperatorPaused = "operator-paused",
        OperatorResumed = "operator-resumed",
        /// The other side answered 410.
        SourceRemoved = "source-removed",
        /// The circuit of a best-effort subscription: opened, closed again.
        CircuitOpened = "circuit-opened",
        CircuitClosed = "circuit-closed",
        /// The last key of the owner's lineage was revoked.
        KeyRevoked = "key-revoked",
        /// The last key of the owner's lineage has expired.
        KeyExpired = "key-expired",
        /// A new secret was made; the state is the same.
        SecretRotated = "secret-rotated",
    }
}

words! {
    /// How an attempt went.
    AttemptOutcome {
        Delivered = "delivered",
        Retrying = "retrying",
        DeadLettered = "dead-lettered",
        /// With best effort: it is not repeated.
        Failed = "failed",
        /// None was made: the circuit was open, or too much was waiting.
        Dropped = "dropped",
    }
}

impl SubscriptionState {
    /// Whether somebody may set it going again. One that is gone for good is registered anew.
    pub fn may_resume(self) -> bool {
        match self {
            Self::Active | Self::Paused | Self::Failed => true,
            Self::DeadLettered => false,
        }
    }

    /// How a new durable delivery begins: waiting to be sent, or given up at once but not lost.
    pub fn begins(self) -> DeliveryState {
        match self {
            Self::Active | Self::Paused => DeliveryState::Queued,
            Self::Failed | Self::DeadLettered => DeliveryState::DeadLettered,
        }
    }
}

impl DeliveryState {
    /// Nothing more happens to it by itself.
    pub fn ended(self) -> bool {
        match self {
            Self::Queued | Self::InFlight => false,
            Self::Delivered | Self::DeadLettered | Self::Dropped => true,
        }
    }
}

/// Which events of a tenant's runs a subscription is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub events: Vec<String>,
    /// None at all means runs with any tags.
    pub tags: Vec<String>,
}

impl Filter {
    pub fn wants_run(&self, tags: &[String]) -> bool {
        self.tags.is_empty() || self.tags.iter().any(|tag| tags.contains(tag))
    }

    pub fn wants_event(&self, name: &str) -> bool {
        self.events.iter().any(|event| event == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_needs_the_event_and_one_of_the_tags() {
        let filter = Filter { events: vec!["run.completed".into()], tags: vec!["a".into(), "b".into()] };
        assert!(filter.wants_event("run.completed") && !filter.wants_event("run.failed"));
        assert!(filter.wants_run(&["c".into(), "b".into()]));
        assert!(!filter.wants_run(&["c".into()]) && !filter.wants_run(&[]));
        assert!(Filter { tags: Vec::new(), ..filter }.wants_run(&[]));
    }

    #[test]
    fn states_are_read_as_they_are_written() {
        for state in SubscriptionState::ALL {
            assert_eq!(SubscriptionState::parse(state.as_str()), Some(*state));
        }
        assert_eq!(DeliveryState::parse("in-flight"), Some(DeliveryState::InFlight));
        assert_eq!(Mode::parse("bestEffort"), None);
        assert!(!SubscriptionState::DeadLettered.may_resume());
        assert_eq!(SubscriptionState::Failed.begins(), DeliveryState::DeadLettered);
        assert_eq!(SubscriptionState::Paused.begins(), DeliveryState::Queued);
    }
}
