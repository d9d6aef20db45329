//! Dispatches of runs through the mailbox API: a client that ends the dispatch of a run ends the run.

use holdpoint_engine::Mailbox;
use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};

use crate::effects::{Shop, shopping, with_shop};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, alice, tenant};

on_both! {
    a_dead_letter_from_a_mailbox_client_fails_the_run_with_its_error,
    cancelling_a_queued_dispatch_cancels_its_run,
    interrupting_the_dispatch_thread_cancels_the_run,
    too_many_expired_claims_end_dispatch_and_run_in_one_commit,
    a_requeued_run_is_not_failed_by_its_dead_letter,
    of_a_cancel_and_a_claim_in_one_batch_one_wins,
    of_a_cancel_and_a_claim_on_two_nodes_one_wins,
    an_unreadable_run_is_dead_lettered_when_its_last_claim_expires,
    an_unreadable_run_is_dead_lettered_when_it_is_claimed,
}

const LEASE_MS: u64 = 1000;

/// Starts a run that waits for a worker. Returns it with its dispatch.
async fn start_run(database: TestDatabase) -> (TestEnv, Shop, RunRef, RunDispatch) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    env.register(shopping()).await;
    let of = env.start("shopping").await;
    let rows = env.dispatches(&of).await;
    assert_eq!(rows.len(), 1, "one activation is one dispatch");
    let row = rows.into_iter().next().unwrap();
    assert_eq!((row.status, row.run_id.as_str()), (RunDispatchStatus::Queued, of.run.as_str()));
    (env, shop, of, row)
}

impl TestEnv {
    async fn dispatches(&self, of: &RunRef) -> Vec<RunDispatch> {
        self.engine.mailbox(&tenant()).list_dispatches(of.run.as_str(), None, 100, 0).await.unwrap()
    }

    /// Claims the dispatch as a client of the mailbox and returns the token.
    async fn claim(&self, row: &RunDispatch) -> String {
        let mail = self.engine.mailbox(&tenant());
        let claimed = mail
            .claims()
            .claim_dispatch(&row.dispatch_id, "client", LEASE_MS, self.clock.now())
            .await
            .unwrap();
        claimed.expect("the dispatch cannot be claimed").claim_token.unwrap()
    }

    /// Claims the dispatch up to its limit of attempts and lets each lease expire. The last claim is not reclaimed.
    async fn exhaust_attempts(&self, row: &RunDispatch) {
        let mail = self.engine.mailbox(&tenant());
        for attempt in 1..=row.max_attempts {
            self.claim(row).await;
            self.clock.advance(i64::try_from(LEASE_MS).unwrap() + 1);
            if attempt < row.max_attempts {
                let back = mail.reclaim_expired_leases(self.clock.now(), 10).await.unwrap();
                assert_eq!(back.iter().map(|row| row.attempt_count).collect::<Vec<_>>(), [attempt]);
            }
        }
    }

    /// Changes the stored events so that the run cannot be read.
    async fn make_unreadable(&self, of: &RunRef) {
        let events = r#"[{"type":"from.the.future"}]"#;
        let sql = format!("UPDATE events SET events = '{events}' WHERE run_id = '{}'", of.run);
        self.database.execute(&sql).await.unwrap();
        assert!(self.engine.events().list(of, 0).await.is_err());
    }

    /// Checks that the run has ended with this status and text, and that no work is left.
    async fn assert_ended(&self, of: &RunRef, shop: &Shop, status: &str, text: &str) {
        assert_eq!(self.status(of).await, status);
        let log = self.log(of).await;
        assert!(log.last().unwrap().contains(text), "{log:?}");
        let mail = self.engine.mailbox(&tenant());
        assert_eq!(mail.list_terminal_unreconciled(10).await.unwrap(), []);
        assert_eq!(self.drain().await, 0, "no work is left");
        assert_eq!(shop.quotes.load(std::sync::atomic::Ordering::SeqCst), 0, "no worker executed the run");
        assert_eq!(self.log(of).await, log);
    }
}

async fn a_dead_letter_from_a_mailbox_client_fails_the_run_with_its_error(database: TestDatabase) {
    let (env, shop, of, row) = start_run(database).await;
    let token = env.claim(&row).await;
    let mail = env.engine.mailbox(&tenant());
    mail.claims()
        .dead_letter(&row.dispatch_id, &token, "the printer is on fire", env.clock.now())
        .await
        .unwrap();
    assert_eq!(env.status(&of).await, "running", "the worker ends the run later");
    env.drain().await;
    env.assert_ended(&of, &shop, "failed", "the printer is on fire").await;
}

async fn cancelling_a_queued_dispatch_cancels_its_run(database: TestDatabase) {
    let (env, shop, of, row) = start_run(database).await;
    let mail = env.engine.mailbox(&tenant());
    let cancelled = mail.cancel(&row.dispatch_id, env.clock.now()).await.unwrap().unwrap();
    assert_eq!(cancelled.status, RunDispatchStatus::Cancelled);
    env.drain().await;
    env.assert_ended(&of, &shop, "cancelled", "its dispatch was cancelled").await;
}

async fn interrupting_the_dispatch_thread_cancels_the_run(database: TestDatabase) {
    let (env, shop, of, row) = start_run(database).await;
    let mail = env.engine.mailbox(&tenant());
    let interrupt = mail.interrupt(of.run.as_str(), env.clock.now()).await.unwrap();
    let superseded: Vec<_> = interrupt.superseded_dispatches.iter().map(|row| &row.dispatch_id).collect();
    assert_eq!(superseded, [&row.dispatch_id]);
    env.drain().await;
    env.assert_ended(&of, &shop, "cancelled", "the thread was interrupted").await;
}

async fn too_many_expired_claims_end_dispatch_and_run_in_one_commit(database: TestDatabase) {
    let (env, shop, of, row) = start_run(database).await;
    env.exhaust_attempts(&row).await;
    assert_eq!(env.status(&of).await, "running");
    let commits = || env.engine.counters().commits.load(std::sync::atomic::Ordering::SeqCst);
    let before = commits();
    env.drain().await;
    let rows = env.dispatches(&of).await;
    assert_eq!(rows.iter().map(|row| row.status).collect::<Vec<_>>(), [RunDispatchStatus::DeadLetter]);
    // One commit reclaims expired claims, the other ends this one.
    assert_eq!(commits() - before, 2);
    env.assert_ended(&of, &shop, "failed", "dispatch_failed").await;
}

async fn a_requeued_run_is_not_failed_by_its_dead_letter(database: TestDatabase) {
    let (env, shop, of, row) = start_run(database).await;
    let mail = env.engine.mailbox(&tenant());
    let token = env.claim(&row).await;
    let now = env.clock.now();
    mail.claims().dead_letter(&row.dispatch_id, &token, "hopeless", now).await.unwrap();
    let again = env.engine.dispatches().requeue(&tenant(), &row.dispatch_id, None).await.unwrap();
    assert_eq!(again.run_id, row.run_id);
    let token = env.claim(&again).await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "running", "the second dispatch is claimed");
    assert_eq!(mail.list_terminal_unreconciled(10).await.unwrap(), [], "the dead letter is reconciled");
    mail.claims().nack(&again.dispatch_id, &token, now, "not me", now).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "waiting-input", "the second dispatch continued the run");
    assert_eq!(shop.quotes.load(std::sync::atomic::Ordering::SeqCst), 1);
    let statuses: Vec<_> = env.dispatches(&of).await.iter().map(|row| row.status).collect();
    assert_eq!(statuses, [RunDispatchStatus::DeadLetter, RunDispatchStatus::Acked]);
}

async fn of_a_cancel_and_a_claim_in_one_batch_one_wins(database: TestDatabase) {
    let env = TestEnv::with(database, with_shop(&Shop::default())).await;
    let mail = env.engine.mailbox(&tenant());
    race_to_cancel(&env, &mail).await;
}

async fn of_a_cancel_and_a_claim_on_two_nodes_one_wins(database: TestDatabase) {
    let env = TestEnv::with(database, with_shop(&Shop::default())).await;
    let second = env.second_engine(with_shop(&Shop::default())).await;
    race_to_cancel(&env, &second.mailbox(&tenant())).await;
    second.close().await;
}

/// Repeatedly cancels a dispatch while `claimer` claims it.
async fn race_to_cancel(env: &TestEnv, claimer: &Mailbox) {
    env.register(shopping()).await;
    let (mut cancels, now, tenant) = (0, env.clock.now(), tenant());
    const ROUNDS: usize = 120;
    for round in 0..ROUNDS {
        let of = env.start("shopping").await;
        let row = env.dispatches(&of).await.remove(0);
        // A cancel reads before it writes. The number of reads before the claim varies the order.
        let claim = async {
            for _ in 0..round % 6 {
                claimer.load_dispatch(&row.dispatch_id).await.unwrap();
            }
            if round % 4 < 2 {
                return claimer.claims().claim(of.run.as_str(), "client", LEASE_MS, now, 1).await.unwrap();
            }
            claimer.claims().claim_ready("client", LEASE_MS, now, 10).await.unwrap()
        };
        let cancel = env.engine.dispatches().cancel(&tenant, &row.dispatch_id, alice(), None);
        let (claimed, cancelled) = tokio::join!(claim, cancel);
        let found = env.dispatches(&of).await;
        if let Some(cancelled) = cancelled.unwrap() {
            cancels += 1;
            assert_eq!((claimed, cancelled.status), (vec![], RunDispatchStatus::Cancelled), "round {round}");
            assert_eq!((found, env.status(&of).await), (vec![cancelled], "cancelled"), "round {round}");
        } else {
            assert_eq!((&found, env.status(&of).await), (&claimed, "running"), "round {round}");
            let token = claimed[0].claim_token.as_deref().expect("the dispatch is claimed");
            claimer.claims().ack(&row.dispatch_id, token, now).await.unwrap();
        }
    }
    assert!((1..ROUNDS).contains(&cancels), "each side must win at least once; {cancels} cancels won");
}

async fn an_unreadable_run_is_dead_lettered_when_its_last_claim_expires(database: TestDatabase) {
    let (env, _, of, row) = start_run(database).await;
    env.exhaust_attempts(&row).await;
    let healthy = env.start("shopping").await;
    env.make_unreadable(&of).await;
    assert_eq!(env.drain().await, 1, "the dispatch of the other run");
    env.assert_dead_lettered(&of, &healthy).await;
}

async fn an_unreadable_run_is_dead_lettered_when_it_is_claimed(database: TestDatabase) {
    let (env, _, of, _) = start_run(database).await;
    let healthy = env.start("shopping").await;
    env.make_unreadable(&of).await;
    env.drain().await;
    env.assert_dead_lettered(&of, &healthy).await;
}

impl TestEnv {
    /// Checks that the dispatch of the unreadable run is a dead letter, and that the other run completes.
    async fn assert_dead_lettered(&self, of: &RunRef, healthy: &RunRef) {
        let rows = self.dispatches(of).await;
        assert_eq!(rows.iter().map(|row| row.status).collect::<Vec<_>>(), [RunDispatchStatus::DeadLetter]);
        assert!(rows[0].last_error.is_some());
        let mail = self.engine.mailbox(&tenant());
        assert_eq!(mail.list_terminal_unreconciled(10).await.unwrap(), []);
        assert_eq!(self.status(healthy).await, "waiting-input");
        self.answer(healthy, "buy", serde_json::json!("r1")).await.unwrap();
        assert_eq!(self.drain().await, 1);
        assert_eq!(self.status(healthy).await, "completed");
        assert_eq!(self.drain().await, 0, "no work is left");
    }
}
