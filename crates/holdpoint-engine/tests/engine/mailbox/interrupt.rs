//! Cases 49 to 61: cancellation of queued rows, and interrupts, which supersede the rows of older epochs.

use holdpoint_engine::core::mailbox::{
    MailboxError, MailboxInterrupt, RunDispatch, RunDispatchStatus, RunStatus,
};

use crate::mailbox::harness::{Harness, TASKS, run_concurrently};
use crate::mailbox::rows::{
    CONSUMER, LEASE_MS, TERMINAL, UNKNOWN, at, claimed, done, ended, failed, on, queued, stale, superseded,
    token,
};
use crate::test_database::on_both;

on_both! {
    case_49_only_a_queued_row_can_be_cancelled,
    case_50_of_a_concurrent_cancel_and_claim_one_succeeds,
    case_51_an_interrupt_supersedes_queued_rows,
    case_52_an_interrupt_returns_the_claimed_row_unchanged,
    case_53_an_unknown_thread_can_be_interrupted,
    case_54_a_call_of_an_interrupted_holder_is_rejected_and_closes_the_row,
    case_55_a_lease_extension_of_an_interrupted_holder_closes_the_row,
    case_56_an_interrupted_row_with_an_expired_lease_is_superseded_and_not_returned,
    case_57_a_new_row_cannot_be_claimed_until_the_old_claim_is_closed,
    case_58_a_row_enqueued_during_an_interrupt_is_superseded_or_has_the_new_epoch,
    case_59_a_holder_can_supersede_its_own_row,
    case_60_the_epoch_of_a_thread_survives_the_purge_of_its_rows,
    case_61_an_interrupt_does_not_affect_other_threads,
    a_row_nacked_during_an_interrupt_is_superseded,
    a_row_reclaimed_during_an_interrupt_is_superseded,
}

async fn case_49_only_a_queued_row_can_be_cancelled(h: Harness) {
    h.enqueue_all([queued("a")]).await;
    let cancelled = h.mail.cancel("a", at(10)).await.unwrap();
    assert_eq!(cancelled, Some(ended(&queued("a"), RunDispatchStatus::Cancelled, at(10))));
    assert_eq!(Some(h.load("a").await), cancelled);
    for status in TERMINAL.into_iter().chain([RunDispatchStatus::Claimed]) {
        let row = h.enqueue_in_status(queued(status.as_str()), status, at(1)).await;
        assert_eq!(h.mail.cancel(status.as_str(), at(10)).await.unwrap(), None);
        assert_eq!(h.load(status.as_str()).await, row);
    }
    assert_eq!(h.mail.cancel(UNKNOWN, at(10)).await.unwrap(), None);
}

async fn case_50_of_a_concurrent_cancel_and_claim_one_succeeds(h: Harness) {
    let handles = h.two_handles().await;
    for round in 0..200 {
        let id = format!("d{round}");
        h.enqueue_all([queued(&id)]).await;
        let answers = run_concurrently(&handles, |n, mail| {
            let id = id.clone();
            async move {
                // Both handles cancel and claim.
                if n % 4 < 2 {
                    return mail.cancel(&id, at(10)).await.unwrap();
                }
                mail.claims().claim("t", CONSUMER, LEASE_MS, at(10), 1).await.unwrap().pop()
            }
        })
        .await;
        let winners: Vec<RunDispatch> = answers.into_iter().flatten().collect();
        assert_eq!(winners.len(), 1, "{winners:?}");
        let found = h.load(&id).await;
        if found.status == RunDispatchStatus::Claimed {
            assert_eq!(found, claimed(&queued(&id), &found, at(10)));
            h.mail.claims().ack(&id, token(&found), at(20)).await.unwrap();
        } else {
            assert_eq!(found, ended(&queued(&id), RunDispatchStatus::Cancelled, at(10)));
        }
        assert_eq!(winners, [found]);
    }
}

async fn case_51_an_interrupt_supersedes_queued_rows(h: Harness) {
    h.enqueue_all([queued("a"), queued("b")]).await;
    let interrupted = h.mail.interrupt("t", at(10)).await.unwrap();
    let rows = h.list("t").await;
    assert_eq!(
        rows,
        [superseded(&queued("a"), &rows[0], at(10)), superseded(&queued("b"), &rows[1], at(10))]
    );
    let expected = MailboxInterrupt {
        new_dispatch_epoch: 1,
        active_dispatch: None,
        superseded_count: 2,
        superseded_dispatches: rows,
    };
    assert_eq!(interrupted, expected);
    assert_eq!(h.mail.current_dispatch_epoch("t").await.unwrap(), 1);
}

async fn case_52_an_interrupt_returns_the_claimed_row_unchanged(h: Harness) {
    let held = h.claim_new(queued("a"), at(5)).await;
    h.enqueue_all([queued("b")]).await;
    let interrupted = h.mail.interrupt("t", at(10)).await.unwrap();
    let waiting = h.load("b").await;
    assert_eq!(waiting, superseded(&queued("b"), &waiting, at(10)));
    let expected = MailboxInterrupt {
        new_dispatch_epoch: 1,
        active_dispatch: Some(held.clone()),
        superseded_count: 1,
        superseded_dispatches: vec![waiting],
    };
    assert_eq!(interrupted, expected);
    assert_eq!(h.load("a").await, held);
    // Of several rows claimed together, the first is returned.
    h.enqueue_all([on("u", queued("c")), on("u", queued("d"))]).await;
    let batch = h.claim("u", at(5), 2).await;
    let interrupted = h.mail.interrupt("u", at(10)).await.unwrap();
    assert_eq!(interrupted.active_dispatch.as_ref(), Some(&batch[0]));
    assert_eq!(h.list("u").await, batch);
}

async fn case_53_an_unknown_thread_can_be_interrupted(h: Harness) {
    let only_epoch = |new_dispatch_epoch| MailboxInterrupt {
        new_dispatch_epoch,
        active_dispatch: None,
        superseded_count: 0,
        superseded_dispatches: Vec::new(),
    };
    assert_eq!(h.mail.current_dispatch_epoch("t").await.unwrap(), 0);
    assert_eq!(h.mail.interrupt("t", at(10)).await.unwrap(), only_epoch(1));
    assert_eq!(h.mail.interrupt("t", at(11)).await.unwrap(), only_epoch(2));
    assert_eq!(h.mail.current_dispatch_epoch("t").await.unwrap(), 2);
}

async fn case_54_a_call_of_an_interrupted_holder_is_rejected_and_closes_the_row(h: Harness) {
    for call in ["ack", "nack", "dead_letter", "record_start", "record_result", "complete"] {
        let row = on(call, queued(call));
        let held = h.claim_new_with_result(row.clone(), at(5)).await;
        h.interrupt(call, 2).await;
        let (mail, old, result) = (&h.mail, token(&held), done(&row));
        let answer = match call {
            "ack" => mail.claims().ack(call, old, at(10)).await,
            "nack" => mail.claims().nack(call, old, at(99), "no", at(10)).await,
            "dead_letter" => mail.claims().dead_letter(call, old, "no", at(10)).await,
            "record_start" => mail.claims().record_dispatch_start(call, old, "instance", at(10)).await,
            "record_result" => mail.claims().record_run_result(call, old, &result, at(10)).await,
            _ => mail.claims().complete(call, old, &result, at(10)).await,
        };
        let conflict =
            MailboxError::EpochConflict { dispatch_id: call.to_owned(), dispatch_epoch: 0, current_epoch: 2 };
        assert_eq!(answer, Err(conflict), "{call}");
        let found = h.load(call).await;
        assert_eq!(found, superseded(&row, &found, at(10)), "{call}");
        // The row is closed, so the next call has a stale claim.
        let again = h.mail.claims().ack(call, old, at(11)).await;
        assert_eq!(again, Err(stale(call, RunDispatchStatus::Superseded)), "{call}");
    }
}

async fn case_55_a_lease_extension_of_an_interrupted_holder_closes_the_row(h: Harness) {
    let held = h.claim_new(queued("a"), at(5)).await;
    let running = h.mail.claims().record_dispatch_start("a", token(&held), "instance", at(6)).await.unwrap();
    assert_eq!(running.run_status, Some(RunStatus::Running));
    h.interrupt("t", 1).await;
    assert!(!h.mail.claims().extend_lease("a", token(&held), 5000, at(10)).await.unwrap());
    let found = h.load("a").await;
    assert_eq!(found, superseded(&queued("a"), &found, at(10)));
}

async fn case_56_an_interrupted_row_with_an_expired_lease_is_superseded_and_not_returned(h: Harness) {
    h.claim_new_with_result(queued("a"), at(5)).await;
    h.interrupt("t", 1).await;
    assert_eq!(h.mail.reclaim_expired_leases(at(5000), 10).await.unwrap(), []);
    let found = h.load("a").await;
    assert_eq!(found, superseded(&queued("a"), &found, at(5000)));
}

async fn case_57_a_new_row_cannot_be_claimed_until_the_old_claim_is_closed(h: Harness) {
    let held = h.claim_new(queued("old"), at(5)).await;
    h.interrupt("t", 1).await;
    let new = RunDispatch { dispatch_epoch: 1, ..queued("new") };
    assert_eq!(h.mail.enqueue(&queued("new")).await.unwrap(), new);
    assert_eq!(h.claim("t", at(10), 5).await, []);
    assert_eq!(h.claim_dispatch("new", at(10)).await, None);
    assert_eq!(h.list("t").await, [held.clone(), new.clone()]);
    h.mail.claims().ack("old", token(&held), at(20)).await.unwrap_err();
    let found = h.claim("t", at(30), 5).await;
    assert_eq!(found, [claimed(&new, &found[0], at(30))]);
    assert_eq!(h.load("new").await, found[0]);
}

async fn case_58_a_row_enqueued_during_an_interrupt_is_superseded_or_has_the_new_epoch(h: Harness) {
    let handles = h.two_handles().await;
    for round in 0..200 {
        let thread = format!("t{round}");
        let row = |n: usize| on(&thread, queued(&format!("{round}/{n}")));
        // In each round another task interrupts.
        let interrupter = round % TASKS;
        let answers = run_concurrently(&handles, |n, mail| {
            let (row, thread) = (row(n), thread.clone());
            async move {
                if n != interrupter {
                    mail.enqueue(&row).await.unwrap();
                    return None;
                }
                Some(mail.interrupt(&thread, at(10)).await.unwrap())
            }
        })
        .await;
        let interrupted = answers.into_iter().flatten().next().unwrap();
        let (mut before, mut after) = (Vec::new(), 0);
        for n in (0..TASKS).filter(|n| *n != interrupter) {
            let found = h.load(&row(n).dispatch_id).await;
            if found.status == RunDispatchStatus::Superseded {
                assert_eq!(found, superseded(&row(n), &found, at(10)));
                before.push(found);
            } else {
                assert_eq!(found, RunDispatch { dispatch_epoch: 1, ..row(n) });
                after += 1;
            }
        }
        let mut named = interrupted.superseded_dispatches;
        named.sort_by_key(|row| before.iter().position(|one| one.dispatch_id == row.dispatch_id));
        assert_eq!((interrupted.new_dispatch_epoch, interrupted.superseded_count), (1, before.len()));
        assert_eq!((named, before.len() + after), (before, TASKS - 1));
    }
}

async fn case_59_a_holder_can_supersede_its_own_row(h: Harness) {
    let held = h.claim_new_with_result(queued("a"), at(5)).await;
    let wrong = h.mail.claims().supersede_claimed("a", "wrong", at(10), "newer").await;
    assert_eq!(wrong, Err(stale("a", RunDispatchStatus::Claimed)));
    assert_eq!(h.load("a").await, held);
    let closed =
        h.mail.claims().supersede_claimed("a", token(&held), at(10), "newer").await.unwrap().unwrap();
    let with_reason = RunDispatch { last_error: Some("newer".to_owned()), ..closed.clone() };
    assert_eq!(closed, superseded(&queued("a"), &with_reason, at(10)));
    assert_eq!(h.load("a").await, closed);
    // After an interrupt this is no conflict, and the row gets the epoch of the thread.
    let held = h.claim_new(on("u", queued("b")), at(5)).await;
    h.interrupt("u", 3).await;
    let closed =
        h.mail.claims().supersede_claimed("b", token(&held), at(10), "newer").await.unwrap().unwrap();
    let moved = RunDispatch { dispatch_epoch: 3, ..on("u", queued("b")) };
    assert_eq!(closed, superseded(&moved, &with_reason, at(10)));
    assert_eq!(h.load("b").await, closed);
    for status in TERMINAL.into_iter().chain([RunDispatchStatus::Queued]) {
        let row = h.enqueue_in_status(on("v", queued(status.as_str())), status, at(5)).await;
        let answer =
            h.mail.claims().supersede_claimed(status.as_str(), "any", at(10), "newer").await.unwrap();
        assert_eq!(answer, None);
        assert_eq!(h.load(status.as_str()).await, row);
    }
    assert_eq!(h.mail.claims().supersede_claimed(UNKNOWN, "any", at(10), "newer").await.unwrap(), None);
}

async fn case_60_the_epoch_of_a_thread_survives_the_purge_of_its_rows(h: Harness) {
    h.enqueue_all([queued("a")]).await;
    h.interrupt("t", 4).await;
    assert_eq!(h.mail.purge_terminal(at(9000), 100).await.unwrap(), 1);
    assert_eq!(h.list("t").await, []);
    assert_eq!(h.mail.current_dispatch_epoch("t").await.unwrap(), 4);
    let h = h.reopen().await;
    assert_eq!(h.mail.current_dispatch_epoch("t").await.unwrap(), 4);
    assert_eq!(h.mail.enqueue(&queued("b")).await.unwrap(), RunDispatch { dispatch_epoch: 4, ..queued("b") });
}

async fn case_61_an_interrupt_does_not_affect_other_threads(h: Harness) {
    let held = h.claim_new(on("b", queued("held")), at(5)).await;
    h.enqueue_all([on("a", queued("mine")), on("b", queued("other"))]).await;
    h.interrupt("a", 1).await;
    assert_eq!(h.list("b").await, [held.clone(), on("b", queued("other"))]);
    assert_eq!(h.mail.current_dispatch_epoch("b").await.unwrap(), 0);
    let acked = h.mail.claims().ack("held", token(&held), at(10)).await.unwrap();
    assert_eq!(acked, ended(&on("b", queued("held")), RunDispatchStatus::Acked, at(10)));
}

async fn a_row_nacked_during_an_interrupt_is_superseded(h: Harness) {
    let handles = h.two_handles().await;
    for round in 0..200 {
        let thread = format!("t{round}");
        let row = on(&thread, queued(&thread));
        let held = h.claim_new(row.clone(), at(5)).await;
        let (holder, interrupter) = (&handles[round % 2], &handles[(round + 1) % 2]);
        let nack = holder.claims().nack(&thread, token(&held), at(99), "not me", at(10));
        let (nacked, interrupted) = tokio::join!(nack, interrupter.interrupt(&thread, at(10)));
        let (interrupted, found) = (interrupted.unwrap(), h.load(&thread).await);
        if let Ok(nacked) = nacked {
            // The row was queued again before the interrupt.
            let back = failed(&row, Some("not me".to_owned()), at(99), at(10));
            assert_eq!((nacked, interrupted.active_dispatch), (back.clone(), None));
            assert_eq!(interrupted.superseded_dispatches, std::slice::from_ref(&found));
            assert_eq!(found, superseded(&back, &found, at(10)));
        } else {
            let current = MailboxError::EpochConflict {
                dispatch_id: thread.clone(),
                dispatch_epoch: 0,
                current_epoch: 1,
            };
            assert_eq!((nacked, interrupted.active_dispatch), (Err(current), Some(held)));
            assert_eq!((interrupted.superseded_count, &found), (0, &superseded(&row, &found, at(10))));
        }
    }
}

async fn a_row_reclaimed_during_an_interrupt_is_superseded(h: Harness) {
    let handles = h.two_handles().await;
    for round in 0..200 {
        let thread = format!("t{round}");
        let held = h.claim_new(on(&thread, queued(&thread)), at(5)).await;
        let (reclaimer, interrupter) = (&handles[round % 2], &handles[(round + 1) % 2]);
        let reclaim = reclaimer.reclaim_expired_leases(at(5000), 10);
        let (reclaimed, interrupted) = tokio::join!(reclaim, interrupter.interrupt(&thread, at(5000)));
        let (reclaimed, interrupted) = (reclaimed.unwrap(), interrupted.unwrap());
        if reclaimed.is_empty() {
            // The interrupt was first. The reclaim may have skipped the row because the interrupt had it locked.
            assert_eq!((interrupted.active_dispatch, interrupted.superseded_count), (Some(held), 0));
            assert_eq!(reclaimer.reclaim_expired_leases(at(5000), 10).await.unwrap(), []);
        } else {
            assert_eq!((reclaimed.len(), interrupted.superseded_count), (1, 1));
            assert_eq!(interrupted.active_dispatch, None);
        }
        let found = h.load(&thread).await;
        assert_eq!((found.status, found.claim_token), (RunDispatchStatus::Superseded, None), "round {round}");
    }
}
