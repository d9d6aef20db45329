//! A row that breaks a rule cannot be written, not even by SQL that goes past the engine.

use holdpoint_engine::core::mailbox::RunDispatchStatus;

use crate::harness::Harness;
use crate::place::on_both;
use crate::rows::{TERMINAL, at, keyed, on, queued};

on_both! {
    no_rule_of_a_row_can_be_broken_by_sql,
    what_keeps_the_rules_can_be_written_by_sql,
}

/// What SQL might set in a row of this status, each time breaking one rule.
fn broken(status: RunDispatchStatus) -> Vec<&'static str> {
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
        let row = h.brought(on(name, queued(name)), status, at(1)).await;
        for change in broken(status) {
            let written = set(&h, name, change).await;
            let refused = written.expect_err(change);
            // SQLite and PostgreSQL both name the kind of rule.
            assert!(refused.to_lowercase().contains("constraint"), "{name}, {change}: {refused}");
            assert_eq!(h.load(name).await, row, "{change}");
        }
    }
    h.given([keyed("k", queued("holder")), keyed("l", queued("other"))]).await;
    let refused = set(&h, "other", "dedupe_key = 'k'").await.expect_err("the key is live");
    assert!(refused.to_lowercase().contains("constraint"), "{refused}");
    assert_eq!(h.load("other").await, keyed("l", queued("other")));
}

/// The other way round, so that the case above does not pass because SQL fails for another reason.
async fn what_keeps_the_rules_can_be_written_by_sql(h: Harness) {
    for status in RunDispatchStatus::ALL {
        let name = status.as_str();
        let row = h.brought(on(name, queued(name)), status, at(1)).await;
        set(&h, name, "attempt_count = 5, max_attempts = 5, priority = 255").await.unwrap();
        let mut expected = row;
        (expected.attempt_count, expected.priority) = (5, 255);
        assert_eq!(h.load(name).await, expected);
    }
    let row = h.brought(queued("done"), TERMINAL[0], at(1)).await;
    set(&h, "done", "run_response = 'late'").await.unwrap();
    let mut expected = row;
    expected.run_response = Some("late".to_owned());
    assert_eq!(h.load("done").await, expected);
}

async fn set(h: &Harness, id: &str, change: &str) -> Result<(), String> {
    h.place.execute(&format!("UPDATE dispatches SET {change} WHERE dispatch_id = '{id}'")).await
}
