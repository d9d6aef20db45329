//! What is counted, and what those who listen are told: each thing once, where it happened, with the time it took.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdpoint_engine::core::{ForkMode, NodeId, Run, RunRef, Start, WorkflowId};
use holdpoint_engine::{Committed, Distribution, Engine, SpanName, cause};
use serde_json::{Value, json};

use crate::effects::{Shop, with_shop};
use crate::forks::{fork, told};
use crate::house::{House, accept, alice, gated, line, start, tenant};
use crate::loops::reviewed;
use crate::place::{Place, on_both};

on_both! {
    every_end_of_a_run_is_counted_once,
    every_visit_of_a_node_has_the_time_that_it_took,
    every_attempt_of_a_node_is_one_of_its_own,
    a_question_ends_with_its_answer_its_deadline_or_its_run,
    what_a_fork_copies_is_not_counted_again,
    a_listener_can_tell_every_run_from_what_it_hears,
    a_child_belongs_to_the_node_that_starts_it,
}

fn ended(engine: &Engine) -> Vec<u64> {
    engine.measures().runs_ended.read().map(|(_, count)| count).collect()
}

fn created(engine: &Engine) -> u64 {
    engine.measures().runs_created.load(Ordering::Relaxed)
}

/// How many attempts of a type ended as completed, failed and cancelled.
fn attempts(engine: &Engine, type_id: &str) -> Vec<Distribution> {
    engine.measures().nodes[type_id].read().map(|(_, read)| read).collect()
}

fn counts(distributions: &[Distribution]) -> Vec<u64> {
    distributions.iter().map(Distribution::count).collect()
}

fn seconds(read: &Distribution) -> f64 {
    (read.sum_seconds * 1000.0).round() / 1000.0
}

async fn every_end_of_a_run_is_counted_once(house: House) {
    house.register(gated("gated")).await;
    house.register(line("failing", &[("f", "core.fail", json!({}))])).await;
    let mut hasty = gated("hasty");
    hasty["settings"] = json!({"timeout": 5000});
    house.register(hasty).await;
    house.register(line("parent", &[("call", "core.subWorkflow", json!({"workflowId": "gated"}))])).await;

    let completed = house.start("gated").await;
    house.clock.advance(2000);
    house.answer(&completed, "gate", accept()).await.unwrap();
    assert_eq!((created(&house.engine), ended(&house.engine)), (1, vec![1, 0, 0]));

    house.start("failing").await;
    let late = house.start("hasty").await;
    house.clock.advance(5000);
    house.drain().await;
    assert_eq!(house.status(&late).await, "failed");
    assert_eq!((created(&house.engine), ended(&house.engine)), (3, vec![1, 2, 0]));

    let parent = house.start("parent").await;
    house.drain().await;
    for _ in 0..2 {
        // The second time nothing happens.
        let _ = house.engine.cancel(&parent, None, alice()).await;
    }
    assert_eq!((created(&house.engine), ended(&house.engine)), (5, vec![1, 2, 2]), "with its child");

    let durations: Vec<f64> = house.engine.measures().runs.read().map(|(_, read)| seconds(&read)).collect();
    assert_eq!(durations, [2.0, 5.0, 0.0]);
    // Gates that were left open: in the run that was too slow, and in the child.
    assert_eq!(counts(&attempts(&house.engine, "core.approvalGate")), [1, 0, 2]);
    assert_eq!(counts(&attempts(&house.engine, "core.subWorkflow")), [0, 0, 1]);
}

async fn every_visit_of_a_node_has_the_time_that_it_took(house: House) {
    house.register(reviewed()).await;
    let of = house.start("reviewed").await;
    for (wait, answer) in [(70, json!({"action": "reject"})), (400, accept())] {
        house.clock.advance(wait * 1000);
        house.answer(&of, "gate", answer).await.unwrap();
    }
    assert_eq!(house.status(&of).await, "completed");
    let [completed, failed, _]: [Distribution; 3] =
        attempts(&house.engine, "core.approvalGate").try_into().unwrap();
    assert_eq!(completed.count() + failed.count(), 2);
    assert!((seconds(&completed) + seconds(&failed) - 470.0).abs() < 0.001, "{completed:?} {failed:?}");
}

async fn every_attempt_of_a_node_is_one_of_its_own(house: House) {
    let mut definition = line("busy", &[("n", "core.fail", json!({"code": "busy", "retryable": true}))]);
    definition["settings"] = json!({"maxRetries": 2});
    house.register(definition).await;
    let of = house.start("busy").await;
    for wait in [1000, 2000] {
        house.clock.advance(wait);
        house.drain().await;
    }
    assert_eq!(house.status(&of).await, "failed");
    let attempts = attempts(&house.engine, "core.fail");
    assert_eq!(counts(&attempts), [0, 3, 0]);
    assert!(seconds(&attempts[1]) < 0.001, "the waits between them are no attempts: {attempts:?}");
    assert_eq!(ended(&house.engine), [0, 1, 0]);
}

async fn a_question_ends_with_its_answer_its_deadline_or_its_run(house: House) {
    let gate = json!({"title": "Go on?", "actions": ["accept"], "timeoutMs": 90_000});
    house.register(line("asked", &[("gate", "core.approvalGate", gate)])).await;
    let (answered, silent) = (house.start("asked").await, house.start("asked").await);
    let given_up = house.start("asked").await;
    house.clock.advance(30_000);
    house.answer(&answered, "gate", accept()).await.unwrap();
    house.engine.cancel(&given_up, None, alice()).await.unwrap();
    house.clock.advance(60_000);
    house.drain().await;
    assert_eq!(house.status(&silent).await, "failed");
    let closed: Vec<_> = house.engine.measures().interrupts.read().collect();
    let told: Vec<_> = closed.iter().map(|(word, read)| (*word, read.count(), seconds(read))).collect();
    assert_eq!(told, [("resolved", 1, 30.0), ("timeout", 1, 90.0), ("cancelled", 1, 30.0)]);
    assert_eq!(closed[1].1.counts, [0, 1, 0, 0, 0, 0, 0, 0, 0], "a minute and a half");
    let asked: Vec<_> = house.engine.measures().interrupts_requested.read().collect();
    assert_eq!(asked[0], ("approval", 3));
}

/// Everything that is counted, but for runs as such.
fn work(engine: &Engine) -> Value {
    let measures = engine.measures();
    let nodes = measures.nodes.iter();
    let nodes: Vec<(&String, Vec<Vec<u64>>)> =
        nodes.map(|(name, family)| (name, family.read().map(|one| one.1.counts).collect())).collect();
    let activities: Vec<_> = measures.activities.values().map(|one| one.read().counts).collect();
    let interrupts: Vec<_> = measures.interrupts.read().map(|one| one.1.counts).collect();
    let asked: Vec<_> = measures.interrupts_requested.read().collect();
    json!([nodes, activities, interrupts, asked])
}

async fn what_a_fork_copies_is_not_counted_again(place: Place) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    let of = told(&house, true).await;
    let count = house.run(&of).await.seq;
    let (before, runs) = (work(&house.engine), created(&house.engine));
    let durations: u64 = house.engine.measures().runs.read().map(|(_, read)| read.count()).sum();
    for from_seq in [1, count / 2, count] {
        let copy = fork(&house, &of, ForkMode::Replay, from_seq).await;
        assert_eq!(house.status(&copy).await, "completed");
    }
    assert_eq!(work(&house.engine), before, "nothing was done");
    // Begun and ended like any run: the two counters stay apart by the runs that are at work.
    assert_eq!(created(&house.engine), runs + 3);
    assert_eq!(ended(&house.engine), [runs + 3, 0, 0]);

    let branch = fork(&house, &of, ForkMode::Branch, count - 2).await;
    house.drain().await;
    assert_eq!(house.status(&branch).await, "completed");
    assert_eq!((created(&house.engine), ended(&house.engine)), (runs + 4, vec![runs + 4, 0, 0]));
    let now: u64 = house.engine.measures().runs.read().map(|(_, read)| read.count()).sum();
    assert_eq!(now, durations, "how long ago a source began says nothing about its forks");
}

fn heard(listener: &holdpoint_engine::Listener) -> Vec<Committed> {
    std::iter::from_fn(|| listener.hear(Duration::ZERO).ok()).collect()
}

async fn a_listener_can_tell_every_run_from_what_it_hears(place: Place) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    let listener = house.engine.listen(1000);
    let of = told(&house, true).await;
    let count = house.run(&of).await.seq;
    let whole = fork(&house, &of, ForkMode::Replay, count).await;
    fork(&house, &of, ForkMode::Branch, count / 2).await;
    house.drain().await;
    let commits = heard(&listener);
    for committed in &commits {
        let unborn = || Run::unborn(committed.run.id.clone(), committed.run.workflow.clone());
        let mut run = committed.from.as_ref().map_or_else(unborn, |run| Run::clone(run));
        committed.events.iter().for_each(|event| run.apply(event, committed.at));
        assert_eq!(run, *committed.run);
    }
    let of_source: Vec<_> = commits.iter().filter(|committed| committed.of == of).collect();
    let told: usize = of_source.iter().map(|committed| committed.events.len()).sum();
    assert_eq!(told as u64, count, "every event once");
    let of_whole: Vec<_> = commits.iter().filter(|committed| committed.of == whole).collect();
    assert_eq!(of_whole.len(), 1);
    assert!(of_whole[0].events.is_empty() && of_whole[0].run.finished());
    assert_eq!(house.engine.unheard(), 0);
}

async fn a_child_belongs_to_the_node_that_starts_it(house: House) {
    house.register(gated("gated")).await;
    let call = |id| (id, "core.subWorkflow", json!({"workflowId": "gated"}));
    house.register(line("parent", &[call("one"), call("two")])).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for given in [Some(trace.to_owned()), None] {
        let trace_state = given.as_ref().map(|_| "vendor=opaque".to_owned());
        let begun = Start { trace: given.clone(), trace_state: trace_state.clone(), ..start(json!({})) };
        let parent = house.engine.start(&WorkflowId::parse("parent").unwrap(), begun).await.unwrap();
        assert_eq!(cause(&parent), given.as_deref().and_then(SpanName::parse));
        let of = RunRef { tenant: tenant(), run: parent.id.clone() };
        for (node, n) in [("one", 1), ("two", 2)] {
            house.drain().await;
            let child = RunRef { run: crate::house::run_id(&format!("{}.{n}", parent.id)), ..of.clone() };
            let run: Arc<Run> = house.run(&child).await;
            let caller = SpanName::of_visit(&tenant(), &parent, &NodeId::parse(node).unwrap(), 1);
            assert_eq!(cause(&run), Some(caller));
            let started = run.started.as_ref().unwrap();
            assert_eq!(started.trace_state, trace_state, "passed on as it is");
            assert_eq!(started.engine_version, Some(Engine::VERSION));
            assert_eq!(SpanName::of_run(&tenant(), &run).trace, SpanName::of_run(&tenant(), &parent).trace);
            house.answer(&child, "gate", accept()).await.unwrap();
        }
        house.drain().await;
        assert_eq!(house.status(&of).await, "completed");
        // A copy of a child was not called for by the parent, and stays in its trace.
        let child = RunRef { run: crate::house::run_id(&format!("{}.1", parent.id)), ..of };
        let copy = fork(&house, &child, ForkMode::Replay, 1).await;
        let (source, copy) = (house.run(&child).await, house.run(&copy).await);
        assert_eq!(cause(&copy), None);
        assert_eq!(copy.started.as_ref().unwrap().trace_state, trace_state);
        assert_eq!(SpanName::of_source(&tenant(), &source.id, &copy), SpanName::of_run(&tenant(), &source));
    }
}
