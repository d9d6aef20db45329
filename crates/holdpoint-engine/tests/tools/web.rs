//! A server behind a URL: sessions, both forms of answers, and what goes wrong over HTTP.

use holdpoint_engine::agent::tool::Returned;
use serde_json::{Value, json};

use crate::peer::{Peer, Reply};
use crate::world::{Tether, Web, made, not_called, parse, result, specs, unknown};

async fn heard(tools: &holdpoint_engine::agent::tool::Tools) -> Vec<Value> {
    let heard = result(tools, "heard", json!({})).await;
    serde_json::from_str(heard.as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn tools_are_listed_and_called_in_one_session() {
    let web = Web::own(&json!({})).await;
    let tools = web.tools(json!({"headers": {"Authorization": {"env": "PATH", "prefix": "Bearer "}}}));
    assert!(specs(&tools).await.contains_key("echo"));
    assert_eq!(result(&tools, "echo", json!({"text": "hü"})).await, json!("hü"));
    assert_eq!(result(&tools, "streamed", json!({})).await, json!("streamed"));
    let heard = heard(&tools).await;
    let methods: Vec<&Value> = heard.iter().map(|request| &request["method"]).collect();
    assert_eq!(
        methods,
        ["initialize", "notifications/initialized", "tools/list", "tools/call", "tools/call", "tools/call"]
    );
    assert_eq!(heard[0]["session"], Value::Null);
    for request in &heard[1..] {
        assert_eq!(request["session"], "s1");
        assert!(request["mcp-protocol-version"].as_str().unwrap().starts_with("20"), "{request}");
    }
    for request in &heard {
        assert_eq!(request["authorization"], json!(format!("Bearer {}", std::env::var("PATH").unwrap())));
        assert_eq!(request["accept"], "application/json, text/event-stream");
    }
}

#[tokio::test]
async fn a_session_that_is_gone_is_begun_again_and_the_call_is_made() {
    let web = Web::own(&json!({})).await;
    let tools = web.tools(json!({}));
    assert_eq!(result(&tools, "forget", json!({})).await, json!("forget"));
    assert_eq!(result(&tools, "echo", json!({"text": "still"})).await, json!("still"));
    let heard = heard(&tools).await;
    let begun = heard.iter().filter(|request| request["method"] == "initialize").count();
    assert_eq!(begun, 2, "{heard:?}");
}

#[tokio::test]
async fn a_session_is_begun_again_once_and_no_more() {
    let web = Web::own(&json!({})).await;
    let tools = web.tools(json!({}));
    let why = not_called(made(&tools, "gone", json!({})).await);
    assert!(why.contains("404"), "{why}");
    let heard = heard(&tools).await;
    let of = |name: &str| heard.iter().filter(|request| request["method"] == name).count();
    // The last one of each is the question what was heard.
    assert_eq!((of("initialize"), of("tools/call")), (3, 4), "{heard:?}");
}

#[tokio::test]
async fn of_a_call_that_was_taken_and_not_answered_nothing_is_known() {
    let web = Web::own(&json!({})).await;
    let tools = web.tools(json!({}));
    for silent in ["taken", "silent"] {
        let why = unknown(made(&tools, silent, json!({})).await);
        assert!(why.contains("did not answer it"), "{silent}: {why}");
    }
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn the_server_is_told_when_a_session_ends() {
    let tether = Tether::new().await;
    let (web, mut line) = {
        let env = tether.env();
        tokio::join!(Web::own(&env), tether.started())
    };
    let tools = web.tools(json!({}));
    result(&tools, "echo", json!({})).await;
    drop(tools);
    assert_eq!(line.said().await.as_deref(), Some("deleted"));
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_called() {
    let mut web = Web::own(&json!({})).await;
    let tools = web.tools(json!({}));
    result(&tools, "echo", json!({})).await;
    web.child.kill().await.unwrap();
    let why = not_called(made(&tools, "echo", json!({})).await);
    assert!(why.contains("cannot be connected to"), "{why}");
    // And neither before there was a session.
    let why = not_called(made(&web.tools(json!({})), "echo", json!({})).await);
    assert!(why.contains("the MCP server web cannot be reached"), "{why}");
}

#[tokio::test]
async fn of_a_call_that_breaks_off_or_ends_in_a_broken_server_nothing_is_known() {
    let web = Web::own(&json!({})).await;
    let tools = web.tools(json!({}));
    let why = unknown(made(&tools, "broken", json!({})).await);
    assert!(why.contains("status 500: out of order"), "{why}");
    let why = unknown(made(&tools, "die", json!({})).await);
    assert!(why.contains("broke"), "{why}");
}

#[tokio::test]
async fn a_call_over_http_that_hangs_is_given_up_and_the_server_is_told() {
    let tether = Tether::new().await;
    let (web, mut line) = {
        let env = tether.env();
        tokio::join!(Web::own(&env), tether.started())
    };
    let tools = web.tools(json!({"timeoutMs": 3000}));
    unknown(made(&tools, "hang", json!({})).await);
    assert_eq!(line.said().await.as_deref(), Some("hanging"));
    assert_eq!(line.said().await.as_deref(), Some("cancelled"));
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn a_large_answer_over_http_is_cut_and_one_too_large_is_a_failure_that_was_made() {
    let web = Web::own(&json!({})).await;
    let tools = web.tools(json!({}));
    assert_eq!(result(&tools, "huge", json!({"text": "1000000"})).await["truncated"], true);
    let Ok(Returned::Failed(said)) = made(&tools, "huge", json!({"text": "5000000"})).await else { panic!() };
    assert!(said["error"].as_str().unwrap().contains("the call was made"), "{said}");
    let failed = made(&tools, "fail", json!({})).await;
    assert_eq!(failed, Ok(Returned::Failed(json!("it did not work"))));
}

#[tokio::test]
async fn what_is_no_mcp_server_was_not_called() {
    for reply in [
        Reply::json(200, "{\"hello\": 1}"),
        Reply::json(401, "{}"),
        Reply::Say("HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n".to_owned()),
        Reply::Say("garbage".to_owned()),
    ] {
        let peer = Peer::saying([reply]).await;
        let definition = json!({"type": "mcp", "name": "web", "url": peer.url("/mcp")});
        let why = not_called(made(&parse(json!([definition])).unwrap(), "echo", json!({})).await);
        assert!(why.contains("cannot be reached"), "{why}");
        assert_eq!(peer.heard().len(), 1);
    }
}
