//! Isolation of tenants in the mailbox, and the list of terminal rows whose runs are not yet reconciled.

use holdpoint_engine::core::TenantId;
use holdpoint_engine::core::mailbox::{MailboxError, RunDispatch, RunDispatchStatus};
use holdpoint_engine::{Error, Mailbox};

use crate::mailbox::harness::Harness;
use crate::mailbox::rows::{CONSUMER, LEASE_MS, at, done, ids, keyed, on, queued, token};
use crate::test_database::on_both;

on_both! {
    no_operation_finds_a_dispatch_of_another_tenant,
    threads_of_the_same_name_in_two_tenants_are_separate,
    terminal_rows_are_listed_until_their_runs_are_reconciled,
}

fn foreign(h: &Harness) -> (TenantId, Mailbox) {
    let other = TenantId::parse("other").unwrap();
    let mail = h.engine.mailbox(&other);
    (other, mail)
}

async fn no_operation_finds_a_dispatch_of_another_tenant(h: Harness) {
    let (other, theirs) = foreign(&h);
    h.enqueue_all([on("u", queued("waiting"))]).await;
    let waiting = h.load("waiting").await;
    assert_eq!(theirs.load_dispatch("waiting").await.unwrap(), None);
    assert_eq!(theirs.claims().claim_dispatch("waiting", CONSUMER, LEASE_MS, at(1)).await.unwrap(), None);
    assert_eq!(theirs.cancel("waiting", at(1)).await.unwrap(), None);
    let by = holdpoint_engine::core::Principal::named("eve");
    let cancelled = h.engine.dispatches().cancel(&other, "waiting", by, None).await;
    assert!(matches!(cancelled, Err(Error::NotFound("dispatch"))), "{cancelled:?}");
    assert_eq!(h.load("waiting").await, waiting);

    let held = h.claim_new(queued("held"), at(1)).await;
    let (id, token) = ("held", token(&held));
    let missing = Err(MailboxError::NotFound { kind: "dispatch", id: id.to_owned() });
    assert_eq!(theirs.claims().ack(id, token, at(2)).await, missing);
    assert_eq!(theirs.claims().nack(id, token, at(9), "no", at(2)).await, missing);
    assert_eq!(theirs.claims().dead_letter(id, token, "no", at(2)).await, missing);
    assert_eq!(theirs.claims().record_dispatch_start(id, token, "i", at(2)).await, missing);
    assert_eq!(theirs.claims().record_run_result(id, token, &done(&held), at(2)).await, missing);
    assert_eq!(theirs.claims().complete(id, token, &done(&held), at(2)).await, missing);
    assert_eq!(theirs.claims().supersede_claimed(id, token, at(2), "no").await, Ok(None));
    assert_eq!(theirs.claims().extend_lease(id, token, 99_000, at(2)).await, Ok(false));
    // A rejected call does not close the row after an interrupt of its thread.
    h.mail.interrupt("t", at(2)).await.unwrap();
    assert_eq!(theirs.claims().extend_lease(id, token, 99_000, at(2)).await, Ok(false));
    assert_eq!(theirs.claims().ack(id, token, at(2)).await, missing);
    assert_eq!(h.load("held").await, held);

    let held = h.claim_new(on("v", queued("dead")), at(1)).await;
    let (id, token) = ("dead", crate::mailbox::rows::token(&held));
    h.mail.claims().dead_letter(id, token, "hopeless", at(3)).await.unwrap();
    let requeued = h.engine.dispatches().requeue(&other, id, None).await;
    assert!(matches!(requeued, Err(Error::NotFound("dispatch"))), "{requeued:?}");
}

async fn threads_of_the_same_name_in_two_tenants_are_separate(h: Harness) {
    let (other, theirs) = foreign(&h);
    h.enqueue_all([keyed("k", queued("ours"))]).await;
    // The same key is accepted, because the thread of the other tenant is another thread.
    let row = RunDispatch { tenant: other, ..keyed("k", queued("theirs")) };
    assert_eq!(theirs.enqueue(&row).await, Ok(row.clone()));
    assert_eq!(theirs.list_dispatches("t", None, 10, 0).await.unwrap(), *std::slice::from_ref(&row));
    assert_eq!(ids(&h.list("t").await), ["ours"]);
    assert_eq!(h.mail.count_by_status().await.unwrap(), [1, 0, 0, 0, 0, 0]);
    // A claimed row does not block the thread of the other tenant.
    let held = h.claim_one("t", at(1)).await;
    assert_eq!(held.dispatch_id, "ours");
    assert_eq!(h.mail.queued_thread_ids().await.unwrap(), [""; 0]);
    assert_eq!(theirs.queued_thread_ids().await.unwrap(), ["t"]);
    let theirs_held = theirs.claims().claim("t", CONSUMER, LEASE_MS, at(1), 10).await.unwrap();
    assert_eq!(ids(&theirs_held), ["theirs"]);
    // An interrupt does not affect the thread of the other tenant.
    assert_eq!(h.mail.interrupt("t", at(2)).await.unwrap().active_dispatch, Some(held.clone()));
    assert_eq!(theirs.current_dispatch_epoch("t").await.unwrap(), 0);
    theirs.claims().ack("theirs", token(&theirs_held[0]), at(3)).await.unwrap();
    let superseded = h.mail.claims().ack("ours", token(&held), at(3)).await;
    assert!(matches!(superseded, Err(MailboxError::EpochConflict { .. })), "{superseded:?}");
    // Dispatch ids are unique across tenants.
    let taken = theirs.enqueue(&RunDispatch { dispatch_id: "ours".to_owned(), ..row }).await;
    assert_eq!(taken, Err(MailboxError::DuplicateDispatch { dispatch_id: "ours".to_owned() }));
}

async fn terminal_rows_are_listed_until_their_runs_are_reconciled(h: Harness) {
    for status in RunDispatchStatus::ALL {
        let name = status.as_str();
        h.enqueue_in_status(on(name, queued(name)), status, at(1)).await;
    }
    // The only attempt ends by an expired lease.
    h.claim_new(on("u", RunDispatch { max_attempts: 1, ..queued("silent") }), at(1)).await;
    h.mail.reclaim_expired_leases(at(1 + i64::try_from(LEASE_MS).unwrap() + 1), 10).await.unwrap();
    // An interrupt supersedes a queued row.
    h.enqueue_all([on("v", queued("interrupted"))]).await;
    h.mail.interrupt("v", at(1)).await.unwrap();
    // Acked rows and rows that are not terminal are not listed. The other rows are listed in arrival order.
    let expected = ["cancelled", "superseded", "dead_letter", "silent", "interrupted"];
    let listed = h.mail.list_terminal_unreconciled(10).await.unwrap();
    assert_eq!(ids(&listed), expected);
    for row in &listed {
        assert_eq!(*row, h.load(&row.dispatch_id).await);
    }
    assert_eq!(ids(&h.mail.list_terminal_unreconciled(2).await.unwrap()), expected[..2]);
    // These dispatches have no runs, so the worker only marks the rows as reconciled.
    h.engine.worker().drain().await.unwrap();
    assert_eq!(h.mail.list_terminal_unreconciled(10).await.unwrap(), []);
}
