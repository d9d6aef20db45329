//! The rules of webhooks: event filters, the circuit breaker and the retry policy. The module does no I/O and has no
//! access to URLs or secrets.

mod breaker;
mod retry;
mod retry_after;

pub use breaker::{Breaker, BreakerState, FAILURES_MAX};
pub use holdpoint_ids::{
    AttemptOutcome, Backoff, ChangeReason, DeadReason, DeliveryState, Mode, SubscriptionState,
};
pub use retry::{BadPolicy, DeliveryOutcome, DeliveryResponse, RetryPolicy};
pub use retry_after::retry_after_ms;

/// The events that a webhook subscribes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The names of the events.
    pub events: Vec<String>,
    /// The tags of the runs. An empty list matches all runs.
    pub tags: Vec<String>,
}

impl Filter {
    /// Returns true if the webhook subscribes to a run with these tags.
    pub fn matches_run(&self, tags: &[String]) -> bool {
        self.tags.is_empty() || self.tags.iter().any(|tag| tags.contains(tag))
    }

    /// Returns true if the webhook subscribes to an event with this name.
    pub fn matches_event(&self, name: &str) -> bool {
        self.events.iter().any(|event| event == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_matches_its_events_and_any_of_its_tags() {
        let filter = Filter { events: vec!["run.completed".into()], tags: vec!["a".into(), "b".into()] };
        assert!(filter.matches_event("run.completed") && !filter.matches_event("run.failed"));
        assert!(filter.matches_run(&["c".into(), "b".into()]));
        assert!(!filter.matches_run(&["c".into()]) && !filter.matches_run(&[]));
        assert!(Filter { tags: Vec::new(), ..filter }.matches_run(&[]));
    }

    #[test]
    fn states_are_parsed_from_their_names() {
        for state in SubscriptionState::ALL {
            assert_eq!(SubscriptionState::parse(state.as_str()), Some(state));
        }
        assert_eq!(DeliveryState::parse("in-flight"), Some(DeliveryState::InFlight));
        assert_eq!(Mode::parse("bestEffort"), None);
        assert!(!SubscriptionState::DeadLettered.may_resume());
        assert_eq!(SubscriptionState::Failed.first_delivery_state(), DeliveryState::DeadLettered);
        assert_eq!(SubscriptionState::Paused.first_delivery_state(), DeliveryState::Queued);
    }
}
