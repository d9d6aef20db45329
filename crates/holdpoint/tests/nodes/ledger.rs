//! Reads the file of effects that the nodes write: one line for each start of a `test.ledger` node and each payment.

use std::collections::BTreeMap;
use std::path::Path;

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub run: String,
    pub nonce: String,
    pub pid: u32,
    /// Unix milliseconds at which the process began to write this line.
    pub at: u64,
}

/// Lines in the order in which they were written.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub entries: BTreeMap<String, Vec<Line>>,
    pub payments: BTreeMap<String, Vec<Line>>,
}

impl Ledger {
    pub(crate) fn read(path: &Path) -> Self {
        let mut ledger = Self::default();
        // The file is missing until the first line is written.
        for text in std::fs::read_to_string(path).unwrap_or_default().lines() {
            let fields: Vec<&str> = text.split(' ').collect();
            let [run, _node, what, nonce, pid, at] = fields[..] else { panic!("a torn line: {text:?}") };
            let line = Line {
                run: run.to_owned(),
                nonce: nonce.to_owned(),
                pid: pid.parse().unwrap(),
                at: at.parse().unwrap(),
            };
            let lines = if what == "pay" { &mut ledger.payments } else { &mut ledger.entries };
            lines.entry(line.run.clone()).or_default().push(line);
        }
        ledger
    }

    pub(crate) fn payments_of(&self, run: &str) -> &[Line] {
        self.payments.get(run).map_or(&[], Vec::as_slice)
    }

    /// Returns the runs that this process has entered since that instant and that no process has paid for.
    pub(crate) fn in_flight(&self, pid: u32, since: u64) -> Vec<String> {
        let entries = self.entries.values().filter_map(|lines| lines.last());
        let entered = entries.filter(|line| line.pid == pid && line.at >= since);
        let unpaid = entered.filter(|line| self.payments_of(&line.run).is_empty());
        unpaid.map(|line| line.run.clone()).collect()
    }

    /// Returns the number of runs that one process entered and another paid for.
    pub(crate) fn taken_over(&self) -> usize {
        let paid = self.payments.iter().filter_map(|(run, lines)| Some((run, lines.last()?.pid)));
        paid.filter(|(run, pid)| self.entries[*run].iter().any(|line| line.pid != *pid)).count()
    }
}
