//! Translates between the mailbox and the documents of the API. Pure functions.

use holdpoint_api::mailbox::{
    DispatchChanged, DispatchCounts, DispatchProjection, DispatchRun, MailboxStats,
};
use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::mailbox::{RunDispatch, RunDispatchStatus};
use holdpoint_core::{Run, Timestamp};
use holdpoint_engine::{DispatchCursor, Error};

use crate::error::ApiError;

/// Describes a dispatch. The fencing token is left out: its holder could write for the worker.
pub(crate) fn describe(row: RunDispatch) -> DispatchChanged {
    DispatchChanged {
        dispatch_id: row.dispatch_id,
        thread_id: row.thread_id,
        run_id: row.run_id,
        status: row.status,
        priority: row.priority,
        dedupe_key: row.dedupe_key,
        dispatch_epoch: row.dispatch_epoch,
        available_at: row.available_at.into(),
        attempt_count: row.attempt_count,
        max_attempts: row.max_attempts,
        last_error: row.last_error,
        claimed_by: row.claimed_by,
        lease_until: row.lease_until.map(Into::into),
        created_at: row.created_at.into(),
        updated_at: row.updated_at.into(),
        projection: DispatchProjection {
            run_status: row.run_status.map(|status| status.as_str().to_owned()),
            termination: row.termination,
            response: row.run_response,
            error: row.run_error,
            instance_id: row.dispatch_instance_id,
            completed_at: row.completed_at.map(Into::into),
        },
    }
}

pub(crate) fn describe_run(run: &Run) -> DispatchRun {
    DispatchRun {
        run_id: run.id.to_string(),
        workflow_id: run.workflow.id.clone(),
        status: run.status().as_str().to_owned(),
        status_url: format!("/v1/runs/{}", run.id),
    }
}

/// Returns the statistics. `counts` are in the order of [`RunDispatchStatus::ALL`].
pub(crate) fn stats(counts: [u64; 6], next_wakeup_at: Option<Timestamp>) -> MailboxStats {
    let [queued, claimed, acked, cancelled, superseded, dead_letter] = counts;
    let counts = DispatchCounts { queued, claimed, acked, cancelled, superseded, dead_letter };
    MailboxStats { counts, next_wakeup_at: next_wakeup_at.map(Into::into) }
}

/// Parses a filter such as `queued,claimed`. Returns None, which means every status, if there is no filter.
pub(crate) fn parse_statuses(text: Option<&str>) -> Result<Option<Vec<RunDispatchStatus>>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let parsed: Option<Vec<_>> = text.split(',').map(|word| RunDispatchStatus::parse(word.trim())).collect();
    parsed.map(Some).ok_or_else(|| {
        let known = RunDispatchStatus::ALL.map(RunDispatchStatus::as_str).join(", ");
        ApiError::invalid("status", format!("must be one or more of {known}, separated by commas"))
    })
}

/// Returns the cursor of a row: its position in the order of claims. Opaque to callers.
pub(crate) fn cursor(at: &DispatchCursor) -> String {
    format!("{}.{}.{}", at.priority, at.created_at.0, at.seq)
}

pub(crate) fn parse_cursor(text: &str) -> Result<DispatchCursor, ApiError> {
    let parsed = || {
        let mut parts = text.split('.');
        let priority = parts.next()?.parse().ok()?;
        let created_at = Timestamp(parts.next()?.parse().ok()?);
        let seq = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(DispatchCursor { priority, created_at, seq })
    };
    parsed().ok_or_else(|| ApiError::invalid("cursor", "is not a cursor of this server"))
}

/// Returns the reason for which a dispatch was not cancelled, and the alternative.
pub(crate) fn not_cancelled(row: &RunDispatch) -> ApiError {
    let (code, message) = match row.status {
        RunDispatchStatus::Claimed => {
            let run = &row.run_id;
            let message =
                format!("a worker is executing this dispatch; cancel its run: POST /v1/runs/{run}/cancel");
            (ErrorCode::DispatchClaimed, message)
        }
        RunDispatchStatus::Acked
        | RunDispatchStatus::Cancelled
        | RunDispatchStatus::Superseded
        | RunDispatchStatus::DeadLetter => {
            let message =
                format!("this dispatch has already ended as {} and cannot be cancelled", row.status.as_str());
            (ErrorCode::DispatchEnded, message)
        }
        // It returned to the queue between the two reads.
        RunDispatchStatus::Queued => return Error::Busy.into(),
    };
    conflict(row, code, message)
}

/// Rejects a dispatch that is not a dead letter: it has ended, or it is tried again automatically.
pub(crate) fn check_dead(row: &RunDispatch) -> Result<(), ApiError> {
    if row.status == RunDispatchStatus::DeadLetter {
        return Ok(());
    }
    let message = match row.status.is_terminal() {
        true => "only dead letters can be requeued; this dispatch has ended without an error",
        false => "only dead letters can be requeued; this dispatch is still in the queue",
    };
    Err(conflict(row, ErrorCode::DispatchNotDead, message))
}

fn conflict(row: &RunDispatch, code: ErrorCode, message: impl Into<String>) -> ApiError {
    let (status, run_id) = (Some(row.status.as_str().into()), Some(row.run_id.clone()));
    ApiError::new(code, message).with(ErrorDetails { status, run_id, ..Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_api::mailbox::Dispatch;
    use holdpoint_core::TenantId;
    use serde_json::json;

    fn row() -> RunDispatch {
        let tenant = TenantId::parse("default").unwrap();
        RunDispatch::queued(&tenant, "d1", "t1", "r1", Timestamp(0))
    }

    #[test]
    fn the_fencing_token_of_a_claim_is_never_shown() {
        let claimed = row().claimed("secret-token".to_owned(), "node-1", Timestamp(30_000), Timestamp(5));
        let shown = serde_json::to_value(describe(claimed)).unwrap();
        assert!(!shown.to_string().contains("secret-token") && shown.get("claimToken").is_none(), "{shown}");
        assert_eq!((&shown["status"], &shown["claimedBy"]), (&json!("claimed"), &json!("node-1")));
        assert_eq!(shown["leaseUntil"], "1970-01-01T00:00:30.000Z");
    }

    #[test]
    fn the_run_and_the_projection_are_always_present() {
        let shown = serde_json::to_value(Dispatch { row: describe(row()), run: None }).unwrap();
        assert_eq!((&shown["status"], &shown["run"]), (&json!("queued"), &json!(null)));
        let members = ["runStatus", "termination", "response", "error", "instanceId", "completedAt"];
        let projection = shown["projection"].as_object().unwrap();
        assert!(members.iter().all(|name| projection[*name].is_null()), "{shown}");
    }

    #[test]
    fn a_cursor_is_parsed_as_it_was_written_and_other_texts_are_rejected() {
        let at = DispatchCursor { priority: 255, created_at: Timestamp(-1), seq: u64::MAX };
        assert_eq!(parse_cursor(&cursor(&at)).unwrap(), at);
        for bad in ["", "1.2", "256.2.3", "1.2.3.4", "1.2.-3", "a.b.c"] {
            assert!(parse_cursor(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_filter_with_an_unknown_status_is_rejected() {
        use RunDispatchStatus::{DeadLetter, Queued};
        assert_eq!(parse_statuses(None).unwrap(), None);
        assert_eq!(parse_statuses(Some("queued, dead_letter")).unwrap(), Some(vec![Queued, DeadLetter]));
        for bad in ["", "queued,", "lost"] {
            assert!(parse_statuses(Some(bad)).is_err(), "{bad}");
        }
    }
}
