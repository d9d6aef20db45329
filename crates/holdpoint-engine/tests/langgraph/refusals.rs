//! Servers that say no, and what they show that cannot be shown.

use serde_json::json;

use crate::fake::{Fake, Fault};
use crate::fake_world::{Step, ask};
use crate::house::{House, asked, failed, trouble};
use crate::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_fails_says_why_without_places() {
    let fake = Fake::playing([Step::Fail("ValueError", "no printer at http://10.1.2.3:9/x")]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    let (code, message) = failed(house.start("g", "k", json!({})).await);
    assert_eq!((code.as_str(), message.as_str()), ("graph_error", "ValueError: no printer at […]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_sent_as_the_operator_says_and_read_each_time() {
    let fake = Fake::playing([ask(1), ask(2)]).await;
    let place = Place::sqlite();
    let key = tempfile::NamedTempFile::new().unwrap();
    let mut settings = fake.settings_with("apiKey", json!({ "file": key.path() }));
    settings["header"] = json!("X-Api-Key");
    std::fs::write(key.path(), "canary-key-of-today\n").unwrap();
    fake.change(|world| world.token = Some("x-api-key: canary-key-of-today\r\n".to_owned()));
    let house = House::open(&place, settings).await;
    asked(house.start("g", "k", json!({})).await);
    std::fs::write(key.path(), "canary-key-of-yesterday").unwrap();
    assert_eq!(trouble(house.resume("k", "r1", json!(1)).await), "provider_auth");
    std::fs::write(key.path(), "canary-key-of-today").unwrap();
    asked(house.resume("k", "r2", json!(1)).await);
    assert!(!house.told("k").await.contains("canary"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_a_bearer_token_where_nothing_else_is_said() {
    let fake = Fake::playing([ask(1)]).await;
    let place = Place::sqlite();
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "canary").unwrap();
    fake.change(|world| world.token = Some("authorization: Bearer canary\r\n".to_owned()));
    let house = House::open(&place, fake.settings_with("apiKey", json!({ "file": key.path() }))).await;
    asked(house.start("g", "k", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_does_not_understand_is_not_tried_again() {
    let fake = Fake::playing([]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    fake.fail("POST /threads/X/runs", Fault::Refused(422));
    let (code, message) = failed(house.start("g", "k", json!({})).await);
    assert_eq!(code, "provider_rejected");
    assert_eq!(message, "the server refused with status 422: no, says […]");
    assert_eq!(fake.heard("POST /threads/X/runs"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_may_be_shown_ends_the_graph() {
    let book = json!({"kind": "book", "data": "x".repeat(256 * 1024)});
    let fake = Fake::playing([Step::Ask(vec![book])]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    assert_eq!(failed(house.start("g", "k", json!({})).await).0, "interrupt_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_stops_at_a_breakpoint_asks_nobody() {
    // Paused without a question, as breakpoints are.
    let fake = Fake::playing([Step::Ask(Vec::new())]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    assert_eq!(failed(house.start("g", "k", json!({})).await).0, "graph_error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_too_old_is_refused_and_one_that_does_not_say_is_tried() {
    let fake = Fake::playing([ask(1), ask(1)]).await;
    let place = Place::sqlite();
    fake.change(|world| world.version = Some("0.3.9"));
    let house = House::open(&place, fake.settings()).await;
    assert_eq!(failed(house.start("g", "old", json!({})).await).0, "provider_version");
    fake.change(|world| world.version = Some("0.4.0"));
    asked(house.start("g", "new", json!({})).await);
    let other = House::second(&place, fake.settings()).await;
    house.die().await;
    fake.change(|world| world.version = Some("of our own"));
    asked(other.start("g", "unknown", json!({})).await);
    assert_eq!(fake.heard("/info"), 3);
}
