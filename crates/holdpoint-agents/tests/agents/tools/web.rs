//! MCP servers over HTTP: sessions, responses as JSON and as streams, and failures.

use holdpoint_agents::tool::CallOutcome;
use serde_json::{Value, json};

use crate::peer::{Peer, PeerReply};
use crate::tools::tool_env::{ControlPort, HttpServer, call_tool, not_called, parse, result, specs, unknown};

/// Returns the requests that the server has received.
async fn received_requests(tools: &holdpoint_agents::tool::Tools) -> Vec<Value> {
    let requests = result(tools, "requests", json!({})).await;
    serde_json::from_str(requests.as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn tools_are_listed_and_called_in_one_session() {
    let web = HttpServer::own(&json!({})).await;
    let tools = web.tools(json!({"headers": {"Authorization": {"env": "PATH", "prefix": "Bearer "}}}));
    assert!(specs(&tools).await.contains_key("echo"));
    assert_eq!(result(&tools, "echo", json!({"text": "hü"})).await, json!("hü"));
    assert_eq!(result(&tools, "streamed", json!({})).await, json!("streamed"));
    let requests = received_requests(&tools).await;
    let methods: Vec<&Value> = requests.iter().map(|request| &request["method"]).collect();
    assert_eq!(
        methods,
        ["initialize", "notifications/initialized", "tools/list", "tools/call", "tools/call", "tools/call"]
    );
    assert_eq!(requests[0]["session"], Value::Null);
    for request in &requests[1..] {
        assert_eq!(request["session"], "s1");
        assert!(request["mcp-protocol-version"].as_str().unwrap().starts_with("20"), "{request}");
    }
    for request in &requests {
        assert_eq!(request["authorization"], json!(format!("Bearer {}", std::env::var("PATH").unwrap())));
        assert_eq!(request["accept"], "application/json, text/event-stream");
    }
}

#[tokio::test]
async fn a_lost_session_is_started_again_and_the_call_is_made() {
    let web = HttpServer::own(&json!({})).await;
    let tools = web.tools(json!({}));
    assert_eq!(result(&tools, "forget", json!({})).await, json!("forget"));
    assert_eq!(result(&tools, "echo", json!({"text": "still"})).await, json!("still"));
    let requests = received_requests(&tools).await;
    let sessions = requests.iter().filter(|request| request["method"] == "initialize").count();
    assert_eq!(sessions, 2, "{requests:?}");
}

#[tokio::test]
async fn a_lost_session_is_started_again_once_for_each_call() {
    let web = HttpServer::own(&json!({})).await;
    let tools = web.tools(json!({}));
    let why = not_called(call_tool(&tools, "gone", json!({})).await);
    assert!(why.contains("404"), "{why}");
    let requests = received_requests(&tools).await;
    let of = |name: &str| requests.iter().filter(|request| request["method"] == name).count();
    // The last request of each method comes from the check itself.
    assert_eq!((of("initialize"), of("tools/call")), (3, 4), "{requests:?}");
}

#[tokio::test]
async fn an_accepted_call_without_a_response_has_an_unknown_outcome() {
    let web = HttpServer::own(&json!({})).await;
    let tools = web.tools(json!({}));
    for silent in ["taken", "silent"] {
        let why = unknown(call_tool(&tools, silent, json!({})).await);
        assert!(why.contains("did not respond to it"), "{silent}: {why}");
    }
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn the_session_is_deleted_at_the_server_when_it_ends() {
    let control = ControlPort::new().await;
    let (web, mut connection) = {
        let env = control.env();
        tokio::join!(HttpServer::own(&env), control.started())
    };
    let tools = web.tools(json!({}));
    result(&tools, "echo", json!({})).await;
    drop(tools);
    assert_eq!(connection.next_message().await.as_deref(), Some("deleted"));
}

#[tokio::test]
async fn a_call_to_a_closed_port_is_reported_as_not_made() {
    let mut web = HttpServer::own(&json!({})).await;
    let tools = web.tools(json!({}));
    result(&tools, "echo", json!({})).await;
    web.child.kill().await.unwrap();
    let why = not_called(call_tool(&tools, "echo", json!({})).await);
    assert!(why.contains("cannot connect to"), "{why}");
    // The same holds without a session.
    let why = not_called(call_tool(&web.tools(json!({})), "echo", json!({})).await);
    assert!(why.contains("the MCP server web cannot be reached"), "{why}");
}

#[tokio::test]
async fn a_call_with_a_server_error_or_a_lost_connection_has_an_unknown_outcome() {
    let web = HttpServer::own(&json!({})).await;
    let tools = web.tools(json!({}));
    let why = unknown(call_tool(&tools, "broken", json!({})).await);
    assert!(why.contains("status 500: out of order"), "{why}");
    let why = unknown(call_tool(&tools, "die", json!({})).await);
    assert!(why.contains("broke"), "{why}");
}

#[tokio::test]
async fn a_call_over_http_that_times_out_is_cancelled_at_the_server() {
    let control = ControlPort::new().await;
    let (web, mut connection) = {
        let env = control.env();
        tokio::join!(HttpServer::own(&env), control.started())
    };
    let tools = web.tools(json!({"timeoutMs": 3000}));
    unknown(call_tool(&tools, "hang", json!({})).await);
    assert_eq!(connection.next_message().await.as_deref(), Some("hanging"));
    assert_eq!(connection.next_message().await.as_deref(), Some("cancelled"));
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn a_large_response_over_http_is_truncated_and_one_over_the_limit_fails_after_the_call() {
    let web = HttpServer::own(&json!({})).await;
    let tools = web.tools(json!({}));
    assert_eq!(result(&tools, "huge", json!({"text": "1000000"})).await["truncated"], true);
    let Ok(CallOutcome::Failed(response)) = call_tool(&tools, "huge", json!({"text": "5000000"})).await
    else {
        panic!()
    };
    assert!(response["error"].as_str().unwrap().contains("the call was made"), "{response}");
    let failed = call_tool(&tools, "fail", json!({})).await;
    assert_eq!(failed, Ok(CallOutcome::Failed(json!("it did not work"))));
}

#[tokio::test]
async fn a_call_of_a_server_that_is_not_an_mcp_server_is_reported_as_not_made() {
    for reply in [
        PeerReply::json(200, "{\"hello\": 1}"),
        PeerReply::json(401, "{}"),
        PeerReply::Say(
            "HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n".to_owned(),
        ),
        PeerReply::Say("garbage".to_owned()),
    ] {
        let peer = Peer::with_replies([reply]).await;
        let definition = json!({"type": "mcp", "name": "web", "url": peer.url("/mcp")});
        let why = not_called(call_tool(&parse(json!([definition])).unwrap(), "echo", json!({})).await);
        assert!(why.contains("cannot be reached"), "{why}");
        assert_eq!(peer.requests().len(), 1);
    }
}
