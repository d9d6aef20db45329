//! Cases 23 and 24: of sixteen concurrent claims on two handles, one succeeds.

use holdpoint_engine::core::mailbox::RunDispatch;
use holdpoint_engine::{Mailbox, core::Timestamp};

use crate::mailbox::harness::{Harness, TASKS, run_concurrently};
use crate::mailbox::rows::{LEASE_MS, at, claimed, queued, queued_at, token};
use crate::test_database::on_both;

on_both! {
    case_23_of_sixteen_concurrent_claims_one_succeeds,
    case_24_one_row_of_a_thread_is_claimed_at_a_time,
    earlier_times_of_other_claims_do_not_affect_a_claim,
}

async fn case_23_of_sixteen_concurrent_claims_one_succeeds(h: Harness) {
    let handles = h.two_handles().await;
    for round in 0..200 {
        let id = format!("d{round}");
        h.enqueue_all([queued(&id)]).await;
        // The three claim operations race with each other.
        let claims = run_concurrently(&handles, |n, mail| {
            let id = id.clone();
            async move {
                match n % 3 {
                    0 => claim_one(&mail, n, at(10)).await,
                    1 => mail.claims().claim_ready(&claimer(n), LEASE_MS, at(10), 1).await.unwrap(),
                    _ => {
                        let claim = mail.claims().claim_dispatch(&id, &claimer(n), LEASE_MS, at(10)).await;
                        claim.unwrap().into_iter().collect()
                    }
                }
            }
        })
        .await;
        let winner = winner(&claims);
        assert_eq!(claims[winner], [won(&queued(&id), winner, &claims[winner][0])]);
        assert_eq!(h.load(&id).await, claims[winner][0]);
        h.mail.claims().ack(&id, token(&claims[winner][0]), at(20)).await.unwrap();
    }
}

async fn case_24_one_row_of_a_thread_is_claimed_at_a_time(h: Harness) {
    let handles = h.two_handles().await;
    for round in 0..50 {
        let rows = [queued_at(&format!("{round} first"), 1), queued_at(&format!("{round} second"), 2)];
        h.enqueue_all(rows.clone()).await;
        for row in rows {
            let claims =
                run_concurrently(&handles, |n, mail| async move { claim_one(&mail, n, at(10)).await }).await;
            let winner = winner(&claims);
            assert_eq!(claims[winner], [won(&row, winner, &claims[winner][0])]);
            // No claim succeeds before the ack.
            let late =
                run_concurrently(&handles, |n, mail| async move { claim_one(&mail, n, at(11)).await }).await;
            assert_eq!(late.concat(), []);
            h.mail.claims().ack(&row.dispatch_id, token(&claims[winner][0]), at(20)).await.unwrap();
        }
    }
}

async fn earlier_times_of_other_claims_do_not_affect_a_claim(h: Harness) {
    for round in 0..50 {
        h.enqueue_all([queued_at(&format!("{round}"), 5)]).await;
        // All claims are written together; all but the last have a time before the row was available.
        let claims = (0..TASKS).map(|n| {
            let last = n + 1 == TASKS;
            let (thread, now) = if last { ("t".to_owned(), at(10)) } else { (format!("other {n}"), at(1)) };
            let mail = h.mail.clone();
            async move { mail.claims().claim(&thread, &claimer(n), LEASE_MS, now, 1).await.unwrap() }
        });
        let claims = futures_util::future::join_all(claims).await.concat();
        assert_eq!(claims.len(), 1, "round {round}");
        h.mail.claims().ack(&claims[0].dispatch_id, token(&claims[0]), at(20)).await.unwrap();
    }
}

async fn claim_one(mail: &Mailbox, n: usize, now: Timestamp) -> Vec<RunDispatch> {
    mail.claims().claim("t", &claimer(n), LEASE_MS, now, 1).await.unwrap()
}

fn claimer(n: usize) -> String {
    format!("claimer-{n}")
}

/// Returns the number of the only task whose claim succeeded.
fn winner(claims: &[Vec<RunDispatch>]) -> usize {
    let winners: Vec<usize> = (0..TASKS).filter(|n| !claims[*n].is_empty()).collect();
    assert_eq!(winners.len(), 1, "{claims:?}");
    winners[0]
}

fn won(row: &RunDispatch, n: usize, claim: &RunDispatch) -> RunDispatch {
    RunDispatch { claimed_by: Some(claimer(n)), ..claimed(row, claim, at(10)) }
}
