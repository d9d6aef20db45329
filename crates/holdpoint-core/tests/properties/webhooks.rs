//! Whatever a subscriber does: its circuit follows the numbers, and a delivery is tried as often as its policy says.

use holdpoint_core::Timestamp;
use holdpoint_core::limits::WEBHOOK_WAIT_MS_MAX;
use holdpoint_core::webhook::{
    Backoff, Breaker, DeadReason, FAILURES_MAX, Gate, Next, Reception, RetryPolicy,
};
use proptest::prelude::*;

use crate::config;

const HOUR_MS: u64 = 3_600_000;
const WEEK_MS: i64 = 7 * 24 * 3_600_000;

/// An event comes after so many milliseconds, and the subscriber takes it or not.
#[derive(Clone, Debug)]
struct Step {
    after_ms: u64,
    taken: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let after = prop_oneof![6 => 0..1000_u64, 3 => 0..2 * HOUR_MS, 1 => 0..72 * HOUR_MS];
    let step = (after, prop::bool::weighted(0.3)).prop_map(|(after_ms, taken)| Step { after_ms, taken });
    prop::collection::vec(step, 1..400)
}

/// The same rules, told from the whole history of attempts instead of from counters.
fn expected(history: &[(i64, bool)], now: i64) -> Gate {
    let failures: Vec<i64> = history.iter().filter(|(_, taken)| !taken).map(|(at, _)| *at).collect();
    let crowded = failures.windows(FAILURES_MAX).any(|crowd| crowd[FAILURES_MAX - 1] - crowd[0] < WEEK_MS);
    if crowded {
        return Gate::Failed;
    }
    let in_a_row = history.iter().rev().take_while(|(_, taken)| !taken).count();
    match history.last() {
        Some((last, false)) if in_a_row >= 4 => {
            let until = Timestamp(*last).plus_ms(HOUR_MS);
            if now < until.0 { Gate::Skip(until) } else { Gate::Probe }
        }
        _ => Gate::Pass,
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
    fn a_circuit_opens_probes_closes_and_fails_by_the_numbers(steps in steps()) {
        let (mut breaker, mut now, mut history) = (Breaker::default(), Timestamp(0), Vec::new());
        for step in steps {
            now = now.plus_ms(step.after_ms);
            let gate = breaker.gate(now);
            prop_assert_eq!(gate, expected(&history, now.0));
            match gate {
                Gate::Skip(_) | Gate::Failed => continue,
                Gate::Probe => {
                    breaker.probe(now, 5000);
                    prop_assert_eq!(breaker.gate(now), Gate::Skip(now.plus_ms(5000)), "one probe at a time");
                }
                Gate::Pass => {}
            }
            if step.taken { breaker.succeeded() } else { breaker.failed(now, HOUR_MS) }
            history.push((now.0, step.taken));
            let stored = serde_json::to_string(&breaker).unwrap();
            breaker = serde_json::from_str(&stored).unwrap();
            prop_assert!(stored.len() < 4096, "its row stays small");
        }
    }

    #[test]
    fn a_probe_that_nobody_answers_for_does_not_keep_the_circuit_open(wait in 0..10_000_u64) {
        let mut breaker = Breaker::default();
        (0..4).for_each(|_| breaker.failed(Timestamp(0), 1000));
        breaker.probe(Timestamp(1000), 5000);
        let later = Timestamp(1000).plus_ms(wait);
        prop_assert_eq!(breaker.gate(later) == Gate::Probe, wait >= 5000);
    }

    #[test]
    fn a_delivery_has_as_many_attempts_as_its_policy_says(
        policy in policy(),
        chances in prop::collection::vec(any::<u64>(), 100),
        asked in prop::option::of(any::<u64>()),
    ) {
        prop_assert_eq!(policy.check(), Ok(()));
        let now = Timestamp(0);
        for attempt in 1..=policy.max_attempts {
            let chance = chances[attempt as usize - 1];
            let next = policy.next(attempt, Reception::Failed { retry_after_ms: asked }, chance, now);
            if attempt == policy.max_attempts {
                prop_assert_eq!(next, Next::DeadLetter(DeadReason::RetriesExhausted));
                continue;
            }
            let Next::RetryAt(at) = next else { return Err(TestCaseError::fail("given up too soon")) };
            let ms = u64::try_from(at.0).unwrap();
            let asked = asked.unwrap_or(0).min(WEBHOOK_WAIT_MS_MAX);
            prop_assert!(ms >= asked && ms <= policy.max_ms.max(asked));
            let grown = u128::from(policy.base_ms) << (attempt - 1).min(63);
            let full = u64::try_from(grown).unwrap_or(u64::MAX).min(policy.max_ms);
            match policy.backoff {
                Backoff::None => prop_assert_eq!(ms, asked),
                Backoff::Fixed => prop_assert_eq!(ms, policy.base_ms.max(asked)),
                Backoff::Exponential => prop_assert!(ms >= full.div_ceil(2).max(asked) && ms <= full.max(asked)),
            }
        }
        prop_assert_eq!(policy.next(1, Reception::Taken, 0, now), Next::Delivered);
        prop_assert_eq!(policy.next(1, Reception::Gone, 0, now), Next::DeadLetter(DeadReason::Gone));
    }

    #[test]
    fn only_2xx_is_taken_and_only_410_is_gone(status in 100..600_u16) {
        let reception = Reception::of_status(status, Some("7"), Timestamp(0));
        match status {
            200..=299 => prop_assert_eq!(reception, Reception::Taken),
            410 => prop_assert_eq!(reception, Reception::Gone),
            _ => prop_assert_eq!(reception, Reception::Failed { retry_after_ms: Some(7000) }),
        }
    }
}
