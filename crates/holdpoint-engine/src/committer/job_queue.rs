//! The queue of a writer, and the decision whether a batch waits a moment for more jobs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;

use super::work::Job;

/// The jobs that wait for a writer.
pub(super) struct JobQueue {
    jobs: Receiver<Job>,
    /// The job that `wait` has received.
    pub(super) first: Option<Job>,
    /// Jobs that need a transaction of their own.
    pub(super) alone: VecDeque<Job>,
    /// The maximum number of jobs in one transaction.
    pub(super) most: usize,
    delay: BatchDelay,
}

impl JobQueue {
    pub(super) fn new(jobs: Receiver<Job>, most: usize) -> Self {
        Self { jobs, first: None, alone: VecDeque::new(), most, delay: BatchDelay::default() }
    }

    /// Waits for the first job of a batch. Returns false if the queue is closed.
    pub(super) async fn wait(&mut self) -> bool {
        let mut first = Vec::with_capacity(1);
        self.jobs.recv_many(&mut first, 1).await;
        first.pop().map(|job| self.first = Some(job)).is_some()
    }

    /// Moves the queued jobs that can share a transaction to `together`, up to the maximum.
    pub(super) fn take(&mut self, together: &mut Vec<Job>) {
        while together.len() + self.alone.len() < self.most {
            let Some(job) = self.first.take().or_else(|| self.jobs.try_recv().ok()) else { return };
            if job.work.is_batchable() { together.push(job) } else { self.alone.push_back(job) }
        }
    }

    /// Adds jobs to a batch that is ready to commit, and may wait a moment for them: the callers that the last commit
    /// has answered may be about to send their next jobs, and to include these is cheaper than another commit.
    pub(super) fn take_late(&mut self, together: &mut Vec<Job>) {
        let had = together.len();
        self.take(together);
        let room = self.most.saturating_sub(self.alone.len());
        if together.len() > had || !self.alone.is_empty() || had >= room {
            return;
        }
        let Some(until) = self.delay.begin(had) else { return };
        while together.len() == had && self.alone.is_empty() && Instant::now() < until {
            // Lets a caller that is about to send a job use this core.
            std::thread::yield_now();
            self.take(together);
        }
        self.delay.record_arrivals(together.len() - had);
    }

    /// Records a commit: its number of jobs and its duration. Called before the replies are sent.
    pub(super) fn committed(&mut self, batch: usize, took: Duration) {
        self.delay.committed(batch + self.jobs.len() + self.alone.len(), took);
    }
}

impl Drop for JobQueue {
    /// Drops every job that was or is being sent, so that its caller gets an error. A receiver drops only the jobs
    /// that are in the channel at that moment: a job that is being sent would stay in the channel, and its caller
    /// would wait for as long as the committer exists.
    fn drop(&mut self) {
        self.jobs.close();
        loop {
            match self.jobs.try_recv() {
                Ok(_) => {}
                Err(TryRecvError::Disconnected) => return,
                // A sender has reserved a place and not sent its job yet.
                Err(TryRecvError::Empty) => std::thread::yield_now(),
            }
        }
    }
}

/// A batch waits at most the duration of the last commit divided by this.
const WAIT_DIVISOR: u32 = 4;
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_millis(1);
/// With shorter commits than this, another commit costs less than the wait.
const COMMIT_MIN: Duration = Duration::from_micros(80);
/// After a wait in vain, the next commits do not wait: one, and twice as many after each further wait in vain, up to
/// this number.
const SKIP_MAX: u32 = 256;

/// Decides how long a batch waits. It learns whether callers send their next jobs at once. Callers behind a network
/// do not; then batches wait rarely.
#[derive(Debug, Default)]
struct BatchDelay {
    /// Jobs that the last commit answered or left in the queue: the next batch may have as many.
    expected: usize,
    took: Duration,
    /// The end of the wait of this batch.
    until: Option<Instant>,
    /// The number of jobs that were missing when the wait began.
    missing: usize,
    /// The number of jobs that arrived during the wait.
    arrived: usize,
    /// The number of the next commits that do not wait.
    skips_left: u32,
    /// The value of `skips_left` right after the last wait in vain.
    skips: u32,
}

impl BatchDelay {
    /// Returns the time until which a batch of `have` jobs waits; None if it is committed at once.
    fn begin(&mut self, have: usize) -> Option<Instant> {
        if have >= self.expected || self.took < COMMIT_MIN {
            return None;
        }
        if self.until.is_none() {
            if self.skips_left > 0 {
                return None;
            }
            self.until = Some(Instant::now() + (self.took / WAIT_DIVISOR).min(WAIT_MAX));
            self.missing = self.expected - have;
        }
        self.until
    }

    fn record_arrivals(&mut self, count: usize) {
        self.arrived += count;
    }

    fn committed(&mut self, expected: usize, took: Duration) {
        if self.until.take().is_none() {
            self.skips_left = self.skips_left.saturating_sub(1);
        } else if self.arrived * 2 >= self.missing {
            self.skips = 0;
        } else {
            self.skips = (self.skips * 2).clamp(1, SKIP_MAX);
            self.skips_left = self.skips;
        }
        (self.missing, self.arrived) = (0, 0);
        (self.expected, self.took) = (expected, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::committer::work::{CommitReply, Work};

    fn job() -> (Job, tokio::sync::oneshot::Receiver<Result<CommitReply, crate::store::Error>>) {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let (work, sizes) = (Work::Rows(Vec::new()), Vec::new());
        (Job { work, receipt: None, writes: Vec::new(), sizes, outcome_unknown: false, reply }, answer)
    }

    #[test]
    fn a_job_that_is_sent_while_the_writer_stops_gets_an_error() {
        let (sender, jobs) = tokio::sync::mpsc::channel(8);
        let (waiting, of_waiting) = job();
        sender.try_send(waiting).unwrap();
        // The first half of `try_send`; a thread may be interrupted between the halves.
        let place = sender.try_reserve().unwrap();
        let queue = JobQueue::new(jobs, 8);
        let stopping = std::thread::spawn(move || drop(queue));
        while !sender.is_closed() {
            std::thread::yield_now();
        }
        // The queue drops the first job before it waits for the reserved place.
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
    fn a_batch_does_not_wait_for_more_jobs_than_the_last_one_had() {
        let mut delay = BatchDelay::default();
        assert_eq!(delay.begin(1), None);
        delay.committed(1, SLOW);
        assert_eq!(delay.begin(1), None);
    }

    #[test]
    fn a_batch_waits_a_fraction_of_a_commit_for_callers_that_were_answered() {
        let mut delay = BatchDelay::default();
        delay.committed(16, SLOW);
        let begun = Instant::now();
        let until = delay.begin(10).unwrap();
        assert!(until <= Instant::now() + SLOW / WAIT_DIVISOR && until > begun);
        // After some jobs came, the wait ends at the same time as before.
        delay.record_arrivals(4);
        assert_eq!(delay.begin(14), Some(until));
        assert_eq!(delay.begin(16), None);
    }

    #[test]
    fn a_batch_does_not_wait_on_a_fast_disk() {
        let mut delay = BatchDelay::default();
        delay.committed(16, COMMIT_MIN / 2);
        assert_eq!(delay.begin(1), None);
    }

    #[test]
    fn waits_in_vain_become_rare_until_one_succeeds() {
        let mut delay = BatchDelay::default();
        let mut waits = 0;
        for _ in 0..1000 {
            delay.committed(16, SLOW);
            waits += u32::from(delay.begin(1).is_some());
        }
        assert!((1..=12).contains(&waits), "{waits}");
        while delay.begin(1).is_none() {
            delay.committed(16, SLOW);
        }
        delay.record_arrivals(15);
        delay.committed(16, SLOW);
        assert!(delay.begin(1).is_some());
    }
}
