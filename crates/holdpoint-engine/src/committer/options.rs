//! The options of the committer, and the faults that tests inject.

/// A fault that a test of recovery injects into the n-th try of a writer to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFault {
    /// The writer stops before the commit, as in a crash.
    StopBefore(u64),
    /// The writer stops after the commit and before it replies.
    StopAfter(u64),
    /// The commit fails, as on a full disk. The next one succeeds.
    Fail(u64),
    /// The connection is lost before the commit reaches the database. The writer cannot tell this from
    /// `LoseConnectionAfter`.
    LoseConnectionBefore(u64),
    /// The connection is lost after the database has committed and before its response arrives.
    LoseConnectionAfter(u64),
}

/// Options of the committer for tests and benchmarks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitterOptions {
    pub fault: Option<CommitFault>,
    /// The maximum number of jobs in one transaction.
    pub batch_max: Option<usize>,
}
