//! Delivery of answers: by the interrupt ids of the server, once, and only while the interrupt is open.

use serde_json::{Value, json};

use crate::langgraph::fake::{FakeServer, Fault};
use crate::langgraph::fake_state::{FakeState, Step, ask, hang};
use crate::langgraph::graph_env::{
    GraphEnv, expect_completed, expect_failed, expect_previous_error, expect_waiting,
};
use crate::test_database::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn several_interrupts_can_be_answered_one_by_one_in_any_order() {
    const VOTERS: [&str; 3] = ["ann", "bob", "cleo"];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let three = VOTERS.map(|name| json!({"kind": "vote", "data": name})).to_vec();
        let fake = FakeServer::with_steps([Step::Ask(three), ask(2), Step::Finish(json!({"ok": 1}))]).await;
        let (database, settings) = (TestDatabase::sqlite(), fake.settings());
        let env = GraphEnv::open(&database, settings).await;
        let (kind, data) = expect_waiting(env.start("g", "k", json!({})).await);
        assert_eq!((kind.as_str(), voters(&data)), ("multi", json!(VOTERS)));
        let [first, second, last] = order;
        let (_, data) = expect_waiting(env.resume("k", "r1", json!({format!("i{first}"): first})).await);
        let mut left = [second, last];
        left.sort_unstable();
        assert_eq!(voters(&data), json!(left.map(|at| VOTERS[at])), "{order:?}");
        // Interrupts that stay open keep their keys.
        let (kind, data) = expect_waiting(env.resume("k", "r2", json!({format!("i{second}"): second})).await);
        assert_eq!((kind.as_str(), data), ("vote", json!(VOTERS[last])), "{order:?}");
        // A single interrupt is answered with the plain value, and so is the next one of the graph.
        assert_eq!(
            expect_waiting(env.resume("k", "r3", json!(last)).await).1,
            json!({"round": 2}),
            "{order:?}"
        );
        expect_completed(env.resume("k", "r4", json!(null)).await);
        let answers = fake.inspect(|state| state.answers.clone());
        assert_eq!(answers, [json!(first), json!(second), json!(last), json!(null)], "{order:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_several_interrupts_is_answered_once_if_the_response_is_lost() {
    let two = vec![json!("a?"), json!("b?")];
    let fake = FakeServer::with_steps([Step::Ask(two), ask(2)]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    expect_waiting(env.resume("k", "r1", json!({"i0": "first"})).await);
    fake.fail("POST /threads/X/runs", Fault::Cut);
    assert_eq!(expect_waiting(env.resume("k", "r2", json!("second")).await).1, json!({"round": 2}));
    assert_eq!(fake.inspect(|state| state.answers.clone()), [json!("first"), json!("second")]);
}

fn voters(data: &Value) -> Value {
    data["items"].as_array().unwrap().iter().map(|item| item["data"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn several_interrupts_can_be_answered_together() {
    let two = vec![json!("a?"), json!("b?")];
    let fake = FakeServer::with_steps([Step::Ask(two), Step::Finish(json!({}))]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    expect_completed(env.resume("k", "r1", json!({"i0": 1, "i1": 2})).await);
    assert_eq!(fake.inspect(|state| state.answers.clone()), [json!(1), json!(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_that_was_answered_at_the_server_is_not_answered_again() {
    let fake = FakeServer::with_steps([ask(1), Step::Finish(json!({"by": "another client"}))]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    // Another client answers directly at the server.
    fake.update(|state| {
        let id = state.open().remove(0);
        let body = json!({
            "command": {"resume": {id: "theirs"}}, "multitask_strategy": "reject", "durability": "sync",
        });
        let thread = state.all_ids()[0].clone();
        state.answer(&format!("POST /threads/{thread}/runs"), &body);
    });
    assert_eq!(expect_completed(env.resume("k", "r1", json!("ours")).await), json!({"by": "another client"}));
    assert_eq!(fake.inspect(|state| state.answers.clone()), [json!("theirs")]);
    assert_eq!(fake.count_requests("POST /threads/X/runs"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_graph_rejects_can_be_given_again() {
    let question = json!({"kind": "form", "data": 1});
    let wrong = Step::Fail("ValidationError", "field required, see https://errors.test/x");
    let fake = FakeServer::with_steps([Step::AskTyped(question), wrong, Step::Finish(json!({}))]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    assert_eq!(expect_previous_error(env.resume("k", "r1", json!({"a": 1})).await), "answer_rejected");
    assert!(env.visible_data("k").await.contains("field required, see […]"));
    expect_completed(env.resume("k", "r2", json!({"a": 2})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validation_error_without_a_typed_interrupt_fails_the_graph() {
    let fake = FakeServer::with_steps([ask(1), Step::Fail("ValidationError", "bad config")]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    let (code, message) = expect_failed(env.resume("k", "r1", json!(1)).await);
    assert_eq!((code.as_str(), message.as_str()), ("graph_error", "ValidationError: bad config"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_response_is_lost_is_not_sent_again() {
    for fault in [Fault::Cut, Fault::Broken(500), Fault::Broken(504)] {
        let fake = FakeServer::with_steps([ask(1), ask(2)]).await;
        let database = TestDatabase::sqlite();
        let env = GraphEnv::open(&database, fake.settings()).await;
        expect_waiting(env.start("g", "k", json!({})).await);
        fake.fail("POST /threads/X/runs", fault);
        assert_eq!(expect_waiting(env.resume("k", "r1", json!(1)).await).1, json!({"round": 2}), "{fault:?}");
        assert_eq!(fake.inspect(|state| state.answers.len()), 1, "{fault:?}");
        assert_eq!(fake.count_requests("POST /threads/X/runs"), 2, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_response_is_lost_is_awaited_while_its_run_works() {
    let fake = FakeServer::with_steps([ask(1), hang(Step::Finish(json!({"ok": 1})))]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    fake.fail("POST /threads/X/runs", Fault::Cut);
    env.answer("k", "r1", json!(1)).await.unwrap();
    fake.wait_for_requests("/join", 2).await;
    fake.release();
    assert_eq!(expect_completed(env.wait_until_stopped("k").await), json!({"ok": 1}));
    assert_eq!(fake.inspect(|state| state.answers.len()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_fails_while_a_run_of_another_client_is_active() {
    let fake = FakeServer::with_steps([ask(1), Step::Finish(json!({}))]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    fake.update(|state| state.add_other_run("running"));
    assert_eq!(expect_previous_error(env.resume("k", "r1", json!(1)).await), "provider_busy");
    fake.update(FakeState::stop_all);
    expect_completed(env.resume("k", "r2", json!(1)).await);
}
