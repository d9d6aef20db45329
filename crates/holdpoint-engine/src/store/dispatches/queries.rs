//! The statements of transactions on the two tables. They lock rows; the core decides which changes are allowed.

/// The columns of a dispatch `d` with its thread `t` that `read` needs.
macro_rules! columns {
    () => {
        "d.seq, COALESCE(t.epoch, 0) AS epoch, d.tenant_id, d.dispatch_id, d.thread_id, d.run_id, d.priority, \
         d.dedupe_key, d.dispatch_epoch, d.status, d.available_ms, d.attempt_count, d.max_attempts, d.last_error, \
         d.claim_token, d.claimed_by, d.lease_until_ms, d.instance_id, d.run_status, d.termination, d.run_response, \
         d.run_error, d.completed_ms, d.created_ms, d.updated_ms"
    };
}
macro_rules! dispatches {
    () => {
        "dispatches d LEFT JOIN threads t ON t.tenant_id = d.tenant_id AND t.thread_id = d.thread_id"
    };
}
pub(super) use {columns, dispatches};

/// The condition that the thread of `d` has no claimed dispatch.
macro_rules! thread_is_free {
    () => {
        "NOT EXISTS (SELECT 1 FROM dispatches c
            WHERE c.tenant_id = d.tenant_id AND c.thread_id = d.thread_id AND c.status = 'claimed')"
    };
}

/// The condition that `d` is the first dispatch of its thread that is available at `$now`.
macro_rules! first_in_thread {
    ($now:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM dispatches e
            WHERE e.tenant_id = d.tenant_id AND e.thread_id = d.thread_id AND e.status = 'queued'
            AND e.available_ms <= ",
            $now,
            " AND (e.priority, e.created_ms, e.seq) < (d.priority, d.created_ms, d.seq))"
        )
    };
}

/// Selects the dispatches of a thread that are available at $3, if the thread has no claimed dispatch.
macro_rules! available_of_free_thread {
    () => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM ",
            dispatches!(),
            " WHERE d.tenant_id = $1 AND d.thread_id = $2 AND d.status = 'queued' AND d.available_ms <= $3
            AND d.dispatch_epoch >= COALESCE(t.epoch, 0) AND ",
            thread_is_free!()
        )
    };
}

pub(crate) const INSERT: &str =
    "INSERT INTO dispatches (tenant_id, dispatch_id, thread_id, run_id, priority, \
    dedupe_key, dispatch_epoch, status, available_ms, attempt_count, max_attempts, last_error, instance_id, \
    run_status, termination, run_response, run_error, completed_ms, created_ms, updated_ms, claim_token, \
    claimed_by, lease_until_ms)
    VALUES ($1, $2, $3, $4, $5, $6, \
    COALESCE((SELECT epoch FROM threads WHERE tenant_id = $1 AND thread_id = $3), 0), \
    $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)";
pub(crate) const UPDATE: &str = "UPDATE dispatches SET dispatch_epoch = $1, status = $2, available_ms = $3, \
    attempt_count = $4, last_error = $5, claim_token = $6, claimed_by = $7, lease_until_ms = $8, instance_id = $9, \
    run_status = $10, termination = $11, run_response = $12, run_error = $13, completed_ms = $14, updated_ms = $15, \
    unreconciled = $16
    WHERE dispatch_id = $17 AND status = $18 AND COALESCE(claim_token, '') = $19";
/// Claims a queued row. Like [`ACK`], a short statement for the most frequent updates.
pub(crate) const CLAIM: &str = "UPDATE dispatches SET status = 'claimed', claim_token = $1, claimed_by = $2, \
    lease_until_ms = $3, updated_ms = $4 WHERE seq = $5 AND status = 'queued'";
pub(crate) const ACK: &str =
    "UPDATE dispatches SET status = 'acked', claim_token = NULL, claimed_by = NULL, \
    lease_until_ms = NULL, completed_ms = $1, updated_ms = $2
    WHERE seq = $3 AND status = 'claimed' AND claim_token = $4";
/// Cancels the rows of a run that are delayed beyond $1, except the row $5, which the same transaction changes.
pub(super) const CANCEL_DELAYED: &str =
    "UPDATE dispatches SET status = 'cancelled', completed_ms = $1, updated_ms = $1
    WHERE tenant_id = $2 AND thread_id = $3 AND run_id = $4 AND dispatch_id <> $5 AND status = 'queued'
    AND available_ms > $1";
pub(crate) const RECONCILED: &str = "UPDATE dispatches SET unreconciled = 0 WHERE dispatch_id = $1";

/// Selects a row by its id.
pub(crate) const BY_ID: &str =
    concat!("SELECT ", columns!(), " FROM ", dispatches!(), " WHERE d.dispatch_id = $1");
/// Selects the epoch of the thread of a row. Separate from [`BY_ID`], because a statement that waited for the lock
/// of the row still sees the thread as it was before the wait.
pub(crate) const EPOCH_BY_ID: &str = "SELECT d.dispatch_id, t.epoch FROM dispatches d
    JOIN threads t ON t.tenant_id = d.tenant_id AND t.thread_id = d.thread_id WHERE d.dispatch_id = $1";
/// Selects the live row with a deduplication key.
pub(crate) const BY_LIVE_KEY: &str =
    "SELECT d.tenant_id, d.thread_id, d.dedupe_key, d.dispatch_id FROM dispatches d
    WHERE d.tenant_id = $1 AND d.thread_id = $2 AND d.dedupe_key = $3 AND (d.status = 'queued' OR d.status = 'claimed')";

pub(crate) const ADD_THREAD: &str =
    "INSERT INTO threads (tenant_id, thread_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
pub(crate) const THREAD: &str =
    "SELECT t.tenant_id, t.thread_id, t.epoch FROM threads t WHERE t.tenant_id = $1 AND t.thread_id = $2";
pub(crate) const RAISE_EPOCH: &str =
    "UPDATE threads SET epoch = epoch + 1 WHERE tenant_id = $1 AND thread_id = $2 RETURNING epoch";

/// Returns a row if the thread has a queued or claimed dispatch.
pub(crate) const BUSY_THREAD: &str = "SELECT d.tenant_id, d.thread_id FROM dispatches d
    WHERE d.tenant_id = $1 AND d.thread_id = $2 AND (d.status = 'queued' OR d.status = 'claimed')";

/// Selects the threads with work, the most urgent first. The locks keep other processes from claiming the same
/// work.
pub(crate) const READY_THREADS: &str = concat!(
    "SELECT t.tenant_id, t.thread_id FROM dispatches d
    JOIN threads t ON t.tenant_id = d.tenant_id AND t.thread_id = d.thread_id
    WHERE d.status = 'queued' AND d.available_ms <= $1 AND d.dispatch_epoch >= t.epoch AND ",
    thread_is_free!(),
    " AND ",
    first_in_thread!("$1"),
    " ORDER BY d.priority, d.created_ms, d.seq LIMIT $2"
);
/// Selects the next dispatch of a free thread: the first that is available.
pub(crate) const HEAD: &str = concat!(available_of_free_thread!(), " AND ", first_in_thread!("$3"));
/// Selects the next dispatches of a free thread, up to $4.
pub(crate) const HEADS: &str =
    concat!(available_of_free_thread!(), " ORDER BY d.priority, d.created_ms, d.seq LIMIT $4");
/// Selects the queued rows of a thread that an interrupt supersedes.
pub(crate) const OVERTAKEN: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM ",
    dispatches!(),
    " WHERE d.tenant_id = $1 AND d.thread_id = $2 AND d.status = 'queued' AND d.dispatch_epoch < t.epoch
    ORDER BY d.priority, d.created_ms, d.seq"
);
pub(crate) const ACTIVE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM ",
    dispatches!(),
    " WHERE d.tenant_id = $1 AND d.thread_id = $2 AND d.status = 'claimed'
    ORDER BY d.priority, d.created_ms, d.seq"
);
/// Extends a lease of tenant $5, or of any tenant if $5 is empty. Does not return a claim that is lost or superseded by
/// an interrupt.
pub(crate) const EXTEND: &str = "UPDATE dispatches SET lease_until_ms = $1, updated_ms = $2
    WHERE dispatch_id = $3 AND claim_token = $4 AND ($5 = '' OR tenant_id = $5) AND status = 'claimed'
    AND dispatch_epoch >= COALESCE(
        (SELECT t.epoch FROM threads t WHERE t.tenant_id = dispatches.tenant_id AND t.thread_id = dispatches.thread_id), 0)
    RETURNING dispatch_id, claim_token";
/// Selects claims whose lease expired before $1, the oldest lease first. With $2 = 1, only those with attempts left.
pub(crate) const LAPSED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM ",
    dispatches!(),
    " WHERE d.status = 'claimed' AND d.lease_until_ms < $1 AND ($2 = 0 OR d.attempt_count + 1 < d.max_attempts)
    ORDER BY d.lease_until_ms, d.seq LIMIT $3"
);
/// Selects every claim. For a database that no other process can have open: the workers that held them have ended.
pub(crate) const ALL_CLAIMED: &str =
    concat!("SELECT ", columns!(), " FROM ", dispatches!(), " WHERE d.status = 'claimed' ORDER BY d.seq");
pub(crate) const PURGE: &str = "DELETE FROM dispatches WHERE seq IN (SELECT seq FROM dispatches
    WHERE status <> 'queued' AND status <> 'claimed' AND updated_ms < $1 AND ($2 = 1 OR unreconciled = 0)
    ORDER BY updated_ms LIMIT $3)";
