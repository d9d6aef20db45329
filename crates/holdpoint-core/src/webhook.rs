//! Who is told of what happens, and what becomes of it: which events a subscription wants, when its circuit opens, when
//! a delivery is tried again and when it is given up. Sends nothing, and knows neither URLs nor secrets.

mod breaker;
mod retry;
mod retry_after;

pub use breaker::{Breaker, FAILURES_MAX, Gate};
pub use holdpoint_ids::{
    AttemptOutcome, Backoff, ChangeReason, DeadReason, DeliveryState, Mode, SubscriptionState,
};
pub use retry::{BadPolicy, Next, Reception, RetryPolicy};
pub use retry_after::retry_after_ms;

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
            assert_eq!(SubscriptionState::parse(state.as_str()), Some(state));
        }
        assert_eq!(DeliveryState::parse("in-flight"), Some(DeliveryState::InFlight));
        assert_eq!(Mode::parse("bestEffort"), None);
        assert!(!SubscriptionState::DeadLettered.may_resume());
        assert_eq!(SubscriptionState::Failed.begins(), DeliveryState::DeadLettered);
        assert_eq!(SubscriptionState::Paused.begins(), DeliveryState::Queued);
    }
}
