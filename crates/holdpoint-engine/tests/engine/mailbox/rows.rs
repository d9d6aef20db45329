//! Input rows and expected rows. They are built without the transitions of the core, because the transitions are under
//! test.

use holdpoint_engine::core::mailbox::{
    MailboxError, RunDispatch, RunDispatchResult, RunDispatchStatus, RunStatus, TerminationReason,
};
use holdpoint_engine::core::{TenantId, Timestamp};

pub(crate) const CONSUMER: &str = "worker-1";
pub(crate) const LEASE_MS: u64 = 1000;
pub(crate) const UNKNOWN: &str = "unknown dispatch";
pub(crate) const TERMINAL: [RunDispatchStatus; 4] = [
    RunDispatchStatus::Acked,
    RunDispatchStatus::Cancelled,
    RunDispatchStatus::Superseded,
    RunDispatchStatus::DeadLetter,
];

pub(crate) fn tenant() -> TenantId {
    TenantId::parse("default").unwrap()
}

pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp(ms)
}

/// A row of thread `t`, created at 0 and available since 0.
pub(crate) fn queued(id: &str) -> RunDispatch {
    queued_at(id, 0)
}

pub(crate) fn queued_at(id: &str, ms: i64) -> RunDispatch {
    RunDispatch::queued(&tenant(), id, "t", &format!("run of {id}"), at(ms))
}

pub(crate) fn on(thread: &str, row: RunDispatch) -> RunDispatch {
    RunDispatch { thread_id: thread.to_owned(), ..row }
}

pub(crate) fn keyed(key: &str, row: RunDispatch) -> RunDispatch {
    RunDispatch { dedupe_key: Some(key.to_owned()), ..row }
}

pub(crate) fn ids(rows: &[RunDispatch]) -> Vec<&str> {
    rows.iter().map(|row| row.dispatch_id.as_str()).collect()
}

pub(crate) fn token(row: &RunDispatch) -> &str {
    row.claim_token.as_deref().expect("the row is claimed")
}

/// Returns the error of a row. Its text is free, but it must not be empty.
pub(crate) fn reason(row: &RunDispatch) -> Option<String> {
    let error = row.last_error.clone();
    assert!(error.as_ref().is_some_and(|error| !error.trim().is_empty()), "the row has no error: {row:?}");
    error
}

/// The row as claimed at `now`, with the token of `claim`.
pub(crate) fn claimed(row: &RunDispatch, claim: &RunDispatch, now: Timestamp) -> RunDispatch {
    assert!(!token(claim).trim().is_empty());
    RunDispatch {
        status: RunDispatchStatus::Claimed,
        claim_token: claim.claim_token.clone(),
        claimed_by: Some(CONSUMER.to_owned()),
        lease_until: Some(now.plus_ms(LEASE_MS)),
        updated_at: now,
        ..row.clone()
    }
}

pub(crate) fn ended(row: &RunDispatch, status: RunDispatchStatus, now: Timestamp) -> RunDispatch {
    let completed_at = Some(row.completed_at.unwrap_or(now));
    RunDispatch { status, completed_at, updated_at: now, ..free(row) }
}

/// The row as queued again after a failed attempt.
pub(crate) fn failed(
    row: &RunDispatch,
    error: Option<String>,
    retry_at: Timestamp,
    now: Timestamp,
) -> RunDispatch {
    RunDispatch {
        status: RunDispatchStatus::Queued,
        attempt_count: row.attempt_count + 1,
        available_at: retry_at,
        last_error: error,
        updated_at: now,
        ..unprojected(&free(row))
    }
}

/// The row as superseded, with the error of `found`.
pub(crate) fn superseded(row: &RunDispatch, found: &RunDispatch, now: Timestamp) -> RunDispatch {
    let closed = ended(&unprojected(row), RunDispatchStatus::Superseded, now);
    RunDispatch { last_error: reason(found), ..closed }
}

pub(crate) fn started(row: &RunDispatch, instance: &str, now: Timestamp) -> RunDispatch {
    RunDispatch {
        dispatch_instance_id: Some(instance.to_owned()),
        run_status: Some(RunStatus::Running),
        updated_at: now,
        ..unprojected(row)
    }
}

pub(crate) fn resulted(row: &RunDispatch, result: &RunDispatchResult, now: Timestamp) -> RunDispatch {
    RunDispatch {
        dispatch_instance_id: result.dispatch_instance_id.clone(),
        run_status: Some(result.status),
        termination: result.termination.clone(),
        run_response: result.response.clone(),
        run_error: result.error.clone(),
        completed_at: Some(now),
        updated_at: now,
        ..row.clone()
    }
}

/// A result with a value in every field.
pub(crate) fn done(row: &RunDispatch) -> RunDispatchResult {
    RunDispatchResult {
        run_id: row.run_id.clone(),
        dispatch_instance_id: Some("instance-7".to_owned()),
        status: RunStatus::Done,
        termination: Some(TerminationReason::Error("model unavailable".to_owned())),
        response: Some("half an answer".to_owned()),
        error: Some("model unavailable".to_owned()),
    }
}

fn free(row: &RunDispatch) -> RunDispatch {
    RunDispatch { claim_token: None, claimed_by: None, lease_until: None, ..row.clone() }
}

fn unprojected(row: &RunDispatch) -> RunDispatch {
    RunDispatch {
        dispatch_instance_id: None,
        run_status: None,
        termination: None,
        run_response: None,
        run_error: None,
        completed_at: None,
        ..row.clone()
    }
}

pub(crate) fn stale(id: &str, status: RunDispatchStatus) -> MailboxError {
    MailboxError::StaleClaim { dispatch_id: id.to_owned(), status }
}

pub(crate) fn is_validation(error: &MailboxError) -> bool {
    matches!(error, MailboxError::Validation(_))
}

pub(crate) fn is_not_found(error: &MailboxError) -> bool {
    matches!(error, MailboxError::NotFound { id, .. } if id == UNKNOWN)
}
