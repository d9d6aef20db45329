//! The report of a chaos test: commands, faults, recovery times and violations.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::check::Findings;
use crate::ledger::Ledger;
use crate::load::{Journal, Outcome};
use crate::nemesis::{Action, Fault};

pub(crate) struct Report<'a> {
    pub seed: u64,
    pub began: Instant,
    pub lasted: Duration,
    pub journal: &'a Journal,
    pub faults: &'a [Fault],
    pub ledger: &'a Ledger,
    pub findings: &'a Findings,
}

impl Report<'_> {
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut add = |line: String| writeln!(text, "{line}").unwrap();
        add(format!(
            "Three nodes on one PostgreSQL, {} s of load, seed {}",
            self.lasted.as_secs(),
            self.seed
        ));
        self.commands(&mut add);
        self.actions(&mut add);
        let found = self.findings;
        add(format!(
            "runs        {} in all: {} completed, {} cancelled; {} answered only when the load was over",
            found.runs, found.completed, found.cancelled, found.left_over
        ));
        let paid: usize = self.ledger.payments.values().map(Vec::len).sum();
        add(format!(
            "effects     {paid} for {} runs; {} cut off before they were recorded, {} in runs cancelled meanwhile",
            self.ledger.payments.len(),
            found.cut_off,
            found.cancelled_under_way
        ));
        add(format!(
            "take-overs  {} runs were entered by one process and paid by another",
            self.ledger.taken_over()
        ));
        add(format!("wrong       {}", found.wrong.len()));
        found.wrong.iter().take(20).for_each(|what| add(format!("  {what}")));
        text
    }

    fn commands(&self, add: &mut impl FnMut(String)) {
        let runs = self.journal.runs.lock().unwrap();
        let given = || runs.values().flat_map(|known| &known.answers);
        let answers = |outcome: Outcome| given().filter(|one| one.outcome == outcome).count();
        let cancelled = runs.values().filter(|known| known.cancel == Some(Outcome::Acknowledged)).count();
        add(format!(
            "commands    acknowledged: {} starts, {} answers, {cancelled} cancellations; {} answers came too late",
            runs.len(),
            answers(Outcome::Acknowledged),
            answers(Outcome::TooLate)
        ));
        add(format!(
            "            {} runs were answered by two at once; {} requests had no certain outcome",
            self.journal.raced.load(Ordering::Relaxed),
            self.journal.unknown.load(Ordering::Relaxed)
        ));
        let acknowledged = self.journal.acknowledged.lock().unwrap();
        let per_second = acknowledged.len() as f64 / self.lasted.as_secs_f64();
        add(format!("throughput  {per_second:.0} acknowledged commands a second, faults included"));
        let (gap, at) = self.longest_gap(&acknowledged);
        add(format!(
            "silence     at most {} ms without any acknowledgement, {} s after the start",
            gap.as_millis(),
            at.as_secs()
        ));
    }

    fn longest_gap(&self, acknowledged: &[Instant]) -> (Duration, Duration) {
        let mut instants = acknowledged.to_vec();
        instants.push(self.began);
        instants.sort();
        let gaps = instants.windows(2).map(|pair| (pair[1] - pair[0], pair[0] - self.began));
        gaps.max().unwrap_or_default()
    }

    fn actions(&self, add: &mut impl FnMut(String)) {
        for action in Action::ALL {
            let done: Vec<&Fault> = self.faults.iter().filter(|fault| fault.action == action).collect();
            let Some(slowest) = done.iter().map(|fault| fault.recovery()).max() else { continue };
            let mut line = format!(
                "action      {action:?} {} times; every node ready again at most {} ms after its end",
                done.len(),
                slowest.as_millis()
            );
            let taken = done.iter().filter_map(|fault| fault.taken_over_after).max();
            if let Some(taken) = taken {
                write!(line, "; its work was taken over after at most {} ms", taken.as_millis()).unwrap();
            }
            add(line);
        }
        for fault in self.faults {
            let at = fault.at - self.began;
            let mut line = format!(
                "  {:>4} s  {:?} {:?} for {} ms, ready again after {} ms",
                at.as_secs(),
                fault.action,
                fault.pids,
                fault.healed - fault.began,
                fault.recovery().as_millis()
            );
            if let Some(taken) = fault.taken_over_after {
                write!(line, ", taken over after {} ms", taken.as_millis()).unwrap();
            }
            add(line);
        }
    }
}
