//! Streams of `messages` contain the output of the model while it is generated.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::harness::{KEY, Server};

/// Reads one request and starts a response.
fn accept_request(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap();
            }
            Some(_) => {}
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

fn send_chunk(stream: &mut TcpStream, text: &str, finish: Option<&str>) {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": finish});
    let data = json!({"model": "small", "choices": [choice]});
    stream.write_all(format!("data: {data}\n\n").as_bytes()).unwrap();
}

/// Returns the data of the next frame.
fn next(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> Option<Value> {
    let data = lines.map(Result::unwrap).find_map(|line| line.strip_prefix("data: ").map(str::to_owned))?;
    Some(serde_json::from_str(&data).unwrap())
}

#[test]
fn model_output_is_streamed_to_message_readers_as_it_arrives() {
    let endpoint = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let agents = folder.path().join("agents");
    std::fs::create_dir_all(&agents).unwrap();
    let url = format!("http://{}/v1", endpoint.local_addr().unwrap());
    let agent = json!({
        "agentId": "mailer", "model": {"provider": "openai", "model": "small", "baseUrl": url},
    });
    std::fs::write(agents.join("mailer.json"), agent.to_string()).unwrap();
    let flags = ["--agents", agents.to_str().unwrap()];
    let server = Server::start_in(&folder.path().join("data"), &flags);
    let started = server.client.post("/v1/agents/mailer/runs", &json!({"message": "Say hello"}));
    let run = started.body["runId"].as_str().unwrap_or_else(|| panic!("{started:?}")).to_owned();

    let url = format!("{}/v1/runs/{run}/events?streamMode=messages", server.url);
    let request = ureq::get(&url).header("authorization", format!("Bearer {KEY}"));
    let mut response = request.call().unwrap();
    let mut lines = BufReader::new(response.body_mut().as_reader()).lines();
    assert_eq!(next(&mut lines).unwrap()["type"], "holdpoint.message.added");

    let mut model = accept_request(&endpoint);
    for (index, text) in ["Hello", ", Bob"].into_iter().enumerate() {
        send_chunk(&mut model, text, None);
        let chunk = next(&mut lines).unwrap();
        let payload = json!({
            "nodeId": "agent", "runId": run, "chunk": text, "isLast": false,
            "meta": {"messageId": "reply-1", "attempt": 1, "index": index},
        });
        assert_eq!((&chunk["type"], &chunk["payload"]), (&json!("ai.message.chunk"), &payload));
        assert_eq!(server.client.status(&run), "running", "the model is not finished");
    }
    send_chunk(&mut model, ".", Some("stop"));
    model.write_all(b"data: [DONE]\n\n").unwrap();
    drop(model);
    let last = next(&mut lines).unwrap();
    assert_eq!(
        (&last["payload"]["chunk"], &last["payload"]["isLast"]),
        (&json!("."), &json!(true)),
        "{last}"
    );
    let meta = &last["payload"]["meta"];
    assert_eq!((&meta["finishReason"], &meta["model"]), (&json!("stop"), &json!("small")), "{meta}");
    let replied = next(&mut lines).unwrap();
    assert_eq!(replied["type"], "holdpoint.model.replied");
    assert_eq!(next(&mut lines), None, "the stream ends with the run");
    assert_eq!(server.client.wait_for_end(&run).last().unwrap()["type"], "run.completed");
}
