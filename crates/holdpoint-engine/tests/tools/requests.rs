//! Tools that are HTTP requests: what is sent, what comes back, and what is never sent.

use holdpoint_engine::agent::tool::{Returned, Tools};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::peer::{Peer, Reply, header};
use crate::world::{made, not_called, parse, result, specs, unknown, with};

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
async fn what_is_in_the_url_is_not_in_the_body_and_the_key_is_in_a_header() {
    let peer = Peer::saying([Reply::json(201, "{\"id\": 7}")]).await;
    let headers = json!({"X-Token": {"env": "PATH"}, "X-Plain": "p"});
    let tools =
        tool(&peer.url("/mail/{to}?v=1"), json!({"headers": headers, "idempotent": true, "primary": "to"}));
    let spec = &specs(&tools).await["send"];
    assert_eq!((spec.description.as_str(), spec.idempotent), ("sends", true));
    assert_eq!(spec.primary.as_deref(), Some("to"));
    let said = result(&tools, "send", json!({"to": "a/../b@x", "subject": "hi", "tags": [1]})).await;
    assert_eq!(said, json!({"id": 7}));
    let heard = &peer.heard()[0];
    assert!(heard.starts_with("POST /mail/a%2F..%2Fb%40x?v=1 HTTP/1.1\r\n"), "{heard}");
    assert!(heard.ends_with("\r\n\r\n{\"subject\":\"hi\",\"tags\":[1]}"), "{heard}");
    let path = std::env::var("PATH").unwrap();
    for (name, value) in [
        ("idempotency-key", "key-1"),
        ("content-type", "application/json"),
        ("x-token", path.as_str()),
        ("x-plain", "p"),
    ] {
        assert_eq!(header(heard, name).as_deref(), Some(value), "{name}");
    }
    assert!(!format!("{tools:?}").contains(&path));
}

#[tokio::test]
async fn without_a_body_the_rest_is_in_the_query() {
    for method in ["GET", "DELETE"] {
        let peer = Peer::saying([Reply::Say("HTTP/1.1 204 X\r\ncontent-length: 0\r\n\r\n".to_owned())]).await;
        let tools = tool(&peer.url("/mail/{to}?v=1"), json!({"method": method}));
        let arguments = json!({"to": "x", "subject": "a&b=c", "tags": ["1", 2]});
        assert_eq!(result(&tools, "send", arguments).await, Value::Null);
        let heard = &peer.heard()[0];
        let first = format!("{method} /mail/x?v=1&subject=a%26b%3Dc&tags=1&tags=2 HTTP/1.1\r\n");
        assert!(heard.starts_with(&first), "{heard}");
        assert_eq!(header(heard, "content-type"), None);
    }
}

#[tokio::test]
async fn arguments_that_are_wrong_are_never_sent() {
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    let tools = tool(&peer.url("/mail/{to}"), json!({}));
    for (arguments, says) in [
        (json!({}), "required"),
        (json!({"to": 5}), "/to"),
        (json!({"to": "x", "other": 1}), "other"),
        (json!([]), "object"),
        (json!({"to": ".."}), "lead elsewhere"),
        (json!({"to": ""}), "must not be empty"),
    ] {
        let why = not_called(made(&tools, "send", arguments.clone()).await);
        assert!(why.contains(says), "{arguments}: {why}");
    }
    assert!(peer.heard().is_empty());
}

#[tokio::test]
async fn answers_that_say_no_are_for_the_agent_and_redirects_are_not_followed() {
    for status in [302, 400, 404, 409, 429, 500, 503] {
        let peer = Peer::saying([Reply::json(status, "{\"why\": \"so\"}")]).await;
        let failed = made(&tool(&peer.url("/{to}"), json!({})), "send", json!({"to": "x"})).await;
        assert_eq!(failed, Ok(Returned::Failed(json!({"status": status, "body": {"why": "so"}}))));
        assert_eq!(peer.heard().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_is_json_or_text_and_has_a_limit() {
    let saying = |kind: &str, body: &str| {
        Reply::Say(format!(
            "HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let huge = "x".repeat(300_000);
    for (reply, expected) in [
        (saying("text/plain", "{\"a\":1}"), json!("{\"a\":1}")),
        (saying("application/problem+json", "{\"a\":1}"), json!({"a": 1})),
        (saying("application/json", "not json"), json!("not json")),
    ] {
        let peer = Peer::saying([reply]).await;
        assert_eq!(result(&tool(&peer.url("/{to}"), json!({})), "send", json!({"to": "x"})).await, expected);
    }
    let peer = Peer::saying([saying("text/plain", &huge)]).await;
    let cut = result(&tool(&peer.url("/{to}"), json!({})), "send", json!({"to": "x"})).await;
    assert_eq!((&cut["truncated"], cut["text"].as_str().unwrap().len()), (&json!(true), 256 * 1024));
    let endless = "HTTP/1.1 200 X\r\ncontent-length: 9000000\r\n\r\n".to_owned();
    let peer = Peer::saying([Reply::Say(endless)]).await;
    let made = made(&tool(&peer.url("/{to}"), json!({})), "send", json!({"to": "x"})).await;
    let Ok(Returned::Failed(said)) = made else { panic!("{made:?}") };
    assert!(said["error"].as_str().unwrap().contains("the call was made"), "{said}");
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_called_and_after_sending_nobody_knows() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}/{{to}}", listener.local_addr().unwrap());
    drop(listener);
    not_called(made(&tool(&nobody, json!({})), "send", json!({"to": "x"})).await);

    let peer = Peer::saying([Reply::Hang(String::new())]).await;
    let hanging = tool(&peer.url("/{to}"), json!({"timeoutMs": 300}));
    unknown(made(&hanging, "send", json!({"to": "x"})).await);

    let peer =
        Peer::saying([Reply::Say("HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\nhalf".to_owned())]).await;
    unknown(made(&tool(&peer.url("/{to}"), json!({})), "send", json!({"to": "x"})).await);
}
