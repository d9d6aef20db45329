//! A fake endpoint on loopback. It sends its responses in the chunks that a test chooses.

use std::net::SocketAddr;
use std::sync::Arc;

use holdpoint_agents::model::{
    EndpointApi, EndpointModel, EndpointSettings, Model, ModelError, ModelPrompt, ModelReply, ReplyDelta,
};
use holdpoint_engine::core::agent::{Message, Role};
use holdpoint_engine::outgoing::{Outgoing, OutgoingPolicy};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// One response: a head, and pieces of a body. Each piece is sent as one chunk.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    head: String,
    pieces: Vec<Vec<u8>>,
    end: End,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Complete,
    Cut,
    Silent,
}

impl Turn {
    pub(crate) fn stream<P: AsRef<[u8]>>(pieces: impl IntoIterator<Item = P>) -> Self {
        Self::answer(200, &[("content-type", "text/event-stream")], pieces)
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::answer(status, &[("content-type", "application/json")], [body.to_string()])
    }

    pub(crate) fn answer<P: AsRef<[u8]>>(
        status: u16,
        headers: &[(&str, &str)],
        pieces: impl IntoIterator<Item = P>,
    ) -> Self {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("HTTP/1.1 {status} X\r\n{headers}transfer-encoding: chunked\r\n\r\n");
        let pieces = pieces.into_iter().map(|piece| piece.as_ref().to_vec()).collect();
        Self { head, pieces, end: End::Complete }
    }

    /// Closes the connection before the end of the body.
    pub(crate) fn cut(self) -> Self {
        Self { end: End::Cut, ..self }
    }

    /// Keeps the connection open without further data.
    pub(crate) fn silent(self) -> Self {
        Self { end: End::Silent, ..self }
    }

    async fn send(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        stream.write_all(self.head.as_bytes()).await?;
        for piece in self.pieces.iter().filter(|piece| !piece.is_empty()) {
            stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
            stream.write_all(piece).await?;
            stream.write_all(b"\r\n").await?;
        }
        match self.end {
            End::Complete => stream.write_all(b"0\r\n\r\n").await?,
            End::Cut => {}
            End::Silent => stream.read_to_end(&mut Vec::new()).await.map(drop)?,
        }
        stream.shutdown().await
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FakeEndpoint {
    pub(crate) address: SocketAddr,
    requests: Arc<watch::Sender<Vec<String>>>,
}

impl FakeEndpoint {
    /// Starts a server with these responses. The last one is repeated.
    pub(crate) async fn with(turns: impl IntoIterator<Item = Turn>) -> Self {
        let turns: Vec<Turn> = turns.into_iter().collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, requests) = (listener.local_addr().unwrap(), Arc::new(watch::Sender::default()));
        let endpoint = Self { address, requests: requests.clone() };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (turns, requests) = (turns.clone(), requests.clone());
                tokio::spawn(async move {
                    let Some(request) = read_request(&mut stream).await else { return };
                    let mut count = 0;
                    requests.send_modify(|requests| {
                        requests.push(request);
                        count = requests.len();
                    });
                    // In some tests the client has closed the connection.
                    let _ = turns[(count - 1).min(turns.len() - 1)].send(&mut stream).await;
                });
            }
        });
        endpoint
    }

    /// Returns all requests, with head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.borrow().clone()
    }

    pub(crate) fn body(&self, at: usize) -> Value {
        let requests = self.requests();
        serde_json::from_str(requests[at].split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Returns settings with default time limits and a short delay before retries.
    pub(crate) fn settings(&self) -> EndpointSettings {
        self.settings_of(EndpointApi::ChatCompletions)
    }

    pub(crate) fn settings_of(&self, api: EndpointApi) -> EndpointSettings {
        let mut settings = EndpointSettings::new(api, "small", format!("http://{}/v1", self.address));
        settings.retry_base_ms = 1;
        settings
    }

    pub(crate) fn model(&self) -> EndpointModel {
        EndpointModel::new(self.settings(), local()).unwrap()
    }
}

/// The outgoing policy of an operator who allows models on loopback.
pub(crate) fn local() -> Outgoing {
    Outgoing::new(OutgoingPolicy::for_operator_networks(vec!["127.0.0.0/8".parse().unwrap()]))
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 4096];
        let count = stream.read(&mut more).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&more[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((_, body)) = text.split_once("\r\n\r\n") {
            let length: usize = header(&text, "content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some(text);
            }
        }
    }
}

pub(crate) fn header(request: &str, name: &str) -> Option<String> {
    let head = request.split("\r\n\r\n").next()?;
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
}

pub(crate) fn prompt(text: &str) -> ModelPrompt {
    ModelPrompt {
        instructions: None,
        messages: vec![Arc::new(Message::new("u1", Role::User, text))],
        tools: Vec::new(),
        options: Map::new(),
        step: 0,
    }
}

pub(crate) async fn ask(
    model: &dyn Model,
    prompt: &ModelPrompt,
) -> (Result<ModelReply, ModelError>, Vec<ReplyDelta>) {
    let mut deltas = Vec::new();
    let reply = model.reply(prompt, &mut |delta| deltas.push(delta)).await;
    (reply, deltas)
}

/// A stream event with a delta of the only choice.
pub(crate) fn piece(delta: Value) -> String {
    event(&json!({"model": "small-2", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
}

pub(crate) fn ends(reason: &str) -> String {
    event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

pub(crate) fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// A complete response with this text.
pub(crate) fn text_reply(text: &str) -> Turn {
    Turn::stream([piece(json!({"content": text})), ends("stop"), DONE.to_owned()])
}
