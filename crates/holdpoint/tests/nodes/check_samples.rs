//! Tests of the check: a correct run passes, and each kind of violation is found.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::check::{Findings, RunCheck};
use crate::ledger::Line;
use crate::load::{GATE, KnownRun, Outcome, SentAnswer};
use crate::nemesis::{Action, Fault};

const FAULT_AT: u64 = 1_000_000;

/// A completed run with one answer and one payment, and the record of its client.
struct Sample {
    log: Vec<Value>,
    known: KnownRun,
    payments: Vec<Line>,
    faults: Vec<Fault>,
}

fn event(kind: &str, node: &str, payload: Value) -> Value {
    json!({"type": kind, "nodeId": node, "payload": payload})
}

fn line(nonce: &str, pid: u32, at: u64) -> Line {
    Line { run: "r".to_owned(), nonce: nonce.to_owned(), pid, at }
}

fn given(mark: &str, outcome: Outcome) -> SentAnswer {
    SentAnswer { mark: mark.to_owned(), by: "ada".to_owned(), outcome }
}

fn fault(action: Action, pids: &[u32]) -> Fault {
    Fault {
        action,
        began: FAULT_AT,
        healed: FAULT_AT + 5000,
        ended: FAULT_AT + 5100,
        pids: pids.to_vec(),
        taken_over_after: None,
        at: Instant::now(),
    }
}

impl Sample {
    fn correct() -> Self {
        let done = |node: &str| event("node.completed", node, json!({"outputs": {}}));
        let log = vec![
            event("run.started", "", json!({})),
            done("before"),
            event("interrupt.requested", GATE, json!({})),
            event("interrupt.resolved", GATE, json!({"resumeValue": {"comment": "m"}, "resolvedBy": "ada"})),
            done(GATE),
            event("holdpoint.step.recorded", "pay", json!({})),
            event("node.completed", "pay", json!({"outputs": {"nonce": "n"}})),
            event("holdpoint.sleep.ended", "rest", json!({})),
            done("rest"),
            done("after"),
            event("run.completed", "", json!({})),
        ];
        let known = KnownRun { answers: vec![given("m", Outcome::Acknowledged)], cancel: None };
        Self { log, known, payments: vec![line("n", 1, FAULT_AT)], faults: Vec::new() }.numbered()
    }

    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut sample = Self::correct();
        change(&mut sample);
        sample.numbered()
    }

    fn numbered(mut self) -> Self {
        for (at, event) in self.log.iter_mut().enumerate() {
            event["sequence"] = json!(at);
        }
        self
    }

    fn wrong(&self) -> Vec<String> {
        let mut findings = Findings::default();
        let one = RunCheck { run: "r", log: &self.log, known: Some(&self.known), faults: &self.faults };
        one.check(&self.payments, &mut findings);
        findings.wrong
    }

    #[track_caller]
    fn is_found(&self, what: &str) {
        let wrong = self.wrong();
        assert!(wrong.iter().any(|line| line.contains(what)), "{what:?} is not in {wrong:?}");
    }
}

#[test]
fn a_correct_run_passes_the_check() {
    assert_eq!(Sample::correct().wrong(), [""; 0]);
    let late = Sample::with(|sample| sample.known.answers.push(given("other", Outcome::TooLate)));
    assert_eq!(late.wrong(), [""; 0]);
}

#[test]
fn a_wrong_log_is_found() {
    let mut gap = Sample::correct();
    gap.log.remove(4);
    gap.is_found("gaps");
    Sample::with(|sample| drop(sample.log.pop())).is_found("does not end once");
    Sample::with(|sample| sample.log.insert(8, sample.log[8].clone())).is_found("rest completed 2 times");
    Sample::with(|sample| sample.log.insert(5, sample.log[5].clone())).is_found("step.recorded");
    let failed = |sample: &mut Sample| sample.log[10] = event("run.failed", "", json!({}));
    Sample::with(failed).is_found("which no client commanded");
}

#[test]
fn a_lost_acknowledged_command_is_found() {
    let second = given("other", Outcome::Acknowledged);
    Sample::with(|sample| sample.known.answers.push(second.clone())).is_found("another answer");
    Sample::with(|sample| sample.known.answers = vec![second.clone()]).is_found("another answer");
    Sample::with(|sample| sample.known.answers.clear()).is_found("no client sent");
    Sample::with(|sample| sample.log.insert(3, sample.log[3].clone())).is_found("answered twice");
    let cancelled = Some(Outcome::Acknowledged);
    Sample::with(|sample| sample.known.cancel = cancelled).is_found("cancellation was acknowledged");
}

#[test]
fn an_unrecorded_payment_needs_a_fault_that_explains_it() {
    let before = |at: u64, faults: Vec<Fault>| {
        Sample::with(|sample| {
            sample.payments.insert(0, line("first", 7, at));
            sample.faults = faults;
        })
    };
    before(FAULT_AT, vec![]).is_found("no reason");
    before(FAULT_AT, vec![fault(Action::Kill, &[8])]).is_found("no reason");
    before(FAULT_AT - 60_000, vec![fault(Action::Kill, &[7])]).is_found("no reason");
    before(FAULT_AT + 60_000, vec![fault(Action::RestartFast, &[])]).is_found("no reason");
    for reason in
        [fault(Action::Kill, &[7]), fault(Action::Freeze, &[7]), fault(Action::RestartImmediate, &[])]
    {
        assert_eq!(before(FAULT_AT - 100, vec![reason]).wrong(), [""; 0]);
    }
    Sample::with(|sample| sample.payments.clear()).is_found("never made");
}

#[test]
fn a_payment_after_the_recorded_one_is_found() {
    let after = |at: u64| {
        Sample::with(|sample| {
            sample.payments.push(line("late", 7, at));
            sample.faults = vec![fault(Action::Freeze, &[7]), fault(Action::RestartFast, &[])];
        })
    };
    let thawed = FAULT_AT + u64::try_from(Duration::from_secs(5).as_millis()).unwrap();
    after(thawed + 1).is_found("paid again after it was recorded");
    assert_eq!(after(FAULT_AT + 10).wrong(), [""; 0], "the process was frozen during the payment");
}
