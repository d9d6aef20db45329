//! Cases 1 to 12: validation of enqueued rows, and deduplication by key.

use holdpoint_engine::core::mailbox::{MailboxError, RunDispatch, RunDispatchStatus, RunStatus};

use crate::mailbox::harness::{Harness, TASKS, run_concurrently};
use crate::mailbox::rows::{TERMINAL, at, claimed, ids, is_validation, keyed, on, queued, tenant, token};
use crate::test_database::on_both;

on_both! {
    case_01_an_enqueued_row_is_queued_at_epoch_0,
    case_02_an_enqueued_row_is_the_same_after_a_restart,
    case_03_a_row_that_is_not_newly_queued_is_rejected,
    case_04_an_invalid_row_is_rejected,
    case_05_an_id_is_unique_across_threads,
    case_06_a_key_in_use_is_rejected_with_the_id_of_its_row,
    case_07_the_same_key_can_be_used_on_another_thread,
    case_08_the_key_of_a_claimed_row_is_in_use,
    case_09_every_terminal_status_frees_the_key,
    case_10_of_concurrent_rows_with_one_key_one_is_enqueued,
    case_11_the_key_of_a_nacked_row_is_in_use,
    case_12_the_epoch_is_set_from_the_thread_and_not_by_the_caller,
    a_batch_of_rows_has_one_result_for_each_row,
    of_concurrent_rows_with_one_id_on_two_threads_one_is_enqueued,
}

async fn case_01_an_enqueued_row_is_queued_at_epoch_0(h: Harness) {
    let stored = h.mail.enqueue(&RunDispatch::queued(&tenant(), "a", "t", "r", at(7))).await.unwrap();
    let expected = RunDispatch {
        tenant: tenant(),
        dispatch_id: "a".to_owned(),
        thread_id: "t".to_owned(),
        run_id: "r".to_owned(),
        priority: 128,
        dedupe_key: None,
        dispatch_epoch: 0,
        status: RunDispatchStatus::Queued,
        available_at: at(7),
        attempt_count: 0,
        max_attempts: 5,
        last_error: None,
        claim_token: None,
        claimed_by: None,
        lease_until: None,
        dispatch_instance_id: None,
        run_status: None,
        termination: None,
        run_response: None,
        run_error: None,
        completed_at: None,
        created_at: at(7),
        updated_at: at(7),
    };
    assert_eq!(stored, expected);
    assert_eq!(h.load("a").await, expected);
}

async fn case_02_an_enqueued_row_is_the_same_after_a_restart(h: Harness) {
    let row = RunDispatch { priority: 3, max_attempts: 9, available_at: at(99), ..keyed("k", queued("a")) };
    h.enqueue_all([row.clone()]).await;
    let h = h.reopen().await;
    assert_eq!(h.load("a").await, row);
}

async fn case_03_a_row_that_is_not_newly_queued_is_rejected(h: Harness) {
    let word = || Some("x".to_owned());
    let held = RunDispatch {
        status: RunDispatchStatus::Claimed,
        claim_token: word(),
        claimed_by: word(),
        lease_until: Some(at(9)),
        ..queued("a")
    };
    let mut rows = vec![
        held,
        RunDispatch { claim_token: word(), ..queued("a") },
        RunDispatch { claimed_by: word(), ..queued("a") },
        RunDispatch { lease_until: Some(at(9)), ..queued("a") },
        RunDispatch { run_status: Some(RunStatus::Created), ..queued("a") },
        RunDispatch { completed_at: Some(at(9)), ..queued("a") },
    ];
    let statuses = RunDispatchStatus::ALL.into_iter().filter(|status| *status != RunDispatchStatus::Queued);
    rows.extend(statuses.clone().map(|status| RunDispatch { status, ..queued("a") }));
    rows.extend(statuses.map(|status| RunDispatch { status, completed_at: Some(at(9)), ..queued("a") }));
    for row in rows {
        let error = h.mail.enqueue(&row).await.unwrap_err();
        assert!(is_validation(&error), "{error:?} for {row:?}");
    }
    assert_eq!(h.list("t").await, []);
}

async fn case_04_an_invalid_row_is_rejected(h: Harness) {
    let mut rows = vec![
        RunDispatch { max_attempts: 0, ..queued("a") },
        RunDispatch { attempt_count: 6, max_attempts: 5, ..queued("a") },
    ];
    for blank in ["", " ", "\t\n"] {
        rows.push(RunDispatch { dispatch_id: blank.to_owned(), ..queued("a") });
        rows.push(RunDispatch { thread_id: blank.to_owned(), ..queued("a") });
        rows.push(RunDispatch { run_id: blank.to_owned(), ..queued("a") });
    }
    for row in rows {
        let error = h.mail.enqueue(&row).await.unwrap_err();
        assert!(is_validation(&error), "{error:?} for {row:?}");
    }
    assert_eq!(h.mail.count_by_status().await.unwrap(), [0; 6]);
}

async fn case_05_an_id_is_unique_across_threads(h: Harness) {
    h.enqueue_all([queued("a")]).await;
    let again = RunDispatch { priority: 1, run_id: "another".to_owned(), ..queued("a") };
    for twice in [queued("a"), again.clone(), on("u", again)] {
        let error = h.mail.enqueue(&twice).await.unwrap_err();
        assert_eq!(error, MailboxError::DuplicateDispatch { dispatch_id: "a".to_owned() });
    }
    assert_eq!(h.load("a").await, queued("a"));
    assert_eq!((h.list("t").await, h.list("u").await), (vec![queued("a")], Vec::new()));
}

async fn case_06_a_key_in_use_is_rejected_with_the_id_of_its_row(h: Harness) {
    h.enqueue_all([keyed("k", queued("a"))]).await;
    let error = h.mail.enqueue(&keyed("k", queued("b"))).await.unwrap_err();
    assert_eq!(error, duplicate_key("k", "a"));
    assert_eq!(h.list("t").await, [keyed("k", queued("a"))]);
}

async fn case_07_the_same_key_can_be_used_on_another_thread(h: Harness) {
    h.enqueue_all([keyed("k", queued("a"))]).await;
    let elsewhere = on("u", keyed("k", queued("b")));
    assert_eq!(h.mail.enqueue(&elsewhere).await.unwrap(), elsewhere);
    assert_eq!(h.load("b").await, elsewhere);
}

async fn case_08_the_key_of_a_claimed_row_is_in_use(h: Harness) {
    let held = h.claim_new(keyed("k", queued("a")), at(1)).await;
    let error = h.mail.enqueue(&keyed("k", queued("b"))).await.unwrap_err();
    assert_eq!(error, duplicate_key("k", "a"));
    assert_eq!(h.list("t").await, [claimed(&keyed("k", queued("a")), &held, at(1))]);
}

async fn case_09_every_terminal_status_frees_the_key(h: Harness) {
    for status in TERMINAL {
        let holder = h.enqueue_in_status(keyed("k", queued(status.as_str())), status, at(1)).await;
        let next = keyed("k", queued(&format!("after {}", status.as_str())));
        assert_eq!(h.mail.enqueue(&next).await.unwrap(), next);
        assert_eq!(h.load(status.as_str()).await, holder);
        h.mail.cancel(&next.dispatch_id, at(2)).await.unwrap();
    }
}

async fn case_10_of_concurrent_rows_with_one_key_one_is_enqueued(h: Harness) {
    let handles = h.two_handles().await;
    for round in 0..20 {
        let thread = format!("t{round}");
        let row = |n: usize| on(&thread, keyed("k", queued(&format!("{round}/{n}"))));
        let answers = run_concurrently(&handles, |n, mail| {
            let row = row(n);
            async move { mail.enqueue(&row).await }
        })
        .await;
        let taken: Vec<usize> = (0..TASKS).filter(|n| answers[*n].is_ok()).collect();
        assert_eq!(taken.len(), 1, "{answers:?}");
        let winner = row(taken[0]);
        for error in answers.into_iter().filter_map(Result::err) {
            assert_eq!(error, duplicate_key("k", &winner.dispatch_id));
        }
        assert_eq!(h.list(&thread).await, [winner]);
    }
}

async fn case_11_the_key_of_a_nacked_row_is_in_use(h: Harness) {
    let held = h.claim_new(keyed("k", queued("a")), at(1)).await;
    let back = h.mail.claims().nack("a", token(&held), at(50), "busy", at(2)).await.unwrap();
    let error = h.mail.enqueue(&keyed("k", queued("b"))).await.unwrap_err();
    assert_eq!(error, duplicate_key("k", "a"));
    assert_eq!(h.list("t").await, [back]);
}

async fn case_12_the_epoch_is_set_from_the_thread_and_not_by_the_caller(h: Harness) {
    h.interrupt("t", 3).await;
    // An epoch that is too high is corrected, too.
    for (id, believed) in [("a", 0), ("b", 9)] {
        let stored = h.mail.enqueue(&RunDispatch { dispatch_epoch: believed, ..queued(id) }).await.unwrap();
        assert_eq!(stored, RunDispatch { dispatch_epoch: 3, ..queued(id) });
        assert_eq!(h.load(id).await, stored);
    }
}

async fn a_batch_of_rows_has_one_result_for_each_row(h: Harness) {
    h.enqueue_all([queued("old"), keyed("k", queued("holder"))]).await;
    let batch = [
        queued("first"),
        queued("old"),
        keyed("k", queued("keyed")),
        RunDispatch { max_attempts: 0, ..queued("invalid") },
        queued("last"),
        // Rows are checked in order: an earlier row of the batch counts as enqueued.
        queued("first"),
    ];
    let answers = h.mail.enqueue_many(&batch).await.unwrap();
    assert_eq!(answers.len(), batch.len());
    assert_eq!(answers[0].as_ref().unwrap(), &queued("first"));
    assert_eq!(answers[1], Err(MailboxError::DuplicateDispatch { dispatch_id: "old".to_owned() }));
    assert_eq!(answers[2], Err(duplicate_key("k", "holder")));
    assert!(is_validation(answers[3].as_ref().unwrap_err()), "{answers:?}");
    assert_eq!(answers[4].as_ref().unwrap(), &queued("last"));
    assert_eq!(answers[5], Err(MailboxError::DuplicateDispatch { dispatch_id: "first".to_owned() }));
    let rows = h.list("t").await;
    assert_eq!(ids(&rows), ["old", "holder", "first", "last"]);
    assert_eq!(rows[2..], [queued("first"), queued("last")]);
    assert_eq!(h.mail.enqueue_many(&[]).await.unwrap(), []);
}

fn duplicate_key(key: &str, holder: &str) -> MailboxError {
    MailboxError::DuplicateKey { dedupe_key: key.to_owned(), existing_dispatch_id: holder.to_owned() }
}

async fn of_concurrent_rows_with_one_id_on_two_threads_one_is_enqueued(h: Harness) {
    let handles = h.two_handles().await;
    for round in 0..100 {
        let id = format!("d{round}");
        let rows = ["left", "right"].map(|thread| on(thread, queued(&id)));
        let (left, right) = tokio::join!(handles[0].enqueue(&rows[0]), handles[1].enqueue(&rows[1]));
        let taken = Err(MailboxError::DuplicateDispatch { dispatch_id: id.clone() });
        let winner = if left.is_ok() { &rows[0] } else { &rows[1] };
        let expected = rows.each_ref().map(|row| if row == winner { Ok(row.clone()) } else { taken.clone() });
        assert_eq!([left, right], expected, "round {round}");
        assert_eq!(h.load(&id).await, *winner);
    }
}
