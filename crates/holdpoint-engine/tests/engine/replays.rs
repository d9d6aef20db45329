//! Runs that ended in every other way, replayed at every place: the same list, and nothing happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Answer, Command, Drain, Event, ForkMode, NodeId, Principal, RunError, RunRef};
use holdpoint_engine::{
    EffectContext, Error, Fault, ForkRequest, Node, Options, Outputs, Overlay, RunFilter, Stop,
};
use serde_json::{Value, json};

use crate::house::{House, accept, alice, gated, line, stopping, tenant, text};
use crate::place::{Place, on_both};

on_both! {
    a_deadline_that_nobody_met_is_replayed,
    a_cancellation_is_replayed,
    a_pause_is_replayed,
    a_step_that_failed_and_was_tried_again_is_replayed,
    a_run_that_was_given_up_is_replayed,
    a_run_that_took_too_long_is_replayed,
    a_child_that_failed_is_replayed,
    votes_questions_and_conversations_are_replayed,
    a_crash_around_a_fork_leaves_it_whole_or_not_there,
}

async fn list(house: &House, of: &RunRef, source: &RunRef) -> Vec<(i64, String)> {
    let mut found = house.engine.events(of, 0).await.unwrap();
    if let Event::RunStarted(started) = &mut found[0].event {
        started.fork = None;
        started.forked_by.clear();
    }
    let plain = |text: String| text.replace(of.run.as_str(), "RUN").replace(source.run.as_str(), "RUN");
    found.iter().map(|one| (one.at.0, plain(text(&one.event)))).collect()
}

fn replay(from_seq: u64) -> ForkRequest {
    ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode: ForkMode::Replay,
        from_seq,
        overlay: Overlay::default(),
        once: None,
    }
}

/// Every replay of an ended run is that run again.
async fn replays(house: &House, of: &RunRef, status: &str) {
    assert_eq!(house.status(of).await, status, "{:#?}", house.log(of).await);
    house.clock.advance(1_000_000);
    let expected = list(house, of, of).await;
    for from_seq in 0..=expected.len() as u64 {
        let run = house.engine.fork(of, replay(from_seq)).await.unwrap();
        let copy = RunRef { tenant: tenant(), run: run.id.clone() };
        assert_eq!(list(house, &copy, of).await, expected, "from {from_seq}");
        assert_eq!(run.status(), house.run(of).await.status());
    }
    assert_eq!(house.drain().await, 0);
    assert!(house.pending().await.is_empty());
}

async fn a_deadline_that_nobody_met_is_replayed(house: House) {
    let gate = json!({"title": "ok?", "actions": ["accept"], "timeoutMs": 90});
    house.register(line("late", &[("gate", "core.approvalGate", gate)])).await;
    let of = house.start("late").await;
    house.clock.advance(90);
    house.drain().await;
    let status = house.status(&of).await;
    replays(&house, &of, status).await;
}

async fn votes_questions_and_conversations_are_replayed(house: House) {
    let gate = json!({"actions": ["accept", "ask"], "requiredApprovals": 2});
    let agent = json!({"agentId": "planner", "mockDecision": {"decision": "go", "confidence": 0.1}});
    let nodes = [
        ("gate", "core.approvalGate", gate),
        ("talk", "core.conversationGate", json!({"turnCount": 2})),
        ("play", "core.conversationGate", json!({"mockAutoResume": true})),
        ("agent", "core.conformance.mock-agent", agent),
    ];
    house.register(line("people", &nodes)).await;
    let of = house.start("people").await;
    let tell = async |by: &str, node: &str, value: Value| {
        house.clock.advance(5);
        let answer = Answer::new(value, Principal::named(by));
        let command = Command::ResolveNode { node: NodeId::parse(node).unwrap(), interrupt: None, answer };
        house.engine.execute(&of, &command).await.unwrap();
    };
    tell("ann", "gate", json!({"action": "ask", "question": "Why?"})).await;
    let interrupt = house.run(&of).await.interrupts[0].id;
    let (answer, by) = ("So.".to_owned(), alice());
    house.engine.execute(&of, &Command::AnswerAsk { interrupt, ask: 1, answer, by }).await.unwrap();
    for name in ["ann", "ann", "bob"] {
        tell(name, "gate", accept()).await;
    }
    tell("ann", "talk", json!("one")).await;
    tell("ann", "talk", json!("two")).await;
    tell("ann", "agent", json!("stay")).await;
    replays(&house, &of, "completed").await;
}

async fn a_cancellation_is_replayed(house: House) {
    house.register(gated("flow")).await;
    let of = house.start("flow").await;
    house.clock.advance(5);
    house.engine.cancel(&of, Some("enough".to_owned()), alice()).await.unwrap();
    replays(&house, &of, "cancelled").await;
}

async fn a_pause_is_replayed(house: House) {
    house.register(gated("flow")).await;
    let of = house.start("flow").await;
    let pause = Command::Pause { reason: None, drain: Drain::Immediate, by: alice() };
    house.engine.execute(&of, &pause).await.unwrap();
    house.clock.advance(5);
    house.answer(&of, "gate", accept()).await.unwrap();
    house.clock.advance(5);
    house.engine.execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    house.drain().await;
    replays(&house, &of, "completed").await;
}

/// Calls somebody who is there only the second time, and counts the calls.
struct Caller(Arc<AtomicU32>);

impl Node for Caller {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let calls = self.0.clone();
        let call = || async move {
            match calls.fetch_add(1, Ordering::SeqCst) {
                0 => {
                    let error = RunError::new("engaged", "nobody there");
                    Err(Stop::Failed(RunError { retryable: true, ..error }))
                }
                _ => Ok(json!("hello")),
            }
        };
        let said = context.step("call", call).await?;
        Ok(Outputs::from_iter([("said".to_owned(), said)]))
    }
}

async fn a_step_that_failed_and_was_tried_again_is_replayed(place: Place) {
    let calls = Arc::new(AtomicU32::new(0));
    let house =
        House::with(place, |options: Options| options.node("test.caller", Caller(calls.clone()))).await;
    let mut definition = line("calling", &[("call", "test.caller", json!({}))]);
    definition["settings"] = json!({"maxRetries": 3});
    house.register(definition).await;
    let of = house.start("calling").await;
    house.drain().await;
    house.clock.advance(60_000);
    house.drain().await;
    replays(&house, &of, "completed").await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(house.log(&of).await.iter().any(|line| line.contains("node.retried")));
}

struct Panicking;

impl Node for Panicking {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        panic!("always");
    }
}

async fn a_run_that_was_given_up_is_replayed(place: Place) {
    let house = House::with(place, |options| options.node("test.panicking", Panicking)).await;
    house.register(line("shaky", &[("s", "test.panicking", json!({}))])).await;
    let of = house.start("shaky").await;
    for _ in 0..10 {
        house.drain().await;
        house.clock.advance(30_000);
    }
    replays(&house, &of, "failed").await;
}

async fn a_run_that_took_too_long_is_replayed(house: House) {
    let mut definition = gated("slow");
    definition["settings"] = json!({"timeout": 1000});
    house.register(definition).await;
    let of = house.start("slow").await;
    house.clock.advance(1000);
    house.drain().await;
    replays(&house, &of, "failed").await;
}

async fn a_child_that_failed_is_replayed(house: House) {
    house.register(gated("child")).await;
    house.register(line("parent", &[("call", "core.subWorkflow", json!({"workflowId": "child"}))])).await;
    let of = house.start("parent").await;
    house.drain().await;
    let child = RunRef { tenant: tenant(), run: house.run(&of).await.children[0].run.clone() };
    house.engine.cancel(&child, None, alice()).await.unwrap();
    house.drain().await;
    replays(&house, &of, "failed").await;
}

async fn a_crash_around_a_fork_leaves_it_whole_or_not_there(place: Place) {
    for (stop, expected) in [(Fault::StopBefore(4), 1), (Fault::StopAfter(4), 2)] {
        let house = House::with(place.another().await, stopping(stop)).await;
        house.register(gated("flow")).await;
        let of = house.start("flow").await;
        house.answer(&of, "gate", accept()).await.unwrap();
        let forked = house.engine.fork(&of, replay(0)).await;
        assert!(matches!(forked, Err(Error::Store(_))), "{stop:?}");
        let house = house.reopen(|options| options).await;
        let filter = RunFilter { limit: 10, ..RunFilter::default() };
        let found = house.engine.runs(&tenant(), filter).await.unwrap();
        assert_eq!(found.len(), expected, "{stop:?}");
        for one in found {
            let copy = RunRef { tenant: tenant(), run: one.run };
            assert_eq!(list(&house, &copy, &of).await, list(&house, &of, &of).await);
        }
        let gate: Value = json!("completed");
        assert_eq!(gate, house.status(&of).await);
    }
}
