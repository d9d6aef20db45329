//! What happened, in words and numbers, for whoever reads it later.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::check::Findings;
use crate::ledger::Ledger;
use crate::load::{Journal, Outcome};
use crate::nemesis::{Action, Deed};

pub(crate) struct Report<'a> {
    pub seed: u64,
    pub began: Instant,
    pub lasted: Duration,
    pub journal: &'a Journal,
    pub deeds: &'a [Deed],
    pub ledger: &'a Ledger,
    pub findings: &'a Findings,
}

impl Report<'_> {
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut say = |line: String| writeln!(text, "{line}").unwrap();
        say(format!(
            "Three nodes on one PostgreSQL, {} s of load, seed {}",
            self.lasted.as_secs(),
            self.seed
        ));
        self.commands(&mut say);
        self.actions(&mut say);
        let found = self.findings;
        say(format!(
            "runs        {} in all: {} completed, {} cancelled; {} answered only when the load was over",
            found.runs, found.completed, found.cancelled, found.left_over
        ));
        let paid: usize = self.ledger.payments.values().map(Vec::len).sum();
        say(format!(
            "effects     {paid} for {} runs; {} cut off before they were recorded, {} in runs cancelled meanwhile",
            self.ledger.payments.len(),
            found.cut_off,
            found.cancelled_under_way
        ));
        say(format!(
            "take-overs  {} runs were entered by one process and paid by another",
            self.ledger.taken_over()
        ));
        say(format!("wrong       {}", found.wrong.len()));
        found.wrong.iter().take(20).for_each(|what| say(format!("  {what}")));
        text
    }

    fn commands(&self, say: &mut impl FnMut(String)) {
        let runs = self.journal.runs.lock().unwrap();
        let given = || runs.values().flat_map(|known| &known.answers);
        let answers = |outcome: Outcome| given().filter(|one| one.outcome == outcome).count();
        let cancelled = runs.values().filter(|known| known.cancel == Some(Outcome::Acknowledged)).count();
        say(format!(
            "commands    acknowledged: {} starts, {} answers, {cancelled} cancellations; {} answers came too late",
            runs.len(),
            answers(Outcome::Acknowledged),
            answers(Outcome::TooLate)
        ));
        say(format!(
            "            {} runs were answered by two at once; {} requests had no certain outcome",
            self.journal.raced.load(Ordering::Relaxed),
            self.journal.unknown.load(Ordering::Relaxed)
        ));
        let acknowledged = self.journal.acknowledged.lock().unwrap();
        let per_second = acknowledged.len() as f64 / self.lasted.as_secs_f64();
        say(format!("throughput  {per_second:.0} acknowledged commands a second, trouble included"));
        let (gap, at) = self.longest_gap(&acknowledged);
        say(format!(
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

    fn actions(&self, say: &mut impl FnMut(String)) {
        for action in Action::ALL {
            let done: Vec<&Deed> = self.deeds.iter().filter(|deed| deed.action == action).collect();
            let Some(slowest) = done.iter().map(|deed| deed.recovery()).max() else { continue };
            let mut line = format!(
                "action      {action:?} {} times; every node ready again at most {} ms after its end",
                done.len(),
                slowest.as_millis()
            );
            let taken = done.iter().filter_map(|deed| deed.taken_over_after).max();
            if let Some(taken) = taken {
                write!(line, "; its work was taken over after at most {} ms", taken.as_millis()).unwrap();
            }
            say(line);
        }
        for deed in self.deeds {
            let at = deed.at - self.began;
            let mut line = format!(
                "  {:>4} s  {:?} {:?} for {} ms, ready again after {} ms",
                at.as_secs(),
                deed.action,
                deed.pids,
                deed.healed - deed.began,
                deed.recovery().as_millis()
            );
            if let Some(taken) = deed.taken_over_after {
                write!(line, ", taken over after {} ms", taken.as_millis()).unwrap();
            }
            say(line);
        }
    }
}
