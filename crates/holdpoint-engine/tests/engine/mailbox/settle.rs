//! Cases 29 to 41: ack, nack and dead letter. Only calls with the token of the claim succeed.

use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};

use crate::mailbox::harness::Harness;
use crate::mailbox::rows::{
    LEASE_MS, UNKNOWN, at, claimed, done, ended, failed, is_not_found, queued, reason, resulted, stale,
    superseded, token,
};
use crate::test_database::on_both;

on_both! {
    case_29_an_acked_row_keeps_its_result,
    case_30_an_ack_with_a_wrong_token_is_rejected,
    case_31_a_second_ack_is_rejected,
    case_32_an_unclaimed_row_rejects_ack_nack_and_dead_letter,
    case_33_an_unknown_row_is_not_found,
    case_34_a_nacked_row_waits_for_its_next_attempt,
    case_35_a_nack_after_a_result_clears_the_result,
    case_36_the_last_attempt_ends_as_a_dead_letter,
    case_37_a_dead_letter_keeps_its_count_and_its_error,
    case_38_a_dead_letter_cannot_be_claimed_nacked_or_cancelled,
    case_39_an_ack_after_the_lease_succeeds_if_the_row_was_not_reclaimed,
    case_40_an_ack_after_a_reclaim_is_stale,
    case_41_a_former_holder_cannot_change_a_reclaimed_row,
}

async fn case_29_an_acked_row_keeps_its_result(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    let acked = h.mail.claims().ack("a", token(&held), at(20)).await.unwrap();
    assert_eq!(acked, ended(&queued("a"), RunDispatchStatus::Acked, at(20)));
    assert_eq!(h.load("a").await, acked);
    // With a result, `completed_at` is the time when the result was recorded.
    let held = h.claim_new_with_result(queued("b"), at(30)).await;
    let acked = h.mail.claims().ack("b", token(&held), at(40)).await.unwrap();
    let with_result = resulted(&queued("b"), &done(&held), at(30));
    assert_eq!(acked, ended(&with_result, RunDispatchStatus::Acked, at(40)));
    assert_eq!(h.load("b").await, acked);
}

async fn case_30_an_ack_with_a_wrong_token_is_rejected(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    for wrong in ["", "wrong", &format!("{} ", token(&held))] {
        let error = h.mail.claims().ack("a", wrong, at(20)).await.unwrap_err();
        assert_eq!(error, stale("a", RunDispatchStatus::Claimed));
    }
    assert_eq!(h.load("a").await, held);
}

async fn case_31_a_second_ack_is_rejected(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    let acked = h.mail.claims().ack("a", token(&held), at(20)).await.unwrap();
    let error = h.mail.claims().ack("a", token(&held), at(30)).await.unwrap_err();
    assert_eq!(error, stale("a", RunDispatchStatus::Acked));
    assert_eq!(h.load("a").await, acked);
}

async fn case_32_an_unclaimed_row_rejects_ack_nack_and_dead_letter(h: Harness) {
    h.enqueue_all([queued("a")]).await;
    for token in ["", "any"] {
        let refused = Err(stale("a", RunDispatchStatus::Queued));
        assert_eq!(h.mail.claims().ack("a", token, at(20)).await, refused);
        assert_eq!(h.mail.claims().nack("a", token, at(30), "no", at(20)).await, refused);
        assert_eq!(h.mail.claims().dead_letter("a", token, "no", at(20)).await, refused);
    }
    assert_eq!(h.load("a").await, queued("a"));
}

async fn case_33_an_unknown_row_is_not_found(h: Harness) {
    let result = done(&queued("a"));
    for answer in [
        h.mail.claims().ack(UNKNOWN, "any", at(20)).await,
        h.mail.claims().nack(UNKNOWN, "any", at(30), "no", at(20)).await,
        h.mail.claims().dead_letter(UNKNOWN, "any", "no", at(20)).await,
        h.mail.claims().record_dispatch_start(UNKNOWN, "any", "instance", at(20)).await,
        h.mail.claims().record_run_result(UNKNOWN, "any", &result, at(20)).await,
        h.mail.claims().complete(UNKNOWN, "any", &result, at(20)).await,
    ] {
        let error = answer.unwrap_err();
        assert!(is_not_found(&error), "{error:?}");
    }
}

async fn case_34_a_nacked_row_waits_for_its_next_attempt(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    let back = h.mail.claims().nack("a", token(&held), at(500), "no network", at(20)).await.unwrap();
    let expected = RunDispatch {
        attempt_count: 1,
        available_at: at(500),
        last_error: Some("no network".to_owned()),
        updated_at: at(20),
        ..queued("a")
    };
    assert_eq!(back, expected);
    assert_eq!(h.load("a").await, expected);
}

async fn case_35_a_nack_after_a_result_clears_the_result(h: Harness) {
    let held = h.claim_new_with_result(queued("a"), at(10)).await;
    let back = h.mail.claims().nack("a", token(&held), at(500), "again", at(20)).await.unwrap();
    assert_eq!(back, failed(&queued("a"), Some("again".to_owned()), at(500), at(20)));
    assert_eq!(h.load("a").await, back);
    assert_eq!(h.list("t").await, std::slice::from_ref(&back));
    let interrupted = h.mail.interrupt("t", at(30)).await.unwrap();
    let found = h.load("a").await;
    assert_eq!(found, superseded(&back, &found, at(30)));
    assert_eq!(interrupted.superseded_dispatches, [found]);
}

async fn case_36_the_last_attempt_ends_as_a_dead_letter(h: Harness) {
    let row = RunDispatch { max_attempts: 2, ..queued("a") };
    let held = h.claim_new(row.clone(), at(10)).await;
    let back = h.mail.claims().nack("a", token(&held), at(15), "first", at(11)).await.unwrap();
    assert_eq!(back, failed(&row, Some("first".to_owned()), at(15), at(11)));
    let held = h.claim_one("t", at(20)).await;
    let dead = h.mail.claims().nack("a", token(&held), at(99), "second", at(21)).await.unwrap();
    // There is no next attempt, so `retry_at` is not stored.
    let counted = RunDispatch { attempt_count: 2, last_error: Some("second".to_owned()), ..back };
    assert_eq!(dead, ended(&counted, RunDispatchStatus::DeadLetter, at(21)));
    assert_eq!(h.load("a").await, dead);
}

async fn case_37_a_dead_letter_keeps_its_count_and_its_error(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    let dead = h.mail.claims().dead_letter("a", token(&held), "no such agent", at(20)).await.unwrap();
    let with_error = RunDispatch { last_error: Some("no such agent".to_owned()), ..queued("a") };
    assert_eq!(dead, ended(&with_error, RunDispatchStatus::DeadLetter, at(20)));
    assert_eq!(h.load("a").await, dead);
}

async fn case_38_a_dead_letter_cannot_be_claimed_nacked_or_cancelled(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    let dead = h.mail.claims().dead_letter("a", token(&held), "hopeless", at(20)).await.unwrap();
    assert_eq!(h.claim("t", at(30), 10).await, []);
    let error = h.mail.claims().nack("a", token(&held), at(40), "again", at(30)).await.unwrap_err();
    assert_eq!(error, stale("a", RunDispatchStatus::DeadLetter));
    assert_eq!(h.mail.cancel("a", at(30)).await.unwrap(), None);
    assert_eq!(h.load("a").await, dead);
}

async fn case_39_an_ack_after_the_lease_succeeds_if_the_row_was_not_reclaimed(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    let acked = h.mail.claims().ack("a", token(&held), at(999_999)).await.unwrap();
    assert_eq!(acked, ended(&queued("a"), RunDispatchStatus::Acked, at(999_999)));
    assert_eq!(h.load("a").await, acked);
}

async fn case_40_an_ack_after_a_reclaim_is_stale(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    let reclaimed = h.mail.reclaim_expired_leases(at(5000), 10).await.unwrap();
    let error = h.mail.claims().ack("a", token(&held), at(5001)).await.unwrap_err();
    assert_eq!(error, stale("a", RunDispatchStatus::Queued));
    let found = h.load("a").await;
    assert_eq!(found, failed(&queued("a"), reason(&found), at(5000), at(5000)));
    assert_eq!(reclaimed, [found]);
}

async fn case_41_a_former_holder_cannot_change_a_reclaimed_row(h: Harness) {
    let lost = h.claim_new(queued("a"), at(10)).await;
    h.mail.reclaim_expired_leases(at(5000), 10).await.unwrap();
    let queued_again = h.load("a").await;
    let b = h.mail.claims().claim("t", "b", LEASE_MS, at(5001), 1).await.unwrap().remove(0);
    let old = token(&lost);
    let result = done(&lost);
    for answer in [
        h.mail.claims().ack("a", old, at(5002)).await,
        h.mail.claims().nack("a", old, at(6000), "no", at(5002)).await,
        h.mail.claims().dead_letter("a", old, "no", at(5002)).await,
        h.mail.claims().record_dispatch_start("a", old, "instance", at(5002)).await,
        h.mail.claims().record_run_result("a", old, &result, at(5002)).await,
        h.mail.claims().complete("a", old, &result, at(5002)).await,
    ] {
        assert_eq!(answer, Err(stale("a", RunDispatchStatus::Claimed)));
    }
    assert!(!h.mail.claims().extend_lease("a", old, 9999, at(5002)).await.unwrap());
    let supersede = h.mail.claims().supersede_claimed("a", old, at(5002), "no").await;
    assert_eq!(supersede, Err(stale("a", RunDispatchStatus::Claimed)));
    let expected = RunDispatch { claimed_by: Some("b".to_owned()), ..claimed(&queued_again, &b, at(5001)) };
    assert_eq!(h.load("a").await, expected);
    assert_ne!(token(&b), old);
}
