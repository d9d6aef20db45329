//! A stand-in for the model's API on loopback: a script of what the model does. Which step is next is told by how often
//! the model has spoken in the request, so that it needs no memory of who asks.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Where the key of the model's API is.
pub(crate) const KEY_FILE: &str = "key.txt";
pub(crate) const KEY: &str = "sk-stand-in";

/// Which program the tests of the real one are about.
pub(crate) fn binary() -> PathBuf {
    let found = std::env::var_os("HOLDPOINT_CLAUDE_BIN").map(PathBuf::from);
    found.expect("HOLDPOINT_CLAUDE_BIN must name the agent's program: scripts/providers installs it")
}

#[derive(Clone)]
pub(crate) struct StandIn {
    steps: Arc<Mutex<Vec<Value>>>,
    heard: Arc<Mutex<Vec<Value>>>,
    port: u16,
}

impl StandIn {
    /// A step is `{"calls": [[name, input], …]}`, `{"text": …}` in which `{results}` is what the last calls came to, or
    /// `{"status": …}`. Before the end of a message it may wait for `tailMs`. The last step is played for ever, and at once
    /// where a step has `unless` and the last calls came to that.
    pub(crate) async fn with(steps: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stand_in = Self { steps: Arc::default(), heard: Arc::default(), port };
        stand_in.play(steps);
        let serving = stand_in.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                // A program that was killed may leave in the middle.
                tokio::spawn(async move { serving.serve(stream).await.ok() });
            }
        });
        stand_in
    }

    pub(crate) fn play(&self, steps: Value) {
        *self.steps.lock().unwrap() = steps.as_array().unwrap().clone();
    }

    /// Every conversation that the model was shown.
    pub(crate) fn heard(&self) -> Vec<Value> {
        self.heard.lock().unwrap().clone()
    }

    /// A profile of the real program with this model; its key is in a file beside the settings.
    pub(crate) fn profile(&self) -> Value {
        json!({
            "binary": binary(), "baseUrl": format!("http://127.0.0.1:{}", self.port),
            "apiKey": {"file": KEY_FILE}, "tools": ["Bash", "Read", "AskUserQuestion"], "maxRetries": 0,
        })
    }

    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let Some((head, body)) = listen(&mut stream).await? else { return Ok(()) };
        if !head.starts_with("POST /v1/messages") || head.starts_with("POST /v1/messages/count_tokens") {
            return answer(&mut stream, 200, &json!({"input_tokens": 1})).await;
        }
        let Ok(request) = serde_json::from_slice::<Value>(&body) else { return Ok(()) };
        let step = self.step(&request);
        if let Some(status) = step["status"].as_u64() {
            let error = json!({"type": "error", "error": {"type": "api_error", "message": "scripted"}});
            return answer(&mut stream, status, &error).await;
        }
        let message = message(&request, &step);
        if request["stream"] != json!(true) {
            return answer(&mut stream, 200, &message).await;
        }
        stream
            .write_all(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            .await?;
        for event in events(&message) {
            if event["type"] == "message_delta" {
                let tail = Duration::from_millis(step["tailMs"].as_u64().unwrap_or(0));
                tokio::time::sleep(tail).await;
            }
            let text = format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
            stream.write_all(text.as_bytes()).await?;
        }
        stream.shutdown().await
    }

    fn step(&self, request: &Value) -> Value {
        // Titles and the like are asked for without tools.
        if request["tools"].as_array().is_none_or(Vec::is_empty) {
            return json!({"text": "ok"});
        }
        self.heard.lock().unwrap().push(request["messages"].clone());
        let messages = request["messages"].as_array().unwrap();
        let spoken = messages.iter().filter(|message| message["role"] == "assistant").count();
        let steps = self.steps.lock().unwrap();
        let last = steps.len() - 1;
        let step = &steps[spoken.min(last)];
        let over = step["unless"].as_str().is_some_and(|done| results(request).contains(done));
        if over { steps[last].clone() } else { step.clone() }
    }
}

/// What the last calls came to, as the model hears it.
fn results(request: &Value) -> String {
    let messages = request["messages"].as_array().into_iter().flatten();
    let last = messages.rev().find(|message| message["role"] == "user").cloned().unwrap_or_default();
    let blocks = last["content"].as_array().into_iter().flatten();
    let texts = blocks.filter(|block| block["type"] == "tool_result").map(|block| match &block["content"] {
        Value::String(text) => text.clone(),
        parts => parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect(),
    });
    texts.collect::<Vec<_>>().join(" | ")
}

/// A name that nothing else has.
fn fresh(prefix: &str) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}{:08x}{:016x}", std::process::id(), MADE.fetch_add(1, Ordering::SeqCst))
}

fn message(request: &Value, step: &Value) -> Value {
    let text = step["text"].as_str().unwrap_or("I will.").replace("{results}", &results(request));
    let mut content = vec![json!({"type": "text", "text": text})];
    for call in step["calls"].as_array().into_iter().flatten() {
        let id = fresh("toolu_");
        content.push(json!({"type": "tool_use", "id": id, "name": call[0], "input": call[1]}));
    }
    let stop = if content.len() > 1 { "tool_use" } else { "end_turn" };
    json!({
        "id": fresh("msg_"), "type": "message", "role": "assistant",
        "model": request["model"], "content": content, "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    })
}

/// The same message, piece by piece.
fn events(message: &Value) -> Vec<Value> {
    let mut empty = message.clone();
    (empty["content"], empty["stop_reason"]) = (json!([]), Value::Null);
    let mut events = vec![json!({"type": "message_start", "message": empty})];
    for (index, block) in message["content"].as_array().unwrap().iter().enumerate() {
        let (mut begun, delta) = (
            block.clone(),
            match block["type"].as_str() {
                Some("text") => json!({"type": "text_delta", "text": block["text"]}),
                _ => json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}),
            },
        );
        if block["type"] == "text" {
            begun["text"] = json!("");
        } else {
            begun["input"] = json!({});
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": message["stop_reason"], "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": message["usage"]}));
    events.push(json!({"type": "message_stop"}));
    events
}

async fn listen(stream: &mut TcpStream) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if bytes.len() >= end + 4 + length.unwrap_or(0) {
            return Ok(Some((head, bytes.split_off(end + 4))));
        }
    }
}

async fn answer(stream: &mut TcpStream, status: u64, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
