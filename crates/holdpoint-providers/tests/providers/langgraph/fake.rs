//! A fake LangGraph server in this process. It has threads, runs and states like the published server. Its graphs
//! execute the steps of a test, and its responses can fail.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::langgraph::fake_state::{FakeState, Step};

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The request is not executed. The response has this error status.
    Refused(u16),
    /// The request is executed, but the response has this error status.
    Broken(u16),
    /// The request is executed, and the connection is closed without a response.
    Cut,
}

/// The status of a request that gets a stream.
const STREAMED: u16 = 0;

#[derive(Clone)]
pub(crate) struct FakeServer {
    pub url: String,
    state: Arc<watch::Sender<FakeState>>,
}

struct Request {
    /// Method and path, without the query.
    line: String,
    headers: String,
    body: Value,
}

impl FakeServer {
    /// Starts a server. Each start and each complete answer executes one of the steps.
    pub(crate) async fn with_steps(steps: impl IntoIterator<Item = Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut state = FakeState::default();
        state.steps.extend(steps);
        let fake = Self { url, state: Arc::new(watch::Sender::new(state)) };
        let server = fake.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let fake = server.clone();
                tokio::spawn(async move { fake.serve(stream).await });
            }
        });
        fake
    }

    pub(crate) fn settings(&self) -> Value {
        json!({ "url": self.url, "waitMs": 30_000, "outageMs": 1 })
    }

    pub(crate) fn settings_with(&self, member: &str, value: Value) -> Value {
        let mut settings = self.settings();
        settings[member] = value;
        settings
    }

    /// Makes the next request fail whose line ends with `line`.
    pub(crate) fn fail(&self, line: &str, fault: Fault) {
        self.update(|state| state.faults.push((line.to_owned(), fault)));
    }

    /// Continues the run that hangs.
    pub(crate) fn release(&self) {
        self.update(FakeState::release);
    }

    /// Adds an event to the stream of the run.
    pub(crate) fn emit(&self, name: &str, data: &Value) {
        self.update(|state| state.frames.push(format!("event: {name}\ndata: {data}\n\n")));
    }

    /// Closes all streams. Later ones begin with later events.
    pub(crate) fn cut_streams(&self) {
        self.update(|state| {
            state.cuts += 1;
            state.first_frame = state.frames.len();
        });
    }

    pub(crate) fn update(&self, update: impl FnOnce(&mut FakeState)) {
        self.state.send_modify(update);
    }

    pub(crate) fn inspect<T>(&self, inspect: impl FnOnce(&FakeState) -> T) -> T {
        inspect(&self.state.borrow())
    }

    /// Returns the number of requests whose line ends with `line`.
    pub(crate) fn count_requests(&self, line: &str) -> usize {
        self.inspect(|state| state.requests.iter().filter(|request| request.ends_with(line)).count())
    }

    pub(crate) async fn wait_for_requests(&self, line: &str, count: usize) {
        let times =
            |state: &FakeState| state.requests.iter().filter(|request| request.ends_with(line)).count();
        self.state.subscribe().wait_for(|state| times(state) >= count).await.unwrap();
    }

    async fn serve(&self, mut stream: TcpStream) {
        let Some(request) = read_request(&mut stream).await else { return };
        let mut fault = None;
        let mut token = None;
        self.update(|state| {
            // Tests do not know the ids of threads and runs.
            let line = state.without_ids(&request.line);
            let found = state.faults.iter().position(|(ending, _)| line.ends_with(ending.as_str()));
            fault = found.map(|at| state.faults.remove(at).1);
            state.requests.push(line);
            token.clone_from(&state.token);
        });
        let unauthorized = token.is_some_and(|token| !request.headers.contains(&token));
        let (status, body) = match fault {
            _ if unauthorized => (401, json!({ "detail": "invalid token" })),
            Some(Fault::Refused(status)) => {
                (status, json!({ "detail": format!("rejected by {}", self.url) }))
            }
            Some(Fault::Broken(status)) => (status, self.execute(&request).await.1),
            Some(Fault::Cut) => {
                self.execute(&request).await;
                return;
            }
            None => self.execute(&request).await,
        };
        if status == STREAMED {
            let run = request.line.rsplit('/').nth(1).unwrap();
            return self.serve_stream(stream, run).await;
        }
        let body = body.to_string();
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        // The client may have closed the connection.
        let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        let _ = stream.shutdown().await;
    }

    /// Sends the events of a run as they are made, and closes the stream when the run has ended or the test cuts it.
    async fn serve_stream(&self, mut stream: TcpStream, run: &str) {
        let head = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let (mut state, mut sent) = (self.state.subscribe(), self.inspect(|state| state.first_frame));
        let cuts = self.inspect(|state| state.cuts);
        let mut bytes = head.to_vec();
        loop {
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
            let next =
                |state: &FakeState| state.frames.len() > sent || !state.is_running(run) || state.cuts > cuts;
            let (frames, is_over, length) = {
                let state = state.wait_for(next).await.unwrap();
                let is_over = !state.is_running(run) || state.cuts > cuts;
                (state.frames[sent..].concat(), is_over, state.frames.len())
            };
            sent = length;
            bytes = frames.into_bytes();
            if is_over {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
                return;
            }
        }
    }

    async fn execute(&self, request: &Request) -> (u16, Value) {
        if request.line.ends_with("/stream") && self.inspect(|state| state.streams) {
            return (STREAMED, Value::Null);
        }
        if let Some(rest) = request.line.strip_suffix("/join") {
            let run = rest.rsplit('/').next().unwrap().to_owned();
            let mut state = self.state.subscribe();
            // Like the published server, the response does not contain the status of the run.
            state.wait_for(|state| !state.is_running(&run)).await.unwrap();
            return (200, json!({ "any": "values" }));
        }
        let mut answer = (500, json!({}));
        self.update(|state| answer = state.answer(&request.line, &request.body));
        answer
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 8192];
        let count = stream.read(&mut more).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&more[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
            continue;
        }
        let mut parts = head.split(' ');
        let (method, path) = (parts.next()?, parts.next()?.split('?').next()?);
        let body = serde_json::from_str(body).unwrap_or_default();
        return Some(Request { line: format!("{method} {path}"), headers: head.to_owned(), body });
    }
}
