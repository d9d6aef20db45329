//! Cases 42 to 48: extension, expiry and reclaim of leases.

use holdpoint_engine::ClaimToken;
use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};

use crate::mailbox::harness::{Harness, run_concurrently};
use crate::mailbox::rows::{
    CONSUMER, TERMINAL, UNKNOWN, at, ended, failed, ids, on, queued, reason, started, token,
};
use crate::test_database::on_both;

on_both! {
    case_42_only_the_holder_of_a_claim_can_extend_its_lease,
    case_43_a_lease_is_valid_through_its_last_millisecond,
    case_44_a_reclaimed_row_is_queued_like_a_failed_row,
    case_45_a_reclaimed_last_attempt_is_a_dead_letter_without_a_run_status,
    case_46_concurrent_reclaims_return_each_row_once,
    case_47_the_oldest_leases_are_reclaimed_first,
    case_48_a_batch_of_leases_has_one_result_for_each_lease,
}

async fn case_42_only_the_holder_of_a_claim_can_extend_its_lease(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    // The lease counts from `now`: it can become longer or shorter, and an expired lease can be renewed.
    for (now, extension) in [(20, 5000), (30, 5), (90_000, 100)] {
        assert!(h.mail.claims().extend_lease("a", token(&held), extension, at(now)).await.unwrap());
        let lease_until = Some(at(now).plus_ms(extension));
        assert_eq!(h.load("a").await, RunDispatch { lease_until, updated_at: at(now), ..held.clone() });
    }
    let extended = h.load("a").await;
    assert!(!h.mail.claims().extend_lease("a", "wrong", 5000, at(40)).await.unwrap());
    assert_eq!(h.load("a").await, extended);
    for status in TERMINAL.into_iter().chain([RunDispatchStatus::Queued]) {
        let row = h.enqueue_in_status(on("u", queued(status.as_str())), status, at(1)).await;
        assert!(!h.mail.claims().extend_lease(&row.dispatch_id, "any", 5000, at(40)).await.unwrap());
        assert_eq!(h.load(&row.dispatch_id).await, row);
    }
    assert!(!h.mail.claims().extend_lease(UNKNOWN, "any", 5000, at(40)).await.unwrap());
}

async fn case_43_a_lease_is_valid_through_its_last_millisecond(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    let until = held.lease_until.unwrap();
    assert_eq!(h.mail.reclaim_expired_leases(until, 10).await.unwrap(), []);
    assert_eq!(h.load("a").await, held);
    let reclaimed = h.mail.reclaim_expired_leases(until.plus_ms(1), 10).await.unwrap();
    assert_eq!(reclaimed, [h.load("a").await]);
    assert_eq!(reclaimed[0].status, RunDispatchStatus::Queued);
}

async fn case_44_a_reclaimed_row_is_queued_like_a_failed_row(h: Harness) {
    let held = h.claim_new_with_result(queued("a"), at(10)).await;
    assert!(held.run_status.is_some() && held.completed_at.is_some());
    let reclaimed = h.mail.reclaim_expired_leases(at(5000), 10).await.unwrap();
    let found = h.load("a").await;
    let expected = RunDispatch {
        attempt_count: 1,
        available_at: at(5000),
        last_error: reason(&found),
        updated_at: at(5000),
        ..queued("a")
    };
    assert_eq!(found, expected);
    assert_eq!(reclaimed, [expected]);
}

async fn case_45_a_reclaimed_last_attempt_is_a_dead_letter_without_a_run_status(h: Harness) {
    let row = RunDispatch { max_attempts: 1, ..queued("a") };
    let held = h.claim_new(row.clone(), at(10)).await;
    let running = h.mail.claims().record_dispatch_start("a", token(&held), "instance", at(20)).await.unwrap();
    assert_eq!(running, started(&held, "instance", at(20)));
    let reclaimed = h.mail.reclaim_expired_leases(at(5000), 10).await.unwrap();
    let found = h.load("a").await;
    // A dead letter is not available again, so `available_at` does not change.
    let counted = RunDispatch { attempt_count: 1, last_error: reason(&found), ..row };
    assert_eq!(found, ended(&counted, RunDispatchStatus::DeadLetter, at(5000)));
    assert_eq!(reclaimed, [found]);
}

async fn case_46_concurrent_reclaims_return_each_row_once(h: Harness) {
    let names: Vec<String> = (10..50).map(|n| format!("d{n}")).collect();
    for name in &names {
        h.claim_new(on(name, queued(name)), at(10)).await;
    }
    let handles = h.two_handles().await;
    let shares = run_concurrently(&handles, |_, mail| async move {
        mail.reclaim_expired_leases(at(5000), 100).await.unwrap()
    })
    .await;
    let mut reclaimed = shares.concat();
    reclaimed.sort_by(|a, b| a.dispatch_id.cmp(&b.dispatch_id));
    assert_eq!(ids(&reclaimed), names);
    for (name, row) in std::iter::zip(&names, reclaimed) {
        assert_eq!(row, failed(&on(name, queued(name)), reason(&row), at(5000), at(5000)));
        assert_eq!(h.load(name).await, row);
    }
}

async fn case_47_the_oldest_leases_are_reclaimed_first(h: Harness) {
    for (name, lease_ms) in [("c", 300), ("a", 100), ("e", 500), ("d", 400), ("b", 200)] {
        h.enqueue_all([on(name, queued(name))]).await;
        h.mail.claims().claim_dispatch(name, CONSUMER, lease_ms, at(0)).await.unwrap().unwrap();
    }
    for expected in [&["a", "b"][..], &["c", "d"], &["e"], &[]] {
        let reclaimed = h.mail.reclaim_expired_leases(at(9000), 2).await.unwrap();
        assert_eq!(ids(&reclaimed), expected);
        for row in reclaimed {
            let waiting = on(&row.dispatch_id, queued(&row.dispatch_id));
            assert_eq!(row, failed(&waiting, reason(&row), at(9000), at(9000)));
            assert_eq!(h.load(&row.dispatch_id).await, row);
        }
    }
}

async fn case_48_a_batch_of_leases_has_one_result_for_each_lease(h: Harness) {
    let mut held = Vec::new();
    for name in ["a", "lost", "c", "interrupted"] {
        held.push(h.claim_new(on(name, queued(name)), at(10)).await);
    }
    let acked = h.mail.claims().ack("lost", token(&held[1]), at(15)).await.unwrap();
    h.interrupt("interrupted", 1).await;
    let claim = |id: &str, token: &str| ClaimToken { dispatch_id: id.to_owned(), token: token.to_owned() };
    let mut leases: Vec<_> = held.iter().map(|row| claim(&row.dispatch_id, token(row))).collect();
    leases.insert(1, claim(UNKNOWN, "any"));
    let answers = h.mail.claims().extend_leases(&leases, 7000, at(20)).await.unwrap();
    assert_eq!(answers, [true, false, false, true, false]);
    let extended =
        |row: &RunDispatch| RunDispatch { lease_until: Some(at(7020)), updated_at: at(20), ..row.clone() };
    assert_eq!(h.load("a").await, extended(&held[0]));
    assert_eq!(h.load("lost").await, acked);
    assert_eq!(h.load("c").await, extended(&held[2]));
    assert_eq!(h.load("interrupted").await.status, RunDispatchStatus::Superseded);
    assert_eq!(h.mail.claims().extend_leases(&[], 7000, at(20)).await.unwrap(), [false; 0]);
}
