//! A run's dispatch is a row of the mailbox like any other. Whoever ends it there, ends the run.

use holdpoint_engine::Mailbox;
use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};

use crate::effects::{Shop, shopping, with_shop};
use crate::house::{House, alice, tenant};
use crate::place::{Place, on_both};

on_both! {
    a_dead_letter_of_a_raw_holder_fails_the_run_with_its_error,
    a_dispatch_that_is_cancelled_in_the_queue_takes_its_run_with_it,
    an_interrupt_of_the_thread_cancels_the_run,
    a_holder_that_is_silent_too_often_loses_dispatch_and_run_in_one_commit,
    a_run_that_was_dispatched_again_is_left_alone,
    of_a_cancel_and_a_claim_of_one_batch_one_wins,
    of_a_cancel_and_a_claim_on_two_nodes_one_wins,
    a_run_that_cannot_be_read_is_given_up_when_its_last_holder_is_silent,
    a_run_that_cannot_be_read_is_given_up_by_whoever_claims_it,
}

const LEASE_MS: u64 = 1000;

/// A run that waits for a worker, and its dispatch.
async fn given(place: Place) -> (House, Shop, RunRef, RunDispatch) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    house.register(shopping()).await;
    let of = house.start("shopping").await;
    let rows = house.dispatches(&of).await;
    assert_eq!(rows.len(), 1, "one activation is one dispatch");
    let row = rows.into_iter().next().unwrap();
    assert_eq!((row.status, row.run_id.as_str()), (RunDispatchStatus::Queued, of.run.as_str()));
    (house, shop, of, row)
}

impl House {
    async fn dispatches(&self, of: &RunRef) -> Vec<RunDispatch> {
        self.engine.mailbox(&tenant()).list_dispatches(of.run.as_str(), None, 100, 0).await.unwrap()
    }

    /// The token of a claim that no worker of ours knows of.
    async fn claimed(&self, row: &RunDispatch) -> String {
        let mail = self.engine.mailbox(&tenant());
        let claimed = mail.claim_dispatch(&row.dispatch_id, "raw", LEASE_MS, self.clock.now()).await.unwrap();
        claimed.expect("nothing stands in its way").claim_token.unwrap()
    }

    /// Claims the row as often as may be and lets the lease run out each time; the last claim nobody takes back.
    async fn silent_to_the_last(&self, row: &RunDispatch) {
        let mail = self.engine.mailbox(&tenant());
        for attempt in 1..=row.max_attempts {
            self.claimed(row).await;
            self.clock.advance(i64::try_from(LEASE_MS).unwrap() + 1);
            if attempt < row.max_attempts {
                let back = mail.reclaim_expired_leases(self.clock.now(), 10).await.unwrap();
                assert_eq!(back.iter().map(|row| row.attempt_count).collect::<Vec<_>>(), [attempt]);
            }
        }
    }

    /// Makes the run one that only a later version could read.
    async fn spoil(&self, of: &RunRef) {
        let events = r#"[{"type":"from.the.future"}]"#;
        let spoil = format!("UPDATE events SET events = '{events}' WHERE run_id = '{}'", of.run);
        self.place.execute(&spoil).await.unwrap();
        assert!(self.engine.events(of, 0).await.is_err());
    }

    /// The run has ended like this, and everything else has ended with it.
    async fn ended(&self, of: &RunRef, shop: &Shop, status: &str, words: &str) {
        assert_eq!(self.status(of).await, status);
        let log = self.log(of).await;
        assert!(log.last().unwrap().contains(words), "{log:?}");
        let mail = self.engine.mailbox(&tenant());
        assert_eq!(mail.list_terminal_unreconciled(10).await.unwrap(), []);
        assert_eq!(self.drain().await, 0, "nothing is left to do");
        assert_eq!(shop.quotes.load(std::sync::atomic::Ordering::SeqCst), 0, "no worker ran");
        assert_eq!(self.log(of).await, log);
    }
}

async fn a_dead_letter_of_a_raw_holder_fails_the_run_with_its_error(place: Place) {
    let (house, shop, of, row) = given(place).await;
    let token = house.claimed(&row).await;
    let mail = house.engine.mailbox(&tenant());
    mail.dead_letter(&row.dispatch_id, &token, "the printer is on fire", house.clock.now()).await.unwrap();
    assert_eq!(house.status(&of).await, "running", "the worker sees to it");
    house.drain().await;
    house.ended(&of, &shop, "failed", "the printer is on fire").await;
}

async fn a_dispatch_that_is_cancelled_in_the_queue_takes_its_run_with_it(place: Place) {
    let (house, shop, of, row) = given(place).await;
    let mail = house.engine.mailbox(&tenant());
    let cancelled = mail.cancel(&row.dispatch_id, house.clock.now()).await.unwrap().unwrap();
    assert_eq!(cancelled.status, RunDispatchStatus::Cancelled);
    house.drain().await;
    house.ended(&of, &shop, "cancelled", "its dispatch was cancelled").await;
}

async fn an_interrupt_of_the_thread_cancels_the_run(place: Place) {
    let (house, shop, of, row) = given(place).await;
    let mail = house.engine.mailbox(&tenant());
    let interrupt = mail.interrupt(of.run.as_str(), house.clock.now()).await.unwrap();
    let superseded: Vec<_> = interrupt.superseded_dispatches.iter().map(|row| &row.dispatch_id).collect();
    assert_eq!(superseded, [&row.dispatch_id]);
    house.drain().await;
    house.ended(&of, &shop, "cancelled", "the thread was interrupted").await;
}

async fn a_holder_that_is_silent_too_often_loses_dispatch_and_run_in_one_commit(place: Place) {
    let (house, shop, of, row) = given(place).await;
    house.silent_to_the_last(&row).await;
    assert_eq!(house.status(&of).await, "running");
    let commits = || house.engine.counters().commits.load(std::sync::atomic::Ordering::SeqCst);
    let before = commits();
    house.drain().await;
    let rows = house.dispatches(&of).await;
    assert_eq!(rows.iter().map(|row| row.status).collect::<Vec<_>>(), [RunDispatchStatus::DeadLetter]);
    // The look for claims that can go back into the queue is one, the end of this one is the other.
    assert_eq!(commits() - before, 2);
    house.ended(&of, &shop, "failed", "dispatch_failed").await;
}

async fn a_run_that_was_dispatched_again_is_left_alone(place: Place) {
    let (house, shop, of, row) = given(place).await;
    let mail = house.engine.mailbox(&tenant());
    let token = house.claimed(&row).await;
    let now = house.clock.now();
    mail.dead_letter(&row.dispatch_id, &token, "hopeless", now).await.unwrap();
    let again = house.engine.requeue_dispatch(&tenant(), &row.dispatch_id, None).await.unwrap();
    assert_eq!(again.run_id, row.run_id);
    let token = house.claimed(&again).await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "running", "somebody has it in hand");
    assert_eq!(mail.list_terminal_unreconciled(10).await.unwrap(), [], "the dead letter is seen to");
    mail.nack(&again.dispatch_id, &token, now, "not me", now).await.unwrap();
    house.drain().await;
    assert_eq!(house.status(&of).await, "waiting-input", "the second dispatch carried the run on");
    assert_eq!(shop.quotes.load(std::sync::atomic::Ordering::SeqCst), 1);
    let statuses: Vec<_> = house.dispatches(&of).await.iter().map(|row| row.status).collect();
    assert_eq!(statuses, [RunDispatchStatus::DeadLetter, RunDispatchStatus::Acked]);
}

async fn of_a_cancel_and_a_claim_of_one_batch_one_wins(place: Place) {
    let house = House::with(place, with_shop(&Shop::default())).await;
    let mail = house.engine.mailbox(&tenant());
    race_to_cancel(&house, &mail).await;
}

async fn of_a_cancel_and_a_claim_on_two_nodes_one_wins(place: Place) {
    let house = House::with(place, with_shop(&Shop::default())).await;
    let second = house.second_engine(with_shop(&Shop::default())).await;
    race_to_cancel(&house, &second.mailbox(&tenant())).await;
    second.close().await;
}

/// The house cancels what `claimer` claims, again and again.
async fn race_to_cancel(house: &House, claimer: &Mailbox) {
    house.register(shopping()).await;
    let (mut cancels, now, tenant) = (0, house.clock.now(), tenant());
    const ROUNDS: usize = 120;
    for round in 0..ROUNDS {
        let of = house.start("shopping").await;
        let row = house.dispatches(&of).await.remove(0);
        // A cancel reads before it writes; after as many reads a claim comes at the same moment.
        let claim = async {
            for _ in 0..round % 6 {
                claimer.load_dispatch(&row.dispatch_id).await.unwrap();
            }
            if round % 4 < 2 {
                return claimer.claim(of.run.as_str(), "raw", LEASE_MS, now, 1).await.unwrap();
            }
            claimer.claim_ready("raw", LEASE_MS, now, 10).await.unwrap()
        };
        let cancel = house.engine.cancel_dispatch(&tenant, &row.dispatch_id, alice(), None);
        let (claimed, cancelled) = tokio::join!(claim, cancel);
        let found = house.dispatches(&of).await;
        if let Some(cancelled) = cancelled.unwrap() {
            cancels += 1;
            assert_eq!((claimed, cancelled.status), (vec![], RunDispatchStatus::Cancelled), "round {round}");
            assert_eq!((found, house.status(&of).await), (vec![cancelled], "cancelled"), "round {round}");
        } else {
            assert_eq!((&found, house.status(&of).await), (&claimed, "running"), "round {round}");
            let token = claimed[0].claim_token.as_deref().expect("somebody has it");
            claimer.ack(&row.dispatch_id, token, now).await.unwrap();
        }
    }
    assert!((1..ROUNDS).contains(&cancels), "both sides win at times; {cancels} cancels did");
}

async fn a_run_that_cannot_be_read_is_given_up_when_its_last_holder_is_silent(place: Place) {
    let (house, _, of, row) = given(place).await;
    house.silent_to_the_last(&row).await;
    let healthy = house.start("shopping").await;
    house.spoil(&of).await;
    assert_eq!(house.drain().await, 1, "the other run's dispatch");
    house.has_given_up(&of, &healthy).await;
}

async fn a_run_that_cannot_be_read_is_given_up_by_whoever_claims_it(place: Place) {
    let (house, _, of, _) = given(place).await;
    let healthy = house.start("shopping").await;
    house.spoil(&of).await;
    house.drain().await;
    house.has_given_up(&of, &healthy).await;
}

impl House {
    /// The dispatch of a run that nobody can read is closed, and the other run went on as if there were no such run.
    async fn has_given_up(&self, of: &RunRef, healthy: &RunRef) {
        let rows = self.dispatches(of).await;
        assert_eq!(rows.iter().map(|row| row.status).collect::<Vec<_>>(), [RunDispatchStatus::DeadLetter]);
        assert!(rows[0].last_error.is_some());
        let mail = self.engine.mailbox(&tenant());
        assert_eq!(mail.list_terminal_unreconciled(10).await.unwrap(), []);
        assert_eq!(self.status(healthy).await, "waiting-input");
        self.answer(healthy, "buy", serde_json::json!("r1")).await.unwrap();
        assert_eq!(self.drain().await, 1);
        assert_eq!(self.status(healthy).await, "completed");
        assert_eq!(self.drain().await, 0, "nothing is left to do");
    }
}
