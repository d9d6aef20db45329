//! Constraints of the database reject invalid rows, also those that are written with SQL outside the engine.

use holdpoint_engine::core::mailbox::RunDispatchStatus;

use crate::mailbox::harness::Harness;
use crate::mailbox::rows::{TERMINAL, at, keyed, on, queued};
use crate::test_database::on_both;

on_both! {
    no_rule_of_a_row_can_be_broken_by_sql,
    valid_changes_can_be_written_by_sql,
}

/// Returns `SET` clauses for a row of this status. Each of them breaks one rule.
fn invalid_changes(status: RunDispatchStatus) -> Vec<&'static str> {
    let always = [
        "dispatch_id = ''",
        "dispatch_id = '  '",
        "thread_id = ''",
        "thread_id = '  '",
        "run_id = ''",
        "run_id = '  '",
        "max_attempts = 0",
        "attempt_count = -1",
        "attempt_count = 6",
        "status = 'lost'",
        "priority = -1",
        "priority = 256",
        "dispatch_epoch = -1",
        "run_status = 'asleep'",
    ];
    let of_unclaimed = ["claim_token = 'x'", "claimed_by = 'x'", "lease_until_ms = 9"];
    let of_queued = [
        "completed_ms = 9",
        "instance_id = 'x'",
        "run_status = 'done'",
        "termination = '{\"type\":\"cancelled\"}'",
        "run_response = 'x'",
        "run_error = 'x'",
        "status = 'claimed'",
        "status = 'acked'",
    ];
    let of_claimed = [
        "claim_token = NULL",
        "claim_token = ''",
        "claim_token = '  '",
        "claimed_by = NULL",
        "claimed_by = ''",
        "claimed_by = '  '",
        "lease_until_ms = NULL",
        "status = 'queued'",
        "status = 'acked'",
    ];
    let of_terminal = ["completed_ms = NULL", "status = 'queued'", "status = 'claimed'"];
    let of_superseded = [
        "instance_id = 'x'",
        "run_status = 'done'",
        "termination = '{\"type\":\"cancelled\"}'",
        "run_response = 'x'",
        "run_error = 'x'",
    ];
    let own: Vec<&[&str]> = match status {
        RunDispatchStatus::Queued => vec![&of_unclaimed, &of_queued],
        RunDispatchStatus::Claimed => vec![&of_claimed],
        RunDispatchStatus::Superseded => vec![&of_unclaimed, &of_terminal, &of_superseded],
        RunDispatchStatus::Acked | RunDispatchStatus::Cancelled | RunDispatchStatus::DeadLetter => {
            vec![&of_unclaimed, &of_terminal]
        }
    };
    always.into_iter().chain(own.concat()).collect()
}

async fn no_rule_of_a_row_can_be_broken_by_sql(h: Harness) {
    for status in RunDispatchStatus::ALL {
        let name = status.as_str();
        let row = h.enqueue_in_status(on(name, queued(name)), status, at(1)).await;
        for change in invalid_changes(status) {
            let written = set(&h, name, change).await;
            let refused = written.expect_err(change);
            // Both databases say that a constraint is violated.
            assert!(refused.to_lowercase().contains("constraint"), "{name}, {change}: {refused}");
            assert_eq!(h.load(name).await, row, "{change}");
        }
    }
    h.enqueue_all([keyed("k", queued("holder")), keyed("l", queued("other"))]).await;
    let refused = set(&h, "other", "dedupe_key = 'k'").await.expect_err("the key is in use");
    assert!(refused.to_lowercase().contains("constraint"), "{refused}");
    assert_eq!(h.load("other").await, keyed("l", queued("other")));
}

/// Shows that the statements of the test above do not fail for another reason.
async fn valid_changes_can_be_written_by_sql(h: Harness) {
    for status in RunDispatchStatus::ALL {
        let name = status.as_str();
        let row = h.enqueue_in_status(on(name, queued(name)), status, at(1)).await;
        set(&h, name, "attempt_count = 5, max_attempts = 5, priority = 255").await.unwrap();
        let mut expected = row;
        (expected.attempt_count, expected.priority) = (5, 255);
        assert_eq!(h.load(name).await, expected);
    }
    let row = h.enqueue_in_status(queued("done"), TERMINAL[0], at(1)).await;
    set(&h, "done", "run_response = 'late'").await.unwrap();
    let mut expected = row;
    expected.run_response = Some("late".to_owned());
    assert_eq!(h.load("done").await, expected);
}

async fn set(h: &Harness, id: &str, change: &str) -> Result<(), String> {
    h.database.execute(&format!("UPDATE dispatches SET {change} WHERE dispatch_id = '{id}'")).await
}
