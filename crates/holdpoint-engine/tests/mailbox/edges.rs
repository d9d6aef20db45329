//! Values at the edge of what can be stored, where databases part.

use holdpoint_engine::core::TenantId;
use holdpoint_engine::core::mailbox::{MailboxError, RunDispatch, RunDispatchStatus};

use crate::harness::Harness;
use crate::place::on_both;
use crate::rows::{CONSUMER, LEASE_MS, at, keyed, on, queued, token};

on_both! {
    a_lease_without_end_wakes_nobody,
    a_row_that_came_without_attempts_is_a_dead_letter_after_one,
    an_id_is_as_long_as_every_database_can_find_again,
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

/// A text that no compression makes shorter.
fn noise(bytes: usize) -> String {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + u8::try_from((state >> 24) % 94).unwrap())
    };
    (0..bytes).map(|_| next()).collect()
}

async fn an_id_is_as_long_as_every_database_can_find_again(h: Harness) {
    let (id, key) = (noise(1024), noise(1040));
    let longest = on(&id, keyed(&key, queued(&id)));
    let wide: String =
        noise(128).bytes().map(|byte| char::from_u32(0x1_F300 + u32::from(byte)).unwrap()).collect();
    let tenant = TenantId::parse(&wide).unwrap();
    let mail = h.engine.mailbox(&tenant);
    let stored = mail.enqueue(&longest).await.unwrap();
    assert_eq!(mail.load_dispatch(&id).await.unwrap(), Some(stored));
    mail.interrupt(&id, at(1)).await.unwrap();
    let (id, key) = (noise(1025), noise(1041));
    for row in [queued(&id), on(&id, queued("a")), keyed(&key, queued("b"))] {
        let refused = h.mail.enqueue(&row).await;
        assert!(matches!(refused, Err(MailboxError::Validation(_))), "{refused:?}");
    }
    for thread in [&id, &noise(100_000)] {
        let refused = h.mail.interrupt(thread, at(1)).await;
        assert!(matches!(refused, Err(MailboxError::Validation(_))), "{refused:?}");
        // There is no such thread, and that is no error.
        assert_eq!(h.mail.claim(thread, CONSUMER, LEASE_MS, at(1), 1).await.unwrap(), []);
        assert_eq!(h.list(thread).await, []);
        assert_eq!(h.mail.current_dispatch_epoch(thread).await.unwrap(), 0);
    }
}
