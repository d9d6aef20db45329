//! Cases 67 to 74: lists, counts, purges, and the exact storage of values.

use holdpoint_engine::core::Timestamp;
use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchResult, RunDispatchStatus, TerminationReason};

use crate::mailbox::harness::Harness;
use crate::mailbox::rows::{
    CONSUMER, LEASE_MS, at, claimed, done, ended, failed, ids, keyed, on, queued, queued_at, resulted,
    started, token,
};
use crate::test_database::on_both;

on_both! {
    case_67_a_list_contains_only_the_statuses_of_its_filter,
    case_68_pages_have_no_gaps_and_no_duplicates,
    case_69_every_status_is_counted,
    case_70_only_old_terminal_rows_are_purged,
    case_71_threads_with_queued_rows_are_listed,
    case_72_the_next_wakeup_is_the_earliest_due_row_or_expired_lease,
    case_73_any_text_can_be_an_id,
    case_74_large_times_and_extreme_priorities_are_stored_exactly,
}

async fn case_67_a_list_contains_only_the_statuses_of_its_filter(h: Harness) {
    let mut all = Vec::new();
    // The claimed row comes last, because from then on the thread is busy.
    for status in [
        RunDispatchStatus::Acked,
        RunDispatchStatus::Cancelled,
        RunDispatchStatus::Superseded,
        RunDispatchStatus::DeadLetter,
        RunDispatchStatus::Queued,
        RunDispatchStatus::Claimed,
    ] {
        all.push(h.enqueue_in_status(queued(status.as_str()), status, at(1)).await);
    }
    h.enqueue_all([on("u", queued("elsewhere"))]).await;
    assert_eq!(h.mail.list_dispatches("t", None, 100, 0).await.unwrap(), all);
    for filter in [
        vec![RunDispatchStatus::Acked],
        vec![RunDispatchStatus::Claimed, RunDispatchStatus::DeadLetter],
        RunDispatchStatus::ALL.to_vec(),
        Vec::new(),
    ] {
        let expected: Vec<_> = all.iter().filter(|row| filter.contains(&row.status)).cloned().collect();
        assert_eq!(h.mail.list_dispatches("t", Some(&filter), 100, 0).await.unwrap(), expected);
        let page = h.mail.page("t", Some(&filter), None, 100).await.unwrap();
        assert_eq!(page.into_iter().map(|(_, row)| row).collect::<Vec<_>>(), expected);
    }
}

async fn case_68_pages_have_no_gaps_and_no_duplicates(h: Harness) {
    let row = |n: u8| RunDispatch { priority: n % 3, ..queued_at(&format!("d{n}"), i64::from(n % 4)) };
    h.enqueue_all((0..25).map(row)).await;
    let mut expected: Vec<RunDispatch> = (0..25).map(row).collect();
    // A stable sort keeps equal rows in arrival order.
    expected.sort_by_key(|row| (row.priority, row.created_at));
    let mut by_offset = Vec::new();
    for (offset, count) in [(0, 10), (10, 10), (20, 5), (30, 0)] {
        let page = h.mail.list_dispatches("t", None, 10, offset).await.unwrap();
        assert_eq!(page.len(), count);
        by_offset.extend(page);
    }
    assert_eq!(by_offset, expected);
    let (mut by_key, mut after) = (Vec::new(), None);
    for count in [10, 10, 5, 0] {
        let page = h.mail.page("t", None, after, 10).await.unwrap();
        assert_eq!(page.len(), count);
        after = page.last().map(|(cursor, _)| *cursor).or(after);
        by_key.extend(page.into_iter().map(|(_, row)| row));
    }
    assert_eq!(by_key, expected);
    let mut by_claim = Vec::new();
    for claim in h.claim("t", at(100), 25).await {
        by_claim.push(claim.dispatch_id);
    }
    assert_eq!(by_claim, ids(&expected), "lists are in claim order");
}

async fn case_69_every_status_is_counted(h: Harness) {
    assert_eq!(h.mail.count_by_status().await.unwrap(), [0; 6]);
    for (position, status) in RunDispatchStatus::ALL.into_iter().enumerate() {
        for n in 0..=position {
            let name = format!("{} {n}", status.as_str());
            h.enqueue_in_status(on(&name, queued(&name)), status, at(1)).await;
        }
    }
    assert_eq!(h.mail.count_by_status().await.unwrap(), [1, 2, 3, 4, 5, 6]);
}

async fn case_70_only_old_terminal_rows_are_purged(h: Harness) {
    h.enqueue_in_status(queued("first"), RunDispatchStatus::Acked, at(1000)).await;
    let second = h.enqueue_in_status(queued("second"), RunDispatchStatus::Acked, at(2000)).await;
    h.enqueue_all([queued_at("waiting", 500)]).await;
    assert_eq!(h.mail.purge_terminal(at(1000), 100).await.unwrap(), 0, "1000 is not older than 1000");
    assert_eq!(h.mail.purge_terminal(at(1500), 100).await.unwrap(), 1);
    assert_eq!(h.mail.load_dispatch("first").await.unwrap(), None);
    assert_eq!(h.list("t").await, [second, queued_at("waiting", 500)]);
    // A purge deletes no more rows than its limit.
    for name in ["a", "b", "c"] {
        h.enqueue_in_status(on("u", queued(name)), RunDispatchStatus::Cancelled, at(1000)).await;
    }
    for gone in [2, 1, 0] {
        assert_eq!(h.mail.purge_terminal(at(1500), 2).await.unwrap(), gone);
    }
    assert_eq!(h.list("u").await, []);
}

async fn case_71_threads_with_queued_rows_are_listed(h: Harness) {
    h.enqueue_all([on("a", queued("1")), on("a", queued("2"))]).await;
    h.enqueue_all([on("b", RunDispatch { available_at: at(99), ..queued("3") })]).await;
    h.enqueue_in_status(on("c", queued("4")), RunDispatchStatus::Acked, at(1)).await;
    h.enqueue_in_status(on("d", queued("5")), RunDispatchStatus::Claimed, at(1)).await;
    let mut threads = h.mail.queued_thread_ids().await.unwrap();
    threads.sort();
    assert_eq!(threads, ["a", "b"]);
}

async fn case_72_the_next_wakeup_is_the_earliest_due_row_or_expired_lease(h: Harness) {
    assert_eq!(h.mail.next_wakeup(at(1000)).await.unwrap(), None);
    h.enqueue_all([RunDispatch { available_at: at(5000), ..queued("delayed") }]).await;
    h.enqueue_all([on("u", queued("held"))]).await;
    h.mail.claims().claim_dispatch("held", CONSUMER, 6000, at(1000)).await.unwrap().unwrap();
    assert_eq!(h.load("held").await.lease_until, Some(at(7000)));
    assert_eq!(h.mail.next_wakeup(at(1000)).await.unwrap(), Some(at(5000)));
    // A lease is valid through its last millisecond, so the wakeup is one millisecond later.
    h.mail.cancel("delayed", at(1000)).await.unwrap();
    assert_eq!(h.mail.next_wakeup(at(1000)).await.unwrap(), Some(at(7001)));
}

async fn case_73_any_text_can_be_an_id(h: Harness) {
    let long = "0123456789abcdef".repeat(64);
    let texts = ["it's", "\"quoted\"", "a.b.c", "100%", "_", "\u{1f600}\u{1f3fd}", "\\ $1 ?1 {x}", &long];
    for text in texts {
        let row = RunDispatch { run_id: text.to_owned(), ..on(text, keyed(text, queued(text))) };
        assert_eq!(h.mail.enqueue(&row).await.unwrap(), row);
        let held = h.mail.claims().claim(text, text, LEASE_MS, at(10), 1).await.unwrap().remove(0);
        let by_text = |claim: &RunDispatch, row: &RunDispatch, now| RunDispatch {
            claimed_by: Some(text.to_owned()),
            ..claimed(row, claim, now)
        };
        assert_eq!(held, by_text(&held, &row, at(10)));
        let running = h.mail.claims().record_dispatch_start(text, token(&held), text, at(11)).await.unwrap();
        assert_eq!(running, started(&held, text, at(11)));
        let back = h.mail.claims().nack(text, token(&held), at(13), text, at(12)).await.unwrap();
        assert_eq!(back, failed(&row, Some(text.to_owned()), at(13), at(12)));
        let held = h.mail.claims().claim(text, text, LEASE_MS, at(20), 1).await.unwrap().remove(0);
        assert_eq!(held, by_text(&held, &back, at(20)));
        let result = RunDispatchResult {
            dispatch_instance_id: Some(text.to_owned()),
            termination: Some(TerminationReason::Blocked(text.to_owned())),
            response: Some(text.to_owned()),
            error: Some(text.to_owned()),
            ..done(&row)
        };
        let acked = h.mail.claims().complete(text, token(&held), &result, at(30)).await.unwrap();
        assert_eq!(acked, ended(&resulted(&back, &result, at(30)), RunDispatchStatus::Acked, at(30)));
        assert_eq!(h.load(text).await, acked);
        assert_eq!(h.list(text).await, [acked]);
        assert_eq!(h.mail.interrupt(text, at(40)).await.unwrap().new_dispatch_epoch, 1);
    }
    assert_eq!(h.mail.purge_terminal(at(99), 100).await.unwrap(), texts.len());
}

async fn case_74_large_times_and_extreme_priorities_are_stored_exactly(h: Harness) {
    // Odd numbers above 2^53 have no exact floating-point representation.
    let (early, late) = (Timestamp((1 << 53) + 1), Timestamp((1 << 62) + 1));
    let row = |id: &str, priority: u8| RunDispatch {
        priority,
        max_attempts: u32::MAX,
        attempt_count: u32::MAX - 1,
        available_at: Timestamp(early.0 + 2),
        updated_at: late,
        ..queued_at(id, early.0)
    };
    h.enqueue_all([row("last", 255), row("first", 0)]).await;
    let h = h.reopen().await;
    assert_eq!(h.list("t").await, [row("first", 0), row("last", 255)]);
    assert_eq!(h.claim("t", Timestamp(early.0 + 1), 1).await, []);
    let held = h.claim_one("t", late).await;
    assert_eq!(held, claimed(&row("first", 0), &held, late));
    assert_eq!(h.load("first").await, held);
    let acked = h.mail.claims().ack("first", token(&held), Timestamp(late.0 + 2)).await.unwrap();
    assert_eq!(acked, ended(&row("first", 0), RunDispatchStatus::Acked, Timestamp(late.0 + 2)));
    assert_eq!(h.load("first").await, acked);
}
