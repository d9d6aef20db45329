//! A server that is a program: what it is given, what it offers, and how long it lives.

use holdpoint_engine::agent::tool::Returned;
use serde_json::{Value, json};

use crate::world::{Tether, made, not_called, parse, program, result, specs};

#[tokio::test]
async fn the_tools_of_a_server_can_be_listed_and_called() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    let specs = specs(&tools).await;
    assert_eq!(specs["echo"].description, "does echo");
    assert_eq!(specs["echo"].parameters["properties"]["text"]["type"], "string");
    // What models cannot take as a name is made so that they can, and still reaches its tool.
    assert!(specs.contains_key("read_me"), "{:?}", specs.keys());
    assert_eq!(result(&tools, "read_me", json!({})).await, json!("read.me"));
    assert_eq!(result(&tools, "echo", json!({"text": "hü"})).await, json!("hü"));
    assert_eq!(result(&tools, "sum", json!({})).await, json!({"sum": 3, "key": "key-1"}));
    let picture = json!([{"type": "image", "data": "AAAA", "mimeType": "image/png"}]);
    assert_eq!(result(&tools, "picture", Value::Null).await, picture);
    assert!(not_called(made(&tools, "echo", json!([1])).await).contains("object"));
    assert!(not_called(made(&tools, "nothing", json!({})).await).contains("no tool nothing"));
}

#[tokio::test]
async fn what_the_definition_says_of_tools_counts_and_what_they_say_of_themselves_does_not() {
    let filtered =
        json!({"tools": ["e*", "where", "sum"], "idempotent": ["su?"], "primary": {"echo": "text"}});
    let tools = parse(json!([program(filtered.clone())])).unwrap();
    let found = specs(&tools).await;
    assert_eq!(found.keys().collect::<Vec<_>>(), ["echo", "sum", "where"]);
    let idempotent = |name: &str| found[name].idempotent;
    assert_eq!((idempotent("echo"), idempotent("sum"), idempotent("where")), (false, true, false));
    assert_eq!(found["echo"].primary.as_deref(), Some("text"));
    assert!(not_called(made(&tools, "fail", json!({})).await).contains("no tool fail"));

    let mut trusting = program(filtered);
    trusting["trustAnnotations"] = json!(true);
    let found = specs(&parse(json!([trusting])).unwrap()).await;
    assert!(found.values().all(|spec| spec.idempotent));
}

#[tokio::test]
async fn a_program_knows_little_of_our_environment_and_leads_a_group_of_its_own() {
    let tools = parse(json!([program(json!({"env": {"GIVEN": "this", "FROM": {"env": "PATH"}}}))])).unwrap();
    let where_it_is = result(&tools, "where", json!({})).await;
    let where_it_is: Value = serde_json::from_str(where_it_is.as_str().unwrap()).unwrap();
    let env = where_it_is["env"].as_object().unwrap();
    assert_eq!((&env["GIVEN"], &env["FROM"]), (&json!("this"), &json!(std::env::var("PATH").unwrap())));
    // Cargo tells a test much that a server is not told.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!env.keys().any(|name| name.starts_with("CARGO") || name.starts_with("NEXTEST")), "{env:?}");
    assert_eq!(where_it_is["folder"], json!(crate::world::folder()));
    assert_eq!(where_it_is["group"], true);
}

#[tokio::test]
async fn a_server_is_started_once_when_it_is_needed_and_shared() {
    let tether = Tether::new().await;
    let tools = parse(json!([program(json!({"env": tether.env()}))])).unwrap();
    // The first call answers only because the second one is under way in the same process.
    let (first, second) = tokio::join!(made(&tools, "first", json!({})), made(&tools, "second", json!({})));
    assert_eq!(
        (first, second),
        (Ok(Returned::Result(json!("first"))), Ok(Returned::Result(json!("second"))))
    );
    tether.started().await;
}

#[tokio::test]
async fn a_server_ends_with_its_tools_and_takes_along_what_it_has_started() {
    let tether = Tether::new().await;
    let tools = parse(json!([program(json!({"env": tether.env()}))])).unwrap();
    let (line, made) = tokio::join!(tether.started(), result(&tools, "grandchild", json!({})));
    assert_eq!(made, json!("there is a grandchild"));
    drop(tools);
    // The grandchild holds the line as well.
    line.gone().await;
}

#[tokio::test]
async fn a_server_that_nobody_uses_is_ended_and_started_again_when_it_is_needed() {
    let tether = Tether::new().await;
    let tools = parse(json!([program(json!({"env": tether.env(), "idleMs": 1}))])).unwrap();
    for text in ["once", "twice", "three times", "four times"] {
        let (line, said) = tokio::join!(tether.started(), result(&tools, "echo", json!({"text": text})));
        assert_eq!(said, json!(text));
        line.gone().await;
    }
}

#[tokio::test]
async fn what_a_server_offers_has_limits() {
    let tools = parse(json!([program(json!({"env": {"MORE": "200", "LARGE": "1"}}))])).unwrap();
    let found = specs(&tools).await;
    // One of the first 128 has too large a schema.
    assert_eq!(found.len(), 127);
    assert!(!found.contains_key("large") && found.contains_key("more_0") && !found.contains_key("more_199"));
}
