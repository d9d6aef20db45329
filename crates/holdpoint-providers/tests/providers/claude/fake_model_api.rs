//! A fake model API on loopback that executes a script. The number of assistant messages in a request selects the step,
//! so the server needs no state for each conversation.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The file with the key of the model API.
pub(crate) const KEY_FILE: &str = "key.txt";
pub(crate) const KEY: &str = "sk-fake";

/// Returns the path of the published program.
pub(crate) fn binary() -> PathBuf {
    let found = std::env::var_os("HOLDPOINT_CLAUDE_BIN").map(PathBuf::from);
    found.expect("HOLDPOINT_CLAUDE_BIN must name the agent's program: scripts/providers installs it")
}

#[derive(Clone)]
pub(crate) struct FakeModelApi {
    steps: Arc<Mutex<Vec<Value>>>,
    conversations: Arc<Mutex<Vec<Value>>>,
    /// A permit for each text that may end.
    ends: Arc<Semaphore>,
    port: u16,
}

impl FakeModelApi {
    /// Starts a server with these steps. A step is `{"calls": [[name, input], …]}`, `{"text": …}` or `{"status": …}`.
    /// `{results}` in a text stands for the results of the last calls. `tailMs` delays the end of a message. `held` stops a
    /// text in its middle until [`Self::end_text`]. The last
    /// step is repeated. A step with `unless` is replaced by the last step if the results contain that text.
    pub(crate) async fn with(steps: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let ends = Arc::new(Semaphore::new(0));
        let api = Self { steps: Arc::default(), conversations: Arc::default(), ends, port };
        api.set_steps(steps);
        let server = api.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                // A killed program closes the connection during a request.
                tokio::spawn(async move { server.serve(stream).await.ok() });
            }
        });
        api
    }

    pub(crate) fn set_steps(&self, steps: Value) {
        *self.steps.lock().unwrap() = steps.as_array().unwrap().clone();
    }

    /// Ends a text of a step with `held`.
    pub(crate) fn end_text(&self) {
        self.ends.add_permits(1);
    }

    /// Returns the messages of every request.
    pub(crate) fn conversations(&self) -> Vec<Value> {
        self.conversations.lock().unwrap().clone()
    }

    /// Returns a profile of the published program with this model. The key is in a file in the folder of the settings.
    pub(crate) fn profile(&self) -> Value {
        json!({
            "binary": binary(), "baseUrl": format!("http://127.0.0.1:{}", self.port),
            "apiKey": {"file": KEY_FILE}, "tools": ["Bash", "Read", "AskUserQuestion"], "maxRetries": 0,
        })
    }

    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let Some((head, body)) = read_request(&mut stream).await? else { return Ok(()) };
        if !head.starts_with("POST /v1/messages") || head.starts_with("POST /v1/messages/count_tokens") {
            return respond(&mut stream, 200, &json!({"input_tokens": 1})).await;
        }
        let Ok(request) = serde_json::from_slice::<Value>(&body) else { return Ok(()) };
        let step = self.step(&request);
        if let Some(status) = step["status"].as_u64() {
            let error = json!({"type": "error", "error": {"type": "api_error", "message": "scripted"}});
            return respond(&mut stream, status, &error).await;
        }
        let message = message(&request, &step);
        if request["stream"] != json!(true) {
            return respond(&mut stream, 200, &message).await;
        }
        stream
            .write_all(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            .await?;
        for event in events(&message) {
            if event["type"] == "message_delta" {
                let tail = Duration::from_millis(step["tailMs"].as_u64().unwrap_or(0));
                tokio::time::sleep(tail).await;
            }
            if step["held"] == true && event["delta"]["type"] == "text_delta" {
                let text = event["delta"]["text"].as_str().unwrap();
                let (first, last) = text.split_at(text.len() / 2);
                write_event(&mut stream, &with_text(&event, first)).await?;
                self.ends.acquire().await.unwrap().forget();
                write_event(&mut stream, &with_text(&event, last)).await?;
                continue;
            }
            write_event(&mut stream, &event).await?;
        }
        stream.shutdown().await
    }

    fn step(&self, request: &Value) -> Value {
        // Auxiliary requests, such as for titles, have no tools.
        if request["tools"].as_array().is_none_or(Vec::is_empty) {
            return json!({"text": "ok"});
        }
        self.conversations.lock().unwrap().push(request["messages"].clone());
        let messages = request["messages"].as_array().unwrap();
        let spoken = messages.iter().filter(|message| message["role"] == "assistant").count();
        let steps = self.steps.lock().unwrap();
        let last = steps.len() - 1;
        let step = &steps[spoken.min(last)];
        let done = step["unless"].as_str().is_some_and(|text| results(request).contains(text));
        if done { steps[last].clone() } else { step.clone() }
    }
}

async fn write_event(stream: &mut TcpStream, event: &Value) -> std::io::Result<()> {
    let text = format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    stream.write_all(text.as_bytes()).await
}

fn with_text(event: &Value, text: &str) -> Value {
    let mut event = event.clone();
    event["delta"]["text"] = json!(text);
    event
}

/// Returns the results of the last calls from the request.
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

/// Returns a unique id.
fn unique_id(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}{:08x}{:016x}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst))
}

fn message(request: &Value, step: &Value) -> Value {
    let text = step["text"].as_str().unwrap_or("I will.").replace("{results}", &results(request));
    let mut content = vec![json!({"type": "text", "text": text})];
    for call in step["calls"].as_array().into_iter().flatten() {
        let id = unique_id("toolu_");
        content.push(json!({"type": "tool_use", "id": id, "name": call[0], "input": call[1]}));
    }
    let stop = if content.len() > 1 { "tool_use" } else { "end_turn" };
    json!({
        "id": unique_id("msg_"), "type": "message", "role": "assistant",
        "model": request["model"], "content": content, "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    })
}

/// Returns the stream events of a message.
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

async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<(String, Vec<u8>)>> {
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

async fn respond(stream: &mut TcpStream, status: u64, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
