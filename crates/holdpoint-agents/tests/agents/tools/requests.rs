//! HTTP tools: requests, responses, and invalid arguments.

use holdpoint_agents::tool::{CallOutcome, Tools};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::peer::{Peer, PeerReply, header};
use crate::tools::tool_env::{call_tool, not_called, parse, result, specs, unknown, with};

fn definition(url: &str, more: Value) -> Value {
    let parameters = json!({
        "type": "object",
        "properties": {"to": {"type": "string"}, "subject": {"type": "string"}, "tags": {"type": "array"}},
        "required": ["to"],
        "additionalProperties": false,
    });
    let tool =
        json!({"type": "http", "name": "send", "description": "sends", "url": url, "parameters": parameters});
    with(tool, more)
}

fn tool(url: &str, more: Value) -> Tools {
    parse(json!([definition(url, more)])).unwrap()
}

#[tokio::test]
async fn arguments_in_the_url_are_not_in_the_body_and_the_key_is_in_a_header() {
    let peer = Peer::with_replies([PeerReply::json(201, "{\"id\": 7}")]).await;
    let headers = json!({"X-Token": {"env": "PATH"}, "X-Plain": "p"});
    let tools =
        tool(&peer.url("/mail/{to}?v=1"), json!({"headers": headers, "idempotent": true, "primary": "to"}));
    let spec = &specs(&tools).await["send"];
    assert_eq!((spec.description.as_str(), spec.idempotent), ("sends", true));
    assert_eq!(spec.primary.as_deref(), Some("to"));
    let response = result(&tools, "send", json!({"to": "a/../b@x", "subject": "hi", "tags": [1]})).await;
    assert_eq!(response, json!({"id": 7}));
    let received = &peer.requests()[0];
    assert!(received.starts_with("POST /mail/a%2F..%2Fb%40x?v=1 HTTP/1.1\r\n"), "{received}");
    assert!(received.ends_with("\r\n\r\n{\"subject\":\"hi\",\"tags\":[1]}"), "{received}");
    let path = std::env::var("PATH").unwrap();
    for (name, value) in [
        ("idempotency-key", "key-1"),
        ("content-type", "application/json"),
        ("x-token", path.as_str()),
        ("x-plain", "p"),
    ] {
        assert_eq!(header(received, name).as_deref(), Some(value), "{name}");
    }
    assert!(!format!("{tools:?}").contains(&path));
}

#[tokio::test]
async fn without_a_body_other_arguments_are_in_the_query() {
    for method in ["GET", "DELETE"] {
        let peer =
            Peer::with_replies([PeerReply::Say("HTTP/1.1 204 X\r\ncontent-length: 0\r\n\r\n".to_owned())])
                .await;
        let tools = tool(&peer.url("/mail/{to}?v=1"), json!({"method": method}));
        let arguments = json!({"to": "x", "subject": "a&b=c", "tags": ["1", 2]});
        assert_eq!(result(&tools, "send", arguments).await, Value::Null);
        let received = &peer.requests()[0];
        let first = format!("{method} /mail/x?v=1&subject=a%26b%3Dc&tags=1&tags=2 HTTP/1.1\r\n");
        assert!(received.starts_with(&first), "{received}");
        assert_eq!(header(received, "content-type"), None);
    }
}

#[tokio::test]
async fn invalid_arguments_are_never_sent() {
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let tools = tool(&peer.url("/mail/{to}"), json!({}));
    for (arguments, message) in [
        (json!({}), "required"),
        (json!({"to": 5}), "/to"),
        (json!({"to": "x", "other": 1}), "other"),
        (json!([]), "object"),
        (json!({"to": ".."}), "lead to another path"),
        (json!({"to": ""}), "must not be empty"),
    ] {
        let why = not_called(call_tool(&tools, "send", arguments.clone()).await);
        assert!(why.contains(message), "{arguments}: {why}");
    }
    assert!(peer.requests().is_empty());
}

#[tokio::test]
async fn error_responses_are_returned_to_the_agent_and_redirects_are_not_followed() {
    for status in [302, 400, 404, 409, 429, 500, 503] {
        let peer = Peer::with_replies([PeerReply::json(status, "{\"why\": \"so\"}")]).await;
        let failed = call_tool(&tool(&peer.url("/{to}"), json!({})), "send", json!({"to": "x"})).await;
        assert_eq!(failed, Ok(CallOutcome::Failed(json!({"status": status, "body": {"why": "so"}}))));
        assert_eq!(peer.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_response_is_json_or_text_up_to_a_limit() {
    let reply_with = |kind: &str, body: &str| {
        PeerReply::Say(format!(
            "HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let huge = "x".repeat(300_000);
    for (reply, expected) in [
        (reply_with("text/plain", "{\"a\":1}"), json!("{\"a\":1}")),
        (reply_with("application/problem+json", "{\"a\":1}"), json!({"a": 1})),
        (reply_with("application/json", "not json"), json!("not json")),
    ] {
        let peer = Peer::with_replies([reply]).await;
        assert_eq!(result(&tool(&peer.url("/{to}"), json!({})), "send", json!({"to": "x"})).await, expected);
    }
    let peer = Peer::with_replies([reply_with("text/plain", &huge)]).await;
    let cut = result(&tool(&peer.url("/{to}"), json!({})), "send", json!({"to": "x"})).await;
    assert_eq!((&cut["truncated"], cut["text"].as_str().unwrap().len()), (&json!(true), 256 * 1024));
    let endless = "HTTP/1.1 200 X\r\ncontent-length: 9000000\r\n\r\n".to_owned();
    let peer = Peer::with_replies([PeerReply::Say(endless)]).await;
    let outcome = call_tool(&tool(&peer.url("/{to}"), json!({})), "send", json!({"to": "x"})).await;
    let Ok(CallOutcome::Failed(response)) = outcome else { panic!("{outcome:?}") };
    assert!(response["error"].as_str().unwrap().contains("the call was made"), "{response}");
}

#[tokio::test]
async fn a_call_without_a_connection_is_not_made_and_a_call_without_a_response_has_an_unknown_outcome() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}/{{to}}", listener.local_addr().unwrap());
    drop(listener);
    not_called(call_tool(&tool(&closed, json!({})), "send", json!({"to": "x"})).await);

    let peer = Peer::with_replies([PeerReply::Hang(String::new())]).await;
    let hanging = tool(&peer.url("/{to}"), json!({"timeoutMs": 300}));
    unknown(call_tool(&hanging, "send", json!({"to": "x"})).await);

    let peer =
        Peer::with_replies([PeerReply::Say("HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\nhalf".to_owned())])
            .await;
    unknown(call_tool(&tool(&peer.url("/{to}"), json!({})), "send", json!({"to": "x"})).await);
}
