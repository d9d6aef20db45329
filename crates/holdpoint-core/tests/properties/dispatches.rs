//! Whatever holders, interrupts and time do to one dispatch, in whatever order: its row keeps the rules of rows.
//! Does what a store does, which is to look at the status, ask the core, and keep the answer.

use holdpoint_core::mailbox::{
    Fenced, MailboxError, Reclaimed, RunDispatch, RunDispatchResult, RunDispatchStatus, RunStatus,
    TerminationReason,
};
use holdpoint_core::{TenantId, Timestamp};
use proptest::prelude::*;

use crate::config;

/// One thing that happens. Tokens are counted from the newest; one that was never given is a wrong one.
#[derive(Clone, Debug)]
enum Step {
    Tick(u64),
    Claim { lease_ms: u64 },
    Say { age: usize, what: Fenced },
    Cancel,
    Interrupt,
    Reclaim,
    Abandon,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Mostly the holder speaks; now and then somebody with an older token or none.
    let age = prop_oneof![6 => Just(0_usize), 1 => 1..4_usize];
    let step = prop_oneof![
        10 => (0..40_u64).prop_map(Step::Tick),
        20 => (0..60_u64).prop_map(|lease_ms| Step::Claim { lease_ms }),
        40 => (age, words()).prop_map(|(age, what)| Step::Say { age, what }),
        1 => Just(Step::Cancel),
        2 => Just(Step::Interrupt),
        8 => Just(Step::Reclaim),
        4 => Just(Step::Abandon),
    ];
    prop::collection::vec(step, 1..60)
}

fn words() -> impl Strategy<Value = Fenced> {
    let error = || Just("it broke".to_owned());
    prop_oneof![
        4 => Just(Fenced::Touch),
        2 => Just(Fenced::Ack),
        8 => ((0..2000_i64), error()).prop_map(|(at, error)| Fenced::Nack { retry_at: Timestamp(at), error }),
        4 => ((0..2000_i64), error())
            .prop_map(|(at, error)| Fenced::Postpone { retry_at: Timestamp(at), error }),
        1 => error().prop_map(|error| Fenced::DeadLetter { error }),
        8 => Just(Fenced::RecordStart { instance_id: "instance".to_owned() }),
        8 => results().prop_map(Fenced::RecordResult),
        2 => results().prop_map(Fenced::Complete),
        8 => (0..2000_i64).prop_map(|until| Fenced::ExtendLease { until: Timestamp(until) }),
        1 => Just(Fenced::Supersede { reason: "something newer".to_owned() }),
    ]
}

fn results() -> impl Strategy<Value = RunDispatchResult> {
    let termination = prop_oneof![
        Just(None),
        Just(Some(TerminationReason::Suspended)),
        Just(Some(TerminationReason::Error("it rained".to_owned()))),
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

/// A row, its thread's epoch and every token that was ever given for it.
struct Desk {
    row: RunDispatch,
    epoch: u64,
    tokens: Vec<String>,
    now: Timestamp,
}

impl Desk {
    fn new(max_attempts: u32) -> Self {
        let tenant = TenantId::parse("tenant").expect("a tenant id");
        let now = Timestamp(1000);
        let queued = RunDispatch::queued(&tenant, "dispatch", "thread", "run", now);
        Self { row: RunDispatch { max_attempts, ..queued }, epoch: 0, tokens: Vec::new(), now }
    }

    fn make(&mut self, step: &Step) {
        let queued = self.row.status == RunDispatchStatus::Queued;
        match step {
            Step::Tick(ms) => self.now = self.now.plus_ms(*ms),
            Step::Claim { lease_ms } if queued => {
                let token = format!("token {}", self.tokens.len());
                self.tokens.push(token.clone());
                self.keep(self.row.claimed(token, "worker", self.now.plus_ms(*lease_ms), self.now));
            }
            Step::Claim { .. } => {}
            Step::Say { age, what } => self.say(*age, what),
            Step::Cancel => match self.row.cancelled(self.now) {
                Some(cancelled) => self.keep(cancelled),
                None => assert!(!queued, "what is queued can be cancelled"),
            },
            Step::Interrupt => {
                self.epoch += 1;
                if queued {
                    self.keep(self.row.overtaken(self.now));
                }
            }
            Step::Reclaim => {
                let lapsed = self.row.lease_until.is_some_and(|until| until < self.now);
                let reclaimed = self.row.reclaimed(self.epoch, self.now);
                assert_eq!(reclaimed.is_some(), lapsed, "{:?}", self.row);
                self.take_back(reclaimed);
            }
            Step::Abandon if self.row.status == RunDispatchStatus::Claimed => {
                self.take_back(Some(self.row.abandoned("its holder is gone", self.epoch, self.now)));
            }
            Step::Abandon => {}
        }
    }

    fn take_back(&mut self, reclaimed: Option<Reclaimed>) {
        let overtaken = self.row.dispatch_epoch < self.epoch;
        match reclaimed {
            Some(Reclaimed::Returned(row)) => {
                assert!(!overtaken, "an interrupted row goes back to nobody");
                assert_eq!(row.attempt_count, self.row.attempt_count + 1);
                self.keep(row);
            }
            Some(Reclaimed::Superseded(row)) => {
                assert!(overtaken);
                assert_eq!(row.status, RunDispatchStatus::Superseded);
                self.keep(row);
            }
            None => {}
        }
    }

    /// Says something with the newest token, or with an older one, or with one that was never given.
    fn say(&mut self, age: usize, what: &Fenced) {
        let token = self.tokens.iter().rev().nth(age).map_or("never given", String::as_str);
        let holds = self.row.status == RunDispatchStatus::Claimed && age == 0;
        let answer = self.row.fenced(token, what, self.epoch, self.now);
        let Err(denied) = answer else {
            assert!(holds, "{token:?} moved {:?}", self.row);
            let after = answer.expect("it is no error");
            let failed = after.attempt_count - self.row.attempt_count;
            assert_eq!(failed == 1, matches!(what, Fenced::Nack { .. }), "{what:?}");
            let back = matches!(what, Fenced::Postpone { .. }) || after.status == RunDispatchStatus::Queued;
            assert_eq!(back, after.status == RunDispatchStatus::Queued, "{what:?}");
            return self.keep(after);
        };
        match denied.error {
            MailboxError::StaleClaim { status, .. } => {
                assert!(!holds && status == self.row.status);
                assert_eq!(denied.superseded, None, "who does not hold the row does not close it");
            }
            MailboxError::EpochConflict { dispatch_epoch, current_epoch, .. } => {
                assert!(holds && dispatch_epoch < current_epoch);
                let closed = *denied.superseded.expect("it is closed in the same breath");
                assert_eq!(closed.status, RunDispatchStatus::Superseded);
                self.keep(closed);
            }
            MailboxError::Validation(_) => {
                let (Fenced::RecordResult(result) | Fenced::Complete(result)) = what else {
                    panic!("{what:?} cannot be malformed");
                };
                assert!(holds && result.run_id != self.row.run_id);
                assert_eq!(denied.superseded, None);
            }
            other => panic!("{other}"),
        }
    }

    /// What is true of any change, whoever made it.
    fn keep(&mut self, after: RunDispatch) {
        let before = &self.row;
        after.validate().unwrap_or_else(|error| panic!("{error}: {before:?} became {after:?}"));
        assert!(!before.status.is_terminal(), "{before:?} had ended and became {after:?}");
        assert!(after.attempt_count <= after.max_attempts);
        assert!([0, 1].contains(&(after.attempt_count - before.attempt_count)));
        assert!(after.dispatch_epoch >= before.dispatch_epoch && after.dispatch_epoch <= self.epoch);
        assert_eq!(after.updated_at, self.now);
        // A row comes back with an error, and the last failed attempt brings none.
        let came_back = after.status == RunDispatchStatus::Queued;
        assert!(!came_back || after.last_error.is_some());
        assert!(!came_back || after.attempt_count < after.max_attempts);
        assert_eq!(identity(before), identity(&after));
        self.row = after;
    }
}

/// What no operation may change.
fn identity(row: &RunDispatch) -> impl PartialEq + std::fmt::Debug + use<'_> {
    let names = (&row.tenant, &row.dispatch_id, &row.thread_id, &row.run_id);
    (names, row.priority, &row.dedupe_key, row.max_attempts, row.created_at)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_dispatch_keeps_the_rules_of_rows_whatever_happens_to_it(max_attempts in 1..6_u32, steps in steps()) {
        let mut desk = Desk::new(max_attempts);
        for step in &steps {
            desk.make(step);
        }
    }
}
