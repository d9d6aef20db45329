//! The HTTP calls to a LangGraph server, and the mapping of its errors. The caller handles attempts.

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use holdpoint_engine::extension::KeyRef;
use holdpoint_engine::outgoing::{Error, Method, Outgoing, OutgoingRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use sse_stream::SseStream;
use tokio::sync::OnceCell;

use super::mapping::ServerInterrupt;
use super::redaction::ServerRedaction;
use super::run_stream::RunStream;
use super::scrub::scrubbed;
use super::settings::{LangGraphSettings, LangGraphTimeouts};
use crate::{BadProviders, ProviderError, code};

/// The maximum size of a response. The state of a graph can be large.
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The maximum size of a stream. The rest of a longer one is not read, and the provider waits for the end of the run.
const STREAM_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The number of runs of a thread that are read, newest first. The run of an attempt is among them.
const RUNS_MAX: usize = 50;
/// The oldest supported version of langgraph-api.
const OLDEST: (u64, u64) = (0, 4);

pub(super) struct LangGraphServer {
    outgoing: Outgoing,
    base: String,
    /// The header of the key, and the location of the key.
    key: Option<(String, KeyRef)>,
    pub timeouts: LangGraphTimeouts,
    version: OnceCell<()>,
}

#[derive(Deserialize)]
pub(super) struct ServerRun {
    pub run_id: String,
    pub status: String,
    #[serde(default)]
    metadata: Value,
}

impl ServerRun {
    /// Returns whether the run belongs to this attempt.
    pub(super) fn is_for(&self, attempt: &str) -> bool {
        self.metadata.get("resume_id").and_then(Value::as_str) == Some(attempt)
    }

    pub(super) fn is_active(&self) -> bool {
        matches!(self.status.as_str(), "pending" | "running")
    }
}

#[derive(Default, Deserialize)]
pub(super) struct ThreadState {
    #[serde(default)]
    pub values: Value,
    #[serde(default)]
    pub next: Vec<String>,
    #[serde(default)]
    interrupts: Vec<ServerInterrupt>,
    #[serde(default)]
    tasks: Vec<ThreadTask>,
    #[serde(default)]
    checkpoint: Option<Value>,
}

#[derive(Deserialize)]
struct ThreadTask {
    #[serde(default)]
    interrupts: Vec<ServerInterrupt>,
}

impl ThreadState {
    /// Returns whether the thread has never had a run.
    pub(super) fn is_empty(&self) -> bool {
        self.checkpoint.is_none() && self.next.is_empty() && self.open_interrupts().is_empty()
    }

    /// Returns the id of the last checkpoint, or an empty text if the server does not name it.
    pub(super) fn checkpoint_id(&self) -> &str {
        let id = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.get("checkpoint_id"));
        id.and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the open interrupts in the server's order. Older servers list them only in the tasks.
    pub(super) fn open_interrupts(&self) -> Vec<ServerInterrupt> {
        if self.interrupts.is_empty() {
            return self.tasks.iter().flat_map(|task| task.interrupts.clone()).collect();
        }
        self.interrupts.clone()
    }
}

/// The response to the creation of a run.
pub(super) enum RunStart {
    Started(String),
    /// Another run is active in the thread.
    Busy,
    /// The thread does not exist.
    NoThread,
}

/// The time limits of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamLimits {
    pub within: Duration,
    pub idle: Duration,
}

struct ServerResponse {
    status: u16,
    body: Value,
}

impl LangGraphServer {
    pub(super) fn new(settings: &LangGraphSettings, base: &Path) -> Result<Self, BadProviders> {
        let (key, times) = (settings.key(base)?, settings.timeouts()?);
        let (outgoing, base) = settings.outgoing()?;
        Ok(Self { outgoing, base, key, timeouts: times, version: OnceCell::new() })
    }

    /// Returns the redaction of texts that a run writes.
    pub(super) fn redaction(&self, thread: &str, run: &str) -> ServerRedaction {
        let host = self.base.split_once("://").map_or(self.base.as_str(), |(_, host)| host);
        ServerRedaction::new([self.base.clone(), host.to_owned(), thread.to_owned(), run.to_owned()])
    }

    /// Checks the version of the server once per process. A server that does not report its version is accepted.
    pub(super) async fn check_version(&self) -> Result<(), ProviderError> {
        let check = async {
            let reply = self.call(Method::Get, "/info", None).await?;
            match reply.body.get("version").and_then(Value::as_str).and_then(parse_release) {
                Some(release) if release < OLDEST => Err(ProviderError::permanent(
                    code::VERSION,
                    format!("the server runs langgraph-api older than {}.{}; update it", OLDEST.0, OLDEST.1),
                )),
                _ => Ok(()),
            }
        };
        self.version.get_or_try_init(|| check).await.copied()
    }

    /// Creates a thread. Returns false if it exists.
    pub(super) async fn create_thread(&self, thread: &str, assistant: &str) -> Result<bool, ProviderError> {
        let graph = self.graph_of(assistant).await?;
        // With the graph id, a server that lost the thread can read its checkpoints again.
        let metadata = json!({ "graph_id": graph, "made_by": "holdpoint" });
        let body = json!({ "thread_id": thread, "if_exists": "raise", "metadata": metadata });
        let reply = self.call(Method::Post, "/threads", Some(&body)).await?;
        match reply.status {
            200..=299 => Ok(true),
            409 => Ok(false),
            _ => Err(rejection(&reply)),
        }
    }

    /// Returns the graph id of an assistant. An assistant that is not a UUID is itself the name of a graph.
    async fn graph_of(&self, assistant: &str) -> Result<String, ProviderError> {
        if uuid::Uuid::try_parse(assistant).is_err() {
            return Ok(assistant.to_owned());
        }
        let reply = self.call(Method::Get, &format!("/assistants/{assistant}"), None).await?;
        let found = reply.body.get("graph_id").and_then(Value::as_str).map(str::to_owned);
        found.ok_or_else(|| rejection(&reply))
    }

    /// Returns the last runs of a thread, newest first. A missing thread has none.
    pub(super) async fn runs(&self, thread: &str) -> Result<Vec<ServerRun>, ProviderError> {
        let path =
            format!("/threads/{thread}/runs?limit={RUNS_MAX}&select=run_id&select=status&select=metadata");
        let reply = self.call(Method::Get, &path, None).await?;
        if reply.status == 404 { Ok(Vec::new()) } else { parse_response(reply) }
    }

    /// Returns a run, or None if the run or the thread does not exist.
    pub(super) async fn run(&self, thread: &str, run: &str) -> Result<Option<ServerRun>, ProviderError> {
        let reply = self.call(Method::Get, &format!("/threads/{thread}/runs/{run}"), None).await?;
        if reply.status == 404 { Ok(None) } else { parse_response(reply).map(Some) }
    }

    /// Returns the state of a thread, or None if it does not exist.
    pub(super) async fn state(&self, thread: &str) -> Result<Option<ThreadState>, ProviderError> {
        let reply = self.call(Method::Get, &format!("/threads/{thread}/state"), None).await?;
        if reply.status == 404 { Ok(None) } else { parse_response(reply).map(Some) }
    }

    /// Returns the error of the last run of a thread: its type and its message.
    pub(super) async fn thread_error(&self, thread: &str) -> Result<(String, String), ProviderError> {
        let reply = self.call(Method::Get, &format!("/threads/{thread}"), None).await?;
        let text = |member: &str| {
            let found = reply.body.get("error").and_then(|error| error.get(member)).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        Ok((text("error"), text("message")))
    }

    pub(super) async fn create_run(&self, thread: &str, run: &Value) -> Result<RunStart, ProviderError> {
        let reply = self.call(Method::Post, &format!("/threads/{thread}/runs"), Some(run)).await?;
        match reply.status {
            404 => Ok(RunStart::NoThread),
            409 => Ok(RunStart::Busy),
            _ => parse_response(reply).map(|run: ServerRun| RunStart::Started(run.run_id)),
        }
    }

    /// Waits until the server reports the end of the run, at most for `within`. The response is ignored, because it
    /// hides failures; the thread state shows them.
    pub(super) async fn join(&self, thread: &str, run: &str, within: Duration) -> Result<(), ProviderError> {
        let path = format!("/threads/{thread}/runs/{run}/join");
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let request = self.request(Method::Get, &path, None, within_ms).await?;
        let mut answer = self.outgoing.stream(request, within).await.map_err(|error| call_error(&error))?;
        while answer.body.next().await.map_err(|error| call_error(&error))?.is_some() {}
        Ok(())
    }

    /// Reads the stream of a run until it ends. `idle` limits the time between two events. Returns false if the server
    /// cannot stream the run, or if the stream is too long.
    pub(super) async fn read_stream(
        &self,
        thread: &str,
        run: &str,
        limits: StreamLimits,
        stream: &mut RunStream<'_>,
    ) -> Result<bool, ProviderError> {
        let path = format!("/threads/{thread}/runs/{run}/stream");
        let within_ms = u64::try_from(limits.within.as_millis()).unwrap_or(u64::MAX);
        let mut request = self.request(Method::Get, &path, None, within_ms).await?;
        request.body_bytes_max = STREAM_BYTES_MAX;
        for (name, value) in &mut request.headers {
            if name == "accept" {
                "text/event-stream".clone_into(value);
            }
        }
        let response =
            self.outgoing.stream(request, limits.idle).await.map_err(|error| call_error(&error))?;
        if response.status != 200 {
            return Ok(false);
        }
        let parts = futures_util::stream::unfold(response.body, |mut body| async move {
            let part = body.next().await.transpose()?;
            Some((part, body))
        });
        let mut events = std::pin::pin!(SseStream::from_bytes_stream(parts));
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(sse_stream::Error::Body(error)) => {
                    return match error.downcast_ref::<Error>() {
                        Some(Error::BodyTooLarge { .. }) | None => Ok(false),
                        Some(error) => Err(call_error(error)),
                    };
                }
                Err(_) => return Ok(false),
            };
            if let (Some(name), Some(data)) = (event.event, event.data) {
                stream.handle_event(&name, &data);
            }
        }
        Ok(true)
    }

    /// Stops a run. Succeeds if it has already ended.
    pub(super) async fn cancel_run(&self, thread: &str, run: &str) -> Result<(), ProviderError> {
        let path = format!("/threads/{thread}/runs/{run}/cancel?wait=true&action=interrupt");
        let reply = self.call(Method::Post, &path, None).await?;
        check_accepted(&reply)
    }

    pub(super) async fn delete_thread(&self, thread: &str) -> Result<(), ProviderError> {
        let reply = self.call(Method::Delete, &format!("/threads/{thread}"), None).await?;
        check_accepted(&reply)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<ServerResponse, ProviderError> {
        let request = self.request(method, path, body, self.timeouts.call_ms).await?;
        let answer = self.outgoing.send(request).await.map_err(|error| call_error(&error))?;
        let status = answer.status;
        match status {
            401 | 403 => Err(ProviderError::permanent(code::AUTH, "the server rejected the key")),
            300..=399 => Err(ProviderError::permanent(
                code::MISCONFIGURED,
                "the server redirects to another address; update its url",
            )),
            408 | 429 | 500..=599 => Err(ProviderError::transient(
                code::UNREACHABLE,
                format!("the server responded with status {status}"),
            )),
            _ => {
                Ok(ServerResponse { status, body: serde_json::from_slice(&answer.body).unwrap_or_default() })
            }
        }
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        timeout_ms: u64,
    ) -> Result<OutgoingRequest, ProviderError> {
        let mut headers = vec![("accept".to_owned(), "application/json".to_owned())];
        if let Some((name, key)) = &self.key {
            let unusable =
                |why| ProviderError::permanent(code::AUTH, format!("apiKey: cannot read the key: {why}"));
            let secret = key.read().await.map_err(unusable)?;
            let bearer = name == "authorization" && !secret.expose().contains(' ');
            let text =
                if bearer { format!("Bearer {}", secret.expose()) } else { secret.expose().to_owned() };
            headers.push((name.clone(), text));
        }
        let body = match body {
            Some(body) => {
                headers.push(("content-type".to_owned(), "application/json".to_owned()));
                body.to_string().into_bytes()
            }
            None => Vec::new(),
        };
        let url = format!("{}{path}", self.base);
        Ok(OutgoingRequest { method, url, headers, body, timeout_ms, body_bytes_max: RESPONSE_BYTES_MAX })
    }
}

/// Accepts success, and a run or thread that no longer exists.
fn check_accepted(reply: &ServerResponse) -> Result<(), ProviderError> {
    match reply.status {
        200..=299 | 404 | 409 => Ok(()),
        _ => Err(rejection(reply)),
    }
}

fn parse_response<T: serde::de::DeserializeOwned>(reply: ServerResponse) -> Result<T, ProviderError> {
    if !(200..=299).contains(&reply.status) {
        return Err(rejection(&reply));
    }
    let invalid = |_| ProviderError::permanent(code::REJECTED, "the response of the server cannot be parsed");
    serde_json::from_value(reply.body).map_err(invalid)
}

fn rejection(reply: &ServerResponse) -> ProviderError {
    let detail = match reply.body.get("detail") {
        Some(Value::String(text)) => scrubbed(text),
        Some(other) => scrubbed(&other.to_string()),
        None => "no reason given".to_owned(),
    };
    ProviderError::permanent(
        code::REJECTED,
        format!("the server rejected the request with status {}: {detail}", reply.status),
    )
}

/// Returns the error without the text of the cause, which contains the address of the server.
fn call_error(error: &Error) -> ProviderError {
    let transient = |message: &str| ProviderError::transient(code::UNREACHABLE, message);
    match error {
        Error::Refused(_) => ProviderError::permanent(
            code::MISCONFIGURED,
            "url: the outgoing policy forbids this address, or requires https",
        ),
        Error::Unresolvable { .. } => transient("the host name of the server cannot be resolved"),
        Error::ConnectFailed { .. } => transient("cannot connect to the server"),
        Error::TimedOut { .. } => transient("the server did not respond in time"),
        Error::BodyTooLarge { bytes_max, .. } => ProviderError::permanent(
            code::TOO_LARGE,
            format!("the response of the server exceeds {bytes_max} bytes"),
        ),
        Error::Tls { .. } => transient("the TLS connection to the server failed"),
        Error::Broken { .. } => transient("the connection to the server broke"),
    }
}

/// Parses the first two numbers of a version.
fn parse_release(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}
