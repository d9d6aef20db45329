//! Cases 23 and 24: sixteen claimers, two handles, one winner.

use holdpoint_engine::core::mailbox::RunDispatch;
use holdpoint_engine::{Mailbox, core::Timestamp};

use crate::harness::{CROWD, Harness, crowd};
use crate::place::on_both;
use crate::rows::{LEASE_MS, at, claimed, queued, queued_at, token};

on_both! {
    case_23_of_sixteen_claimers_one_wins_two_hundred_times_over,
    case_24_one_row_of_a_thread_is_out_at_a_time,
    a_claim_does_not_suffer_from_the_earlier_clocks_of_others,
}

async fn case_23_of_sixteen_claimers_one_wins_two_hundred_times_over(h: Harness) {
    let handles = h.two_handles().await;
    for round in 0..200 {
        let id = format!("d{round}");
        h.given([queued(&id)]).await;
        // All three ways to claim race with each other.
        let claims = crowd(&handles, |n, mail| {
            let id = id.clone();
            async move {
                match n % 3 {
                    0 => claim_one(&mail, n, at(10)).await,
                    1 => mail.claim_ready(&claimer(n), LEASE_MS, at(10), 1).await.unwrap(),
                    _ => {
                        let claim = mail.claim_dispatch(&id, &claimer(n), LEASE_MS, at(10)).await;
                        claim.unwrap().into_iter().collect()
                    }
                }
            }
        })
        .await;
        let winner = the_winner(&claims);
        assert_eq!(claims[winner], [won(&queued(&id), winner, &claims[winner][0])]);
        assert_eq!(h.load(&id).await, claims[winner][0]);
        h.mail.ack(&id, token(&claims[winner][0]), at(20)).await.unwrap();
    }
}

async fn case_24_one_row_of_a_thread_is_out_at_a_time(h: Harness) {
    let handles = h.two_handles().await;
    for round in 0..50 {
        let rows = [queued_at(&format!("{round} first"), 1), queued_at(&format!("{round} second"), 2)];
        h.given(rows.clone()).await;
        for row in rows {
            let claims = crowd(&handles, |n, mail| async move { claim_one(&mail, n, at(10)).await }).await;
            let winner = the_winner(&claims);
            assert_eq!(claims[winner], [won(&row, winner, &claims[winner][0])]);
            // Until the ack nobody gets anything.
            let late = crowd(&handles, |n, mail| async move { claim_one(&mail, n, at(11)).await }).await;
            assert_eq!(late.concat(), []);
            h.mail.ack(&row.dispatch_id, token(&claims[winner][0]), at(20)).await.unwrap();
        }
    }
}

async fn a_claim_does_not_suffer_from_the_earlier_clocks_of_others(h: Harness) {
    for round in 0..50 {
        h.given([queued_at(&format!("{round}"), 5)]).await;
        // Written together with the last, all others are from a time when there was nothing to claim.
        let claims = (0..CROWD).map(|n| {
            let last = n + 1 == CROWD;
            let (thread, now) = if last { ("t".to_owned(), at(10)) } else { (format!("other {n}"), at(1)) };
            let mail = h.mail.clone();
            async move { mail.claim(&thread, &claimer(n), LEASE_MS, now, 1).await.unwrap() }
        });
        let claims = futures_util::future::join_all(claims).await.concat();
        assert_eq!(claims.len(), 1, "round {round}");
        h.mail.ack(&claims[0].dispatch_id, token(&claims[0]), at(20)).await.unwrap();
    }
}

async fn claim_one(mail: &Mailbox, n: usize, now: Timestamp) -> Vec<RunDispatch> {
    mail.claim("t", &claimer(n), LEASE_MS, now, 1).await.unwrap()
}

fn claimer(n: usize) -> String {
    format!("claimer-{n}")
}

/// The number of the only one who got anything.
fn the_winner(claims: &[Vec<RunDispatch>]) -> usize {
    let winners: Vec<usize> = (0..CROWD).filter(|n| !claims[*n].is_empty()).collect();
    assert_eq!(winners.len(), 1, "{claims:?}");
    winners[0]
}

fn won(row: &RunDispatch, n: usize, claim: &RunDispatch) -> RunDispatch {
    RunDispatch { claimed_by: Some(claimer(n)), ..claimed(row, claim, at(10)) }
}
