//! What waits to be written, and whether a batch is worth a moment's wait for those who will come back to it. Knows
//! nothing of what the jobs are.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;

use super::work::Job;

pub(super) struct Inbox {
    jobs: Receiver<Job>,
    /// The one that was waited for.
    pub(super) first: Option<Job>,
    /// Those that take a transaction of their own.
    pub(super) alone: VecDeque<Job>,
    /// How many may share a transaction.
    pub(super) most: usize,
    patience: Patience,
}

impl Inbox {
    pub(super) fn new(jobs: Receiver<Job>, most: usize) -> Self {
        Self { jobs, first: None, alone: VecDeque::new(), most, patience: Patience::default() }
    }

    /// Waits for the first job of a batch. False when nobody will ever come.
    pub(super) async fn wait(&mut self) -> bool {
        let mut first = Vec::with_capacity(1);
        self.jobs.recv_many(&mut first, 1).await;
        first.pop().map(|job| self.first = Some(job)).is_some()
    }

    /// Everything that waits now and can be written with others joins `together`, up to the most there may be.
    pub(super) fn take(&mut self, together: &mut Vec<Job>) {
        while together.len() + self.alone.len() < self.most {
            let Some(job) = self.first.take().or_else(|| self.jobs.try_recv().ok()) else { return };
            if job.work.flows() { together.push(job) } else { self.alone.push_back(job) }
        }
    }

    /// The same for a batch that is written and could be committed now: those whom the last commit has answered may be
    /// about to come back, and it is cheaper to have them on board than to make a commit for them.
    pub(super) fn take_late(&mut self, together: &mut Vec<Job>) {
        let had = together.len();
        self.take(together);
        let room = self.most.saturating_sub(self.alone.len());
        if together.len() > had || !self.alone.is_empty() || had >= room {
            return;
        }
        let Some(until) = self.patience.begin(had) else { return };
        while together.len() == had && self.alone.is_empty() && Instant::now() < until {
            // Whoever comes needs this core perhaps more than we do.
            std::thread::yield_now();
            self.take(together);
        }
        self.patience.came(together.len() - had);
    }

    /// A batch of so many is on the disk, which took so long, and they are about to be told.
    pub(super) fn committed(&mut self, batch: usize, took: Duration) {
        self.patience.committed(batch + self.jobs.len() + self.alone.len(), took);
    }
}

impl Drop for Inbox {
    /// Drops every job that was or is being sent, which tells its caller that it is not written. A receiver drops only what
    /// it finds when it goes: a job that is sent at that moment would stay in the channel, and its caller would wait for as
    /// long as the committer exists.
    fn drop(&mut self) {
        self.jobs.close();
        loop {
            match self.jobs.try_recv() {
                Ok(_) => {}
                Err(TryRecvError::Disconnected) => return,
                // Its sender has its place and has not put it there yet.
                Err(TryRecvError::Empty) => std::thread::yield_now(),
            }
        }
    }
}

/// A wait is at most this part of what a commit takes, and never longer than the second.
const PART: u32 = 4;
const WAIT_MAX: Duration = Duration::from_millis(1);
/// Where the disk is faster than that, a commit costs less than the wait for it.
const COMMIT_MIN: Duration = Duration::from_micros(80);
/// Commits that go by after waits in vain, before the next one is tried: doubled up to this.
const PASS_MAX: u32 = 256;

/// Learns whether callers come back at once. Those behind a network do not, and then waiting is given up but for a try
/// now and then.
#[derive(Debug, Default)]
struct Patience {
    /// How many the last commit answered or left waiting: as many may be in the next.
    expected: usize,
    took: Duration,
    /// What is left of the time for this batch, once it is being waited for; and how many are missing and how many came.
    until: Option<Instant>,
    missing: usize,
    come: usize,
    /// Commits to pass by, now and after the next wait in vain.
    pass: u32,
    passes: u32,
}

impl Patience {
    /// Until when a batch of `have` is held back; nothing when it is better off at once.
    fn begin(&mut self, have: usize) -> Option<Instant> {
        if have >= self.expected || self.took < COMMIT_MIN {
            return None;
        }
        if self.until.is_none() {
            if self.pass > 0 {
                return None;
            }
            self.until = Some(Instant::now() + (self.took / PART).min(WAIT_MAX));
            self.missing = self.expected - have;
        }
        self.until
    }

    fn came(&mut self, count: usize) {
        self.come += count;
    }

    fn committed(&mut self, expected: usize, took: Duration) {
        if self.until.take().is_none() {
            self.pass = self.pass.saturating_sub(1);
        } else if self.come * 2 >= self.missing {
            self.passes = 0;
        } else {
            self.passes = (self.passes * 2).clamp(1, PASS_MAX);
            self.pass = self.passes;
        }
        (self.missing, self.come) = (0, 0);
        (self.expected, self.took) = (expected, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::committer::work::{Reply, Work};

    fn job() -> (Job, tokio::sync::oneshot::Receiver<Result<Reply, crate::store::Error>>) {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let (work, sizes) = (Work::Rows(Vec::new()), Vec::new());
        (Job { work, receipt: None, writes: Vec::new(), sizes, doubtful: false, reply }, answer)
    }

    #[test]
    fn a_job_that_is_sent_while_the_writer_stops_is_answered() {
        let (sender, jobs) = tokio::sync::mpsc::channel(8);
        let (waiting, of_waiting) = job();
        sender.try_send(waiting).unwrap();
        // The first half of `try_send`; its thread may be stopped in between.
        let place = sender.try_reserve().unwrap();
        let inbox = Inbox::new(jobs, 8);
        let stopping = std::thread::spawn(move || drop(inbox));
        while !sender.is_closed() {
            std::thread::yield_now();
        }
        // The first is dropped by the time the writer has gone through what it found.
        assert!(of_waiting.blocking_recv().is_err());
        let (late, of_late) = job();
        place.send(late);
        stopping.join().unwrap();
        let mut of_late = of_late;
        assert!(matches!(of_late.try_recv(), Err(tokio::sync::oneshot::error::TryRecvError::Closed)));
        assert!(sender.try_send(job().0).is_err());
    }

    const SLOW: Duration = Duration::from_millis(2);

    #[test]
    fn nobody_is_waited_for_who_was_not_there_before() {
        let mut patience = Patience::default();
        assert_eq!(patience.begin(1), None);
        patience.committed(1, SLOW);
        assert_eq!(patience.begin(1), None);
    }

    #[test]
    fn those_who_were_answered_are_waited_for_a_part_of_a_commit() {
        let mut patience = Patience::default();
        patience.committed(16, SLOW);
        let begun = Instant::now();
        let until = patience.begin(10).unwrap();
        assert!(until <= Instant::now() + SLOW / PART && until > begun);
        // Some came: the rest has what is left of the same time.
        patience.came(4);
        assert_eq!(patience.begin(14), Some(until));
        assert_eq!(patience.begin(16), None);
    }

    #[test]
    fn a_fast_disk_is_not_waited_for() {
        let mut patience = Patience::default();
        patience.committed(16, COMMIT_MIN / 2);
        assert_eq!(patience.begin(1), None);
    }

    #[test]
    fn waits_in_vain_become_rare_and_one_that_paid_brings_them_back() {
        let mut patience = Patience::default();
        let mut waits = 0;
        for _ in 0..1000 {
            patience.committed(16, SLOW);
            waits += u32::from(patience.begin(1).is_some());
        }
        assert!((1..=12).contains(&waits), "{waits}");
        while patience.begin(1).is_none() {
            patience.committed(16, SLOW);
        }
        patience.came(15);
        patience.committed(16, SLOW);
        assert!(patience.begin(1).is_some());
    }
}
