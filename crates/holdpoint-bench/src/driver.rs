//! The client of the benchmark: one thread, many requests in flight. Speaks the approval cycle, counts nothing.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::measure::Metrics;
use holdpoint_cli::connection::Settings;
use holdpoint_cli::failure::Failure;

const WORKFLOW: &str = "bench-cycle";
const ACCEPT: &[u8] = br#"{"resumeValue":{"action":"accept"}}"#;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a run may take to get where it must be.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_FIRST: Duration = Duration::from_millis(2);
const POLL_MAX: Duration = Duration::from_millis(50);

pub(super) struct Driver {
    client: Client<HttpConnector, Full<Bytes>>,
    server: String,
    bearer: HeaderValue,
}

/// The part of a snapshot that the cycle looks at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Seen {
    run_id: String,
    status: String,
}

impl Driver {
    pub(super) fn new(settings: &Settings) -> Result<Self, Failure> {
        if !settings.server.starts_with("http://") {
            return Err(Failure::usage("the benchmark speaks plain http only")
                .hint("name the server as http://HOST:PORT"));
        }
        let bearer = HeaderValue::from_str(&format!("Bearer {}", settings.key));
        let bearer = bearer.map_err(|_| Failure::usage("the key cannot be sent in a header"))?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, server: settings.server.clone(), bearer })
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) async fn prepare(&self) -> Result<(), Failure> {
        self.exchange(Method::PUT, &format!("/v1/workflows/{WORKFLOW}"), &workflow()).await.map(drop)
    }

    /// Creates a run and waits until it is seen waiting.
    pub(super) async fn park(&self) -> Result<String, Failure> {
        let run = self.create().await?;
        self.until(&run, "waiting-approval").await?;
        Ok(run)
    }

    /// Creates a run, and has the server's word that it will come to wait.
    pub(super) async fn create(&self) -> Result<String, Failure> {
        self.start(WORKFLOW).await
    }

    pub(super) async fn start(&self, workflow: &str) -> Result<String, Failure> {
        let body = Bytes::from(format!(r#"{{"workflowId":"{workflow}"}}"#));
        Ok(read::<Seen>(&self.call(Method::POST, "/v1/runs", body).await?)?.run_id)
    }

    pub(super) async fn accept(&self, run: &str) -> Result<(), Failure> {
        let path = format!("/v1/runs/{run}/interrupts/gate");
        self.call(Method::POST, &path, Bytes::from_static(ACCEPT)).await.map(drop)
    }

    /// Says something to an agent, and has the server's word that a run has begun.
    pub(super) async fn tell(&self, agent: &str) -> Result<String, Failure> {
        let path = format!("/v1/agents/{agent}/runs");
        let body = Bytes::from_static(br#"{"message":"Please"}"#);
        Ok(read::<Seen>(&self.call(Method::POST, &path, body).await?)?.run_id)
    }

    /// Lets a call of an agent be made.
    pub(super) async fn allow(&self, run: &str, call: &str) -> Result<(), Failure> {
        let body = Bytes::from(format!(r#"{{"toolCallId":"{call}","action":"resume"}}"#));
        self.call(Method::POST, &format!("/v1/runs/{run}/decision"), body).await.map(drop)
    }

    pub(super) async fn until(&self, run: &str, status: &str) -> Result<(), Failure> {
        let path = format!("/v1/runs/{run}");
        let (begun, mut pause) = (Instant::now(), POLL_FIRST);
        loop {
            let seen: Seen = read(&self.call(Method::GET, &path, Bytes::new()).await?)?;
            if seen.status == status {
                return Ok(());
            }
            let ended = matches!(seen.status.as_str(), "completed" | "failed" | "cancelled");
            if ended || begun.elapsed() > PATIENCE {
                return Err(Failure::refused(format!("run {run} is {} and not {status}", seen.status)));
            }
            // Doubled each time, so that waiting does not become the load.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    pub(super) async fn is_ready(&self) -> bool {
        self.call(Method::GET, "/readyz", Bytes::new()).await.is_ok()
    }

    /// A server without metrics is still worth measuring; what they would tell is left open.
    pub(super) async fn metrics(&self) -> Metrics {
        match self.call(Method::GET, "/metrics", Bytes::new()).await {
            Ok(text) => Metrics::parse(&String::from_utf8_lossy(&text)),
            Err(_) => Metrics::default(),
        }
    }

    /// What is no part of the cycle: one document there, one back. An answer without a body is null.
    pub(super) async fn exchange(&self, method: Method, path: &str, body: &Value) -> Result<Value, Failure> {
        let sent = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let reply = self.call(method, path, sent).await?;
        if reply.is_empty() { Ok(Value::Null) } else { read(&reply) }
    }

    /// Sends a document and reads the stream that comes back to its end, which must be a finished run. How long it took
    /// until something came; `heard` is called then.
    pub(super) async fn stream(
        &self,
        path: &str,
        body: &Value,
        heard: impl Fn(),
    ) -> Result<Duration, Failure> {
        let request = self.request(Method::POST, path, Bytes::from(body.to_string()))?;
        let begun = Instant::now();
        let response = self.client.request(request).await.map_err(|error| self.lost(&error))?;
        let status = response.status();
        let mut body = response.into_body();
        let (mut first, mut last) = (None, Bytes::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.lost(&error))?;
            if first.is_none() {
                first = Some(begun.elapsed());
                heard();
            }
            if let Ok(data) = frame.into_data() {
                last = data;
            }
        }
        if !status.is_success() {
            return Err(refused(status.as_u16(), path, &last));
        }
        let ended = String::from_utf8_lossy(&last).contains("RUN_FINISHED");
        first
            .filter(|_| ended)
            .ok_or_else(|| Failure::broken(format!("{path}: the stream ended before the run")))
    }

    /// The events of a run as they come, from its first.
    pub(super) async fn events(&self, run: &str) -> Result<Told, Failure> {
        let body = self.listen(&format!("/v1/runs/{run}/events")).await?;
        Ok(Told { run: run.to_owned(), body, heard: Vec::new() })
    }

    /// A stream that goes on.
    pub(super) async fn listen(&self, path: &str) -> Result<Incoming, Failure> {
        let request = self.request(Method::GET, path, Bytes::new())?;
        let response = self.client.request(request).await.map_err(|error| self.lost(&error))?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(Failure::refused(format!("{path} cannot be read: {}", response.status())))
    }

    /// What is only looked at; what it says does not matter.
    pub(super) async fn look(&self, path: &str) -> Result<(), Failure> {
        self.call(Method::GET, path, Bytes::new()).await.map(drop)
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, Failure> {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server))
            .header(AUTHORIZATION, self.bearer.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(Full::new(body))
            .map_err(|error| Failure::usage(format!("this cannot be sent to the server: {error}")))
    }

    async fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Failure> {
        let request = self.request(method, path, body)?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| self.lost(&error))?;
            let status = response.status();
            let body = response.into_body().collect().await.map_err(|error| self.lost(&error))?.to_bytes();
            if status.is_success() { Ok(body) } else { Err(refused(status.as_u16(), path, &body)) }
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(result) => result,
            Err(_) => Err(Failure::broken(format!("{path}: no answer in {} s", REQUEST_TIMEOUT.as_secs()))),
        }
    }

    fn lost(&self, error: &dyn std::error::Error) -> Failure {
        let mut cause = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        Failure::unreachable(&self.server, &cause.to_string())
    }
}

/// What a server tells of a run.
pub(super) struct Told {
    run: String,
    body: Incoming,
    /// What came since the last wait.
    heard: Vec<u8>,
}

impl Told {
    /// Until an event of this type was told.
    pub(super) async fn until(&mut self, event: &str) -> Result<(), Failure> {
        let line = format!("event: {event}\n");
        let waiting = async {
            loop {
                if let Some(at) = find(&self.heard, line.as_bytes()) {
                    self.heard.drain(..at + line.len());
                    return Ok(());
                }
                let frame = self.body.frame().await.transpose().ok().flatten();
                let data = frame.and_then(|frame| frame.into_data().ok());
                let ended = || Failure::refused(format!("run {} ended without {event}", self.run));
                self.heard.extend_from_slice(&data.ok_or_else(ended)?);
            }
        };
        let late = |_| Failure::broken(format!("{event} was not told in {} s", PATIENCE.as_secs()));
        tokio::time::timeout(PATIENCE, waiting).await.map_err(late)?
    }
}

fn refused(status: u16, path: &str, body: &[u8]) -> Failure {
    let body = String::from_utf8_lossy(body).into_owned();
    let refusal = holdpoint_client::Refusal::from_response(status, path, body);
    holdpoint_client::Error::Refused(Box::new(refusal)).into()
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Does `work` `count` times, `concurrency` at a time, and gathers what each gave.
pub(super) async fn repeat<T, F>(count: u32, concurrency: u32, work: impl Fn() -> F) -> Vec<T>
where
    F: Future<Output = T>,
{
    let left = Cell::new(count);
    let results = RefCell::new(Vec::with_capacity(count as usize));
    let worker = || async {
        while let Some(fewer) = left.get().checked_sub(1) {
            left.set(fewer);
            let result = work().await;
            results.borrow_mut().push(result);
        }
    };
    join_all((0..concurrency).map(|_| worker())).await;
    results.into_inner()
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| Failure::broken(format!("the server's answer is broken: {error}")))
}

fn workflow() -> Value {
    let gate = json!({"title": "Benchmark", "actions": ["accept", "reject"]});
    let nodes = [
        ("before".to_owned(), "core.noop", json!({})),
        ("gate".to_owned(), "core.approvalGate", gate),
        ("after".to_owned(), "core.noop", json!({})),
    ];
    line_of(WORKFLOW, "Benchmark of the approval cycle", &nodes)
}

/// A workflow whose nodes, each with its type and its config, follow one another.
pub(super) fn line_of(id: &str, name: &str, nodes: &[(String, &str, Value)]) -> Value {
    let node = |(at, (id, kind, config)): (usize, &(String, &str, Value))| json!({"id": id, "typeId": kind, "name": id, "position": {"x": at * 200, "y": 0}, "config": config, "inputs": {}});
    let edge = |pair: &[(String, &str, Value)]| {
        let (from, to) = (&pair[0].0, &pair[1].0);
        json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to})
    };
    json!({
        "id": id, "name": name, "version": "1.0.0",
        "nodes": nodes.iter().enumerate().map(node).collect::<Vec<_>>(),
        "edges": nodes.windows(2).map(edge).collect::<Vec<_>>(),
        "triggers": [{"id": "manual", "type": "manual", "enabled": true}],
        "variables": [], "metadata": {}, "settings": {},
    })
}
