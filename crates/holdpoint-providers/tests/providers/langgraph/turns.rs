//! Further turns on the thread of a graph.

use serde_json::json;

use crate::langgraph::fake::{FakeServer, Fault};
use crate::langgraph::fake_state::{FakeState, Step, ask, hang};
use crate::langgraph::graph_env::{GraphEnv, expect_completed, expect_failed, expect_waiting};
use crate::test_database::TestDatabase;

const RUNS: &str = "POST /threads/X/runs";

fn finish(number: u32) -> Step {
    Step::Finish(json!({ "number": number }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_further_turn_is_a_run_with_its_input_on_the_same_thread() {
    let fake = FakeServer::with_steps([ask(1), finish(1), ask(2), finish(2)]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({"n": 1})).await);
    expect_completed(env.resume("k", "r1", json!("a")).await);
    assert_eq!(expect_waiting(env.turn("k", "t2", json!({"n": 2})).await).1, json!({"round": 2}));
    assert_eq!(expect_completed(env.resume("k", "r2", json!("b")).await), json!({"number": 2}));
    fake.inspect(|state| {
        assert_eq!(state.inputs, [json!({"n": 1}), json!({"n": 2})]);
        assert_eq!(state.answers, [json!("a"), json!("b")]);
        assert_eq!(state.threads(), 1);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_a_further_turn_can_fail_once() {
    let calls = ["POST /threads", "/state", "GET /threads/X/runs", RUNS, "/join", "GET /threads/X/runs/X"];
    for call in calls {
        for fault in [Fault::Refused(503), Fault::Broken(500), Fault::Cut] {
            let fake = FakeServer::with_steps([finish(1), finish(2)]).await;
            let database = TestDatabase::sqlite();
            let env = GraphEnv::open(&database, fake.settings_with("outageMs", json!(5_000))).await;
            expect_completed(env.start("g", "k", json!({})).await);
            fake.fail(call, fault);
            let output = expect_completed(env.turn("k", "t2", json!({})).await);
            assert_eq!(output, json!({"number": 2}), "{call} {fault:?}");
            assert_eq!(fake.inspect(|state| state.inputs.len()), 2, "{call} {fault:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_run_is_lost_after_its_checkpoint_is_not_sent_again() {
    let fake = FakeServer::with_steps([finish(1), hang(ask(2))]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_completed(env.start("g", "k", json!({})).await);
    let joins = fake.count_requests("/join");
    env.begin_turn("k", "t2", json!({})).await;
    fake.wait_for_requests("/join", joins + 1).await;
    fake.update(|state| {
        state.release();
        state.lose_threads();
    });
    assert_eq!(expect_waiting(env.wait_until_stopped("k").await).1, json!({"round": 2}));
    assert_eq!(fake.inspect(|state| state.inputs.len()), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_continues_the_checkpoints_of_a_lost_thread_and_fails_without_them() {
    let fake = FakeServer::with_steps([finish(1), finish(2)]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_completed(env.start("g", "k", json!({})).await);
    fake.update(FakeState::lose_threads);
    assert_eq!(expect_completed(env.turn("k", "t2", json!({})).await), json!({"number": 2}));
    fake.update(FakeState::lose_everything);
    assert_eq!(expect_failed(env.turn("k", "t3", json!({})).await).0, "state_lost");
    assert_eq!(fake.inspect(|state| state.inputs.len()), 2, "nothing starts anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_follows_a_failed_one_on_the_same_thread() {
    let fake = FakeServer::with_steps([Step::Fail("ValueError", "no"), finish(2)]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    assert_eq!(expect_failed(env.start("g", "k", json!({})).await).0, "graph_error");
    assert_eq!(expect_completed(env.turn("k", "t2", json!({})).await), json!({"number": 2}));
    assert_eq!(fake.inspect(FakeState::threads), 1);
}
