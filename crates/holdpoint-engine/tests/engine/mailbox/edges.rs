//! Limits of stored values, where SQLite and PostgreSQL differ.

use holdpoint_engine::core::TenantId;
use holdpoint_engine::core::mailbox::{MailboxError, RunDispatch, RunDispatchStatus};

use crate::mailbox::harness::Harness;
use crate::mailbox::rows::{CONSUMER, LEASE_MS, at, keyed, on, queued, token};
use crate::test_database::on_both;

on_both! {
    a_lease_without_end_causes_no_wakeup,
    a_row_enqueued_with_no_attempts_left_is_a_dead_letter_after_one_failure,
    ids_and_keys_have_a_maximum_length,
}

async fn a_lease_without_end_causes_no_wakeup(h: Harness) {
    h.enqueue_all([queued("held")]).await;
    let held = h.mail.claims().claim_dispatch("held", CONSUMER, u64::MAX, at(1000)).await.unwrap().unwrap();
    assert_eq!(held.lease_until, Some(at(i64::MAX)));
    assert_eq!(h.mail.next_wakeup(at(1000)).await.unwrap(), None);
    assert_eq!(h.mail.reclaim_expired_leases(at(i64::MAX), 10).await.unwrap(), []);
}

async fn a_row_enqueued_with_no_attempts_left_is_a_dead_letter_after_one_failure(h: Harness) {
    for most in [1, u32::MAX] {
        let name = |what: &str| format!("{what} {most}");
        let row = |what: &str| RunDispatch {
            attempt_count: most,
            max_attempts: most,
            ..on(&name(what), queued(&name(what)))
        };
        let held = h.claim_new(row("failing"), at(1)).await;
        let failed = h.mail.claims().nack(&held.dispatch_id, token(&held), at(9), "no", at(2)).await.unwrap();
        assert_eq!((failed.status, failed.attempt_count), (RunDispatchStatus::DeadLetter, most));
        // The row does not prevent the reclaim of other rows.
        h.claim_new(row("silent"), at(1)).await;
        h.claim_new(on(&name("u"), queued(&name("other"))), at(1)).await;
        let over = at(2 + i64::try_from(LEASE_MS).unwrap());
        let back = h.mail.reclaim_expired_leases(over, 10).await.unwrap();
        let statuses: Vec<_> = back.iter().map(|row| (row.status, row.attempt_count)).collect();
        assert_eq!(statuses, [(RunDispatchStatus::DeadLetter, most), (RunDispatchStatus::Queued, 1)]);
        // A worker handles such a row, too.
        h.claim_new(row("alone"), at(0)).await;
        let clock = h.engine.clock();
        clock.advance(over.0 - clock.now().0);
        h.engine.worker().drain().await.unwrap();
        assert_eq!(h.load(&name("alone")).await.status, RunDispatchStatus::DeadLetter);
    }
}

/// Returns a text that does not compress.
fn noise(bytes: usize) -> String {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + u8::try_from((state >> 24) % 94).unwrap())
    };
    (0..bytes).map(|_| next()).collect()
}

async fn ids_and_keys_have_a_maximum_length(h: Harness) {
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
        // Claims and reads of an unknown thread are not errors.
        assert_eq!(h.mail.claims().claim(thread, CONSUMER, LEASE_MS, at(1), 1).await.unwrap(), []);
        assert_eq!(h.list(thread).await, []);
        assert_eq!(h.mail.current_dispatch_epoch(thread).await.unwrap(), 0);
    }
}
