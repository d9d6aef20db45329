//! Requests that the server rejects, and interrupts that cannot be shown.

use serde_json::json;

use crate::langgraph::fake::{FakeServer, Fault};
use crate::langgraph::fake_state::{Step, ask};
use crate::langgraph::graph_env::{GraphEnv, expect_failed, expect_previous_error, expect_waiting};
use crate::test_database::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_a_failed_graph_is_shown_without_addresses() {
    let fake = FakeServer::with_steps([Step::Fail("ValueError", "no printer at http://10.1.2.3:9/x")]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    let (code, message) = expect_failed(env.start("g", "k", json!({})).await);
    assert_eq!((code.as_str(), message.as_str()), ("graph_error", "ValueError: no printer at […]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_sent_in_the_configured_header_and_read_for_each_request() {
    let fake = FakeServer::with_steps([ask(1), ask(2)]).await;
    let database = TestDatabase::sqlite();
    let key = tempfile::NamedTempFile::new().unwrap();
    let mut settings = fake.settings_with("apiKey", json!({ "file": key.path() }));
    settings["header"] = json!("X-Api-Key");
    std::fs::write(key.path(), "canary-key-of-today\n").unwrap();
    fake.update(|state| state.token = Some("x-api-key: canary-key-of-today\r\n".to_owned()));
    let env = GraphEnv::open(&database, settings).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    std::fs::write(key.path(), "canary-key-of-yesterday").unwrap();
    assert_eq!(expect_previous_error(env.resume("k", "r1", json!(1)).await), "provider_auth");
    std::fs::write(key.path(), "canary-key-of-today").unwrap();
    expect_waiting(env.resume("k", "r2", json!(1)).await);
    assert!(!env.visible_data("k").await.contains("canary"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_sent_as_a_bearer_token_by_default() {
    let fake = FakeServer::with_steps([ask(1)]).await;
    let database = TestDatabase::sqlite();
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "canary").unwrap();
    fake.update(|state| state.token = Some("authorization: Bearer canary\r\n".to_owned()));
    let env = GraphEnv::open(&database, fake.settings_with("apiKey", json!({ "file": key.path() }))).await;
    expect_waiting(env.start("g", "k", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_rejected_with_status_422_is_not_retried() {
    let fake = FakeServer::with_steps([]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    fake.fail("POST /threads/X/runs", Fault::Refused(422));
    let (code, message) = expect_failed(env.start("g", "k", json!({})).await);
    assert_eq!(code, "provider_rejected");
    assert_eq!(message, "the server rejected the request with status 422: rejected by […]");
    assert_eq!(fake.count_requests("POST /threads/X/runs"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_that_is_too_large_fails_the_graph() {
    let book = json!({"kind": "book", "data": "x".repeat(256 * 1024)});
    let fake = FakeServer::with_steps([Step::Ask(vec![book])]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    assert_eq!(expect_failed(env.start("g", "k", json!({})).await).0, "interrupt_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_stops_at_a_breakpoint_fails() {
    // A breakpoint stops the graph without an interrupt.
    let fake = FakeServer::with_steps([Step::Ask(Vec::new())]).await;
    let database = TestDatabase::sqlite();
    let env = GraphEnv::open(&database, fake.settings()).await;
    assert_eq!(expect_failed(env.start("g", "k", json!({})).await).0, "graph_error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_version_that_is_too_old_is_rejected_and_an_unknown_version_is_tried() {
    let fake = FakeServer::with_steps([ask(1), ask(1)]).await;
    let database = TestDatabase::sqlite();
    fake.update(|state| state.version = Some("0.3.9"));
    let env = GraphEnv::open(&database, fake.settings()).await;
    assert_eq!(expect_failed(env.start("g", "old", json!({})).await).0, "provider_version");
    fake.update(|state| state.version = Some("0.4.0"));
    expect_waiting(env.start("g", "new", json!({})).await);
    let other = GraphEnv::second(&database, fake.settings()).await;
    env.kill().await;
    fake.update(|state| state.version = Some("custom-build"));
    expect_waiting(other.start("g", "unknown", json!({})).await);
    assert_eq!(fake.count_requests("/info"), 3);
}
