//! Properties of webhooks: the state of the circuit breaker, and the attempts of a delivery.

use holdpoint_core::Timestamp;
use holdpoint_core::limits::WEBHOOK_WAIT_MS_MAX;
use holdpoint_core::webhook::{
    Backoff, Breaker, BreakerState, DeadReason, DeliveryOutcome, DeliveryResponse, FAILURES_MAX, RetryPolicy,
};
use proptest::prelude::*;

use crate::config;

const HOUR_MS: u64 = 3_600_000;
const WEEK_MS: i64 = 7 * 24 * 3_600_000;

/// An event after a delay. The subscriber accepts it or fails.
#[derive(Clone, Debug)]
struct Step {
    after_ms: u64,
    accepted: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let after = prop_oneof![6 => 0..1000_u64, 3 => 0..2 * HOUR_MS, 1 => 0..72 * HOUR_MS];
    let step =
        (after, prop::bool::weighted(0.3)).prop_map(|(after_ms, accepted)| Step { after_ms, accepted });
    prop::collection::vec(step, 1..400)
}

/// Computes the state of the breaker from the whole history of attempts instead of from counters.
fn expected(history: &[(i64, bool)], now: i64) -> BreakerState {
    let failures: Vec<i64> = history.iter().filter(|(_, accepted)| !accepted).map(|(at, _)| *at).collect();
    let too_many = failures.windows(FAILURES_MAX).any(|week| week[FAILURES_MAX - 1] - week[0] < WEEK_MS);
    if too_many {
        return BreakerState::Failed;
    }
    let in_a_row = history.iter().rev().take_while(|(_, accepted)| !accepted).count();
    match history.last() {
        Some((last, false)) if in_a_row >= 4 => {
            let until = Timestamp(*last).plus_ms(HOUR_MS);
            if now < until.0 { BreakerState::Skip(until) } else { BreakerState::Probe }
        }
        _ => BreakerState::Pass,
    }
}

fn policy() -> impl Strategy<Value = RetryPolicy> {
    let backoff = prop::sample::select(&Backoff::ALL[..]);
    (1..=100_u32, backoff, 0..100_000_u64, 0..=WEBHOOK_WAIT_MS_MAX).prop_map(
        |(max_attempts, backoff, base_ms, more)| {
            let max_ms = (base_ms + more).min(WEBHOOK_WAIT_MS_MAX);
            RetryPolicy { max_attempts, backoff, base_ms, max_ms }
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_state_of_the_breaker_follows_from_the_history_of_attempts(steps in steps()) {
        let (mut breaker, mut now, mut history) = (Breaker::default(), Timestamp(0), Vec::new());
        for step in steps {
            now = now.plus_ms(step.after_ms);
            let state = breaker.state_at(now);
            prop_assert_eq!(state, expected(&history, now.0));
            match state {
                BreakerState::Skip(_) | BreakerState::Failed => continue,
                BreakerState::Probe => {
                    breaker.start_probe(now, 5000);
                    prop_assert_eq!(breaker.state_at(now), BreakerState::Skip(now.plus_ms(5000)), "one probe at a time");
                }
                BreakerState::Pass => {}
            }
            if step.accepted { breaker.record_success() } else { breaker.record_failure(now, HOUR_MS) }
            history.push((now.0, step.accepted));
            let stored = serde_json::to_string(&breaker).unwrap();
            breaker = serde_json::from_str(&stored).unwrap();
            prop_assert!(stored.len() < 4096, "the stored breaker stays small");
        }
    }

    #[test]
    fn a_probe_without_a_result_is_repeated_after_its_timeout(wait in 0..10_000_u64) {
        let mut breaker = Breaker::default();
        (0..4).for_each(|_| breaker.record_failure(Timestamp(0), 1000));
        breaker.start_probe(Timestamp(1000), 5000);
        let later = Timestamp(1000).plus_ms(wait);
        prop_assert_eq!(breaker.state_at(later) == BreakerState::Probe, wait >= 5000);
    }

    #[test]
    fn a_delivery_has_as_many_attempts_as_its_policy_allows(
        policy in policy(),
        chances in prop::collection::vec(any::<u64>(), 100),
        retry_after_ms in prop::option::of(any::<u64>()),
    ) {
        prop_assert_eq!(policy.check(), Ok(()));
        let now = Timestamp(0);
        for attempt in 1..=policy.max_attempts {
            let chance = chances[attempt as usize - 1];
            let next = policy.outcome_of_attempt(attempt, DeliveryResponse::Failed { retry_after_ms }, chance, now);
            if attempt == policy.max_attempts {
                prop_assert_eq!(next, DeliveryOutcome::DeadLetter(DeadReason::RetriesExhausted));
                continue;
            }
            let DeliveryOutcome::RetryAt(at) = next else { return Err(TestCaseError::fail("given up too soon")) };
            let ms = u64::try_from(at.0).unwrap();
            let retry_after_ms = retry_after_ms.unwrap_or(0).min(WEBHOOK_WAIT_MS_MAX);
            prop_assert!(ms >= retry_after_ms && ms <= policy.max_ms.max(retry_after_ms));
            let grown = u128::from(policy.base_ms) << (attempt - 1).min(63);
            let full = u64::try_from(grown).unwrap_or(u64::MAX).min(policy.max_ms);
            match policy.backoff {
                Backoff::None => prop_assert_eq!(ms, retry_after_ms),
                Backoff::Fixed => prop_assert_eq!(ms, policy.base_ms.max(retry_after_ms)),
                Backoff::Exponential => prop_assert!(ms >= full.div_ceil(2).max(retry_after_ms) && ms <= full.max(retry_after_ms)),
            }
        }
        prop_assert_eq!(policy.outcome_of_attempt(1, DeliveryResponse::Accepted, 0, now), DeliveryOutcome::Delivered);
        prop_assert_eq!(policy.outcome_of_attempt(1, DeliveryResponse::Gone, 0, now), DeliveryOutcome::DeadLetter(DeadReason::Gone));
    }

    #[test]
    fn only_2xx_is_accepted_and_only_410_is_gone(status in 100..600_u16) {
        let response = DeliveryResponse::of_status(status, Some("7"), Timestamp(0));
        match status {
            200..=299 => prop_assert_eq!(response, DeliveryResponse::Accepted),
            410 => prop_assert_eq!(response, DeliveryResponse::Gone),
            _ => prop_assert_eq!(response, DeliveryResponse::Failed { retry_after_ms: Some(7000) }),
        }
    }
}
