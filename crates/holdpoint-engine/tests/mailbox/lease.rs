//! Cases 42 to 48: leases that are extended, run out and are taken back.

use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};

use crate::harness::{Harness, crowd};
use crate::place::on_both;
use crate::rows::{CONSUMER, TERMINAL, UNKNOWN, at, ended, failed, ids, on, queued, reason, started, token};

on_both! {
    case_42_a_holder_moves_its_lease_and_nobody_else_does,
    case_43_a_lease_lasts_through_its_last_instant,
    case_44_a_reclaimed_row_is_queued_as_if_it_had_failed,
    case_45_a_reclaimed_last_attempt_is_a_dead_letter_that_does_not_look_alive,
    case_46_of_many_who_reclaim_each_row_goes_to_one,
    case_47_the_oldest_leases_are_reclaimed_first,
    case_48_many_leases_are_extended_and_each_has_its_own_answer,
}

async fn case_42_a_holder_moves_its_lease_and_nobody_else_does(h: Harness) {
    let held = h.held(queued("a"), at(10)).await;
    // The lease counts from now, so it can become longer or shorter, and one that has lapsed lives again.
    for (now, extension) in [(20, 5000), (30, 5), (90_000, 100)] {
        assert!(h.mail.extend_lease("a", token(&held), extension, at(now)).await.unwrap());
        let lease_until = Some(at(now).plus_ms(extension));
        assert_eq!(h.load("a").await, RunDispatch { lease_until, updated_at: at(now), ..held.clone() });
    }
    let extended = h.load("a").await;
    assert!(!h.mail.extend_lease("a", "wrong", 5000, at(40)).await.unwrap());
    assert_eq!(h.load("a").await, extended);
    for status in TERMINAL.into_iter().chain([RunDispatchStatus::Queued]) {
        let row = h.brought(on("u", queued(status.as_str())), status, at(1)).await;
        assert!(!h.mail.extend_lease(&row.dispatch_id, "any", 5000, at(40)).await.unwrap());
        assert_eq!(h.load(&row.dispatch_id).await, row);
    }
    assert!(!h.mail.extend_lease(UNKNOWN, "any", 5000, at(40)).await.unwrap());
}

async fn case_43_a_lease_lasts_through_its_last_instant(h: Harness) {
    let held = h.held(queued("a"), at(10)).await;
    let until = held.lease_until.unwrap();
    assert_eq!(h.mail.reclaim_expired_leases(until, 10).await.unwrap(), []);
    assert_eq!(h.load("a").await, held);
    let reclaimed = h.mail.reclaim_expired_leases(until.plus_ms(1), 10).await.unwrap();
    assert_eq!(reclaimed, [h.load("a").await]);
    assert_eq!(reclaimed[0].status, RunDispatchStatus::Queued);
}

async fn case_44_a_reclaimed_row_is_queued_as_if_it_had_failed(h: Harness) {
    let held = h.held_with_result(queued("a"), at(10)).await;
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

async fn case_45_a_reclaimed_last_attempt_is_a_dead_letter_that_does_not_look_alive(h: Harness) {
    let row = RunDispatch { max_attempts: 1, ..queued("a") };
    let held = h.held(row.clone(), at(10)).await;
    let running = h.mail.record_dispatch_start("a", token(&held), "instance", at(20)).await.unwrap();
    assert_eq!(running, started(&held, "instance", at(20)));
    let reclaimed = h.mail.reclaim_expired_leases(at(5000), 10).await.unwrap();
    let found = h.load("a").await;
    // A dead letter is not available again, so `available_at` stays what it was.
    let counted = RunDispatch { attempt_count: 1, last_error: reason(&found), ..row };
    assert_eq!(found, ended(&counted, RunDispatchStatus::DeadLetter, at(5000)));
    assert_eq!(reclaimed, [found]);
}

async fn case_46_of_many_who_reclaim_each_row_goes_to_one(h: Harness) {
    let names: Vec<String> = (10..50).map(|n| format!("d{n}")).collect();
    for name in &names {
        h.held(on(name, queued(name)), at(10)).await;
    }
    let handles = h.two_handles().await;
    let shares =
        crowd(&handles, |_, mail| async move { mail.reclaim_expired_leases(at(5000), 100).await.unwrap() })
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
        h.given([on(name, queued(name))]).await;
        h.mail.claim_dispatch(name, CONSUMER, lease_ms, at(0)).await.unwrap().unwrap();
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

async fn case_48_many_leases_are_extended_and_each_has_its_own_answer(h: Harness) {
    let mut held = Vec::new();
    for name in ["a", "lost", "c", "interrupted"] {
        held.push(h.held(on(name, queued(name)), at(10)).await);
    }
    let acked = h.mail.ack("lost", token(&held[1]), at(15)).await.unwrap();
    h.interrupt("interrupted", 1).await;
    let mut leases: Vec<_> =
        held.iter().map(|row| (row.dispatch_id.clone(), token(row).to_owned())).collect();
    leases.insert(1, (UNKNOWN.to_owned(), "any".to_owned()));
    let answers = h.mail.extend_leases(&leases, 7000, at(20)).await.unwrap();
    assert_eq!(answers, [true, false, false, true, false]);
    let extended =
        |row: &RunDispatch| RunDispatch { lease_until: Some(at(7020)), updated_at: at(20), ..row.clone() };
    assert_eq!(h.load("a").await, extended(&held[0]));
    assert_eq!(h.load("lost").await, acked);
    assert_eq!(h.load("c").await, extended(&held[2]));
    assert_eq!(h.load("interrupted").await.status, RunDispatchStatus::Superseded);
    assert_eq!(h.mail.extend_leases(&[], 7000, at(20)).await.unwrap(), [false; 0]);
}
