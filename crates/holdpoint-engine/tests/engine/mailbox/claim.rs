//! Cases 13 to 28 without 23 and 24: the result of a claim, the order of claims, and rows that cannot be claimed.

use std::collections::BTreeSet;

use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};

use crate::mailbox::harness::Harness;
use crate::mailbox::rows::{
    CONSUMER, LEASE_MS, TERMINAL, UNKNOWN, at, claimed, failed, ids, on, queued, queued_at, token,
};
use crate::test_database::on_both;

on_both! {
    case_13_a_claim_sets_token_holder_and_lease,
    case_14_a_row_can_be_claimed_from_available_at_on,
    case_15_the_lower_priority_number_is_claimed_first,
    case_16_within_a_priority_the_older_row_is_claimed_first,
    case_17_rows_of_equal_priority_and_time_are_claimed_in_arrival_order,
    case_18_a_delayed_first_row_does_not_block_the_next,
    case_19_a_claimed_row_blocks_its_thread,
    case_20_an_expired_lease_blocks_the_thread_until_it_is_reclaimed,
    case_21_each_row_of_a_batch_has_its_own_token,
    case_22_a_limit_of_0_claims_no_row,
    case_25_claim_ready_claims_one_row_of_each_free_thread_by_priority,
    case_26_a_row_can_be_claimed_by_id_before_it_is_due,
    case_27_only_a_queued_row_can_be_claimed_by_id,
    case_28_a_retried_row_is_claimed_before_newer_rows,
}

async fn case_13_a_claim_sets_token_holder_and_lease(h: Harness) {
    h.enqueue_all([queued("a")]).await;
    let rows = h.mail.claims().claim("t", "worker-9", 250, at(10), 5).await.unwrap();
    assert!(!token(&rows[0]).trim().is_empty());
    let expected = RunDispatch {
        status: RunDispatchStatus::Claimed,
        claim_token: rows[0].claim_token.clone(),
        claimed_by: Some("worker-9".to_owned()),
        lease_until: Some(at(260)),
        updated_at: at(10),
        ..queued("a")
    };
    assert_eq!(h.load("a").await, expected);
    assert_eq!(rows, [expected]);
}

async fn case_14_a_row_can_be_claimed_from_available_at_on(h: Harness) {
    let row = RunDispatch { available_at: at(11), ..queued("a") };
    h.enqueue_all([row.clone()]).await;
    assert_eq!(h.claim("t", at(10), 1).await, []);
    assert_eq!(h.mail.claims().claim_ready(CONSUMER, LEASE_MS, at(10), 1).await.unwrap(), []);
    assert_eq!(h.load("a").await, row);
    let found = h.claim_one("t", at(11)).await;
    assert_eq!(found, claimed(&row, &found, at(11)));
}

async fn case_15_the_lower_priority_number_is_claimed_first(h: Harness) {
    let late = RunDispatch { priority: 200, ..queued_at("older", 100) };
    let soon = RunDispatch { priority: 10, ..queued_at("newer", 200) };
    h.enqueue_all([late.clone(), soon.clone()]).await;
    let found = h.claim_one("t", at(300)).await;
    assert_eq!(found, claimed(&soon, &found, at(300)));
    assert_eq!(h.list("t").await, [found, late]);
}

async fn case_16_within_a_priority_the_older_row_is_claimed_first(h: Harness) {
    h.enqueue_all([queued_at("newer", 200), queued_at("older", 100)]).await;
    for (id, created) in [("older", 100), ("newer", 200)] {
        let found = h.claim_one("t", at(300)).await;
        assert_eq!(found, claimed(&queued_at(id, created), &found, at(300)));
        h.mail.claims().ack(id, token(&found), at(300)).await.unwrap();
    }
}

async fn case_17_rows_of_equal_priority_and_time_are_claimed_in_arrival_order(h: Harness) {
    // The names are in no alphabetical order, so only the order of arrival explains the result.
    let names = ["m", "c", "x", "a", "q", "b", "z", "k", "e", "y"];
    h.enqueue_all(names.map(queued)).await;
    for name in names {
        let found = h.claim_one("t", at(10)).await;
        assert_eq!(found, claimed(&queued(name), &found, at(10)));
        h.mail.claims().ack(name, token(&found), at(10)).await.unwrap();
    }
}

async fn case_18_a_delayed_first_row_does_not_block_the_next(h: Harness) {
    let head = RunDispatch { available_at: at(1000), ..queued("head") };
    h.enqueue_all([head.clone(), queued_at("next", 5)]).await;
    let found = h.claim_one("t", at(10)).await;
    assert_eq!(found, claimed(&queued_at("next", 5), &found, at(10)));
    assert_eq!(h.load("head").await, head);
}

async fn case_19_a_claimed_row_blocks_its_thread(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    h.enqueue_all([queued("b"), queued("c")]).await;
    assert_eq!(h.claim("t", at(11), 10).await, []);
    assert_eq!(h.claim_dispatch("b", at(11)).await, None);
    assert_eq!(h.mail.claims().claim_ready(CONSUMER, LEASE_MS, at(11), 10).await.unwrap(), []);
    assert_eq!(h.list("t").await, [held, queued("b"), queued("c")]);
}

async fn case_20_an_expired_lease_blocks_the_thread_until_it_is_reclaimed(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    h.enqueue_all([queued("b")]).await;
    let long_after = at(999_999);
    assert_eq!(h.claim("t", long_after, 10).await, []);
    assert_eq!(h.claim_dispatch("b", long_after).await, None);
    assert_eq!(h.mail.claims().claim_ready(CONSUMER, LEASE_MS, long_after, 10).await.unwrap(), []);
    assert_eq!(h.list("t").await, [held, queued("b")]);
}

async fn case_21_each_row_of_a_batch_has_its_own_token(h: Harness) {
    let rows = [queued_at("c", 1), queued_at("a", 2), queued_at("b", 3)];
    h.enqueue_all(rows.clone()).await;
    let found = h.claim("t", at(10), 3).await;
    let expected: Vec<_> =
        std::iter::zip(&rows, &found).map(|(row, one)| claimed(row, one, at(10))).collect();
    assert_eq!(found, expected);
    assert_eq!(found.iter().map(token).collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(h.list("t").await, expected);
}

async fn case_22_a_limit_of_0_claims_no_row(h: Harness) {
    h.enqueue_all([queued("a")]).await;
    assert_eq!(h.claim("t", at(10), 0).await, []);
    assert_eq!(h.mail.claims().claim_ready(CONSUMER, LEASE_MS, at(10), 0).await.unwrap(), []);
    assert_eq!(h.load("a").await, queued("a"));
}

async fn case_25_claim_ready_claims_one_row_of_each_free_thread_by_priority(h: Harness) {
    const THREADS: u8 = 50;
    const BUSY: u8 = 5;
    let first = |n: u8| RunDispatch { priority: n, ..on(&format!("t{n}"), queued(&format!("first of {n}"))) };
    let second =
        |n: u8| RunDispatch { priority: 100, ..on(&format!("t{n}"), queued(&format!("second of {n}"))) };
    // 3 and 50 are coprime, so the loop visits every thread once, out of order.
    for n in (0..THREADS).map(|n| n * 3 % THREADS) {
        h.enqueue_all([second(n), first(n)]).await;
    }
    for n in 0..BUSY {
        h.claim_dispatch(&format!("second of {n}"), at(5)).await.unwrap();
    }
    let mut expected = BUSY..THREADS;
    for (limit, count) in [(20, 20), (20, 20), (20, 5), (20, 0)] {
        let found = h.mail.claims().claim_ready(CONSUMER, LEASE_MS, at(10), limit).await.unwrap();
        let rows: Vec<_> = std::iter::zip(expected.by_ref().take(count), &found)
            .map(|(n, one)| claimed(&first(n), one, at(10)))
            .collect();
        assert_eq!(found, rows);
        assert_eq!(found.len(), count);
    }
}

async fn case_26_a_row_can_be_claimed_by_id_before_it_is_due(h: Harness) {
    let row = RunDispatch { available_at: at(60_000), ..queued("a") };
    h.enqueue_all([row.clone()]).await;
    let found = h.claim_dispatch("a", at(10)).await.unwrap();
    assert_eq!(found, claimed(&row, &found, at(10)));
    assert_eq!(h.load("a").await, found);
}

async fn case_27_only_a_queued_row_can_be_claimed_by_id(h: Harness) {
    for status in TERMINAL.into_iter().chain([RunDispatchStatus::Claimed]) {
        let row = h.enqueue_in_status(on(status.as_str(), queued(status.as_str())), status, at(1)).await;
        assert_eq!(h.claim_dispatch(status.as_str(), at(10)).await, None);
        assert_eq!(h.load(status.as_str()).await, row);
    }
    assert_eq!(h.claim_dispatch(UNKNOWN, at(10)).await, None);
}

async fn case_28_a_retried_row_is_claimed_before_newer_rows(h: Harness) {
    let held = h.claim_new(queued_at("old", 100), at(150)).await;
    h.enqueue_all([queued_at("new", 200)]).await;
    let back = h.mail.claims().nack("old", token(&held), at(500), "again", at(250)).await.unwrap();
    assert_eq!(back, failed(&held, Some("again".to_owned()), at(500), at(250)));
    let found = h.claim_one("t", at(600)).await;
    assert_eq!(found, claimed(&back, &found, at(600)));
    assert_eq!(ids(&h.list("t").await), ["old", "new"]);
}
