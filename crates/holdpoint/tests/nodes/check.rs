//! Checks every run after the load: its log against the responses that its clients got and against the payments in the
//! ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::Client;
use crate::ledger::{Ledger, Line};
use crate::load::{GATE, KnownRun, Outcome};
use crate::nemesis::{Action, Fault};
use crate::node::{LEASE, until};

const SETTLED_MAX: Duration = Duration::from_secs(120);
const READERS: usize = 4;
/// A payment is recorded within this time, in milliseconds, unless a fault delays it.
const RECORD_MS_MAX: u64 = 2000;

/// The result of the check: counts and violations.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub runs: usize,
    pub completed: usize,
    pub cancelled: usize,
    /// Runs without an answer when the load ended.
    pub left_over: usize,
    /// Payments that were not recorded because their process was killed, frozen or cut off from the database.
    pub cut_off: usize,
    /// Payments of a cancelled run that came too late to be recorded.
    pub cancelled_under_way: usize,
    pub wrong: Vec<String>,
}

/// Answers the interrupts that are still open and waits until every run has ended. Returns the number of those runs.
pub(crate) fn settle(clients: &[Client]) -> Result<usize, String> {
    let mut left_over = BTreeSet::new();
    let mut open = Vec::new();
    let settled = until(SETTLED_MAX, || {
        open = unfinished(&clients[0]);
        for (run, status) in &open {
            if status == "waiting-approval" {
                left_over.insert(run.clone());
                let answer = json!({"action": "accept", "comment": LEFT_OVER});
                clients[left_over.len() % clients.len()].answer(run, GATE, &answer);
            }
        }
        open.is_empty()
    });
    match settled {
        Some(_) => Ok(left_over.len()),
        None => Err(format!("{} runs are stuck: {:?}", open.len(), &open[..open.len().min(5)])),
    }
}

/// The answer that is given when the load is over.
const LEFT_OVER: &str = "left over";

/// Runs that have not ended, with their status.
fn unfinished(client: &Client) -> Vec<(String, String)> {
    let open = ["pending", "running", "waiting-approval"];
    open.iter().flat_map(|status| runs(client, &format!("&status={status}"))).collect()
}

fn runs(client: &Client, filter: &str) -> BTreeMap<String, String> {
    let (mut runs, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/runs?limit=200{filter}{cursor}")).body;
        for run in page["runs"].as_array().unwrap_or_else(|| panic!("{page:?}")) {
            runs.insert(text(&run["runId"]), text(&run["status"]));
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return runs,
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Checks every run of the database. The runs are read from all nodes in turn.
pub(crate) fn check(
    clients: &[Client],
    known: &BTreeMap<String, KnownRun>,
    ledger: &Ledger,
    faults: &[Fault],
) -> Findings {
    let runs: Vec<String> = runs(&clients[0], "").into_keys().collect();
    let there: BTreeSet<&String> = runs.iter().collect();
    let mut findings = Findings { runs: runs.len(), ..Findings::default() };
    for run in known.keys().filter(|run| !there.contains(run)) {
        findings.wrong.push(format!("{run} was acknowledged and is missing"));
    }
    for run in ledger.payments.keys().filter(|run| !there.contains(run)) {
        findings.wrong.push(format!("{run} was paid for and is missing"));
    }
    let shared = Mutex::new(findings);
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            let (runs, shared) = (&runs, &shared);
            scope.spawn(move || {
                for (index, run) in runs.iter().enumerate().skip(reader).step_by(READERS) {
                    let log = clients[index % clients.len()].events(run);
                    let one = RunCheck { run, log: &log, known: known.get(run), faults };
                    one.check(ledger.payments_of(run), &mut shared.lock().unwrap());
                }
            });
        }
    });
    shared.into_inner().unwrap()
}

pub(crate) struct RunCheck<'a> {
    pub run: &'a str,
    pub log: &'a [Value],
    /// `None` if the start was never acknowledged.
    pub known: Option<&'a KnownRun>,
    pub faults: &'a [Fault],
}

impl RunCheck<'_> {
    pub(crate) fn check(&self, payments: &[Line], findings: &mut Findings) {
        let mut wrong = Vec::new();
        if !self.log.iter().enumerate().all(|(at, event)| event["sequence"] == at) {
            wrong.push("its log has gaps".to_owned());
        }
        for kind in ["run.started", "interrupt.requested"] {
            if self.count(kind) != 1 {
                wrong.push(format!("{} times {kind}", self.count(kind)));
            }
        }
        let ending = self.log.last().map(|event| text(&event["type"])).unwrap_or_default();
        let endings = ["run.completed", "run.cancelled", "run.failed"];
        if endings.iter().map(|kind| self.count(kind)).sum::<usize>() != 1 {
            wrong.push("it does not end once".to_owned());
        }
        match ending.as_str() {
            "run.completed" => {
                findings.completed += 1;
                self.check_completed(&mut wrong);
            }
            "run.cancelled" if self.known.is_some_and(|known| known.cancel.is_some()) => {
                findings.cancelled += 1;
            }
            other => wrong.push(format!("it ends with {other:?}, which no client commanded")),
        }
        self.check_answers(&mut wrong);
        self.check_payments(payments, findings, &mut wrong);
        findings.wrong.extend(wrong.into_iter().map(|what| format!("{}: {what}: {:?}", self.run, self.log)));
    }

    fn count(&self, kind: &str) -> usize {
        self.log.iter().filter(|event| event["type"] == kind).count()
    }

    fn check_completed(&self, wrong: &mut Vec<String>) {
        for node in ["before", GATE, "pay", "rest", "after"] {
            let ended = |event: &&Value| event["type"] == "node.completed" && event["nodeId"] == node;
            let times = self.log.iter().filter(ended).count();
            if times != 1 {
                wrong.push(format!("{node} completed {times} times"));
            }
        }
        for (kind, times) in
            [("interrupt.resolved", 1), ("holdpoint.step.recorded", 1), ("holdpoint.sleep.ended", 1)]
        {
            if self.count(kind) != times {
                wrong.push(format!("{} times {kind}", self.count(kind)));
            }
        }
        if self.known.is_some_and(|known| known.cancel == Some(Outcome::Acknowledged)) {
            wrong.push("its cancellation was acknowledged".to_owned());
        }
    }

    /// Checks that the recorded answer is the acknowledged one, and that no other answer was acknowledged.
    fn check_answers(&self, wrong: &mut Vec<String>) {
        let mut resolved = self.log.iter().filter(|event| event["type"] == "interrupt.resolved");
        let recorded = resolved.next().map(|event| &event["payload"]);
        if resolved.next().is_some() {
            wrong.push("it was answered twice".to_owned());
        }
        let given = self.known.map_or(&[][..], |known| &known.answers);
        for one in given.iter().filter(|one| one.outcome == Outcome::Acknowledged) {
            let is_it = recorded.is_some_and(|payload| {
                payload["resumeValue"]["comment"] == one.mark.as_str()
                    && payload["resolvedBy"] == one.by.as_str()
            });
            if !is_it {
                wrong.push(format!("another answer than the acknowledged {one:?} is recorded"));
            }
        }
        let Some(recorded) = recorded else {
            if given.iter().any(|one| one.outcome == Outcome::TooLate) && self.count("run.cancelled") == 0 {
                wrong.push("an answer was too late, and no answer is recorded".to_owned());
            }
            return;
        };
        let mark = &recorded["resumeValue"]["comment"];
        if *mark != LEFT_OVER && !given.iter().any(|one| *mark == one.mark.as_str()) {
            wrong.push("no client sent the recorded answer".to_owned());
        }
    }

    /// Checks that one payment is recorded, that none came after it, and that a fault explains every other one.
    fn check_payments(&self, payments: &[Line], findings: &mut Findings, wrong: &mut Vec<String>) {
        let paid =
            self.log.iter().find(|event| event["type"] == "node.completed" && event["nodeId"] == "pay");
        let nonce = paid.map(|event| text(&event["payload"]["outputs"]["nonce"]));
        let recorded = match &nonce {
            Some(nonce) => payments.iter().position(|line| line.nonce == *nonce),
            // Cancelled. A payment that came last may be recorded, or came too late because of that.
            None => payments.len().checked_sub(1),
        };
        let Some(recorded) = recorded else {
            if nonce.is_some() {
                wrong.push(format!("the recorded payment was never made: {payments:?}"));
            }
            return;
        };
        if nonce.is_none() && self.count("holdpoint.step.recorded") == 0 {
            findings.cancelled_under_way += 1;
        }
        for line in &payments[..recorded] {
            findings.cut_off += 1;
            if !self.faults.iter().any(|fault| explains(fault, line)) {
                wrong.push(format!("no reason to pay again after {line:?}: {payments:?}"));
            }
        }
        for line in &payments[recorded + 1..] {
            findings.cut_off += 1;
            if !self.faults.iter().any(|fault| was_caught_paying(fault, line)) {
                wrong.push(format!("paid again after it was recorded: {line:?}: {payments:?}"));
            }
        }
    }
}

/// Returns true if this fault can have prevented the record of a payment.
fn explains(fault: &Fault, line: &Line) -> bool {
    let from = fault.began.saturating_sub(RECORD_MS_MAX);
    let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
    match fault.action {
        Action::Kill | Action::KillTwo | Action::KillAll | Action::Freeze => {
            fault.pids.contains(&line.pid) && (from..=fault.healed).contains(&line.at)
        }
        Action::RestartFast | Action::RestartImmediate => {
            (from..=fault.ended + lease_ms + RECORD_MS_MAX).contains(&line.at)
        }
    }
}

/// Returns true if the process was frozen between the decision to pay and the payment, which no check can prevent. A
/// process that decides to pay after it was thawed must find out first that its lease has expired.
fn was_caught_paying(fault: &Fault, line: &Line) -> bool {
    fault.action == Action::Freeze
        && fault.pids.contains(&line.pid)
        && (fault.began..fault.healed).contains(&line.at)
}
