//! Values at the edge of what can be stored, where databases part.

use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};

use crate::harness::Harness;
use crate::place::on_both;
use crate::rows::{CONSUMER, LEASE_MS, at, on, queued, token};

on_both! {
    a_lease_without_end_wakes_nobody,
    a_row_that_came_without_attempts_is_a_dead_letter_after_one,
}

async fn a_lease_without_end_wakes_nobody(h: Harness) {
    h.given([queued("held")]).await;
    let held = h.mail.claim_dispatch("held", CONSUMER, u64::MAX, at(1000)).await.unwrap().unwrap();
    assert_eq!(held.lease_until, Some(at(i64::MAX)));
    assert_eq!(h.mail.next_wakeup(at(1000)).await.unwrap(), None);
    assert_eq!(h.mail.reclaim_expired_leases(at(i64::MAX), 10).await.unwrap(), []);
}

async fn a_row_that_came_without_attempts_is_a_dead_letter_after_one(h: Harness) {
    for most in [1, u32::MAX] {
        let name = |what: &str| format!("{what} {most}");
        let row = |what: &str| RunDispatch {
            attempt_count: most,
            max_attempts: most,
            ..on(&name(what), queued(&name(what)))
        };
        let held = h.held(row("failing"), at(1)).await;
        let failed = h.mail.nack(&held.dispatch_id, token(&held), at(9), "no", at(2)).await.unwrap();
        assert_eq!((failed.status, failed.attempt_count), (RunDispatchStatus::DeadLetter, most));
        // Nor does it keep others from being taken back.
        h.held(row("silent"), at(1)).await;
        h.held(on(&name("u"), queued(&name("other"))), at(1)).await;
        let over = at(2 + i64::try_from(LEASE_MS).unwrap());
        let back = h.mail.reclaim_expired_leases(over, 10).await.unwrap();
        let statuses: Vec<_> = back.iter().map(|row| (row.status, row.attempt_count)).collect();
        assert_eq!(statuses, [(RunDispatchStatus::DeadLetter, most), (RunDispatchStatus::Queued, 1)]);
        // A worker gets over it as well.
        h.held(row("alone"), at(0)).await;
        let clock = h.engine.clock();
        clock.advance(over.0 - clock.now().0);
        h.engine.worker().drain().await.unwrap();
        assert_eq!(h.load(&name("alone")).await.status, RunDispatchStatus::DeadLetter);
    }
}
