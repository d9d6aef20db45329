//! Stops the writer before and after every commit of a story, restarts, goes on, and compares the logs: they are
//! the same as if nothing had happened.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::{NodeId, Refusal, RunRef, WorkflowId};
use holdpoint_engine::{Clock, Engine, Error, Fault, Options};
use serde_json::{Value, json};

use crate::effects::{Shop, shopping};
use crate::house::{House, NOON, accept, gated, line, resolve, run_id, start, stopping, tenant};
use crate::place::{Place, on_both};

on_both! {
    a_crash_around_any_commit_leaves_the_same_log,
    a_commit_that_was_not_acknowledged_may_have_happened_and_is_then_found,
    a_commit_that_fails_once_repeats_no_effect_and_parks_no_run,
}

/// What somebody does who wants the run to end and does not give up.
struct Story {
    definition: Value,
    answers: &'static [(&'static str, &'static str)],
}

fn stories() -> Vec<Story> {
    let asking = json!({"questions": [{"id": "q", "question": "Which?"}]});
    let mixed = line(
        "mixed",
        &[
            ("nap", "core.delay", json!({"ms": 50})),
            ("ask", "core.clarificationGate", asking),
            ("buy", "test.shop", json!({})),
            (
                "gate",
                "core.approvalGate",
                json!({"title": "ok?", "actions": ["accept"], "timeoutMs": 90_000}),
            ),
        ],
    );
    vec![
        Story { definition: gated("gated"), answers: &[("gate", r#"{"action":"accept"}"#)] },
        Story { definition: shopping(), answers: &[("buy", "\"r1\"")] },
        Story {
            definition: mixed,
            answers: &[
                ("ask", r#"{"answers":{"q":"blue"}}"#),
                ("buy", "1"),
                ("gate", r#"{"action":"accept"}"#),
            ],
        },
    ]
}

impl Story {
    /// Tells the story as far as it goes. Everything in it may already have happened.
    async fn tell(&self, engine: &Engine, clock: &Clock) -> Result<(), Error> {
        let of = RunRef { tenant: tenant(), run: run_id("the-run") };
        let workflow = engine.register(&tenant(), self.definition.clone()).await?.workflow;
        match engine
            .start_as(&of.run, &WorkflowId::parse(workflow.id.as_str()).unwrap(), start(json!({})))
            .await
        {
            Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
            Err(error) => return Err(error),
        }
        let mut worker = engine.worker();
        worker.drain().await?;
        for (node, text) in self.answers {
            if let Some(until) = engine.run(&of).await?.sleeping_until(&NodeId::parse("nap").unwrap()) {
                clock.advance((until.0 - clock.now().0).max(0));
                worker.drain().await?;
            }
            let run = engine.run(&of).await?;
            let Some(asked) = run.interrupt_of_node(&NodeId::parse(node).unwrap()) else { continue };
            match engine.execute(&of, &resolve(asked.id, serde_json::from_str(text).unwrap())).await {
                Ok(_) | Err(Error::Refused(Refusal::AlreadyResolved)) => {}
                Err(error) => return Err(error),
            }
            worker.drain().await?;
        }
        Ok(())
    }
}

/// Runs a story with a crash somewhere, restarts until it is told, and returns the log.
async fn told(place: Place, story: &Story, stop: Option<Fault>) -> (Vec<String>, u64, bool) {
    let shop = Shop::default();
    let furnish = |options: Options| options.node("test.shop", shop.clone());
    let house = match stop {
        Some(stop) => House::with(place, |options| stopping(stop)(furnish(options))).await,
        None => House::with(place, furnish).await,
    };
    let crashed = story.tell(&house.engine, &house.clock).await.is_err();
    let commits = house.engine.counters().commits.load(Ordering::SeqCst);
    // A crash leaves time behind as well: start again from the same instant, so that logs can be compared.
    let house = house.reopen(furnish).await;
    if crashed {
        story.tell(&house.engine, &house.clock).await.unwrap();
    }
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    assert_eq!(house.status(&of).await, "completed", "{stop:?}");
    assert_eq!(house.drain().await, 0, "nothing is left over after {stop:?}");
    assert!(house.pending().await.is_empty());
    // One effect may have been done and not recorded when the crash came; no other is done twice.
    let effects = shop.quotes.load(Ordering::SeqCst) + shop.payments.load(Ordering::SeqCst);
    let steps = house.run(&of).await.nodes.iter().map(|node| node.steps.len()).sum::<usize>();
    let done = usize::try_from(effects).unwrap();
    assert!(done == steps || (crashed && done == steps + 1), "{done} effects for {steps} steps, {stop:?}");
    (house.log(&of).await, commits, crashed)
}

async fn a_crash_around_any_commit_leaves_the_same_log(place: Place) {
    for story in stories() {
        let (expected, commits, _) = told(place.another().await, &story, None).await;
        assert!(commits >= 3, "there is something to interrupt");
        for n in 1..=commits {
            for stop in [Fault::StopBefore(n), Fault::StopAfter(n)] {
                let (log, _, crashed) = told(place.another().await, &story, Some(stop)).await;
                assert!(crashed, "{stop:?} was reached");
                assert_eq!(log, expected, "{stop:?} in {}", story.definition["id"]);
            }
        }
    }
}

async fn a_commit_that_was_not_acknowledged_may_have_happened_and_is_then_found(place: Place) {
    let options = || Options::new(place.location()).clock(Clock::manual(NOON));
    let engine = Engine::open(options().fault(Fault::StopAfter(2))).await.unwrap();
    engine.register(&tenant(), gated("gated")).await.unwrap();
    let (id, workflow) = (run_id("r"), WorkflowId::parse("gated").unwrap());
    assert!(engine.start_as(&id, &workflow, start(json!({}))).await.is_err());
    engine.close().await;
    let engine = Engine::open(options()).await.unwrap();
    let of = RunRef { tenant: tenant(), run: id };
    let run = engine.run(&of).await.unwrap();
    let asked = run.waiting_on().unwrap().id;
    engine.execute(&of, &resolve(asked, accept())).await.unwrap();
    assert_eq!(engine.run(&of).await.unwrap().status().as_str(), "completed");
}

async fn a_commit_that_fails_once_repeats_no_effect_and_parks_no_run(place: Place) {
    let story = &stories()[1];
    let (_, commits, _) = told(place.another().await, story, None).await;
    for n in 1..=commits {
        let shop = Shop::default();
        let furnish = |options: Options| options.fault(Fault::Fail(n)).node("test.shop", shop.clone());
        let house = House::with(place.another().await, furnish).await;
        let of = RunRef { tenant: tenant(), run: run_id("the-run") };
        // Whoever gets an error tries again; what went back into the queue comes back after a while.
        for _ in 0..10 {
            let _ = story.tell(&house.engine, &house.clock).await;
            house.clock.advance(1000);
        }
        assert_eq!(house.status(&of).await, "completed", "commit {n} failed");
        let effects = (shop.quotes.load(Ordering::SeqCst), shop.payments.load(Ordering::SeqCst));
        assert_eq!(effects, (1, 1), "commit {n} failed");
        assert_eq!(house.drain().await, 0, "commit {n} failed");
    }
}
