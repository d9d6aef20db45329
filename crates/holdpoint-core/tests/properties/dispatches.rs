//! Property of a dispatch: its row stays valid under random sequences of claims, interruptions of its thread and time
//! steps. The test does what a store does: it checks the status, calls the core and stores the result.

use holdpoint_core::mailbox::{
    ClaimAction, MailboxError, ReclaimedDispatch, RunDispatch, RunDispatchResult, RunDispatchStatus,
    RunStatus, TerminationReason,
};
use holdpoint_core::{TenantId, Timestamp};
use proptest::prelude::*;

use crate::config;

/// One operation. `age` counts fencing tokens from the newest; an age without a token stands for an unknown token.
#[derive(Clone, Debug)]
enum Step {
    Tick(u64),
    Claim { lease_ms: u64 },
    Act { age: usize, action: ClaimAction },
    Cancel,
    Interrupt,
    Reclaim,
    Abandon,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Mostly the holder of the claim acts, sometimes a worker with an older or unknown token.
    let age = prop_oneof![6 => Just(0_usize), 1 => 1..4_usize];
    let step = prop_oneof![
        10 => (0..40_u64).prop_map(Step::Tick),
        20 => (0..60_u64).prop_map(|lease_ms| Step::Claim { lease_ms }),
        40 => (age, actions()).prop_map(|(age, action)| Step::Act { age, action }),
        1 => Just(Step::Cancel),
        2 => Just(Step::Interrupt),
        8 => Just(Step::Reclaim),
        4 => Just(Step::Abandon),
    ];
    prop::collection::vec(step, 1..60)
}

fn actions() -> impl Strategy<Value = ClaimAction> {
    let error = || Just("it broke".to_owned());
    prop_oneof![
        4 => Just(ClaimAction::Touch),
        2 => Just(ClaimAction::Ack),
        8 => ((0..2000_i64), error()).prop_map(|(at, error)| ClaimAction::Nack { retry_at: Timestamp(at), error }),
        4 => ((0..2000_i64), error())
            .prop_map(|(at, error)| ClaimAction::Postpone { retry_at: Timestamp(at), error }),
        1 => error().prop_map(|error| ClaimAction::DeadLetter { error }),
        8 => Just(ClaimAction::RecordStart { instance_id: "instance".to_owned() }),
        8 => results().prop_map(ClaimAction::RecordResult),
        2 => results().prop_map(ClaimAction::Complete),
        8 => (0..2000_i64).prop_map(|until| ClaimAction::ExtendLease { until: Timestamp(until) }),
        1 => Just(ClaimAction::Supersede { reason: "a newer dispatch".to_owned() }),
    ]
}

fn results() -> impl Strategy<Value = RunDispatchResult> {
    let termination = prop_oneof![
        Just(None),
        Just(Some(TerminationReason::Suspended)),
        Just(Some(TerminationReason::Error("it failed".to_owned()))),
    ];
    (prop::bool::weighted(0.9), termination, prop::sample::select(&RunStatus::ALL[..])).prop_map(
        |(own, termination, status)| RunDispatchResult {
            run_id: if own { "run" } else { "another run" }.to_owned(),
            dispatch_instance_id: None,
            status,
            termination,
            response: Some("an answer".to_owned()),
            error: None,
        },
    )
}

/// A dispatch row, the epoch of its thread and every fencing token of its claims.
struct DispatchModel {
    row: RunDispatch,
    epoch: u64,
    tokens: Vec<String>,
    now: Timestamp,
}

impl DispatchModel {
    fn new(max_attempts: u32) -> Self {
        let tenant = TenantId::parse("tenant").expect("a tenant id");
        let now = Timestamp(1000);
        let queued = RunDispatch::queued(&tenant, "dispatch", "thread", "run", now);
        Self { row: RunDispatch { max_attempts, ..queued }, epoch: 0, tokens: Vec::new(), now }
    }

    fn execute(&mut self, step: &Step) {
        let queued = self.row.status == RunDispatchStatus::Queued;
        match step {
            Step::Tick(ms) => self.now = self.now.plus_ms(*ms),
            Step::Claim { lease_ms } if queued => {
                let token = format!("token {}", self.tokens.len());
                self.tokens.push(token.clone());
                self.store(self.row.claimed(token, "worker", self.now.plus_ms(*lease_ms), self.now));
            }
            Step::Claim { .. } => {}
            Step::Act { age, action } => self.act(*age, action),
            Step::Cancel => match self.row.cancelled(self.now) {
                Some(cancelled) => self.store(cancelled),
                None => assert!(!queued, "a queued dispatch can be cancelled"),
            },
            Step::Interrupt => {
                self.epoch += 1;
                if queued {
                    self.store(self.row.superseded_by_interrupt(self.now));
                }
            }
            Step::Reclaim => {
                let lapsed = self.row.lease_until.is_some_and(|until| until < self.now);
                let reclaimed = self.row.reclaimed(self.epoch, self.now);
                assert_eq!(reclaimed.is_some(), lapsed, "{:?}", self.row);
                self.store_reclaimed(reclaimed);
            }
            Step::Abandon if self.row.status == RunDispatchStatus::Claimed => {
                self.store_reclaimed(Some(self.row.force_reclaimed(
                    "its holder is gone",
                    self.epoch,
                    self.now,
                )));
            }
            Step::Abandon => {}
        }
    }

    fn store_reclaimed(&mut self, reclaimed: Option<ReclaimedDispatch>) {
        let overtaken = self.row.dispatch_epoch < self.epoch;
        match reclaimed {
            Some(ReclaimedDispatch::Returned(row)) => {
                assert!(!overtaken, "an interrupted dispatch is not queued again");
                assert_eq!(row.attempt_count, self.row.attempt_count + 1);
                self.store(row);
            }
            Some(ReclaimedDispatch::Superseded(row)) => {
                assert!(overtaken);
                assert_eq!(row.status, RunDispatchStatus::Superseded);
                self.store(row);
            }
            None => {}
        }
    }

    /// Applies an action with the newest token, an older token or an unknown token.
    fn act(&mut self, age: usize, action: &ClaimAction) {
        let token = self.tokens.iter().rev().nth(age).map_or("unknown", String::as_str);
        let holds = self.row.status == RunDispatchStatus::Claimed && age == 0;
        let result = self.row.apply_claim_action(token, action, self.epoch, self.now);
        let Err(denied) = result else {
            assert!(holds, "{token:?} moved {:?}", self.row);
            let after = result.expect("it is no error");
            let failed = after.attempt_count - self.row.attempt_count;
            assert_eq!(failed == 1, matches!(action, ClaimAction::Nack { .. }), "{action:?}");
            let back =
                matches!(action, ClaimAction::Postpone { .. }) || after.status == RunDispatchStatus::Queued;
            assert_eq!(back, after.status == RunDispatchStatus::Queued, "{action:?}");
            return self.store(after);
        };
        match denied.error {
            MailboxError::StaleClaim { status, .. } => {
                assert!(!holds && status == self.row.status);
                assert_eq!(denied.superseded, None, "a caller without the claim cannot close the row");
            }
            MailboxError::EpochConflict { dispatch_epoch, current_epoch, .. } => {
                assert!(holds && dispatch_epoch < current_epoch);
                let closed = *denied.superseded.expect("the row is superseded in the same step");
                assert_eq!(closed.status, RunDispatchStatus::Superseded);
                self.store(closed);
            }
            MailboxError::Validation(_) => {
                let (ClaimAction::RecordResult(result) | ClaimAction::Complete(result)) = action else {
                    panic!("{action:?} cannot be malformed");
                };
                assert!(holds && result.run_id != self.row.run_id);
                assert_eq!(denied.superseded, None);
            }
            other => panic!("{other}"),
        }
    }

    /// Stores a row after checks that hold for every change.
    fn store(&mut self, after: RunDispatch) {
        let before = &self.row;
        after.validate().unwrap_or_else(|error| panic!("{error}: {before:?} became {after:?}"));
        assert!(!before.status.is_terminal(), "{before:?} had ended and became {after:?}");
        assert!(after.attempt_count <= after.max_attempts);
        assert!([0, 1].contains(&(after.attempt_count - before.attempt_count)));
        assert!(after.dispatch_epoch >= before.dispatch_epoch && after.dispatch_epoch <= self.epoch);
        assert_eq!(after.updated_at, self.now);
        // A dispatch that is queued again has an error and attempts left.
        let queued_again = after.status == RunDispatchStatus::Queued;
        assert!(!queued_again || after.last_error.is_some());
        assert!(!queued_again || after.attempt_count < after.max_attempts);
        assert_eq!(identity(before), identity(&after));
        self.row = after;
    }
}

/// Returns the columns that no operation may change.
fn identity(row: &RunDispatch) -> impl PartialEq + std::fmt::Debug + use<'_> {
    let names = (&row.tenant, &row.dispatch_id, &row.thread_id, &row.run_id);
    (names, row.priority, &row.dedupe_key, row.max_attempts, row.created_at)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_dispatch_row_stays_valid_under_every_sequence_of_operations(max_attempts in 1..6_u32, steps in steps()) {
        let mut dispatch = DispatchModel::new(max_attempts);
        for step in &steps {
            dispatch.execute(step);
        }
    }
}
