//! Turns of a state key: repeated requests, failed and cancelled turns, retention, limits, crashes and stored data of
//! earlier versions. The provider is in memory and keeps the inputs of each conversation.

use holdpoint_engine::core::{Owner, Principal, RequestSource, TenantId, Transport};
use holdpoint_engine::{CommitFault, Location};
use holdpoint_providers::{EngineGraphs, GraphError, GraphStart, GraphStatus, code};
use serde_json::json;

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, tenant};
use notebook::{Notebook, completed, failed_with, open, request, with_notes, with_settings};

mod notebook;

const DAY: i64 = 24 * 3_600_000;

on_both! {
    a_further_turn_continues_the_state_of_the_last_one,
    a_repeated_turn_returns_its_outcome_and_another_input_is_rejected,
    a_turn_is_rejected_while_another_executes_or_waits,
    one_of_six_turns_at_once_starts,
    equal_turns_at_once_start_one_run,
    a_turn_after_the_end_requires_a_turn_id,
    a_failed_turn_keeps_the_conversation,
    a_cancelled_turn_keeps_the_conversation,
    the_last_turn_defines_the_retention,
    a_deleted_conversation_takes_no_turn_and_its_history_stays_readable,
    a_turn_that_starts_while_its_conversation_is_deleted_does_not_execute,
    a_turn_after_a_lost_state_fails,
    a_first_turn_that_did_not_reach_the_provider_is_followed_by_a_new_start,
    a_key_has_a_maximum_number_of_turns,
    other_tenants_have_no_turns_and_no_history,
    the_history_has_inputs_outcomes_and_answers_in_pages,
    answers_to_earlier_turns_are_recognized,
    crashes_at_every_commit_start_a_turn_once,
    graphs_of_the_version_before_take_turns,
    a_run_of_a_front_end_in_the_thread_is_a_turn,
}

async fn a_further_turn_continues_the_state_of_the_last_one(database: TestDatabase) {
    let (env, notes) = open(database).await;
    assert_eq!(env.first_turn("one").await, completed(json!(["one"])));
    let env = env.reopen(with_notes(&notes)).await;
    assert_eq!(env.turn("t2", "two").await.unwrap(), completed(json!(["one", "two"])));
    assert!(matches!(env.turn("t3", "ask").await.unwrap(), GraphStatus::Waiting { .. }));
    let answered = env.resume_key("r1", json!("yes")).await.unwrap();
    assert_eq!(answered, completed(json!(["one", "two", "ask", {"answer": "yes"}])));
    // A start with the graph, the turn id and the state key is also a turn.
    let (handle, started) = env.engine.graphs().start(request(Some("t4"), "four")).await.unwrap();
    env.drain().await;
    assert!(started);
    assert_eq!(handle.of, env.last_run().await);
    assert_eq!(notes.inputs().len(), 5);
}

async fn a_repeated_turn_returns_its_outcome_and_another_input_is_rejected(database: TestDatabase) {
    let (env, notes) = open(database).await;
    let first = env.first_turn("one").await;
    let second = env.turn("t2", "two").await.unwrap();
    for _ in 0..2 {
        assert_eq!(env.turn("t2", "two").await.unwrap(), second);
        assert_eq!(env.turn("t1", "one").await.unwrap(), first, "an earlier turn has its own outcome");
    }
    let again = env.engine.graphs().start(request(Some("t1"), "one")).await.unwrap();
    assert_eq!((again.0.of, again.1), (again.0.first.clone(), false));
    for (turn, input) in [("t2", "other"), ("t1", "two")] {
        assert!(matches!(env.send_turn(turn, input).await, Err(GraphError::TurnIdReused)), "{turn}");
    }
    assert_eq!(notes.inputs(), [json!("one"), json!("two")]);
}

async fn a_turn_is_rejected_while_another_executes_or_waits(database: TestDatabase) {
    let (env, _) = open(database).await;
    env.engine.graphs().start(request(None, "ask")).await.unwrap();
    assert!(matches!(env.send_turn("t2", "two").await, Err(GraphError::TurnInFlight)));
    env.drain().await;
    assert!(matches!(env.send_turn("t2", "two").await, Err(GraphError::TurnNeedsInput)));
    env.resume_key("r1", json!(1)).await.unwrap();
    // A rejected turn id can be used.
    assert!(env.turn("t2", "two").await.is_ok());
}

async fn one_of_six_turns_at_once_starts(database: TestDatabase) {
    let (env, notes) = open(database).await;
    env.first_turn("one").await;
    let six = ["a", "b", "c", "d", "e", "f"].map(|turn| env.send_turn(turn, "ask"));
    let [a, b, c, d, e, f] = six;
    let all = tokio::join!(a, b, c, d, e, f);
    let all = [all.0, all.1, all.2, all.3, all.4, all.5];
    let started = all.iter().filter(|one| matches!(one, Ok((_, true)))).count();
    let rejected = all.iter().filter(|one| matches!(one, Err(GraphError::TurnInFlight))).count();
    assert_eq!((started, rejected), (1, 5), "{all:?}");
    env.drain().await;
    assert_eq!(notes.inputs(), [json!("one"), json!("ask")]);
}

async fn equal_turns_at_once_start_one_run(database: TestDatabase) {
    let (env, notes) = open(database).await;
    env.first_turn("one").await;
    let other = env.second_engine(with_notes(&notes)).await;
    let at_other = || other.graphs().next_turn(request(Some("t2"), "two"));
    let here = || env.send_turn("t2", "two");
    let all = tokio::join!(here(), at_other(), here(), at_other());
    let all = [all.0, all.1, all.2, all.3].map(Result::unwrap);
    assert_eq!(all.iter().filter(|(_, started)| *started).count(), 1, "{all:?}");
    assert!(all.iter().all(|(handle, _)| handle.of == all[0].0.of), "{all:?}");
    env.drain().await;
    assert_eq!(notes.inputs(), [json!("one"), json!("two")]);
    other.close().await;
}

async fn a_turn_after_the_end_requires_a_turn_id(database: TestDatabase) {
    let (env, notes) = open(database).await;
    env.first_turn("one").await;
    let (repeated, started) = env.engine.graphs().start(request(None, "one")).await.unwrap();
    assert!(!started, "the same start again returns the state of the graph");
    assert_eq!(repeated.of, env.last_run().await);
    let without = env.engine.graphs().start(request(None, "two")).await;
    assert!(matches!(without, Err(GraphError::TurnIdRequired)), "{without:?}");
    let unknown = GraphStart { state_key: Some("unknown".into()), ..request(Some("t2"), "two") };
    let unknown = env.engine.graphs().next_turn(unknown).await;
    assert!(matches!(unknown, Err(GraphError::UnknownStateKey)), "{unknown:?}");
    assert_eq!(notes.inputs(), [json!("one")]);
}

async fn a_failed_turn_keeps_the_conversation(database: TestDatabase) {
    let (env, _) = open(database).await;
    env.first_turn("one").await;
    assert!(failed_with(&env.turn("t2", "fail").await.unwrap(), code::GRAPH));
    env.tidy_handles().await;
    env.clock.advance(DAY - 1);
    env.tidy_handles().await;
    assert_eq!(env.turn("t3", "three").await.unwrap(), completed(json!(["one", "fail", "three"])));
}

async fn a_cancelled_turn_keeps_the_conversation(database: TestDatabase) {
    let (env, _) = open(database).await;
    env.first_turn("ask").await;
    env.engine.runs().cancel(&env.last_run().await, None, Principal::named("alice")).await.unwrap();
    env.tidy_handles().await;
    assert_eq!(env.turn("t2", "two").await.unwrap(), completed(json!(["ask", "two"])));
}

async fn the_last_turn_defines_the_retention(database: TestDatabase) {
    let (env, notes) = open(database).await;
    env.first_turn("one").await;
    env.clock.advance(DAY - 1);
    env.turn("t2", "two").await.unwrap();
    env.clock.advance(DAY - 1);
    env.tidy_handles().await;
    assert_eq!(notes.inputs().len(), 2, "the state is kept");
    env.clock.advance(1);
    env.tidy_handles().await;
    assert_eq!(notes.inputs().len(), 0, "the state is deleted");
    assert!(matches!(env.send_turn("t3", "three").await, Err(GraphError::UnknownStateKey)));
}

async fn a_deleted_conversation_takes_no_turn_and_its_history_stays_readable(database: TestDatabase) {
    let (env, notes) = open(database).await;
    env.first_turn("one").await;
    env.turn("t2", "ask").await.unwrap();
    env.close_key().await;
    assert_eq!(notes.inputs().len(), 0, "the state is deleted");
    let status = env.engine.graphs().status(&env.last_run().await).await.unwrap();
    assert!(matches!(status, GraphStatus::Cancelled { expired: false, .. }), "{status:?}");
    assert!(matches!(env.send_turn("t3", "three").await, Err(GraphError::Closed)));
    let repeated = env.turn("t1", "one").await.unwrap();
    assert_eq!(repeated, completed(json!(["one"])), "a repeated turn returns its outcome");
    assert_eq!(env.engine.graphs().history(&tenant(), "key", None, 10).await.unwrap().len(), 2);
    env.close_key().await;
    env.clock.advance(DAY);
    env.tidy_handles().await;
    let gone = env.engine.graphs().history(&tenant(), "key", None, 10).await;
    assert!(matches!(gone, Err(GraphError::UnknownStateKey)), "{gone:?}");
}

/// Ends the conversation between the commit of a turn and its execution.
async fn a_turn_that_starts_while_its_conversation_is_deleted_does_not_execute(database: TestDatabase) {
    let (env, notes) = open(database).await;
    env.first_turn("one").await;
    let (handle, _) = env.send_turn("t2", "two").await.unwrap();
    let row = env.engine.handles().by_key(&tenant(), "key").await.unwrap().unwrap();
    env.engine.handles().close(&row).await.unwrap();
    env.drain().await;
    let status = env.engine.graphs().status(&handle.of).await.unwrap();
    assert!(failed_with(&status, code::STATE_LOST), "{status:?}");
    env.tidy_handles().await;
    assert_eq!(notes.inputs().len(), 0);
}

async fn a_turn_after_a_lost_state_fails(database: TestDatabase) {
    let (env, notes) = open(database).await;
    env.first_turn("one").await;
    notes.forget_all();
    assert!(failed_with(&env.turn("t2", "two").await.unwrap(), code::STATE_LOST));
}

async fn a_first_turn_that_did_not_reach_the_provider_is_followed_by_a_new_start(database: TestDatabase) {
    let (env, _) = open(database).await;
    assert!(failed_with(&env.first_turn("unreachable").await, code::AUTH));
    assert_eq!(env.turn("t2", "two").await.unwrap(), completed(json!(["two"])));
}

async fn a_key_has_a_maximum_number_of_turns(database: TestDatabase) {
    let notes = Notebook::default();
    let env = TestEnv::with(database, with_settings(&notes, r#"{"turnsMax": 2}"#)).await;
    env.first_turn("one").await;
    env.turn("t2", "two").await.unwrap();
    assert!(matches!(env.send_turn("t3", "three").await, Err(GraphError::TooManyTurns(2))));
    assert!(env.turn("t2", "two").await.is_ok(), "a repeated turn is no new one");
}

async fn other_tenants_have_no_turns_and_no_history(database: TestDatabase) {
    let (env, _) = open(database).await;
    env.first_turn("one").await;
    let other = TenantId::parse("other").unwrap();
    let owner = Owner { tenant: other.clone(), principal: "tester".to_owned() };
    let foreign = GraphStart { owner, ..request(Some("t1"), "one") };
    let foreign = env.engine.graphs().next_turn(foreign).await;
    assert!(matches!(foreign, Err(GraphError::UnknownStateKey)), "{foreign:?}");
    let history = env.engine.graphs().history(&other, "key", None, 10).await;
    assert!(matches!(history, Err(GraphError::UnknownStateKey)), "{history:?}");
    let closed = env.engine.graphs().close(&other, "key", Principal::named("tester")).await;
    assert!(matches!(closed, Err(GraphError::UnknownStateKey)), "{closed:?}");
}

async fn the_history_has_inputs_outcomes_and_answers_in_pages(database: TestDatabase) {
    let (env, _) = open(database).await;
    env.first_turn("ask").await;
    env.resume_key("r1", json!("yes")).await.unwrap();
    env.turn("t2", "fail").await.unwrap();
    env.turn("t3", "three").await.unwrap();
    let graphs = env.engine.graphs();
    let page = graphs.history(&tenant(), "key", None, 2).await.unwrap();
    let named: Vec<_> = page.iter().map(|turn| (turn.turn_id.as_deref(), turn.input.clone())).collect();
    assert_eq!(named, [(Some("t3"), json!("three")), (Some("t2"), json!("fail"))]);
    assert!(failed_with(&page[1].status, code::GRAPH));
    assert!(page.iter().all(|turn| turn.ended_at.is_some() && turn.interrupts.is_empty()));
    let rest = graphs.history(&tenant(), "key", Some(page[1].run.clone()), 2).await.unwrap();
    let [first] = rest.as_slice() else { panic!("{rest:?}") };
    assert_eq!((first.turn_id.as_deref(), &first.input), (Some("t1"), &json!("ask")));
    let [asked] = first.interrupts.as_slice() else { panic!("{first:?}") };
    let answer = asked.answer.as_ref().unwrap();
    assert_eq!(
        (asked.kind.as_str(), &answer.value, answer.by.as_str()),
        ("question", &json!("yes"), "alice")
    );
    assert_eq!(answer.resume_id.as_deref(), Some("r1"));
}

async fn answers_to_earlier_turns_are_recognized(database: TestDatabase) {
    let (env, notes) = open(database).await;
    env.first_turn("ask").await;
    let answered = env.resume_key("r1", json!("yes")).await.unwrap();
    env.turn("t2", "ask").await.unwrap();
    assert_eq!(env.resume_key("r1", json!("yes")).await.unwrap(), answered);
    assert!(matches!(env.resume_key("r1", json!("no")).await, Err(GraphError::ResumeIdReused)));
    let status = env.engine.graphs().status(&env.last_run().await).await.unwrap();
    assert!(matches!(status, GraphStatus::Waiting { .. }), "the second turn still waits");
    assert_eq!(notes.inputs().len(), 3);
}

/// The process dies before or after each commit of a turn, and the client sends the turn again.
async fn crashes_at_every_commit_start_a_turn_once(database: TestDatabase) {
    let (mut env, notes) = open(database).await;
    env.first_turn("one").await;
    let mut count = 1;
    for stop in (1..=8).flat_map(|at| [CommitFault::StopBefore(at), CommitFault::StopAfter(at)]) {
        let turn = format!("{stop:?}");
        env = env.reopen(|options| with_notes(&notes)(options).fault(stop)).await;
        // The request or the execution may fail.
        if env.send_turn(&turn, "more").await.is_ok() {
            let _ = env.engine.worker().drain().await;
        }
        env.expire_handle_locks().await;
        env = env.reopen(with_notes(&notes)).await;
        // The activation that failed is repeated after a delay.
        env.clock.advance(60_000);
        let status = env.turn(&turn, "more").await.unwrap();
        count += 1;
        let GraphStatus::Completed(inputs) = &status else { panic!("{turn}: {status:?}") };
        assert_eq!(inputs.as_array().unwrap().len(), count, "{turn}: {status:?}");
    }
    let history = env.engine.graphs().history(&tenant(), "key", None, 100).await.unwrap();
    assert_eq!(history.len(), count);
}

impl TestEnv {
    async fn expire_handle_locks(&self) {
        let sql = "UPDATE execution_state_handles SET locked_by = NULL, locked_until = NULL";
        self.database.execute(sql).await.unwrap();
    }
}

/// Removes what the migration has added, and runs it again.
async fn migrate_again(env: &TestEnv) {
    let sql = "DROP INDEX execution_state_handles_by_thread; \
        ALTER TABLE execution_state_handles DROP COLUMN thread; \
        ALTER TABLE execution_state_handles DROP COLUMN closed_ms; DELETE FROM receipts";
    env.database.execute(sql).await.unwrap();
    let migration = include_str!("../../../holdpoint-engine/src/store/migrations/0028_conversations.sql");
    let migration = match env.database.location() {
        Location::Sqlite(_) => migration.to_owned(),
        Location::Postgres(_) => migration.replace("TEXT", "TEXT COLLATE \"C\""),
    };
    env.database.execute(&migration).await.unwrap();
}

async fn graphs_of_the_version_before_take_turns(database: TestDatabase) {
    let (env, notes) = open(database).await;
    env.engine.graphs().start(request(None, "ask")).await.unwrap();
    env.drain().await;
    migrate_again(&env).await;
    let env = env.reopen(with_notes(&notes)).await;
    env.resume_key("r1", json!("yes")).await.unwrap();
    let second = env.turn("t2", "two").await.unwrap();
    assert_eq!(second, completed(json!(["ask", {"answer": "yes"}, "two"])));
    migrate_again(&env).await;
    let env = env.reopen(with_notes(&notes)).await;
    assert_eq!(env.engine.graphs().history(&tenant(), "key", None, 10).await.unwrap().len(), 2);
    assert!(matches!(env.turn("t3", "three").await.unwrap(), GraphStatus::Completed(_)));
    assert_eq!(notes.inputs().len(), 4);
}

async fn a_run_of_a_front_end_in_the_thread_is_a_turn(database: TestDatabase) {
    let (env, notes) = open(database).await;
    env.first_turn("one").await;
    let first = env.last_run().await;
    let workflow = holdpoint_engine::core::WorkflowId::parse("notes:page").unwrap();
    let mut start = crate::test_env::start(json!({"input": "two"}));
    start.source = Some(RequestSource::user(Transport::Agui));
    env.engine.threads().start(&workflow, first.run.as_str(), start, None).await.unwrap();
    env.drain().await;
    let status = env.engine.graphs().status(&env.last_run().await).await.unwrap();
    assert_eq!(status, completed(json!(["one", "two"])));
    assert_eq!(env.turn("t3", "three").await.unwrap(), completed(json!(["one", "two", "three"])));
    assert_eq!(notes.inputs().len(), 3);
}
