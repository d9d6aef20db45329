//! The check tried on samples: a run that is right, and one for everything that must be found.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::check::{Findings, OneRun};
use crate::ledger::Line;
use crate::load::{GATE, Given, Known, Outcome};
use crate::nemesis::{Action, Deed};

const STORM: u64 = 1_000_000;

/// A completed run with one answer and one payment, and what its client knows of it.
struct Sample {
    log: Vec<Value>,
    known: Known,
    payments: Vec<Line>,
    deeds: Vec<Deed>,
}

fn event(kind: &str, node: &str, payload: Value) -> Value {
    json!({"type": kind, "nodeId": node, "payload": payload})
}

fn line(nonce: &str, pid: u32, at: u64) -> Line {
    Line { run: "r".to_owned(), nonce: nonce.to_owned(), pid, at }
}

fn given(mark: &str, outcome: Outcome) -> Given {
    Given { mark: mark.to_owned(), by: "ada".to_owned(), outcome }
}

fn deed(action: Action, pids: &[u32]) -> Deed {
    Deed {
        action,
        began: STORM,
        healed: STORM + 5000,
        ended: STORM + 5100,
        pids: pids.to_vec(),
        taken_over_after: None,
        at: Instant::now(),
    }
}

impl Sample {
    fn right() -> Self {
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
        let known = Known { answers: vec![given("m", Outcome::Acknowledged)], cancel: None };
        Self { log, known, payments: vec![line("n", 1, STORM)], deeds: Vec::new() }.numbered()
    }

    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut sample = Self::right();
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
        let one = OneRun { run: "r", log: &self.log, known: Some(&self.known), deeds: &self.deeds };
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
fn a_run_that_is_right_passes() {
    assert_eq!(Sample::right().wrong(), [""; 0]);
    let late = Sample::with(|sample| sample.known.answers.push(given("other", Outcome::TooLate)));
    assert_eq!(late.wrong(), [""; 0]);
}

#[test]
fn a_log_that_is_not_right_is_found() {
    let mut gap = Sample::right();
    gap.log.remove(4);
    gap.is_found("gaps");
    Sample::with(|sample| drop(sample.log.pop())).is_found("does not end once");
    Sample::with(|sample| sample.log.insert(8, sample.log[8].clone())).is_found("rest completed 2 times");
    Sample::with(|sample| sample.log.insert(5, sample.log[5].clone())).is_found("step.recorded");
    let failed = |sample: &mut Sample| sample.log[10] = event("run.failed", "", json!({}));
    Sample::with(failed).is_found("which nobody commanded");
}

#[test]
fn an_acknowledgement_that_was_not_kept_is_found() {
    let second = given("other", Outcome::Acknowledged);
    Sample::with(|sample| sample.known.answers.push(second.clone())).is_found("another answer");
    Sample::with(|sample| sample.known.answers = vec![second.clone()]).is_found("another answer");
    Sample::with(|sample| sample.known.answers.clear()).is_found("nobody gave");
    Sample::with(|sample| sample.log.insert(3, sample.log[3].clone())).is_found("answered twice");
    let cancelled = Some(Outcome::Acknowledged);
    Sample::with(|sample| sample.known.cancel = cancelled).is_found("cancellation was acknowledged");
}

#[test]
fn a_payment_too_many_needs_a_reason() {
    let before = |at: u64, deeds: Vec<Deed>| {
        Sample::with(|sample| {
            sample.payments.insert(0, line("first", 7, at));
            sample.deeds = deeds;
        })
    };
    before(STORM, vec![]).is_found("no reason");
    before(STORM, vec![deed(Action::Kill, &[8])]).is_found("no reason");
    before(STORM - 60_000, vec![deed(Action::Kill, &[7])]).is_found("no reason");
    before(STORM + 60_000, vec![deed(Action::RestartFast, &[])]).is_found("no reason");
    for reason in [deed(Action::Kill, &[7]), deed(Action::Freeze, &[7]), deed(Action::RestartImmediate, &[])]
    {
        assert_eq!(before(STORM - 100, vec![reason]).wrong(), [""; 0]);
    }
    Sample::with(|sample| sample.payments.clear()).is_found("never made");
}

#[test]
fn a_payment_after_the_recorded_one_is_found() {
    let after = |at: u64| {
        Sample::with(|sample| {
            sample.payments.push(line("late", 7, at));
            sample.deeds = vec![deed(Action::Freeze, &[7]), deed(Action::RestartFast, &[])];
        })
    };
    let thawed = STORM + u64::try_from(Duration::from_secs(5).as_millis()).unwrap();
    after(thawed + 1).is_found("paid again after it was recorded");
    assert_eq!(after(STORM + 10).wrong(), [""; 0], "frozen with the pen on the paper");
}
