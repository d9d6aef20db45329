//! Servers that fail, lose data or are slow.

use serde_json::json;

use crate::langgraph::fake::{FakeServer, Fault};
use crate::langgraph::fake_state::{FakeState, Step, ask, hang};
use crate::langgraph::graph_env::{
    GraphEnv, expect_completed, expect_failed, expect_previous_error, expect_waiting,
};
use crate::test_database::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_response_is_lost_is_not_sent_again() {
    for fault in [Fault::Cut, Fault::Broken(500), Fault::Broken(502)] {
        let fake = FakeServer::with_steps([ask(1)]).await;
        let database = TestDatabase::sqlite();
        let env = GraphEnv::open(&database, fake.settings()).await;
        fake.fail("POST /threads/X/runs", fault);
        assert_eq!(expect_waiting(env.start("g", "k", json!({})).await).1, json!({"round": 1}), "{fault:?}");
        assert_eq!(fake.count_requests("POST /threads/X/runs"), 1, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_a_turn_can_fail_once() {
    let calls =
        ["/info", "POST /threads", "/state", "POST /threads/X/runs", "/join", "GET /threads/X/runs/X"];
    for call in calls {
        for fault in [Fault::Refused(503), Fault::Broken(500), Fault::Cut] {
            let fake = FakeServer::with_steps([ask(1), Step::Finish(json!({}))]).await;
            let database = TestDatabase::sqlite();
            let env = GraphEnv::open(&database, fake.settings_with("outageMs", json!(5_000))).await;
            fake.fail(call, fault);
            assert_eq!(
                expect_waiting(env.start("g", "k", json!({})).await).1,
                json!({"round": 1}),
                "{call} {fault:?}"
            );
            fake.fail(call, fault);
            expect_completed(env.resume("k", "r1", json!(1)).await);
            assert_eq!(
                fake.inspect(|state| (state.inputs.len(), state.answers.len())),
                (1, 1),
                "{call} {fault:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stays_unreachable_leaves_the_interrupt_open() {
    let fake = FakeServer::with_steps([ask(1), Step::Finish(json!({}))]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    (0..3).for_each(|_| fake.fail("/state", Fault::Refused(500)));
    assert_eq!(expect_previous_error(env.resume("k", "r1", json!(1)).await), "provider_unreachable");
    expect_completed(env.resume("k", "r2", json!(1)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_thread_is_created_again_if_its_checkpoints_exist() {
    let fake = FakeServer::with_steps([ask(1), Step::Finish(json!({"ok": 1}))]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    fake.update(FakeState::lose_threads);
    assert_eq!(expect_completed(env.resume("k", "r1", json!(1)).await), json!({"ok": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_state_fails_the_graph() {
    let fake = FakeServer::with_steps([ask(1)]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    fake.update(FakeState::lose_everything);
    assert_eq!(expect_failed(env.resume("k", "r1", json!(1)).await).0, "state_lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_the_server_loses_is_started_again() {
    let fake = FakeServer::with_steps([hang(ask(1)), ask(1)]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/join", 1).await;
    fake.update(FakeState::lose_everything);
    expect_waiting(env.wait_until_stopped("k").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_can_take_longer_than_the_time_limit_of_a_request() {
    let fake = FakeServer::with_steps([hang(ask(1))]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings_with("waitMs", json!(30))).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/join", 4).await;
    fake.release();
    expect_waiting(env.wait_until_stopped("k").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_exceeds_its_time_limit_is_cancelled_and_can_be_answered_again() {
    let fake = FakeServer::with_steps([ask(1), hang(ask(2)), Step::Finish(json!({}))]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings_with("maxRunMs", json!(300))).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    assert_eq!(expect_previous_error(env.resume("k", "r1", json!(1)).await), "provider_timeout");
    assert_eq!(fake.count_requests("/cancel"), 1);
    expect_completed(env.resume("k", "r2", json!(1)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_times_out_at_the_server_fails_with_provider_timeout() {
    let fake = FakeServer::with_steps([Step::End("timeout")]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    assert_eq!(expect_failed(env.start("g", "k", json!({})).await).0, "provider_timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_cancelled_at_the_server_fails_with_provider_cancelled() {
    let fake = FakeServer::with_steps([hang(ask(1))]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/join", 1).await;
    fake.update(FakeState::stop_all);
    assert_eq!(expect_failed(env.wait_until_stopped("k").await).0, "provider_cancelled");
}
